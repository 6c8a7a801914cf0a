//! Sans-IO cluster core: events in, effects out.
//!
//! A host owns a [`node::Node`], hands it inputs (time, frames, link changes, commands, entity reports) and does what it
//! asks for. Nothing in here reads a clock, opens a socket, draws entropy or spawns anything: same seed and same inputs
//! give the same effects, byte for byte.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod config;
pub mod ddata;
pub mod detector;
pub mod downing;
pub mod effect;
pub mod event;
pub mod explain;
pub mod ident;
pub mod input;
pub mod lease;
pub mod math;
pub mod membership;
pub mod message;
pub mod node;
pub mod owner;
pub mod reject;
pub mod sharding;
pub mod stats;
pub mod store;
pub mod time;
pub mod timer;
pub mod token;
pub mod view;
pub mod wire;

mod bytes;
mod cx;
#[cfg(test)]
mod fixture;
mod lane;
mod outbox;
mod rng;
mod router;
mod signal;
mod timers;
