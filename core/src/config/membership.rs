//! Settings of gossip, joining and the leader, and their check. Spec: membership 4.

use alloc::collections::BTreeMap;
use core::time::Duration;

use super::ConfigError;
use super::ranges::{at_least_one, ensure, positive};
use crate::admission::state::Admission;
use crate::agreement::JoinCheckers;
use crate::ident::Role;

/// Settings of gossip, joining and the leader.
#[derive(Clone, Debug)]
pub struct MembershipConfig {
    /// Time between gossip rounds (default 1 s). Mirrors `gossip-interval`.
    pub gossip_interval: Duration,
    /// How long gossip may wait between its arrival and its handling; a node that has not come to it by then
    /// drops and counts it, for the next round brings a newer state (default 2 s). Mirrors
    /// `gossip-time-to-live`.
    pub gossip_time_to_live: Duration,
    /// Time between leader actions (default 1 s). Mirrors `leader-actions-interval`.
    pub leader_actions_interval: Duration,
    /// Delay before the first periodic task (default 1 s; a longer interval waits its own length). Mirrors
    /// `periodic-tasks-initial-delay`.
    pub periodic_tasks_initial_delay: Duration,
    /// How long the first seed waits for the other seeds before it forms a cluster, and other nodes before
    /// they report that no seed answers (default 5 s). Seeds are asked every half second, or five times
    /// within it if that is more often. Mirrors `seed-node-timeout`.
    pub seed_node_timeout: Duration,
    /// How long a joining node waits for its Welcome before it asks again (default 10 s). Mirrors
    /// `retry-unsuccessful-join-after`.
    pub retry_unsuccessful_join_after: Duration,
    /// Members that must be present before the leader moves any to Up, and regions of a kind before its first
    /// shard is placed (default 1, >= 1). Mirrors `min-nr-of-members`.
    pub min_nr_of_members: usize,
    /// The same per role (default none). Mirrors `role.<r>.min-nr-of-members`.
    pub min_nr_of_members_per_role: BTreeMap<Role, usize>,
    /// How often a gossip round prefers a node that has not seen the state (default 0.8, 0 to 1). Mirrors
    /// `gossip-different-view-probability`.
    pub gossip_different_view_probability: f64,
    /// Cluster size from which that preference is reduced (default 400, >= 1). Mirrors
    /// `reduce-gossip-different-view-probability`.
    pub reduce_gossip_different_view_probability: usize,
    /// How long the leader keeps the tombstone of a removed member, on its own clock (default 24 h). Mirrors
    /// `prune-gossip-tombstones-after`.
    pub prune_gossip_tombstones_after: Duration,
    /// After how long without convergence the leader admits joining members as WeaklyUp (default 7 s; `None`:
    /// never). Counted in whole leader ticks. Mirrors `allow-weakly-up-members`.
    pub allow_weakly_up_members: Option<Duration>,
    /// After how long without success a joining node gives up and halts (default `None`: never). Mirrors
    /// `shutdown-after-unsuccessful-join-seed-nodes`.
    pub shutdown_after_unsuccessful_join: Option<Duration>,
    /// How long after its graceful removal an incarnation is refused by this node's host (default 5 s); one
    /// removed as Down is refused at once. Mirrors `quarantine-removed-node-after`.
    pub quarantine_removed_node_after: Duration,
    /// Whether a joiner whose settings do not fit stops instead of joining with a warning (default true).
    /// Mirrors `configuration-compatibility-check.enforce-on-join`.
    pub enforce_config_on_join: bool,
    /// Settings of the application that all members have to agree on, and how they are compared (default
    /// none; at most 32). Mirrors `configuration-compatibility-check.checkers`.
    pub join_checkers: JoinCheckers,
    /// Who may join, and remove or down members from another node (default everybody who gets a link). The
    /// same on every node, because each applies its own.
    pub admission: Admission,
}

impl Default for MembershipConfig {
    fn default() -> Self {
        Self {
            gossip_interval: Duration::from_secs(1),
            gossip_time_to_live: Duration::from_secs(2),
            leader_actions_interval: Duration::from_secs(1),
            periodic_tasks_initial_delay: Duration::from_secs(1),
            seed_node_timeout: Duration::from_secs(5),
            retry_unsuccessful_join_after: Duration::from_secs(10),
            min_nr_of_members: 1,
            min_nr_of_members_per_role: BTreeMap::new(),
            gossip_different_view_probability: 0.8,
            reduce_gossip_different_view_probability: 400,
            prune_gossip_tombstones_after: Duration::from_secs(24 * 3600),
            allow_weakly_up_members: Some(Duration::from_secs(7)),
            shutdown_after_unsuccessful_join: None,
            quarantine_removed_node_after: Duration::from_secs(5),
            enforce_config_on_join: true,
            join_checkers: JoinCheckers::default(),
            admission: Admission::default(),
        }
    }
}

impl MembershipConfig {
    /// See [`super::Config::one_data_center`].
    pub(super) fn one_data_center() -> Self {
        Self {
            gossip_interval: Duration::from_millis(250),
            leader_actions_interval: Duration::from_millis(250),
            ..Self::default()
        }
    }

    /// Timings for one machine; see [`super::Config::fast`].
    pub(super) fn fast() -> Self {
        Self {
            gossip_interval: Duration::from_millis(100),
            leader_actions_interval: Duration::from_millis(100),
            periodic_tasks_initial_delay: Duration::from_millis(100),
            seed_node_timeout: Duration::from_millis(1_000),
            retry_unsuccessful_join_after: Duration::from_millis(2_000),
            allow_weakly_up_members: Some(Duration::from_millis(700)),
            quarantine_removed_node_after: Duration::from_millis(1_000),
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        positive("membership.gossip_interval", self.gossip_interval)?;
        positive("membership.gossip_time_to_live", self.gossip_time_to_live)?;
        positive("membership.leader_actions_interval", self.leader_actions_interval)?;
        positive(
            "membership.periodic_tasks_initial_delay",
            self.periodic_tasks_initial_delay,
        )?;
        positive("membership.seed_node_timeout", self.seed_node_timeout)?;
        positive(
            "membership.retry_unsuccessful_join_after",
            self.retry_unsuccessful_join_after,
        )?;
        positive(
            "membership.prune_gossip_tombstones_after",
            self.prune_gossip_tombstones_after,
        )?;
        if let Some(after) = self.allow_weakly_up_members {
            positive("membership.allow_weakly_up_members", after)?;
        }
        if let Some(after) = self.shutdown_after_unsuccessful_join {
            positive("membership.shutdown_after_unsuccessful_join", after)?;
        }
        positive(
            "membership.quarantine_removed_node_after",
            self.quarantine_removed_node_after,
        )?;
        at_least_one("membership.min_nr_of_members", self.min_nr_of_members)?;
        for (role, count) in &self.min_nr_of_members_per_role {
            let entry = (role, count);
            ensure(
                *count >= 1,
                "membership.min_nr_of_members_per_role",
                &entry,
                "at least 1",
            )?;
        }
        let p = self.gossip_different_view_probability;
        ensure(
            (0.0..=1.0).contains(&p),
            "membership.gossip_different_view_probability",
            &p,
            "0 to 1",
        )?;
        let from = self.reduce_gossip_different_view_probability;
        at_least_one("membership.reduce_gossip_different_view_probability", from)
    }
}
