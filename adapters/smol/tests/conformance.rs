//! The suite that every adapter passes, over TCP.

use quorate_smol::{Security, Smol};

quorate_driver::conformance!(Smol, Security::insecure_plaintext(), smol::block_on);
