//! The demo on the runtimes that are maintained: `cargo run --release` starts it; `--help` says more. What it does is in the
//! library; here is only what it can run on. The one on async-std is in `adapters/async-std/demo`.
#![forbid(unsafe_code)]

use std::future::Future;
use std::io;
use std::process::ExitCode;

use quorate_examples::demo::{self, Host, Stage};
use quorate_quinn::Quinn;
use quorate_smol::Smol;
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

/// A multi-threaded tokio runtime, for an adapter that runs on it.
struct OnTokio<A>(std::marker::PhantomData<A>);

impl<A: quorate_driver::Adapter> Host for OnTokio<A> {
    type Adapter = A;

    fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        Ok(runtime.block_on(future))
    }
}

/// Smol's global executor.
struct OnSmol;

impl Host for OnSmol {
    type Adapter = Smol;

    fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
        Ok(smol::block_on(future))
    }
}
