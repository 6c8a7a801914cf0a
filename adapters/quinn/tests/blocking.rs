//! Handlers that block their threads harm no node, over QUIC on tokio and on smol.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use quorate_quinn::{Quinn, Security, security::DevCa};

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

fn mtls() -> Security {
    let authority = DevCa::new("tests.cluster.internal").unwrap();
    Security::mtls(authority.mtls().unwrap())
}

mod on_tokio {
    use super::{Quinn, block_on, mtls};

    quorate_conformance::conformance_of_blocking!(Quinn, mtls(), block_on);
}

#[cfg(feature = "smol")]
mod on_smol {
    use quorate_quinn::QuinnSmol;

    use super::mtls;

    quorate_conformance::conformance_of_blocking!(QuinnSmol, mtls(), smol::block_on);
}
