//! How processes with a node on async-std end.
#![cfg(unix)]

use quorate_async_std::{AsyncStd, Security};

quorate_conformance::conformance_of_processes!(
    AsyncStd,
    Security::insecure_plaintext(),
    async_std::task::block_on
);
quorate_conformance::conformance_of_clusters_of_processes!();
