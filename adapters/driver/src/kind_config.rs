//! Time limits, buffers and pauses of a kind of entities on this node, in the place of those of the
//! configuration. Nothing is decided here: the core checks them when the kind is registered, in the ranges of
//! the node's.

use std::time::Duration;

use quorate_core::sharding::remember::EntityRecovery;

use crate::kind::Kind;

impl<M, R> Kind<M, R> {
    /// How often an unanswered registration or question for a home is repeated (default:
    /// `sharding.retry_interval`). Each node has its own, as of all settings that have a default in the
    /// configuration but [`Self::store_mode`]. Mirrors `retry-interval`.
    #[must_use]
    pub const fn retry_interval(mut self, interval: Duration) -> Self {
        self.config.retry_interval = Some(interval);
        self
    }

    /// Messages that this node keeps while it does not know where they go (default:
    /// `sharding.buffer_messages_max`). What other nodes send is bounded by the node's setting too, for all
    /// kinds together. Mirrors `buffer-size`.
    #[must_use]
    pub const fn buffer_messages_max(mut self, messages: usize) -> Self {
        self.config.buffer_messages_max = Some(messages);
        self
    }

    /// Payload bytes of those messages (default: `sharding.buffer_bytes_max`).
    #[must_use]
    pub const fn buffer_bytes_max(mut self, bytes: usize) -> Self {
        self.config.buffer_bytes_max = Some(bytes);
        self
    }

    /// Messages without an answer whose callers wait for room in that buffer (default:
    /// `sharding.buffer_waiting_max`).
    #[must_use]
    pub const fn buffer_waiting_max(mut self, messages: usize) -> Self {
        self.config.buffer_waiting_max = Some(messages);
        self
    }

    /// How long a hand-off may take before the shard keeps its old home (default:
    /// `sharding.handoff_timeout`). What the oldest member of the kind's role says counts. Mirrors
    /// `handoff-timeout`.
    #[must_use]
    pub const fn handoff_timeout(mut self, timeout: Duration) -> Self {
        self.config.handoff_timeout = Some(timeout);
        self
    }

    /// When a region that has not confirmed a shard is told again (default: `sharding.shard_start_timeout`).
    /// What the oldest member of the kind's role says counts. Mirrors `shard-start-timeout`.
    #[must_use]
    pub const fn shard_start_timeout(mut self, timeout: Duration) -> Self {
        self.config.shard_start_timeout = Some(timeout);
        self
    }

    /// How often the balance is looked at (default: `sharding.rebalance_interval`). What the oldest member of
    /// the kind's role says counts. How much one look may move is part of [`Self::allocation`]. Mirrors
    /// `rebalance-interval`.
    #[must_use]
    pub const fn rebalance_interval(mut self, interval: Duration) -> Self {
        self.config.rebalance_interval = Some(interval);
        self
    }

    /// How a shard that begins starts the entities that it remembers (default: `sharding.entity_recovery`).
    /// Mirrors `entity-recovery-strategy`.
    #[must_use]
    pub const fn entity_recovery(mut self, recovery: EntityRecovery) -> Self {
        self.config.entity_recovery = Some(recovery);
        self
    }

    /// When a remembered entity that ended by itself is started again (default:
    /// `sharding.entity_restart_backoff`). Mirrors `entity-restart-backoff`.
    #[must_use]
    pub const fn entity_restart_backoff(mut self, backoff: Duration) -> Self {
        self.config.entity_restart_backoff = Some(backoff);
        self
    }

    /// When a shard begins again whose store has failed it (default: `sharding.shard_failure_backoff`).
    /// Mirrors `shard-failure-backoff`.
    #[must_use]
    pub const fn shard_failure_backoff(mut self, backoff: Duration) -> Self {
        self.config.shard_failure_backoff = Some(backoff);
        self
    }

    /// When a coordinator begins anew that its store has refused (default:
    /// `sharding.coordinator_failure_backoff`). Mirrors `coordinator-failure-backoff`.
    #[must_use]
    pub const fn coordinator_failure_backoff(mut self, backoff: Duration) -> Self {
        self.config.coordinator_failure_backoff = Some(backoff);
        self
    }

    /// How long a store may take to say what it has (default: `sharding.waiting_for_state_timeout`). Mirrors
    /// `waiting-for-state-timeout`.
    #[must_use]
    pub const fn waiting_for_state_timeout(mut self, timeout: Duration) -> Self {
        self.config.waiting_for_state_timeout = Some(timeout);
        self
    }

    /// How long a store may take to keep something (default: `sharding.updating_state_timeout`). Mirrors
    /// `updating-state-timeout`.
    #[must_use]
    pub const fn updating_state_timeout(mut self, timeout: Duration) -> Self {
        self.config.updating_state_timeout = Some(timeout);
        self
    }

    /// Changes that are kept as events before a snapshot takes their place (default:
    /// `sharding.snapshot_after`). Mirrors `snapshot-after`.
    #[must_use]
    pub const fn snapshot_after(mut self, changes: usize) -> Self {
        self.config.snapshot_after = Some(changes);
        self
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::config::KindConfig;

    use super::*;

    #[test]
    fn what_the_builder_is_told_is_what_the_core_hears() {
        let second = Duration::from_secs;
        let kind = Kind::<u64, ()>::new("cart")
            .retry_interval(second(1))
            .buffer_messages_max(2)
            .buffer_bytes_max(3)
            .buffer_waiting_max(4)
            .handoff_timeout(second(5))
            .shard_start_timeout(second(6))
            .rebalance_interval(second(7))
            .entity_recovery(EntityRecovery::All)
            .entity_restart_backoff(second(8))
            .shard_failure_backoff(second(9))
            .coordinator_failure_backoff(second(10))
            .waiting_for_state_timeout(second(11))
            .updating_state_timeout(second(12))
            .snapshot_after(13);
        let expected = KindConfig {
            retry_interval: Some(second(1)),
            buffer_messages_max: Some(2),
            buffer_bytes_max: Some(3),
            buffer_waiting_max: Some(4),
            handoff_timeout: Some(second(5)),
            shard_start_timeout: Some(second(6)),
            rebalance_interval: Some(second(7)),
            entity_recovery: Some(EntityRecovery::All),
            entity_restart_backoff: Some(second(8)),
            shard_failure_backoff: Some(second(9)),
            coordinator_failure_backoff: Some(second(10)),
            waiting_for_state_timeout: Some(second(11)),
            updating_state_timeout: Some(second(12)),
            snapshot_after: Some(13),
        };
        assert_eq!(
            kind.clone().settings(true).map(|settings| *settings.config),
            Ok(expected)
        );
        let plain = Kind::<u64, ()>::new("cart").settings(true);
        assert_eq!(plain.map(|settings| *settings.config), Ok(KindConfig::default()));
    }
}
