//! Configuration: every key with unit, range, default and the reference setting it mirrors, checked once when it is
//! built. Nothing else in the core checks a setting. Spec: membership 4, sharding 4.1, reliability 3b.

mod agreement;
mod ddata;
mod downing;
mod limits;
mod presets;
#[cfg(test)]
mod tests;
mod validate;

pub use ddata::DdataConfig;
pub use downing::{CustomStrategy, DownAllWhenUnstable, DowningConfig, DowningStrategy, LeaseMajorityConfig};
pub use limits::Limits;
pub use validate::{ConfigError, ValidConfig};

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::agreement::JoinCheckers;
use crate::ident::{ClusterName, Role};
use crate::membership::state::app_version::AppVersion;

/// Settings of one node. Start from a preset ([`Config::lan`], [`Config::fast`]), change fields, then
/// [`Config::validate`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The name all nodes of the cluster share; links between different names are refused.
    pub cluster: ClusterName,
    /// Roles of this node (default none; at most 31, none may start with `dc-`). Mirrors `roles`.
    pub roles: Vec<Role>,
    /// Data center of this node (default `default`). Mirrors `multi-data-center.self-data-center`.
    pub data_center: String,
    /// Version of the application, announced to the others (default 0.0.0). Mirrors `app-version`.
    pub app_version: AppVersion,
    /// Membership.
    pub membership: MembershipConfig,
    /// Failure detection.
    pub failure_detector: FailureDetectorConfig,
    /// What is done about unreachable members.
    pub downing: DowningConfig,
    /// Sharding.
    pub sharding: ShardingConfig,
    /// The executor that runs the application's handlers.
    pub executor: ExecutorConfig,
    /// Replicated data.
    pub ddata: DdataConfig,
    /// Limits on what peers and callers may send.
    pub limits: Limits,
}

/// Settings of gossip, joining and the leader.
#[derive(Clone, Debug)]
pub struct MembershipConfig {
    /// Time between gossip rounds (default 1 s, > 0). Mirrors `gossip-interval`.
    pub gossip_interval: Duration,
    /// Time between leader actions (default 1 s, > 0). Mirrors `leader-actions-interval`.
    pub leader_actions_interval: Duration,
    /// Delay before the first periodic task (default 1 s, > 0; a longer interval waits its own length). Mirrors
    /// `periodic-tasks-initial-delay`.
    pub periodic_tasks_initial_delay: Duration,
    /// How long the first seed waits for the other seeds before it forms a cluster, and how long other nodes wait before
    /// they ask the seeds again (default 5 s, > 0). Mirrors `seed-node-timeout`.
    pub seed_node_timeout: Duration,
    /// How long a joining node waits for its Welcome before it asks again (default 10 s, > 0). Mirrors
    /// `retry-unsuccessful-join-after`.
    pub retry_unsuccessful_join_after: Duration,
    /// Members that must be present before the leader moves any to Up (default 1, >= 1). Mirrors `min-nr-of-members`.
    pub min_nr_of_members: usize,
    /// The same per role (default none). Mirrors `role.<r>.min-nr-of-members`.
    pub min_nr_of_members_per_role: BTreeMap<Role, usize>,
    /// How often a gossip round prefers a node that has not seen the state (default 0.8, 0 to 1). Mirrors
    /// `gossip-different-view-probability`.
    pub gossip_different_view_probability: f64,
    /// Cluster size from which that preference is reduced (default 400, >= 1). Mirrors
    /// `reduce-gossip-different-view-probability`.
    pub reduce_gossip_different_view_probability: usize,
    /// How long the leader keeps the tombstone of a removed member, on its own clock (default 24 h, > 0). Mirrors
    /// `prune-gossip-tombstones-after`.
    pub prune_gossip_tombstones_after: Duration,
    /// How long a leaving or exiting node waits for its shards to be handed over (default 10 s, > 0). Mirrors the timeout
    /// of the `cluster-sharding-shutdown-region` phase.
    pub exit_drain_timeout: Duration,
    /// How long a leaving node that has handed over its work waits for the leader to move it on; after that it goes all
    /// the same, and the others find it unreachable (default 10 s, > 0). Mirrors the timeout of the `cluster-exiting`
    /// phase.
    pub exiting_timeout: Duration,
    /// After how long without convergence the leader admits joining members as WeaklyUp (default 7 s, > 0; `None`: never).
    /// Counted in whole leader ticks. Mirrors `allow-weakly-up-members`.
    pub allow_weakly_up_members: Option<Duration>,
    /// After how long without success a joining node gives up and halts (default `None`: never; > 0). Mirrors
    /// `shutdown-after-unsuccessful-join-seed-nodes`.
    pub shutdown_after_unsuccessful_join: Option<Duration>,
    /// How long after its graceful removal an incarnation is refused by this node's host (default 5 s, > 0); one removed as
    /// Down is refused at once. Mirrors `quarantine-removed-node-after`.
    pub quarantine_removed_node_after: Duration,
    /// Whether a joiner whose settings do not fit stops instead of joining with a warning (default true). Mirrors
    /// `configuration-compatibility-check.enforce-on-join`.
    pub enforce_config_on_join: bool,
    /// Settings of the application that all members have to agree on, and how they are compared (default none; at most 32
    /// settings, those of a strategy of its own included). Mirrors `configuration-compatibility-check.checkers`.
    pub join_checkers: JoinCheckers,
}

/// Settings of heartbeats and the accrual detector.
#[derive(Clone, Debug)]
pub struct FailureDetectorConfig {
    /// Which detector judges silence (default phi accrual). With the deadline detector `threshold`, `max_sample_size` and
    /// `min_std_deviation` mean nothing. Mirrors `failure-detector.implementation`.
    pub implementation: DetectorImplementation,
    /// Time between heartbeats; also the first estimate of their interval (default 1 s, > 0). Mirrors
    /// `failure-detector.heartbeat-interval`.
    pub heartbeat_interval: Duration,
    /// Suspicion level from which a member counts as unreachable (default 8.0, > 0). Mirrors `.threshold`.
    pub threshold: f64,
    /// Heartbeat intervals remembered per member (default 1000, 1 to 10,000). Mirrors `.max-sample-size`.
    pub max_sample_size: usize,
    /// Least standard deviation assumed (default 100 ms, > 0). Mirrors `.min-std-deviation`.
    pub min_std_deviation: Duration,
    /// Silence beyond the expected interval that is forgiven (default 3 s). Mirrors `.acceptable-heartbeat-pause`.
    pub acceptable_heartbeat_pause: Duration,
    /// How many members watch each member (default 9, >= 1). Mirrors `.monitored-by-nr-of-members`.
    pub monitored_by_nr_of_members: usize,
    /// Silence of a member that never answered starts to count after this (default 1 s, > 0). Mirrors
    /// `.expected-response-after`.
    pub expected_response_after: Duration,
    /// Time between two looks at the detector (default 1 s, > 0). Mirrors `unreachable-nodes-reaper-interval`.
    pub unreachable_nodes_reaper_interval: Duration,
}

/// A failure detector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DetectorImplementation {
    /// Grades silence against the intervals a peer has kept so far.
    #[default]
    PhiAccrual,
    /// Silent after the heartbeat interval and the acceptable pause, however regular the peer was.
    Deadline,
}

/// Settings of what a host watches about the executor that runs the application's handlers. The core does not read them.
#[derive(Clone, Debug)]
pub struct ExecutorConfig {
    /// After how long without any progress of the executor, although the node itself runs, the node leaves instead of
    /// keeping its shards (default 30 s, 1 s to 24 h; `None`: never). It is not ready, and says so, after one to two seconds
    /// already. Pauses of the whole process do not count.
    pub stall_timeout: Option<Duration>,
}

/// Settings of regions and coordinators.
#[derive(Clone, Debug)]
pub struct ShardingConfig {
    /// How often a region repeats an unanswered registration or location request (default 2 s, > 0). Mirrors
    /// `retry-interval`.
    pub retry_interval: Duration,
    /// Messages one region may buffer while it does not know where they go (default 100,000, >= 1). Mirrors
    /// `buffer-size`.
    pub buffer_messages_max: usize,
    /// Payload bytes one region may buffer (default 64 MiB, >= 1).
    pub buffer_bytes_max: usize,
    /// How long a hand-off may take before the shard keeps its old home (default 60 s, > 0). Mirrors `handoff-timeout`.
    pub handoff_timeout: Duration,
    /// A region that does not confirm a shard within this time is told again (default 10 s, > 0). Mirrors
    /// `shard-start-timeout`.
    pub shard_start_timeout: Duration,
    /// Time between two looks at the balance (default 10 s, > 0). Mirrors `rebalance-interval`.
    pub rebalance_interval: Duration,
    /// Most shards moved in one round (default 1000, >= 1). Mirrors `rebalance-absolute-limit`, whose zero (the older
    /// algorithm) does not exist here.
    pub rebalance_absolute_limit: usize,
    /// Most shards moved in one round, as a share of all shards (default 0.1, > 0 to 1). Mirrors
    /// `rebalance-relative-limit`.
    pub rebalance_relative_limit: f64,
    /// Asks of this node that may wait for an answer at once (default 100,000, >= 1); it also bounds the replies that
    /// peers may send.
    pub open_asks_max: usize,
}
