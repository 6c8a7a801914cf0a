//! All tests of this package that need no process of their own, as one program: each program is linked with everything below it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocking;
mod cluster;
mod common;
mod conformance;
mod damaged;
mod data;
mod downing;
mod durable;
mod entities;
mod evolution;
mod frozen;
mod leases;
mod lost;
mod peer;
mod processes;
mod reach;
mod refusals;
mod security;
mod seeds;
mod settings;
mod versions;
