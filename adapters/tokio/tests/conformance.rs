//! The suite that every adapter passes, over TCP, with a pre-shared key, and over TLS.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use quorate_tokio::{DevCa, Psk, Security, Tokio};

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
    quorate_driver::bad_inputs!(Tokio, Security::insecure_plaintext(), block_on);
    quorate_driver::conformance_of_connections!(Tokio, Security::insecure_plaintext(), block_on);
}

mod psk {
    use super::{Psk, Security, Tokio, block_on};
    use quorate_driver::conformance::nodes_of_different_security_do_not_meet;

    fn psk(key: &str) -> Security {
        Security::psk(Psk::new(key).unwrap())
    }

    quorate_driver::conformance!(Tokio, psk("a key of thirty-two random bytes"), block_on);

    #[test]
    fn nodes_of_two_keys_do_not_meet_nor_does_one_without() {
        block_on(async {
            let (ours, theirs) = (
                psk("a key of thirty-two random bytes"),
                psk("another key of the same length!!"),
            );
            nodes_of_different_security_do_not_meet::<Tokio>(&ours, &theirs).await;
            nodes_of_different_security_do_not_meet::<Tokio>(&ours, &Security::insecure_plaintext()).await;
        });
    }
}

mod tls {
    use super::{Tokio, block_on, mtls};

    quorate_driver::conformance!(Tokio, mtls(), block_on);
    quorate_driver::bad_inputs!(Tokio, mtls(), block_on);
    quorate_driver::conformance_of_connections!(Tokio, mtls(), block_on);

    #[test]
    fn nodes_with_wrong_certificates_are_refused_and_counted() {
        block_on(
            quorate_driver::conformance::nodes_with_wrong_certificates_are_refused_and_counted::<Tokio>(),
        );
    }

    #[test]
    fn a_certificate_need_not_name_the_host_if_it_is_told_so() {
        block_on(
            quorate_driver::conformance::a_certificate_need_not_name_the_host_if_it_is_told_so::<Tokio>(),
        );
    }
}
