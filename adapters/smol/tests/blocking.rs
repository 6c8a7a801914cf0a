//! Handlers that block their threads harm no node.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use quorate_smol::{Security, Smol};

quorate_conformance::conformance_of_blocking!(Smol, Security::insecure_plaintext(), smol::block_on);
