//! Between core and sockets; its machines land next.

use std::sync::Arc;

use quorate_core::config::ValidConfig;
use quorate_core::ident::UniqueAddress;
use quorate_core::time::Now;
use rand_chacha::ChaCha8Rng;

use crate::entity::Reports;
use crate::security::Security;

/// The node with everything between it and the sockets.
#[derive(Debug)]
pub(crate) struct Pump {}

impl Pump {
    pub(crate) fn new(
        _config: ValidConfig,
        _me: UniqueAddress,
        _rng: ChaCha8Rng,
        _reports: Arc<Reports>,
        _security: &Security,
        _now: Now,
    ) -> Self {
        Self {}
    }
}
