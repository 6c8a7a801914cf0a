//! The demo on async-std: `cargo run --release -p quorate-async-std-demo`. The same job as
//! `cargo run --release` at the root; here is only what it runs on.
#![forbid(unsafe_code)]

use std::future::Future;
use std::io;
use std::process::ExitCode;

use quorate_async_std::AsyncStd;
use quorate_demo::demo::{self, Stage, Transports};
use quorate_demo::hosts::Host;

const TRANSPORTS: Transports = Transports {
    built: &[Stage::plain::<OnAsyncStd>("async-std", "TCP (async-std)")],
    left_out: &[],
};

fn main() -> ExitCode {
    demo::main(&TRANSPORTS)
}

/// Async-std's global executor.
struct OnAsyncStd;

impl Host for OnAsyncStd {
    type Adapter = AsyncStd;

    fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
        Ok(async_std::task::block_on(future))
    }
}
