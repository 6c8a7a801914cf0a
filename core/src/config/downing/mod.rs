//! Settings of the split-brain resolver, and the strategy made of them. Spec: membership 3, 4.

use alloc::string::String;
use alloc::sync::Arc;
use core::str::FromStr;
use core::time::Duration;

use super::ConfigError;
use super::ranges::{at_least_one, bounded, ensure, positive};
use crate::downing::state::strategy::Strategy;
use crate::downing::state::view::IndirectRule;
use crate::ident::Role;

/// Settings of the split-brain resolver.
#[derive(Clone, Debug)]
pub struct DowningConfig {
    /// Which side of a partition survives (default keep-majority). The same on all nodes: a node with another
    /// one is refused. Mirrors `split-brain-resolver.active-strategy`.
    pub strategy: DowningStrategy,
    /// Who goes when a split is not clean (default fewest: as few members as explain the broken links; Akka
    /// has the classic rule only, both ends). The same on all nodes.
    pub rule: IndirectRule,
    /// How long the picture must be unchanged before a decision (default `None`: by the number of members, 7
    /// s up to 5, 10 s up to 10, 13 s up to 20, 17 s up to 50, 20 s up to 100, 30 s beyond, and never shorter
    /// than the failure detector needs). It must be longer than the time in which all nodes of one side learn
    /// what one of them has noticed. Mirrors `.stable-after`, whose default is 20 s.
    pub stable_after: Option<Duration>,
    /// What happens if the picture does not become stable (default on). Mirrors `.down-all-when-unstable`.
    pub down_all_when_unstable: DownAllWhenUnstable,
    /// Share of the members on broken links, and those who go with them, from which on everybody goes
    /// (default `None`: never; > 0 to 1). The rule `fewest` does not read it. Mirrors
    /// `.down-all-when-indirectly-connected`.
    pub down_all_when_indirectly_connected: Option<f64>,
    /// How long takeover of a downed member's work waits after its removal (default: what `stable_after` is
    /// at the time, or zero without a strategy). Mirrors `down-removal-margin`.
    pub down_removal_margin: Option<Duration>,
}

/// What happens if members become unreachable and reachable for so long that the picture is never stable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DownAllWhenUnstable {
    /// Everybody goes once this has lasted for `stable_after` and three quarters of it more, at least 4 s
    /// more.
    #[default]
    On,
    /// Nothing; the cluster may then stay split for as long as it flaps.
    Off,
    /// Everybody goes once this has lasted for `stable_after` and this much more (> 0).
    After(Duration),
}

/// A downing strategy and its settings. `docs/downing.md` compares them.
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
    /// The side with at least so many members survives. Safe for clusters of at most `2 · quorum − 1`
    /// members.
    StaticQuorum {
        /// How many members are enough (>= 1, no default). Mirrors `static-quorum.quorum-size`.
        quorum: usize,
        /// Count only members with this role; all if `None`.
        role: Option<Role>,
    },
    /// The side with the oldest member survives.
    KeepOldest {
        /// The oldest goes nevertheless if it is alone and there are at least two on the other side
        /// (reference default `true`). Mirrors `keep-oldest.down-if-alone`.
        down_if_alone: bool,
        /// Count only members with this role; all if `None`.
        role: Option<Role>,
    },
    /// Everybody goes.
    DownAll,
    /// The side that gets hold of a lease survives; the host must provide the lease.
    LeaseMajority(LeaseMajorityConfig),
    /// Whoever is unreachable for `stable_after` goes, each member by a clock of its own, whatever else
    /// changes meanwhile. **Both sides of a partition survive it**: for clusters whose members do nothing
    /// that must not be done twice. Mirrors `auto-down-unreachable-after`.
    AutoDown,
    /// A strategy of the application.
    Custom(CustomStrategy),
}

/// Settings of lease-majority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseMajorityConfig {
    /// Count only members with this role; all if `None`. Mirrors `lease-majority.role`.
    pub role: Option<Role>,
    /// The lease's name, 1 to 63 bytes (default `<cluster>-sbr`). Mirrors `.lease-name`.
    pub lease_name: Option<String>,
    /// How long the smaller side lets the larger one go first (default 2 s). Mirrors
    /// `.acquire-lease-delay-for-minority`.
    pub acquire_lease_delay_for_minority: Duration,
    /// How long the lease is held after the last of the downed has been removed (default 40 s): the other
    /// side must have given up by then. A side that decides later than `stable_after` and three quarters of
    /// this after it first missed somebody goes without asking, so it should be several times what the
    /// detector needs. Mirrors `.release-after`.
    pub release_after: Duration,
    /// A holder that is silent for this long loses the lease (default 120 s). Mirrors the lease's
    /// `heartbeat-timeout`.
    pub time_to_live: Duration,
    /// An answer that takes longer counts as a refusal (default 5 s). Mirrors the lease's
    /// `lease-operation-timeout`.
    pub operation_timeout: Duration,
}

/// A strategy of the application, shared by all clones of a configuration.
#[derive(Clone, Debug)]
pub struct CustomStrategy(pub Arc<dyn Strategy>);

impl PartialEq for CustomStrategy {
    /// The very same strategy, not one that happens to have the same settings.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CustomStrategy {}

impl Default for LeaseMajorityConfig {
    fn default() -> Self {
        Self {
            role: None,
            lease_name: None,
            acquire_lease_delay_for_minority: Duration::from_secs(2),
            release_after: Duration::from_secs(40),
            time_to_live: Duration::from_secs(120),
            operation_timeout: Duration::from_secs(5),
        }
    }
}

/// How long a picture of so many members has to be stable. Spec: membership 3.8.
pub(super) fn stable_after_by_size(members: usize) -> Duration {
    const TABLE: [(usize, u64); 5] = [(5, 7), (10, 10), (20, 13), (50, 17), (100, 20)];
    const BEYOND: u64 = 30;
    let row = TABLE.iter().find(|(most, _)| members <= *most);
    Duration::from_secs(row.map_or(BEYOND, |(_, secs)| *secs))
}

impl DowningConfig {
    /// See [`super::Config::one_data_center`].
    pub(super) fn one_data_center() -> Self {
        Self {
            stable_after: Some(Duration::from_millis(2_000)),
            down_all_when_unstable: DownAllWhenUnstable::After(Duration::from_millis(1_500)),
            ..Self::default()
        }
    }

    /// Timings for one machine; see [`super::Config::fast`].
    pub(super) fn fast() -> Self {
        Self {
            stable_after: Some(Duration::from_millis(1_500)),
            down_removal_margin: Some(Duration::from_millis(1_000)),
            ..Self::default()
        }
    }

    /// How much longer than this `stable_after` unrest is borne; `None` for ever.
    pub(super) fn unstable_after(&self, stable_after: Duration) -> Option<Duration> {
        const LEAST: Duration = Duration::from_secs(4);
        // It takes nobody's unrest for a reason to go, only silence.
        if self.strategy == DowningStrategy::AutoDown {
            return None;
        }
        match self.down_all_when_unstable {
            DownAllWhenUnstable::On => Some(LEAST.max(stable_after / 4 * 3)),
            DownAllWhenUnstable::Off => None,
            DownAllWhenUnstable::After(patience) => Some(patience),
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if let Some(stable_after) = self.stable_after {
            positive("downing.stable_after", stable_after)?;
        }
        if let DownAllWhenUnstable::After(patience) = self.down_all_when_unstable {
            positive("downing.down_all_when_unstable", patience)?;
        }
        if let Some(margin) = self.down_removal_margin {
            bounded("downing.down_removal_margin", margin)?;
        }
        let share = self.down_all_when_indirectly_connected;
        ensure(
            share.is_none_or(|share| share > 0.0 && share <= 1.0),
            "downing.down_all_when_indirectly_connected",
            &share,
            "none, or above 0 and at most 1",
        )?;
        match &self.strategy {
            DowningStrategy::StaticQuorum { quorum, .. } => {
                at_least_one("downing.strategy.quorum", *quorum)?;
            }
            DowningStrategy::LeaseMajority(lease) => lease.check()?,
            DowningStrategy::Off
            | DowningStrategy::KeepMajority { .. }
            | DowningStrategy::KeepOldest { .. }
            | DowningStrategy::DownAll
            | DowningStrategy::AutoDown
            | DowningStrategy::Custom(_) => {}
        }
        Ok(())
    }
}

impl LeaseMajorityConfig {
    fn check(&self) -> Result<(), ConfigError> {
        const NAME_BYTES_MAX: usize = 63;
        positive("downing.strategy.release_after", self.release_after)?;
        positive("downing.strategy.time_to_live", self.time_to_live)?;
        positive("downing.strategy.operation_timeout", self.operation_timeout)?;
        if !self.acquire_lease_delay_for_minority.is_zero() {
            let delay = self.acquire_lease_delay_for_minority;
            positive("downing.strategy.acquire_lease_delay_for_minority", delay)?;
        }
        let length = self.lease_name.as_ref().map_or(1, String::len);
        ensure(
            (1..=NAME_BYTES_MAX).contains(&length),
            "downing.strategy.lease_name",
            &self.lease_name,
            "none, or 1 to 63 bytes",
        )
    }
}

impl DowningStrategy {
    /// Its name, as Akka writes it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::KeepMajority { .. } => "keep-majority",
            Self::StaticQuorum { .. } => "static-quorum",
            Self::KeepOldest { .. } => "keep-oldest",
            Self::DownAll => "down-all",
            Self::LeaseMajority(_) => "lease-majority",
            Self::AutoDown => "auto-down",
            Self::Custom(custom) => custom.0.name(),
        }
    }

    /// Whether both sides of a partition may go on under it: auto-down, and what the application says of its
    /// own.
    #[must_use]
    pub fn lets_both_sides_go_on(&self) -> bool {
        match self {
            Self::AutoDown => true,
            Self::Custom(custom) => custom.0.lets_both_sides_go_on(),
            Self::Off
            | Self::KeepMajority { .. }
            | Self::StaticQuorum { .. }
            | Self::KeepOldest { .. }
            | Self::DownAll
            | Self::LeaseMajority(_) => false,
        }
    }
}

impl FromStr for DowningStrategy {
    type Err = ConfigError;

    /// The strategy of that name, as [`DowningStrategy::name`] writes it, with Akka's defaults and no role;
    /// for settings that are texts. `static-quorum` takes its quorum after a colon, because it has no
    /// default: `static-quorum:3`.
    ///
    /// # Errors
    /// No strategy has that name, or the quorum is missing or 0.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let unknown = |legal| ConfigError {
            key: "downing.strategy",
            value: String::from(text),
            legal,
        };
        let role = None;
        match (name, value) {
            ("off", None) => Ok(Self::Off),
            ("keep-majority", None) => Ok(Self::KeepMajority { role }),
            ("keep-oldest", None) => Ok(Self::KeepOldest {
                down_if_alone: true,
                role,
            }),
            ("down-all", None) => Ok(Self::DownAll),
            ("lease-majority", None) => Ok(Self::LeaseMajority(LeaseMajorityConfig::default())),
            ("auto-down", None) => Ok(Self::AutoDown),
            ("static-quorum", value) => {
                let quorum = value
                    .and_then(|value| value.parse().ok())
                    .filter(|quorum| *quorum > 0);
                let legal = "static-quorum:<members>, at least 1";
                let quorum = quorum.ok_or_else(|| unknown(legal))?;
                Ok(Self::StaticQuorum { quorum, role })
            }
            (_, _) => Err(unknown(
                "off, keep-majority, static-quorum:<members>, keep-oldest, down-all, lease-majority or auto-down",
            )),
        }
    }
}

impl Default for DowningConfig {
    fn default() -> Self {
        Self {
            strategy: DowningStrategy::KeepMajority { role: None },
            rule: IndirectRule::Fewest,
            stable_after: None,
            down_all_when_unstable: DownAllWhenUnstable::On,
            down_all_when_indirectly_connected: None,
            down_removal_margin: None,
        }
    }
}

#[cfg(test)]
mod tests;
