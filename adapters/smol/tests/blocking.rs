//! Handlers that block their threads harm no node.

use quorate_smol::{Security, Smol};

quorate_conformance::conformance_of_blocking!(Smol, Security::insecure_plaintext(), smol::block_on);
