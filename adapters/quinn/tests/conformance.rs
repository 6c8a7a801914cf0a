//! The suite that every adapter passes, over QUIC.

use quorate_conformance::nodes_of_different_security_do_not_meet;
use quorate_quinn::{Quinn, Security, StartError, security::DevCa};

pub(crate) fn block_on(test: impl Future<Output = ()>) {
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

quorate_conformance::conformance!(Quinn, mtls(), block_on);
quorate_conformance::bad_inputs!(Quinn, mtls(), block_on);
quorate_conformance::conformance_of_data!(Quinn, mtls(), block_on);
quorate_conformance::conformance_of_deliveries!(Quinn, mtls(), block_on);
quorate_conformance::conformance_of_strangers!(Quinn, mtls(), block_on);
quorate_conformance::conformance_of_lanes!(Quinn, mtls(), block_on);
quorate_conformance::conformance_of_certificates!(Quinn, block_on);

#[test]
fn nodes_of_two_authorities_do_not_meet() {
    block_on(nodes_of_different_security_do_not_meet::<Quinn>(&mtls(), &mtls()));
}

#[test]
fn quic_without_certificates_is_a_typed_error() {
    block_on(async {
        let node = quorate_quinn::builder("tests")
            .bind("127.0.0.1:0")
            .security(Security::insecure_plaintext());
        let refused = node.start().await;
        assert!(matches!(
            refused,
            Err(StartError::Environment {
                what: "transport",
                ..
            })
        ));
    });
}
