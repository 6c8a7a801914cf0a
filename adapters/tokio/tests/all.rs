//! All tests of this package that need no process of their own, as one program: each program is linked with
//! everything below it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocking;
mod cluster;
mod common;
mod conformance;
mod damaged;
mod data;
mod durable;
mod evolution;
mod first_service;
mod leases;
mod lost;
mod peer;
mod processes;
mod reach;
mod refusals;
mod settings;
mod sick;
mod versions;
