//! All tests of this package that need no process of their own, as one program: each program is linked with
//! everything below it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod codec;
mod command_lines;
mod entities;
mod events;
mod paths;
mod ranges;
