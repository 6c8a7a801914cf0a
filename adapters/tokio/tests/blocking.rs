//! Handlers that block their threads harm no node.

use quorate_tokio::{Security, Tokio};

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

quorate_conformance::conformance_of_blocking!(Tokio, Security::insecure_plaintext(), block_on);
