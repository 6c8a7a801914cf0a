//! Runs the host over mio beside nodes on tokio, and says who answered whom: `cargo run -p quorate-mio-host`.
#![forbid(unsafe_code)]

use quorate_mio_host::{Failure, program};

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
