//! Settings of the split-brain resolver, and the strategy made of them. Spec: membership 3, 4.

use alloc::sync::Arc;
use core::time::Duration;

use crate::downing::keep_majority::KeepMajority;
use crate::downing::strategy::Strategy;
use crate::downing::view::IndirectRule;
use crate::ident::Role;

/// Settings of the split-brain resolver.
#[derive(Clone, Debug)]
pub struct DowningConfig {
    /// Which side of a partition survives (default keep-majority). The same on all nodes: a node with another one is
    /// refused. Mirrors `split-brain-resolver.active-strategy`.
    pub strategy: DowningStrategy,
    /// Which complaints tell that a split is not clean (default classic). The same on all nodes.
    pub rule: IndirectRule,
    /// How long the picture must be unchanged before a decision (default 20 s, > 0). It must be longer than the time in
    /// which all nodes of one side learn what one of them has noticed: 7 s for 5 nodes, 13 s for 20, 20 s for 100, 30 s
    /// for 1000. Mirrors `.stable-after`.
    pub stable_after: Duration,
    /// What is done if the picture does not come to rest (default on). Mirrors `.down-all-when-unstable`.
    pub down_all_when_unstable: DownAllWhenUnstable,
    /// If those on broken links, and whoever goes with them, are at least this share of the members, everybody goes
    /// (default 0.5, > 0 to 1; `None` never does). Mirrors `.down-all-when-indirectly-connected` of later versions of
    /// the reference.
    pub down_all_when_indirectly_connected: Option<f64>,
    /// How long takeover of a downed member's work waits after its removal (default: `stable_after`, or zero without a
    /// strategy). Mirrors `down-removal-margin`.
    pub down_removal_margin: Option<Duration>,
}

/// What is done if members become unreachable and reachable for so long that the picture is never stable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DownAllWhenUnstable {
    /// Everybody goes once this has lasted for `stable_after` and three quarters of it more, at least 4 s more.
    #[default]
    On,
    /// Nothing; the cluster may then stay split for as long as it flaps.
    Off,
    /// Everybody goes once this has lasted for `stable_after` and this much more (> 0).
    After(Duration),
}

/// A downing strategy and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DowningStrategy {
    /// Nobody is downed automatically; an operator or the application does it.
    Off,
    /// The side with more members survives; on a tie the one with the lowest address.
    KeepMajority {
        /// Count only members with this role; all if `None`.
        role: Option<Role>,
    },
}

impl DowningConfig {
    /// How much longer than `stable_after` unrest is borne; `None` for ever.
    #[must_use]
    pub fn unstable_after(&self) -> Option<Duration> {
        const LEAST: Duration = Duration::from_secs(4);
        match self.down_all_when_unstable {
            DownAllWhenUnstable::On => Some(LEAST.max(self.stable_after / 4 * 3)),
            DownAllWhenUnstable::Off => None,
            DownAllWhenUnstable::After(patience) => Some(patience),
        }
    }
}

impl DowningStrategy {
    /// The strategy itself; `None` if nobody is downed automatically.
    #[must_use]
    pub fn build(&self) -> Option<Arc<dyn Strategy>> {
        match self {
            Self::Off => None,
            Self::KeepMajority { role } => Some(Arc::new(KeepMajority::new(role.clone()))),
        }
    }
}

impl Default for DowningConfig {
    fn default() -> Self {
        Self {
            strategy: DowningStrategy::KeepMajority { role: None },
            rule: IndirectRule::Classic,
            stable_after: Duration::from_secs(20),
            down_all_when_unstable: DownAllWhenUnstable::On,
            down_all_when_indirectly_connected: Some(0.5),
            down_removal_margin: None,
        }
    }
}
