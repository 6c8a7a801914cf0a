//! A host for the core on TCP, in one thread, over mio: a member of the same cluster as nodes on tokio. Its steps and rules
//! are those of `docs/embedding.md`, in the order of that page; it decides nothing about the protocol.
//!
//! * [`host`]: the loop: inputs in, effects out, sleep until the deadline or a socket.
//! * [`sockets`]: bytes between links and the system.
//! * [`entities`]: what it hosts, and how their messages are written.
//! * [`program`]: what the example does with it.
//!
//! `cargo run -p quorate-examples --example mio_host`

pub mod entities;
pub mod host;
pub mod program;
mod sockets;

/// Anything that ends the program.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let outcome = program::run()?;
    for (when, lines) in [
        ("asked by the node on tokio", &outcome.asked_by_tokio),
        ("asked by the host over mio", &outcome.asked_by_mio),
        ("asked again after all links were cut", &outcome.asked_after_cut),
    ] {
        println!(
            "{when}: {} answers, for instance: {}",
            lines.len(),
            lines[..lines.len().min(3)].join("; ")
        );
    }
    println!(
        "links dialed: {}, after the cut: {}",
        outcome.dials, outcome.dials_after_cut
    );
    Ok(())
}
