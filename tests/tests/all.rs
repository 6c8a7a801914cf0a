//! All tests of this package that need no process of their own, as one program: each program is linked with
//! everything below it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod command_lines;
mod configuration;
mod coverage;
mod decisions;
mod embedding;
mod fail_over;
mod forged_clocks;
mod incidents;
mod largest_gossip;
mod liar;
mod limits;
mod links;
mod membership;
mod mutants;
mod plans;
mod protocol;
mod public_api;
mod refusals;
mod rolling;
mod same_kind;
mod scenarios;
mod security;
mod seeds;
mod shutdown;
mod splits;
mod stored_homes;
mod tidy;
mod vectors;
mod walks;
