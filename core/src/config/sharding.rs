//! Settings of regions and coordinators, and their check. Spec: sharding 4.1.

use core::time::Duration;

use super::ConfigError;
use super::ranges::{at_least_one, ensure, positive};
use crate::sharding::state::allocation::SimultaneousLimits;
use crate::sharding::state::fields::StoreMode;
use crate::sharding::state::passivation::PassivationSettings;
use crate::sharding::state::remember::EntityRecovery;

/// Settings of regions and coordinators.
#[derive(Clone, Debug)]
pub struct ShardingConfig {
    /// How often a region repeats an unanswered registration or location request (default 2 s). Mirrors
    /// `retry-interval`.
    pub retry_interval: Duration,
    /// Messages one region may buffer while it does not know where they go (default 100,000, >= 1). Past it
    /// messages of other nodes go back to them. Mirrors `buffer-size`.
    pub buffer_messages_max: usize,
    /// Payload bytes one region may buffer (default 64 MiB, >= 1), with the same past it.
    pub buffer_bytes_max: usize,
    /// Messages of `tell` that one region keeps beyond its buffer, because their callers wait for room or
    /// they were in transit when it became full (default 8,192, >= 0). Past it the newest is refused. Asks
    /// wait too, up to `open_asks_max`.
    pub buffer_waiting_max: usize,
    /// How long a hand-off may take before the shard keeps its old home (default 60 s). Mirrors
    /// `handoff-timeout`.
    pub handoff_timeout: Duration,
    /// After how long an unconfirmed order to start a shard is repeated (default 10 s). Mirrors
    /// `shard-start-timeout`.
    pub shard_start_timeout: Duration,
    /// Time between two looks at the balance (default 10 s). Mirrors `rebalance-interval`.
    pub rebalance_interval: Duration,
    /// Most shards moved in one round (default 1000; 0: the older algorithm, which moves a few shards at a
    /// time and reads `rebalance_threshold` and `rebalance_max_simultaneous` instead). Kinds may have
    /// strategies of their own. Mirrors `rebalance-absolute-limit`, whose default is 0.
    pub rebalance_absolute_limit: usize,
    /// Most shards moved in one round, as a share of all shards (default 0.1, > 0 to 1). Mirrors
    /// `rebalance-relative-limit`.
    pub rebalance_relative_limit: f64,
    /// With the older algorithm, largest difference between the fullest and the emptiest region at which
    /// nothing moves (default 1, >= 1). Mirrors `least-shard-allocation-strategy.rebalance-threshold`.
    pub rebalance_threshold: usize,
    /// With the older algorithm, shards that move at once (default 3, >= 1). Mirrors
    /// `least-shard-allocation-strategy.max-simultaneous-rebalance`.
    pub rebalance_max_simultaneous: usize,
    /// How long a strategy of the application (`AllocationSettings::Asked`) may take to answer (default 5 s).
    /// After that shards go to the regions that asked for them, and nothing moves.
    pub allocation_timeout: Duration,
    /// When entities are taken out of memory (default after 120 s without a message, looked at every 60 s; no
    /// limit). A kind may have settings of its own. Mirrors `passivation.strategy`, and with
    /// `LimitSettings::default()` `passivation.default-strategy`.
    pub passivation: PassivationSettings,
    /// How a shard that begins starts the entities it remembers (default all at once; at a constant rate the
    /// frequency is > 0 and the number >= 1). Mirrors `entity-recovery-strategy` and
    /// `entity-recovery-constant-rate-strategy`.
    pub entity_recovery: EntityRecovery,
    /// After how long a remembered entity that crashed is started again without a message (default 10 s).
    /// Mirrors `entity-restart-backoff`.
    pub entity_restart_backoff: Duration,
    /// After how long a shard restarts that could not read or store its entities' ids (default 10 s). Mirrors
    /// `shard-failure-backoff`.
    pub shard_failure_backoff: Duration,
    /// Time limit of each of 15 attempts to read a shard's entities; also after how long a coordinator
    /// reports that its state is not read, and again whenever that has doubled (default 2 s). Mirrors
    /// `waiting-for-state-timeout`.
    pub waiting_for_state_timeout: Duration,
    /// The same for writes (default 5 s). Mirrors `updating-state-timeout`.
    pub updating_state_timeout: Duration,
    /// Whether an invalid transition of an entity's state fails its shard; otherwise it is counted
    /// (`entity_transitions_invalid`) (default false). Mirrors `fail-on-invalid-entity-state-transition`.
    pub fail_on_invalid_entity_state_transition: bool,
    /// Where coordinators keep which shard lives where (default in memory; the two others need
    /// `journal.voters`). Kinds may have a mode of their own; the same on every node. Mirrors
    /// `state-store-mode`, whose default is `ddata`.
    pub state_store_mode: StoreMode,
    /// After how long a coordinator begins anew whose store has refused it because another one has written
    /// (default 5 s); after further refusals up to five times as long, plus up to a fifth at random. Mirrors
    /// `coordinator-failure-backoff`.
    pub coordinator_failure_backoff: Duration,
    /// Changes of a coordinator's state, and of a shard's entities, before a snapshot replaces them (default
    /// 1000, >= 1), where they are kept as events. Mirrors `snapshot-after`.
    pub snapshot_after: usize,
    /// Ids of entities in one write, where they are remembered as events (default 100, >= 1); the rest is the
    /// next write. Mirrors `event-sourced-remember-entities-store.max-updates-per-write`.
    pub remember_updates_per_write: usize,
    /// How long shards that nobody runs wait for the node of their stored home before another one is chosen
    /// (default 10 s; the removal margin if that is longer).
    pub home_return_timeout: Duration,
    /// How often a denied lease of a shard is requested again (default 5 s). Mirrors `lease-retry-interval`.
    pub lease_retry_interval: Duration,
    /// Silence of its owner after which another node may have a shard's lease (default 120 s). Mirrors the
    /// lease's `heartbeat-timeout`.
    pub lease_time_to_live: Duration,
    /// How often daemons are checked: one that has ended restarts within this time (default 10 s). Mirrors
    /// `sharded-daemon-process.keep-alive-interval`.
    pub daemon_keep_alive_interval: Duration,
    /// Asks of this node that may wait for an answer at once (default 100,000, >= 1); it also bounds the
    /// replies that peers may send.
    pub open_asks_max: usize,
    /// Watches of entities and nodes that this node may have open (default 16,384, >= 1): each takes a few
    /// hundred bytes here and at the entity's home.
    pub watches_max: usize,
    /// Watches, by all nodes together, of one entity of this node (default 1,024, >= 1).
    pub watchers_per_entity_max: usize,
    /// How often statements about watches are repeated until they are acknowledged (default 1 s). Mirrors
    /// `resend-interval` of Akka's system messages.
    pub watch_resend_interval: Duration,
}

impl Default for ShardingConfig {
    fn default() -> Self {
        Self {
            retry_interval: Duration::from_secs(2),
            buffer_messages_max: 100_000,
            buffer_bytes_max: 64 << 20,
            buffer_waiting_max: 8_192,
            handoff_timeout: Duration::from_secs(60),
            shard_start_timeout: Duration::from_secs(10),
            rebalance_interval: Duration::from_secs(10),
            rebalance_absolute_limit: 1000,
            rebalance_relative_limit: 0.1,
            rebalance_threshold: SimultaneousLimits::default().threshold,
            rebalance_max_simultaneous: SimultaneousLimits::default().simultaneous,
            allocation_timeout: Duration::from_secs(5),
            passivation: PassivationSettings::default(),
            entity_recovery: EntityRecovery::All,
            entity_restart_backoff: Duration::from_secs(10),
            shard_failure_backoff: Duration::from_secs(10),
            waiting_for_state_timeout: Duration::from_secs(2),
            updating_state_timeout: Duration::from_secs(5),
            fail_on_invalid_entity_state_transition: false,
            state_store_mode: StoreMode::Memory,
            coordinator_failure_backoff: Duration::from_secs(5),
            snapshot_after: 1000,
            remember_updates_per_write: 100,
            home_return_timeout: Duration::from_secs(10),
            lease_retry_interval: Duration::from_secs(5),
            lease_time_to_live: Duration::from_secs(120),
            daemon_keep_alive_interval: Duration::from_secs(10),
            open_asks_max: 100_000,
            watches_max: 16_384,
            watchers_per_entity_max: 1_024,
            watch_resend_interval: Duration::from_secs(1),
        }
    }
}

impl ShardingConfig {
    /// Timings for one machine; see [`super::Config::fast`].
    pub(super) fn fast() -> Self {
        Self {
            retry_interval: Duration::from_millis(200),
            handoff_timeout: Duration::from_millis(10_000),
            shard_start_timeout: Duration::from_millis(1_000),
            rebalance_interval: Duration::from_millis(500),
            coordinator_failure_backoff: Duration::from_millis(500),
            daemon_keep_alive_interval: Duration::from_millis(500),
            rebalance_relative_limit: 0.5,
            entity_restart_backoff: Duration::from_millis(1_000),
            shard_failure_backoff: Duration::from_millis(1_000),
            watch_resend_interval: Duration::from_millis(200),
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        positive("sharding.retry_interval", self.retry_interval)?;
        positive("sharding.handoff_timeout", self.handoff_timeout)?;
        positive("sharding.shard_start_timeout", self.shard_start_timeout)?;
        positive("sharding.rebalance_interval", self.rebalance_interval)?;
        positive(
            "sharding.waiting_for_state_timeout",
            self.waiting_for_state_timeout,
        )?;
        positive("sharding.updating_state_timeout", self.updating_state_timeout)?;
        positive(
            "sharding.coordinator_failure_backoff",
            self.coordinator_failure_backoff,
        )?;
        positive("sharding.home_return_timeout", self.home_return_timeout)?;
        at_least_one("sharding.snapshot_after", self.snapshot_after)?;
        positive("sharding.allocation_timeout", self.allocation_timeout)?;
        at_least_one(
            "sharding.remember_updates_per_write",
            self.remember_updates_per_write,
        )?;
        positive("sharding.lease_retry_interval", self.lease_retry_interval)?;
        positive("sharding.lease_time_to_live", self.lease_time_to_live)?;
        positive(
            "sharding.daemon_keep_alive_interval",
            self.daemon_keep_alive_interval,
        )?;
        at_least_one("sharding.buffer_messages_max", self.buffer_messages_max)?;
        at_least_one("sharding.buffer_bytes_max", self.buffer_bytes_max)?;
        at_least_one("sharding.rebalance_threshold", self.rebalance_threshold)?;
        at_least_one(
            "sharding.rebalance_max_simultaneous",
            self.rebalance_max_simultaneous,
        )?;
        at_least_one("sharding.open_asks_max", self.open_asks_max)?;
        positive("sharding.entity_restart_backoff", self.entity_restart_backoff)?;
        positive("sharding.shard_failure_backoff", self.shard_failure_backoff)?;
        positive(
            "sharding.waiting_for_state_timeout",
            self.waiting_for_state_timeout,
        )?;
        positive("sharding.updating_state_timeout", self.updating_state_timeout)?;
        if let EntityRecovery::ConstantRate { frequency, entities } = self.entity_recovery {
            positive("sharding.entity_recovery", frequency)?;
            at_least_one("sharding.entity_recovery", entities)?;
        }
        at_least_one("sharding.watches_max", self.watches_max)?;
        at_least_one("sharding.watchers_per_entity_max", self.watchers_per_entity_max)?;
        positive("sharding.watch_resend_interval", self.watch_resend_interval)?;
        let r = self.rebalance_relative_limit;
        ensure(
            r > 0.0 && r <= 1.0,
            "sharding.rebalance_relative_limit",
            &r,
            "above 0, at most 1",
        )
    }
}
