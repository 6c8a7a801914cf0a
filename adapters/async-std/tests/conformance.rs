//! The suite that every adapter passes, over TCP.

use quorate_async_std::{AsyncStd, Security};

quorate_driver::conformance!(
    AsyncStd,
    Security::insecure_plaintext(),
    async_std::task::block_on
);
