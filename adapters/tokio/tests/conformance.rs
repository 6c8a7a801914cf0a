//! The suite that every adapter passes, over TCP, with a pre-shared key, and over TLS.

use quorate_tokio::{
    Security, Tokio,
    security::{DevCa, Psk},
};

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

    quorate_conformance::conformance!(Tokio, Security::insecure_plaintext(), block_on);
    quorate_conformance::bad_inputs!(Tokio, Security::insecure_plaintext(), block_on);
    quorate_conformance::conformance_of_data!(Tokio, Security::insecure_plaintext(), block_on);
    quorate_conformance::conformance_of_deliveries!(Tokio, Security::insecure_plaintext(), block_on);
    quorate_conformance::conformance_of_strangers!(Tokio, Security::insecure_plaintext(), block_on);
    quorate_conformance::conformance_of_connections!(Tokio, Security::insecure_plaintext(), block_on);
    quorate_conformance::conformance_of_lanes!(Tokio, Security::insecure_plaintext(), block_on);
}

mod psk {
    use super::{Psk, Security, Tokio, block_on};

    fn psk() -> Security {
        Security::psk(Psk::new("a key of thirty-two random bytes").unwrap())
    }

    quorate_conformance::conformance!(Tokio, psk(), block_on);
    quorate_conformance::bad_inputs!(Tokio, psk(), block_on);
    quorate_conformance::conformance_of_data!(Tokio, psk(), block_on);
    quorate_conformance::conformance_of_strangers!(Tokio, psk(), block_on);
    quorate_conformance::conformance_of_connections!(Tokio, psk(), block_on);
    quorate_conformance::conformance_of_keys!(Tokio, block_on);
}

mod tls {
    use super::{Tokio, block_on, mtls};

    quorate_conformance::conformance!(Tokio, mtls(), block_on);
    quorate_conformance::bad_inputs!(Tokio, mtls(), block_on);
    quorate_conformance::conformance_of_data!(Tokio, mtls(), block_on);
    quorate_conformance::conformance_of_strangers!(Tokio, mtls(), block_on);
    quorate_conformance::conformance_of_lanes!(Tokio, mtls(), block_on);
    quorate_conformance::conformance_of_connections!(Tokio, mtls(), block_on);
    quorate_conformance::conformance_of_certificates!(Tokio, block_on);
}
