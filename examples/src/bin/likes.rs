//! Replicated counters and sets under real faults; `--help` says more. What it does is in the library; here is only what it can run on.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use quorate_examples::hosts::{OnSmol, OnTokio};
use quorate_examples::likes::{self, Stage};
use quorate_quinn::Quinn;
use quorate_tokio::Tokio;

const STAGES: [Stage; 5] = [
    Stage::plain::<OnTokio<Tokio>>("tokio"),
    Stage::with_certificates::<OnTokio<Tokio>>("tokio-tls"),
    Stage::plain::<OnSmol>("smol"),
    Stage::with_certificates::<OnSmol>("smol-tls"),
    Stage::with_certificates::<OnTokio<Quinn>>("quinn"),
];

fn main() -> ExitCode {
    likes::main(&STAGES)
}
