//! Makes the strategy that a configuration names. Decides nothing else. Spec: membership 3.

use alloc::sync::Arc;

use crate::config::DowningStrategy;
use crate::downing::auto_down::AutoDown;
use crate::downing::down_all::DownAll;
use crate::downing::keep_majority::KeepMajority;
use crate::downing::keep_oldest::KeepOldest;
use crate::downing::lease_majority::LeaseMajority;
use crate::downing::state::strategy::Strategy;
use crate::downing::static_quorum::StaticQuorum;

impl DowningStrategy {
    /// The strategy itself; `None` if nobody is downed automatically.
    #[must_use]
    pub fn build(&self) -> Option<Arc<dyn Strategy>> {
        Some(match self {
            Self::Off => return None,
            Self::KeepMajority { role } => Arc::new(KeepMajority::new(role.clone())),
            Self::StaticQuorum { quorum, role } => Arc::new(StaticQuorum::new(*quorum, role.clone())),
            Self::KeepOldest { down_if_alone, role } => {
                Arc::new(KeepOldest::new(*down_if_alone, role.clone()))
            }
            Self::DownAll => Arc::new(DownAll),
            Self::LeaseMajority(lease) => {
                let delay = lease.acquire_lease_delay_for_minority;
                Arc::new(LeaseMajority::new(delay, lease.role.clone()))
            }
            Self::AutoDown => Arc::new(AutoDown),
            Self::Custom(custom) => Arc::clone(&custom.0),
        })
    }
}
