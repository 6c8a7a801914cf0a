//! How processes with a node on smol end.
#![cfg(unix)]

use quorate_smol::{Security, Smol};

quorate_conformance::conformance_of_processes!(Smol, Security::insecure_plaintext(), smol::block_on);
quorate_conformance::conformance_of_clusters_of_processes!();
