//! Checks a configuration once. The error names the key, the value and the legal range, so that it can be mended
//! without reading code.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt::Debug;
use core::hash::Hasher;
use core::ops::Deref;
use core::time::Duration;

use siphasher::sip::SipHasher13;

use super::{Config, DowningStrategy};
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
}

impl ValidConfig {
    /// This node's roles, the data-center role included.
    #[must_use]
    pub const fn node_roles(&self) -> &Roles {
        &self.roles
    }

    /// How long takeover of a downed member's work waits after its removal.
    #[must_use]
    pub fn removal_margin(&self) -> Duration {
        let unset = match &self.downing.strategy {
            DowningStrategy::Off | DowningStrategy::AutoDown => Duration::ZERO,
            DowningStrategy::KeepMajority { .. }
            | DowningStrategy::StaticQuorum { .. }
            | DowningStrategy::KeepOldest { .. }
            | DowningStrategy::DownAll
            | DowningStrategy::LeaseMajority(_)
            | DowningStrategy::Custom(_) => self.downing.stable_after,
        };
        self.downing.down_removal_margin.unwrap_or(unset)
    }

    /// Digest of the settings that all members must share: the downing strategy and its rule. A joiner with another one
    /// is refused, because two strategies could let both halves of a partition survive.
    #[must_use]
    pub fn compatibility_digest(&self) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(1, 2);
        self.downing.write_digest(&mut hasher);
        hasher.finish()
    }
}

impl Deref for ValidConfig {
    type Target = Config;

    fn deref(&self) -> &Config {
        &self.config
    }
}

pub(super) fn ensure(
    legal: bool,
    key: &'static str,
    value: &dyn Debug,
    range: &'static str,
) -> Result<(), ConfigError> {
    if legal {
        return Ok(());
    }
    Err(ConfigError {
        key,
        value: alloc::format!("{value:?}"),
        legal: range,
    })
}

pub(super) fn positive(key: &'static str, value: Duration) -> Result<(), ConfigError> {
    // The core's clock counts microseconds: anything shorter is a timer that is due again at once, for ever.
    const SHORTEST: Duration = Duration::from_micros(1);
    const LONGEST: Duration = Duration::from_secs(400 * 24 * 3600);
    ensure(
        (SHORTEST..=LONGEST).contains(&value),
        key,
        &value,
        "a duration of at least a microsecond, at most 400 days",
    )
}

pub(super) fn at_least_one(key: &'static str, value: usize) -> Result<(), ConfigError> {
    ensure(value >= 1, key, &value, "at least 1")
}

fn within(
    key: &'static str,
    value: usize,
    bounds: (usize, usize),
    range: &'static str,
) -> Result<(), ConfigError> {
    ensure((bounds.0..=bounds.1).contains(&value), key, &value, range)
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
        self.check_membership()?;
        self.check_failure_detector()?;
        self.check_sharding()?;
        self.check_limits()?;
        self.downing.check()?;
        Ok(ValidConfig {
            config: Arc::new(self),
            roles,
        })
    }

    fn check_membership(&self) -> Result<(), ConfigError> {
        let m = &self.membership;
        positive("membership.gossip_interval", m.gossip_interval)?;
        positive("membership.leader_actions_interval", m.leader_actions_interval)?;
        positive(
            "membership.periodic_tasks_initial_delay",
            m.periodic_tasks_initial_delay,
        )?;
        positive("membership.seed_node_timeout", m.seed_node_timeout)?;
        positive(
            "membership.retry_unsuccessful_join_after",
            m.retry_unsuccessful_join_after,
        )?;
        positive(
            "membership.prune_gossip_tombstones_after",
            m.prune_gossip_tombstones_after,
        )?;
        positive("membership.exit_drain_timeout", m.exit_drain_timeout)?;
        positive("membership.exiting_timeout", m.exiting_timeout)?;
        if let Some(after) = m.allow_weakly_up_members {
            positive("membership.allow_weakly_up_members", after)?;
        }
        if let Some(after) = m.shutdown_after_unsuccessful_join {
            positive("membership.shutdown_after_unsuccessful_join", after)?;
        }
        positive(
            "membership.quarantine_removed_node_after",
            m.quarantine_removed_node_after,
        )?;
        at_least_one("membership.min_nr_of_members", m.min_nr_of_members)?;
        for (role, count) in &m.min_nr_of_members_per_role {
            let entry = (role, count);
            ensure(
                *count >= 1,
                "membership.min_nr_of_members_per_role",
                &entry,
                "at least 1",
            )?;
        }
        let p = m.gossip_different_view_probability;
        ensure(
            (0.0..=1.0).contains(&p),
            "membership.gossip_different_view_probability",
            &p,
            "0 to 1",
        )?;
        let from = m.reduce_gossip_different_view_probability;
        at_least_one("membership.reduce_gossip_different_view_probability", from)
    }

    fn check_failure_detector(&self) -> Result<(), ConfigError> {
        let d = &self.failure_detector;
        positive("failure_detector.heartbeat_interval", d.heartbeat_interval)?;
        positive("failure_detector.min_std_deviation", d.min_std_deviation)?;
        positive(
            "failure_detector.expected_response_after",
            d.expected_response_after,
        )?;
        let reaper = d.unreachable_nodes_reaper_interval;
        positive("failure_detector.unreachable_nodes_reaper_interval", reaper)?;
        let legal = d.threshold.is_finite() && d.threshold > 0.0;
        ensure(
            legal,
            "failure_detector.threshold",
            &d.threshold,
            "a finite number above 0",
        )?;
        within(
            "failure_detector.max_sample_size",
            d.max_sample_size,
            (1, 10_000),
            "1 to 10000",
        )?;
        at_least_one(
            "failure_detector.monitored_by_nr_of_members",
            d.monitored_by_nr_of_members,
        )
    }

    fn check_sharding(&self) -> Result<(), ConfigError> {
        let s = &self.sharding;
        positive("sharding.retry_interval", s.retry_interval)?;
        positive("sharding.handoff_timeout", s.handoff_timeout)?;
        positive("sharding.shard_start_timeout", s.shard_start_timeout)?;
        positive("sharding.rebalance_interval", s.rebalance_interval)?;
        at_least_one("sharding.buffer_messages_max", s.buffer_messages_max)?;
        at_least_one("sharding.buffer_bytes_max", s.buffer_bytes_max)?;
        at_least_one("sharding.rebalance_absolute_limit", s.rebalance_absolute_limit)?;
        at_least_one("sharding.open_asks_max", s.open_asks_max)?;
        let r = s.rebalance_relative_limit;
        ensure(
            r > 0.0 && r <= 1.0,
            "sharding.rebalance_relative_limit",
            &r,
            "above 0, at most 1",
        )
    }

    fn check_limits(&self) -> Result<(), ConfigError> {
        const FRAME: ((usize, usize), &str) = ((1 << 10, 16 << 20), "1024 to 16777216 bytes");
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
            FRAME.0,
            FRAME.1,
        )?;
        within(
            "limits.user_frame_bytes_max",
            l.user_frame_bytes_max,
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
        positive("limits.handshake_timeout", l.handshake_timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DownAllWhenUnstable, DowningConfig, LeaseMajorityConfig};
    use crate::downing::view::IndirectRule;
    use crate::ident::{ClusterName, Role};

    fn lan() -> Config {
        Config::lan(ClusterName::new("test").unwrap())
    }

    #[test]
    fn the_presets_are_legal() {
        lan().validate().unwrap();
        Config::fast(ClusterName::new("test").unwrap())
            .validate()
            .unwrap();
    }

    #[test]
    fn a_refused_setting_names_its_key_value_and_range() {
        let mut config = lan();
        config.membership.gossip_interval = Duration::ZERO;
        let error = config.validate().unwrap_err();
        assert_eq!(
            (error.key, error.value.as_str()),
            ("membership.gossip_interval", "0ns")
        );
        let mut config = lan();
        config.membership.gossip_different_view_probability = 1.5;
        let error = config.validate().unwrap_err();
        assert_eq!(
            (error.key, error.legal),
            ("membership.gossip_different_view_probability", "0 to 1")
        );
        let mut config = lan();
        config.failure_detector.threshold = f64::NAN;
        assert_eq!(config.validate().unwrap_err().key, "failure_detector.threshold");
    }

    /// A setting made illegal.
    type Spoil = fn(&mut Config);

    #[test]
    fn every_setting_outside_of_its_range_is_refused_by_its_key() {
        let cases: &[(&str, Spoil)] = &[
            ("membership.gossip_interval", |c| {
                c.membership.gossip_interval = Duration::ZERO
            }),
            ("membership.gossip_interval", |c| {
                c.membership.gossip_interval = Duration::MAX
            }),
            ("membership.leader_actions_interval", |c| {
                c.membership.leader_actions_interval = Duration::ZERO
            }),
            ("membership.periodic_tasks_initial_delay", |c| {
                c.membership.periodic_tasks_initial_delay = Duration::ZERO
            }),
            ("membership.seed_node_timeout", |c| {
                c.membership.seed_node_timeout = Duration::ZERO
            }),
            ("membership.retry_unsuccessful_join_after", |c| {
                c.membership.retry_unsuccessful_join_after = Duration::ZERO
            }),
            ("membership.prune_gossip_tombstones_after", |c| {
                c.membership.prune_gossip_tombstones_after = Duration::ZERO
            }),
            ("membership.exit_drain_timeout", |c| {
                c.membership.exit_drain_timeout = Duration::ZERO
            }),
            ("membership.exiting_timeout", |c| {
                c.membership.exiting_timeout = Duration::ZERO
            }),
            ("membership.allow_weakly_up_members", |c| {
                c.membership.allow_weakly_up_members = Some(Duration::ZERO)
            }),
            ("membership.shutdown_after_unsuccessful_join", |c| {
                c.membership.shutdown_after_unsuccessful_join = Some(Duration::ZERO)
            }),
            ("membership.quarantine_removed_node_after", |c| {
                c.membership.quarantine_removed_node_after = Duration::ZERO
            }),
            ("membership.min_nr_of_members", |c| {
                c.membership.min_nr_of_members = 0
            }),
            ("membership.min_nr_of_members_per_role", |c| {
                c.membership
                    .min_nr_of_members_per_role
                    .insert(Role::new("a").unwrap(), 0);
            }),
            ("membership.gossip_different_view_probability", |c| {
                c.membership.gossip_different_view_probability = -0.1
            }),
            ("membership.gossip_different_view_probability", |c| {
                c.membership.gossip_different_view_probability = f64::NAN
            }),
            ("membership.reduce_gossip_different_view_probability", |c| {
                c.membership.reduce_gossip_different_view_probability = 0
            }),
            ("failure_detector.heartbeat_interval", |c| {
                c.failure_detector.heartbeat_interval = Duration::ZERO
            }),
            ("failure_detector.min_std_deviation", |c| {
                c.failure_detector.min_std_deviation = Duration::ZERO
            }),
            ("failure_detector.expected_response_after", |c| {
                c.failure_detector.expected_response_after = Duration::ZERO
            }),
            ("failure_detector.unreachable_nodes_reaper_interval", |c| {
                c.failure_detector.unreachable_nodes_reaper_interval = Duration::ZERO
            }),
            ("failure_detector.threshold", |c| {
                c.failure_detector.threshold = 0.0
            }),
            ("failure_detector.threshold", |c| {
                c.failure_detector.threshold = f64::INFINITY
            }),
            ("failure_detector.max_sample_size", |c| {
                c.failure_detector.max_sample_size = 0
            }),
            ("failure_detector.max_sample_size", |c| {
                c.failure_detector.max_sample_size = 10_001
            }),
            ("failure_detector.monitored_by_nr_of_members", |c| {
                c.failure_detector.monitored_by_nr_of_members = 0
            }),
            ("downing.stable_after", |c| {
                c.downing.stable_after = Duration::ZERO
            }),
            ("sharding.retry_interval", |c| {
                c.sharding.retry_interval = Duration::ZERO
            }),
            ("sharding.handoff_timeout", |c| {
                c.sharding.handoff_timeout = Duration::ZERO
            }),
            ("sharding.shard_start_timeout", |c| {
                c.sharding.shard_start_timeout = Duration::ZERO
            }),
            ("sharding.rebalance_interval", |c| {
                c.sharding.rebalance_interval = Duration::ZERO
            }),
            ("sharding.buffer_messages_max", |c| {
                c.sharding.buffer_messages_max = 0
            }),
            ("sharding.buffer_bytes_max", |c| c.sharding.buffer_bytes_max = 0),
            ("sharding.rebalance_absolute_limit", |c| {
                c.sharding.rebalance_absolute_limit = 0
            }),
            ("sharding.rebalance_relative_limit", |c| {
                c.sharding.rebalance_relative_limit = 0.0
            }),
            ("sharding.rebalance_relative_limit", |c| {
                c.sharding.rebalance_relative_limit = 1.1
            }),
            ("sharding.open_asks_max", |c| c.sharding.open_asks_max = 0),
            ("limits.control_frame_bytes_max", |c| {
                c.limits.control_frame_bytes_max = 1_023
            }),
            ("limits.gossip_frame_bytes_max", |c| {
                c.limits.gossip_frame_bytes_max = (16 << 20) + 1
            }),
            ("limits.user_frame_bytes_max", |c| {
                c.limits.user_frame_bytes_max = 0
            }),
            ("limits.decompressed_bytes_max", |c| {
                c.limits.decompressed_bytes_max = (64 << 10) - 1
            }),
            ("limits.members_max", |c| c.limits.members_max = 10_001),
            ("limits.tombstones_max", |c| c.limits.tombstones_max = 0),
            ("limits.reachability_records_per_member_max", |c| {
                c.limits.reachability_records_per_member_max = 0
            }),
            ("limits.entity_id_bytes_max", |c| {
                c.limits.entity_id_bytes_max = 4_097
            }),
            ("limits.handshake_timeout", |c| {
                c.limits.handshake_timeout = Duration::ZERO
            }),
            ("roles / data_center", |c| c.data_center = String::new()),
            ("roles / data_center", |c| {
                c.roles = (0..32)
                    .map(|n| Role::new(&alloc::format!("r{n}")).unwrap())
                    .collect();
            }),
        ];
        for (key, spoil) in cases {
            let mut config = lan();
            spoil(&mut config);
            let error = config.validate().unwrap_err();
            assert_eq!(error.key, *key);
            assert!(!error.value.is_empty() && !error.legal.is_empty(), "{key}");
            assert!(
                alloc::format!("{error}").starts_with(&alloc::format!("{key} = ")),
                "{error}"
            );
        }
        // A role of the reserved form cannot even be named.
        assert!(Role::new("dc-x").is_err());
    }

    #[test]
    fn an_interval_shorter_than_the_clock_can_count_is_refused() {
        let mut config = lan();
        config.failure_detector.heartbeat_interval = Duration::from_nanos(999);
        let error = config.validate().unwrap_err();
        assert_eq!(error.key, "failure_detector.heartbeat_interval");
    }

    #[test]
    fn m_370_the_removal_margin_is_stable_after_unless_set() {
        let mut config = lan();
        assert_eq!(
            config.clone().validate().unwrap().removal_margin(),
            Duration::from_secs(20)
        );
        config.downing.strategy = DowningStrategy::Off;
        assert_eq!(
            config.clone().validate().unwrap().removal_margin(),
            Duration::ZERO
        );
        config.downing.down_removal_margin = Some(Duration::from_secs(3));
        assert_eq!(
            config.validate().unwrap().removal_margin(),
            Duration::from_secs(3)
        );
    }

    #[test]
    fn nodes_with_different_strategies_are_incompatible() {
        let role = |name: &str| Some(Role::new(name).unwrap());
        let oldest = |down_if_alone| DowningStrategy::KeepOldest {
            down_if_alone,
            role: None,
        };
        let lease = |name: &str| {
            DowningStrategy::LeaseMajority(LeaseMajorityConfig {
                lease_name: Some(name.into()),
                ..LeaseMajorityConfig::default()
            })
        };
        let strategies = [
            DowningStrategy::Off,
            DowningStrategy::KeepMajority { role: None },
            DowningStrategy::KeepMajority { role: role("a") },
            DowningStrategy::StaticQuorum {
                quorum: 2,
                role: None,
            },
            DowningStrategy::StaticQuorum {
                quorum: 3,
                role: None,
            },
            DowningStrategy::StaticQuorum {
                quorum: 3,
                role: role("a"),
            },
            oldest(true),
            oldest(false),
            DowningStrategy::DownAll,
            DowningStrategy::AutoDown,
            lease("a"),
            lease("b"),
        ];
        let digest = |change: &dyn Fn(&mut Config)| {
            let mut config = lan();
            change(&mut config);
            config.validate().unwrap().compatibility_digest()
        };
        let mut digests: alloc::collections::BTreeSet<u64> = strategies
            .iter()
            .map(|strategy| digest(&|config| config.downing.strategy = strategy.clone()))
            .collect();
        digests.insert(digest(&|config| config.downing.rule = IndirectRule::CascadeSafe));
        digests.insert(digest(&|config| {
            config.downing.down_all_when_indirectly_connected = None
        }));
        assert_eq!(digests.len(), strategies.len() + 2);
        // What one node alone may set differently.
        assert!(digests.contains(&digest(
            &|config| config.downing.stable_after = Duration::from_secs(7)
        )));
    }

    #[test]
    fn downing_settings_that_cannot_work_are_refused() {
        let refused = |change: &dyn Fn(&mut DowningConfig)| {
            let mut config = lan();
            change(&mut config.downing);
            config.validate().map(|_| ()).map_err(|error| error.key)
        };
        let lease = |change: &dyn Fn(&mut LeaseMajorityConfig)| {
            let mut lease = LeaseMajorityConfig::default();
            change(&mut lease);
            refused(&|config| config.strategy = DowningStrategy::LeaseMajority(lease.clone()))
        };
        let quorum = |quorum| {
            refused(&|config| config.strategy = DowningStrategy::StaticQuorum { quorum, role: None })
        };
        assert_eq!((quorum(0), quorum(1)), (Err("downing.strategy.quorum"), Ok(())));
        for share in [0.0, -1.0, 1.01, f64::NAN] {
            assert_eq!(
                refused(&|config| config.down_all_when_indirectly_connected = Some(share)),
                Err("downing.down_all_when_indirectly_connected")
            );
        }
        assert_eq!(
            refused(&|config| config.down_all_when_indirectly_connected = Some(1.0)),
            Ok(())
        );
        assert_eq!(
            refused(&|config| {
                config.down_all_when_unstable = DownAllWhenUnstable::After(Duration::ZERO);
            }),
            Err("downing.down_all_when_unstable")
        );
        assert_eq!(
            lease(&|lease| lease.acquire_lease_delay_for_minority = Duration::ZERO),
            Ok(())
        );
        assert_eq!(
            lease(&|lease| lease.release_after = Duration::ZERO),
            Err("downing.strategy.release_after")
        );
        assert_eq!(
            lease(&|lease| lease.time_to_live = Duration::ZERO),
            Err("downing.strategy.time_to_live")
        );
        assert_eq!(
            lease(&|lease| lease.operation_timeout = Duration::ZERO),
            Err("downing.strategy.operation_timeout")
        );
        for name in [String::new(), "x".repeat(64)] {
            assert_eq!(
                lease(&|lease| lease.lease_name = Some(name.clone())),
                Err("downing.strategy.lease_name")
            );
        }
    }
}
