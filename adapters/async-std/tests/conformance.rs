//! The suite that every adapter passes, over TCP, and with a pre-shared key.

mod tcp {
    use quorate_async_std::{AsyncStd, Security};

    quorate_driver::conformance!(
        AsyncStd,
        Security::insecure_plaintext(),
        async_std::task::block_on
    );
    quorate_driver::bad_inputs!(
        AsyncStd,
        Security::insecure_plaintext(),
        async_std::task::block_on
    );
    quorate_driver::conformance_of_connections!(
        AsyncStd,
        Security::insecure_plaintext(),
        async_std::task::block_on
    );
}

mod psk {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use quorate_async_std::{AsyncStd, Psk, Security};
    use quorate_driver::conformance::nodes_of_different_security_do_not_meet;

    fn psk(key: &str) -> Security {
        Security::psk(Psk::new(key).unwrap())
    }

    quorate_driver::conformance!(
        AsyncStd,
        psk("a key of thirty-two random bytes"),
        async_std::task::block_on
    );

    #[test]
    fn nodes_of_two_keys_do_not_meet_nor_does_one_without() {
        async_std::task::block_on(async {
            let (ours, theirs) = (
                psk("a key of thirty-two random bytes"),
                psk("another key of the same length!!"),
            );
            nodes_of_different_security_do_not_meet::<AsyncStd>(&ours, &theirs).await;
            nodes_of_different_security_do_not_meet::<AsyncStd>(&ours, &Security::insecure_plaintext()).await;
        });
    }
}
