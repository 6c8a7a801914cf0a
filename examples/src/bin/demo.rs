//! The demo on the runtimes that are maintained: `cargo run --release` starts it; `--help` says more. What it does is in the
//! library; here is only what it can run on. The one on async-std is in `adapters/async-std/demo`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use quorate_examples::demo::{self, Stage};
use quorate_examples::hosts::{OnSmol, OnTokio};
use quorate_quinn::Quinn;
use quorate_tokio::Tokio;

const STAGES: [Stage; 5] = [
    Stage::plain::<OnTokio<Tokio>>("tokio", "TCP (tokio)"),
    Stage::with_certificates::<OnTokio<Tokio>>("tokio-tls", "mutual TLS (tokio)"),
    Stage::plain::<OnSmol>("smol", "TCP (smol)"),
    Stage::with_certificates::<OnSmol>("smol-tls", "mutual TLS (smol)"),
    Stage::with_certificates::<OnTokio<Quinn>>("quinn", "QUIC (quinn on tokio)"),
];

fn main() -> ExitCode {
    demo::main(&STAGES)
}
