//! Tests that look for lines of their own nodes in the log of the process, as one program. Those that need a
//! log with nothing else in it are programs of their own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod downing;
mod entities;
mod frozen;
