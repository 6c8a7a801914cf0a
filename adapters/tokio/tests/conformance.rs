//! The suite that every adapter passes, over TCP and over TLS.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use quorate_tokio::{DevCa, Security, Tokio};

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

mod tcp {
    use super::{Security, Tokio, block_on};

    quorate_driver::conformance!(Tokio, Security::insecure_plaintext(), block_on);
}

mod tls {
    use super::{Tokio, block_on, mtls};

    quorate_driver::conformance!(Tokio, mtls(), block_on);
}
