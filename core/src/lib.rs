//! Sans-IO cluster core: events in, effects out.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod detector;
pub mod ident;
pub mod math;
pub mod membership;
pub mod sharding;
pub mod time;
pub mod timers;

mod rng;
