//! All tests of this package that need no process of their own, as one program: each program is linked with
//! everything below it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod command_lines;
mod demo;
mod node;
mod rolling_restart;
mod short;
