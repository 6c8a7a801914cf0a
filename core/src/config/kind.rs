//! Settings of sharding that one kind of entities may have in the place of the node's. Each node has its own:
//! members do not compare them. Spec: sharding 4.1.

use core::time::Duration;

use super::{ConfigError, ShardingConfig};
use crate::sharding::state::remember::EntityRecovery;

/// Settings of one kind on this node, with the ranges of [`ShardingConfig`]; `None`: as that says. What must
/// be the same on every node is not among them: those are fields of
/// [`KindSettings`](crate::input::KindSettings), and compared before the kind is hosted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindConfig {
    /// `sharding.retry_interval`.
    pub retry_interval: Option<Duration>,
    /// `sharding.buffer_messages_max`. What other nodes send is bounded by the node's as well, for all kinds
    /// together.
    pub buffer_messages_max: Option<usize>,
    /// `sharding.buffer_bytes_max`, likewise.
    pub buffer_bytes_max: Option<usize>,
    /// `sharding.buffer_waiting_max`.
    pub buffer_waiting_max: Option<usize>,
    /// `sharding.handoff_timeout`. The coordinator's limits a hand-off, each region's how long what stops
    /// otherwise may take.
    pub handoff_timeout: Option<Duration>,
    /// `sharding.shard_start_timeout`. The coordinator's counts.
    pub shard_start_timeout: Option<Duration>,
    /// `sharding.rebalance_interval`. The coordinator's counts.
    pub rebalance_interval: Option<Duration>,
    /// `sharding.entity_recovery`.
    pub entity_recovery: Option<EntityRecovery>,
    /// `sharding.entity_restart_backoff`.
    pub entity_restart_backoff: Option<Duration>,
    /// `sharding.shard_failure_backoff`.
    pub shard_failure_backoff: Option<Duration>,
    /// `sharding.coordinator_failure_backoff`.
    pub coordinator_failure_backoff: Option<Duration>,
    /// `sharding.waiting_for_state_timeout`.
    pub waiting_for_state_timeout: Option<Duration>,
    /// `sharding.updating_state_timeout`.
    pub updating_state_timeout: Option<Duration>,
    /// `sharding.snapshot_after`.
    pub snapshot_after: Option<usize>,
}

impl KindConfig {
    /// The node's settings with these in their places.
    pub(crate) fn over(&self, node: &ShardingConfig) -> ShardingConfig {
        let mut all = node.clone();
        put(&mut all.retry_interval, self.retry_interval);
        put(&mut all.buffer_messages_max, self.buffer_messages_max);
        put(&mut all.buffer_bytes_max, self.buffer_bytes_max);
        put(&mut all.buffer_waiting_max, self.buffer_waiting_max);
        put(&mut all.handoff_timeout, self.handoff_timeout);
        put(&mut all.shard_start_timeout, self.shard_start_timeout);
        put(&mut all.rebalance_interval, self.rebalance_interval);
        put(&mut all.entity_recovery, self.entity_recovery);
        put(&mut all.entity_restart_backoff, self.entity_restart_backoff);
        put(&mut all.shard_failure_backoff, self.shard_failure_backoff);
        put(
            &mut all.coordinator_failure_backoff,
            self.coordinator_failure_backoff,
        );
        put(&mut all.waiting_for_state_timeout, self.waiting_for_state_timeout);
        put(&mut all.updating_state_timeout, self.updating_state_timeout);
        put(&mut all.snapshot_after, self.snapshot_after);
        all
    }

    /// Whether each is in the node's range for it.
    ///
    /// # Errors
    /// [`ConfigError`] with the node's key, the value and the range.
    pub(crate) fn check(&self, node: &ShardingConfig) -> Result<(), ConfigError> {
        self.over(node).check()
    }
}

fn put<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

#[cfg(test)]
impl KindConfig {
    /// All of these settings, for a kind whose node goes by others.
    pub(crate) fn all_of(config: &ShardingConfig) -> Self {
        Self {
            retry_interval: Some(config.retry_interval),
            buffer_messages_max: Some(config.buffer_messages_max),
            buffer_bytes_max: Some(config.buffer_bytes_max),
            buffer_waiting_max: Some(config.buffer_waiting_max),
            handoff_timeout: Some(config.handoff_timeout),
            shard_start_timeout: Some(config.shard_start_timeout),
            rebalance_interval: Some(config.rebalance_interval),
            entity_recovery: Some(config.entity_recovery),
            entity_restart_backoff: Some(config.entity_restart_backoff),
            shard_failure_backoff: Some(config.shard_failure_backoff),
            coordinator_failure_backoff: Some(config.coordinator_failure_backoff),
            waiting_for_state_timeout: Some(config.waiting_for_state_timeout),
            updating_state_timeout: Some(config.updating_state_timeout),
            snapshot_after: Some(config.snapshot_after),
        }
    }

    /// Takes these settings out of a node's, which has values instead that no test of a machine expects.
    pub(crate) fn taken_from(node: &mut ShardingConfig) -> Self {
        let taken = Self::all_of(node);
        *node = Self::unexpected().over(node);
        taken
    }

    fn unexpected() -> Self {
        let (hour, many) = (Some(Duration::from_secs(3_600)), Some(1_234_567));
        Self {
            retry_interval: hour,
            buffer_messages_max: many,
            buffer_bytes_max: Some(1 << 30),
            buffer_waiting_max: many,
            handoff_timeout: hour,
            shard_start_timeout: hour,
            rebalance_interval: hour,
            entity_recovery: Some(EntityRecovery::ConstantRate {
                frequency: Duration::from_secs(3_600),
                entities: 1,
            }),
            entity_restart_backoff: hour,
            shard_failure_backoff: hour,
            coordinator_failure_backoff: hour,
            waiting_for_state_timeout: hour,
            updating_state_timeout: hour,
            snapshot_after: many,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_of_a_kind_takes_the_place_of_the_nodes_and_what_is_not_said_stays() {
        let node = ShardingConfig::default();
        let own = KindConfig::unexpected();
        let all = own.over(&node);
        assert_eq!(KindConfig::all_of(&all), own);
        assert_eq!(
            KindConfig::all_of(&KindConfig::default().over(&node)),
            KindConfig::all_of(&node)
        );
        assert_eq!(all.open_asks_max, node.open_asks_max);
        assert_eq!(own.check(&node), Ok(()));
    }

    #[test]
    fn a_setting_of_a_kind_has_the_range_of_the_nodes() {
        let (nothing, zero) = (Some(Duration::ZERO), Some(0));
        let or = KindConfig::default;
        let cases = [
            (
                "sharding.retry_interval",
                KindConfig {
                    retry_interval: nothing,
                    ..or()
                },
            ),
            (
                "sharding.buffer_messages_max",
                KindConfig {
                    buffer_messages_max: zero,
                    ..or()
                },
            ),
            (
                "sharding.buffer_bytes_max",
                KindConfig {
                    buffer_bytes_max: zero,
                    ..or()
                },
            ),
            (
                "sharding.handoff_timeout",
                KindConfig {
                    handoff_timeout: nothing,
                    ..or()
                },
            ),
            (
                "sharding.shard_start_timeout",
                KindConfig {
                    shard_start_timeout: nothing,
                    ..or()
                },
            ),
            (
                "sharding.rebalance_interval",
                KindConfig {
                    rebalance_interval: nothing,
                    ..or()
                },
            ),
            (
                "sharding.entity_recovery",
                KindConfig {
                    entity_recovery: Some(EntityRecovery::ConstantRate {
                        frequency: Duration::from_secs(1),
                        entities: 0,
                    }),
                    ..or()
                },
            ),
            (
                "sharding.entity_restart_backoff",
                KindConfig {
                    entity_restart_backoff: nothing,
                    ..or()
                },
            ),
            (
                "sharding.shard_failure_backoff",
                KindConfig {
                    shard_failure_backoff: nothing,
                    ..or()
                },
            ),
            (
                "sharding.coordinator_failure_backoff",
                KindConfig {
                    coordinator_failure_backoff: nothing,
                    ..or()
                },
            ),
            (
                "sharding.waiting_for_state_timeout",
                KindConfig {
                    waiting_for_state_timeout: nothing,
                    ..or()
                },
            ),
            (
                "sharding.updating_state_timeout",
                KindConfig {
                    updating_state_timeout: nothing,
                    ..or()
                },
            ),
            (
                "sharding.snapshot_after",
                KindConfig {
                    snapshot_after: zero,
                    ..or()
                },
            ),
        ];
        for (key, config) in cases {
            let error = config
                .check(&ShardingConfig::default())
                .map_err(|error| error.key);
            assert_eq!(error, Err(key));
        }
        let none_waits = KindConfig {
            buffer_waiting_max: zero,
            ..or()
        };
        assert_eq!(
            none_waits.check(&ShardingConfig::default()),
            Ok(()),
            "legal, as for the node"
        );
    }
}
