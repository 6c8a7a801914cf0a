//! The demo: `cargo run --release` starts it; `--help` says more. What it does is in the library; here is
//! only what it can run on. On tokio alone unless features of the package say more; the one on async-std is
//! in `adapters/async-std/demo`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use quorate_demo::demo::{self, Stage, Transports};
#[cfg(feature = "smol")]
use quorate_demo::hosts::OnSmol;
use quorate_demo::hosts::OnTokio;
#[cfg(feature = "quinn")]
use quorate_quinn::Quinn;
use quorate_tokio::Tokio;

const TRANSPORTS: Transports = Transports {
    built: &[
        Stage::plain::<OnTokio<Tokio>>("tokio", "TCP (tokio)"),
        #[cfg(feature = "tls")]
        Stage::with_certificates::<OnTokio<Tokio>>("tokio-tls", "mutual TLS (tokio)"),
        #[cfg(feature = "smol")]
        Stage::plain::<OnSmol>("smol", "TCP (smol)"),
        #[cfg(all(feature = "smol", feature = "tls"))]
        Stage::with_certificates::<OnSmol>("smol-tls", "mutual TLS (smol)"),
        #[cfg(feature = "quinn")]
        Stage::with_certificates::<OnTokio<Quinn>>("quinn", "QUIC (quinn on tokio)"),
    ],
    left_out: &[
        #[cfg(not(feature = "tls"))]
        demo::LeftOut {
            name: "tokio-tls",
            features: "tls",
        },
        #[cfg(not(feature = "smol"))]
        demo::LeftOut {
            name: "smol",
            features: "smol",
        },
        #[cfg(not(all(feature = "smol", feature = "tls")))]
        demo::LeftOut {
            name: "smol-tls",
            features: "smol,tls",
        },
        #[cfg(not(feature = "quinn"))]
        demo::LeftOut {
            name: "quinn",
            features: "quinn",
        },
    ],
};

fn main() -> ExitCode {
    demo::main(&TRANSPORTS)
}
