//! The suite that every adapter passes, over TCP, and with a pre-shared key.

mod tcp {
    use quorate_async_std::{AsyncStd, Security};

    quorate_conformance::conformance!(
        AsyncStd,
        Security::insecure_plaintext(),
        async_std::task::block_on
    );
    quorate_conformance::bad_inputs!(
        AsyncStd,
        Security::insecure_plaintext(),
        async_std::task::block_on
    );
    quorate_conformance::conformance_of_data!(
        AsyncStd,
        Security::insecure_plaintext(),
        async_std::task::block_on
    );
    quorate_conformance::conformance_of_strangers!(
        AsyncStd,
        Security::insecure_plaintext(),
        async_std::task::block_on
    );
    quorate_conformance::conformance_of_lanes!(
        AsyncStd,
        Security::insecure_plaintext(),
        async_std::task::block_on
    );
    quorate_conformance::conformance_of_connections!(
        AsyncStd,
        Security::insecure_plaintext(),
        async_std::task::block_on
    );
    quorate_conformance::conformance_of_deliveries!(
        AsyncStd,
        Security::insecure_plaintext(),
        async_std::task::block_on
    );
}

mod psk {

    use quorate_async_std::{AsyncStd, Security, security::Psk};

    fn psk() -> Security {
        Security::psk(Psk::new("a key of thirty-two random bytes").unwrap())
    }

    quorate_conformance::conformance!(AsyncStd, psk(), async_std::task::block_on);
    quorate_conformance::conformance_of_keys!(AsyncStd, async_std::task::block_on);
}
