//! Nodes on smol and nodes on tokio are members of one cluster: both speak the same bytes over TCP and TLS.

use quorate_conformance::adapters_form_one_cluster;
use quorate_smol::{Security, Smol, security::DevCa};
use quorate_tokio::Tokio;

/// The test itself waits in tokio, whose runtime the tokio nodes need; smol's nodes bring their threads
/// along.
fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

fn mtls() -> Security {
    let authority = DevCa::new("tests.cluster.internal").unwrap();
    Security::mtls(authority.mtls().unwrap())
}

#[test]
fn smol_and_tokio_form_one_cluster_over_tcp() {
    block_on(adapters_form_one_cluster::<Smol, Tokio>(
        &Security::insecure_plaintext(),
    ));
}

#[test]
fn tokio_and_smol_form_one_cluster_over_tls() {
    block_on(adapters_form_one_cluster::<Tokio, Smol>(&mtls()));
}
