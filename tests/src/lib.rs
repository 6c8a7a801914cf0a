//! What proves the core from outside: a deterministic simulator, the invariants it checks after every step,
//! scenarios, and the conformance vectors. All of it runs on the core's public API. Nothing here is
//! published.
#![forbid(unsafe_code)]

pub mod decisions;
pub mod histories;
pub mod invariants;
pub mod lease;
pub mod liar;
pub mod rooms;
pub mod sim;
pub mod splits;
pub mod vectors;
