//! The suite that every adapter passes, over TCP, and with a pre-shared key.

mod tcp {
    use quorate_smol::{Security, Smol};

    quorate_conformance::conformance!(Smol, Security::insecure_plaintext(), smol::block_on);
    quorate_conformance::bad_inputs!(Smol, Security::insecure_plaintext(), smol::block_on);
    quorate_conformance::conformance_of_connections!(Smol, Security::insecure_plaintext(), smol::block_on);
    quorate_conformance::conformance_of_lanes!(Smol, Security::insecure_plaintext(), smol::block_on);
    quorate_conformance::conformance_of_data!(Smol, Security::insecure_plaintext(), smol::block_on);
    quorate_conformance::conformance_of_deliveries!(Smol, Security::insecure_plaintext(), smol::block_on);
    quorate_conformance::conformance_of_strangers!(Smol, Security::insecure_plaintext(), smol::block_on);
}

mod psk {

    use quorate_smol::{Security, Smol, security::Psk};

    fn psk() -> Security {
        Security::psk(Psk::new("a key of thirty-two random bytes").unwrap())
    }

    quorate_conformance::conformance!(Smol, psk(), smol::block_on);
    quorate_conformance::conformance_of_data!(Smol, psk(), smol::block_on);
    quorate_conformance::conformance_of_keys!(Smol, smol::block_on);
}
