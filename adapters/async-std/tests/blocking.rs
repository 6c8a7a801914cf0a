//! Handlers that block their threads harm no node.

use quorate_async_std::{AsyncStd, Security};

quorate_conformance::conformance_of_blocking!(
    AsyncStd,
    Security::insecure_plaintext(),
    async_std::task::block_on
);
