//! The suite that every adapter passes, over QUIC on smol; and smol's nodes beside tokio's.

use quorate_conformance::adapters_form_one_cluster;
use quorate_quinn::{Quinn, QuinnSmol, Security, security::DevCa};

fn mtls() -> Security {
    let authority = DevCa::new("tests.cluster.internal").unwrap();
    Security::mtls(authority.mtls().unwrap())
}

quorate_conformance::conformance!(QuinnSmol, mtls(), smol::block_on);
quorate_conformance::bad_inputs!(QuinnSmol, mtls(), smol::block_on);
quorate_conformance::conformance_of_data!(QuinnSmol, mtls(), smol::block_on);
quorate_conformance::conformance_of_strangers!(QuinnSmol, mtls(), smol::block_on);
quorate_conformance::conformance_of_lanes!(QuinnSmol, mtls(), smol::block_on);
quorate_conformance::conformance_of_certificates!(QuinnSmol, smol::block_on);

/// Waits in tokio, whose runtime its nodes need; smol's nodes bring their threads along.
#[test]
fn smol_and_tokio_form_one_cluster_over_quic() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime
        .unwrap()
        .block_on(adapters_form_one_cluster::<QuinnSmol, Quinn>(&mtls()));
}
