//! Sans-IO cluster core: events in, effects out.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod config;
pub mod detector;
pub mod ident;
pub mod input;
pub mod math;
pub mod membership;
pub mod message;
pub mod sharding;
pub mod stats;
pub mod time;
pub mod timers;
pub mod wire;

mod rng;
