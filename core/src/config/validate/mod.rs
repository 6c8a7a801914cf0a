//! Checks a configuration once. The error names the key, the value and the legal range, so that it can be
//! mended without reading code.

use alloc::string::String;
use alloc::sync::Arc;
use core::ops::Deref;
use core::time::Duration;

use super::downing::stable_after_by_size;
use super::ranges::{at_least_one, ensure, within};
use super::{Config, DowningStrategy};
use crate::agreement::{Differences, Settings};
use crate::downing::state::view::IndirectRule;
use crate::ident::Roles;

/// A setting outside its legal range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value} is not legal: {legal}")]
pub struct ConfigError {
    /// The key, in the form `section.key`.
    pub key: &'static str,
    /// The value found.
    pub value: String,
    /// What would be legal.
    pub legal: &'static str,
}

/// A configuration that passed every check. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ValidConfig {
    config: Arc<Config>,
    roles: Roles,
    shared: Settings,
}

impl ValidConfig {
    /// This node's roles, the data-center role included.
    #[must_use]
    pub const fn node_roles(&self) -> &Roles {
        &self.roles
    }

    /// How long the picture of so many members has to be unchanged before a downing decision.
    #[must_use]
    pub fn stable_after(&self, members: usize) -> Duration {
        let by_size = || stable_after_by_size(members).max(self.detector_needs());
        let stable_after = self.downing.stable_after.unwrap_or_else(by_size);
        let is_ring = members > self.failure_detector.monitored_by_nr_of_members + 1;
        if is_ring && self.downing.rule == IndirectRule::Fewest {
            stable_after.max(self.first_silence())
        } else {
            stable_after
        }
    }

    /// How long it takes at most until a member that is watched only now, and is silent, is reported: by
    /// [`IndirectRule::Fewest`] nobody concludes anything from less.
    #[must_use]
    pub(crate) fn first_silence(&self) -> Duration {
        let detector = &self.failure_detector;
        let interval = detector.heartbeat_interval;
        // So many deviations of the interval reach the threshold, or more.
        let deviations = detector.threshold.min(100.0) / 2.0 + 2.0;
        let deviation = detector.min_std_deviation.max(interval / 4);
        let round_and_look = interval + detector.unreachable_nodes_reaper_interval;
        let answer = detector.expected_response_after + interval + detector.acceptable_heartbeat_pause;
        round_and_look + answer + deviation.mul_f64(deviations)
    }

    /// How much longer than [`Self::stable_after`] an unstable picture of so many members is tolerated;
    /// `None` for ever.
    #[must_use]
    pub fn unstable_after(&self, members: usize) -> Option<Duration> {
        self.downing.unstable_after(self.stable_after(members))
    }

    /// How long takeover of a downed member's work waits after its removal from so many members.
    #[must_use]
    pub fn removal_margin(&self, members: usize) -> Duration {
        let unset = match &self.downing.strategy {
            DowningStrategy::Off | DowningStrategy::AutoDown => Duration::ZERO,
            DowningStrategy::KeepMajority { .. }
            | DowningStrategy::StaticQuorum { .. }
            | DowningStrategy::KeepOldest { .. }
            | DowningStrategy::DownAll
            | DowningStrategy::LeaseMajority(_)
            | DowningStrategy::Custom(_) => self.stable_after(members),
        };
        self.downing.down_removal_margin.unwrap_or(unset)
    }

    /// How long `downing.stable_after` has to be at least for all of one side to have noticed what one of
    /// them has: the pause that is accepted, a heartbeat and a look at the detector. `Some` if it is shorter:
    /// sides may then decide by different pictures, which no strategy is made for. Not an error, because a
    /// cluster of one machine may live with it.
    #[must_use]
    pub fn stable_after_too_short_for_detector(&self) -> Option<Duration> {
        let least = self.detector_needs();
        let is_short = self.downing.stable_after.is_some_and(|set| set < least);
        (self.downing.strategy != DowningStrategy::Off && is_short).then_some(least)
    }

    fn detector_needs(&self) -> Duration {
        let detector = &self.failure_detector;
        let notices = detector.acceptable_heartbeat_pause + detector.heartbeat_interval;
        notices + detector.unreachable_nodes_reaper_interval
    }

    /// The settings that all members must share, by key: what a joiner and a member tell each other.
    /// `docs/configuration.md` lists them, with the reason of each.
    #[must_use]
    pub const fn shared_settings(&self) -> &Settings {
        &self.shared
    }

    /// The settings in which this node and one with these settings differ.
    #[must_use]
    pub fn differences(&self, other: &Settings) -> Differences {
        self.shared.differences(other, &self.membership.join_checkers)
    }
}

impl Deref for ValidConfig {
    type Target = Config;

    fn deref(&self) -> &Config {
        &self.config
    }
}

impl Config {
    /// Checks every setting.
    ///
    /// # Errors
    /// [`ConfigError`] for the first setting outside its range.
    pub fn validate(self) -> Result<ValidConfig, ConfigError> {
        let roles = Roles::new(self.roles.iter().cloned(), &self.data_center).map_err(|_| ConfigError {
            key: "roles / data_center",
            value: alloc::format!("{:?} / {:?}", self.roles, self.data_center),
            legal: "at most 31 roles, and a data center of 1 to 61 bytes of A-Z a-z 0-9 . _ : -",
        })?;
        self.membership.check()?;
        self.failure_detector.check()?;
        self.sharding.check()?;
        self.singleton.check()?;
        self.paths.check()?;
        self.kv.check()?;
        self.shutdown.check()?;
        self.executor.check()?;
        self.load.check()?;
        self.check_limits()?;
        self.ddata.check(self.ddata_frame_bytes_max())?;
        self.journal.check(self.limits.bulk_frame_bytes_max)?;
        self.downing.check()?;
        let shared = self.shared_settings()?;
        Ok(ValidConfig {
            config: Arc::new(self),
            roles,
            shared,
        })
    }

    /// Body bytes of a frame that carries replicated data.
    #[must_use]
    pub const fn ddata_frame_bytes_max(&self) -> usize {
        self.limits.bulk_frame_bytes_max
    }

    fn check_limits(&self) -> Result<(), ConfigError> {
        const FRAME: ((usize, usize), &str) = ((1 << 10, 16 << 20), "1024 to 16777216 bytes");
        // A joiner is admitted only while a member with everything as long as it may be would still fit.
        const GOSSIP_FRAME: ((usize, usize), &str) = ((8 << 10, 16 << 20), "8192 to 16777216 bytes");
        let l = &self.limits;
        within(
            "limits.control_frame_bytes_max",
            l.control_frame_bytes_max,
            FRAME.0,
            FRAME.1,
        )?;
        within(
            "limits.gossip_frame_bytes_max",
            l.gossip_frame_bytes_max,
            GOSSIP_FRAME.0,
            GOSSIP_FRAME.1,
        )?;
        within(
            "limits.user_frame_bytes_max",
            l.user_frame_bytes_max,
            FRAME.0,
            FRAME.1,
        )?;
        within(
            "limits.bulk_frame_bytes_max",
            l.bulk_frame_bytes_max,
            FRAME.0,
            FRAME.1,
        )?;
        let inflated = l.decompressed_bytes_max;
        within(
            "limits.decompressed_bytes_max",
            inflated,
            (64 << 10, 64 << 20),
            "65536 to 67108864 bytes",
        )?;
        // Any threshold is legal: 0 compresses whatever gets smaller, a high one nothing.
        within("limits.members_max", l.members_max, (1, 10_000), "1 to 10000")?;
        within(
            "limits.tombstones_max",
            l.tombstones_max,
            (1, 10_000),
            "1 to 10000",
        )?;
        let records = l.reachability_records_per_member_max;
        at_least_one("limits.reachability_records_per_member_max", records)?;
        within(
            "limits.entity_id_bytes_max",
            l.entity_id_bytes_max,
            (1, 4096),
            "1 to 4096",
        )?;
        let lines = l.log_lines_per_second_max;
        let legal = (1..=10_000).contains(&lines);
        ensure(legal, "limits.log_lines_per_second_max", &lines, "1 to 10000")
    }
}

#[cfg(test)]
mod tests;
