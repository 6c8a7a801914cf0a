//! The suite that every adapter passes, over TCP, and with a pre-shared key.

mod tcp {
    use quorate_smol::{Security, Smol};

    quorate_driver::conformance!(Smol, Security::insecure_plaintext(), smol::block_on);
    quorate_driver::bad_inputs!(Smol, Security::insecure_plaintext(), smol::block_on);
    quorate_driver::conformance_of_connections!(Smol, Security::insecure_plaintext(), smol::block_on);
}

mod psk {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use quorate_driver::conformance::nodes_of_different_security_do_not_meet;
    use quorate_smol::{Psk, Security, Smol};

    fn psk(key: &str) -> Security {
        Security::psk(Psk::new(key).unwrap())
    }

    quorate_driver::conformance!(Smol, psk("a key of thirty-two random bytes"), smol::block_on);

    #[test]
    fn nodes_of_two_keys_do_not_meet_nor_does_one_without() {
        smol::block_on(async {
            let (ours, theirs) = (
                psk("a key of thirty-two random bytes"),
                psk("another key of the same length!!"),
            );
            nodes_of_different_security_do_not_meet::<Smol>(&ours, &theirs).await;
            nodes_of_different_security_do_not_meet::<Smol>(&ours, &Security::insecure_plaintext()).await;
        });
    }
}
