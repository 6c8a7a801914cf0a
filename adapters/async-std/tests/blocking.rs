//! Handlers that block their threads harm no node: the conformance suite's tests on async-std, in a program
//! of their own because they hold its only executor.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use quorate_async_std::{AsyncStd, Security};

quorate_conformance::conformance_of_blocking!(
    AsyncStd,
    Security::insecure_plaintext(),
    async_std::task::block_on
);
