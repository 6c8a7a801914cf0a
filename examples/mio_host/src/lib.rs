//! A host for the core on TCP, in one thread, over mio: a member of the same cluster as nodes on tokio. Its
//! steps and rules are those of `docs/embedding.md`, in the order of that page; it decides nothing about the
//! protocol.
//!
//! * `host`: the loop: inputs in, effects out, sleep until the deadline or a socket.
//! * `sockets`: bytes between links and the system.
//! * `entities`: what it hosts, and how their messages are written.
//! * `program`: what the example does with it.
//!
//! `cargo run -p quorate-mio-host`
#![forbid(unsafe_code)]

pub mod entities;
pub mod host;
pub mod program;
mod sockets;

/// Anything that ends the program.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
