//! The documented defaults and the timing profile for one machine.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::{
    Config, DdataConfig, DetectorImplementation, DowningConfig, ExecutorConfig, FailureDetectorConfig,
    Limits, MembershipConfig, ShardingConfig,
};
use crate::agreement::JoinCheckers;
use crate::ident::{ClusterName, DEFAULT_DATA_CENTER};
use crate::membership::state::app_version::AppVersion;

impl Default for MembershipConfig {
    fn default() -> Self {
        Self {
            gossip_interval: Duration::from_secs(1),
            leader_actions_interval: Duration::from_secs(1),
            periodic_tasks_initial_delay: Duration::from_secs(1),
            seed_node_timeout: Duration::from_secs(5),
            retry_unsuccessful_join_after: Duration::from_secs(10),
            min_nr_of_members: 1,
            min_nr_of_members_per_role: BTreeMap::new(),
            gossip_different_view_probability: 0.8,
            reduce_gossip_different_view_probability: 400,
            prune_gossip_tombstones_after: Duration::from_secs(24 * 3600),
            exit_drain_timeout: Duration::from_secs(10),
            exiting_timeout: Duration::from_secs(10),
            allow_weakly_up_members: Some(Duration::from_secs(7)),
            shutdown_after_unsuccessful_join: None,
            quarantine_removed_node_after: Duration::from_secs(5),
            enforce_config_on_join: true,
            join_checkers: JoinCheckers::default(),
        }
    }
}

impl Default for FailureDetectorConfig {
    fn default() -> Self {
        Self {
            implementation: DetectorImplementation::PhiAccrual,
            heartbeat_interval: Duration::from_secs(1),
            threshold: 8.0,
            max_sample_size: 1000,
            min_std_deviation: Duration::from_millis(100),
            acceptable_heartbeat_pause: Duration::from_secs(3),
            monitored_by_nr_of_members: 9,
            expected_response_after: Duration::from_secs(1),
            unreachable_nodes_reaper_interval: Duration::from_secs(1),
        }
    }
}

impl Default for ShardingConfig {
    fn default() -> Self {
        Self {
            retry_interval: Duration::from_secs(2),
            buffer_messages_max: 100_000,
            buffer_bytes_max: 64 << 20,
            handoff_timeout: Duration::from_secs(60),
            shard_start_timeout: Duration::from_secs(10),
            rebalance_interval: Duration::from_secs(10),
            rebalance_absolute_limit: 1000,
            rebalance_relative_limit: 0.1,
            open_asks_max: 100_000,
        }
    }
}

impl Default for ExecutorConfig {
    fn default() -> Self {
        Self {
            // As long as container platforms look on by default: three probes, ten seconds apart.
            stall_timeout: Some(Duration::from_secs(30)),
        }
    }
}

impl Config {
    /// The documented defaults: made for a local network, with a fail-over of about 20 s for a cluster of three.
    #[must_use]
    pub fn lan(cluster: ClusterName) -> Self {
        Self {
            cluster,
            roles: Vec::new(),
            data_center: String::from(DEFAULT_DATA_CENTER),
            app_version: AppVersion::default(),
            membership: MembershipConfig::default(),
            failure_detector: FailureDetectorConfig::default(),
            downing: DowningConfig::default(),
            sharding: ShardingConfig::default(),
            executor: ExecutorConfig::default(),
            ddata: DdataConfig::default(),
            limits: Limits::default(),
        }
    }

    /// Timings for demonstrations and tests on one machine: about a tenth of the defaults, a fail-over of a few seconds.
    /// Far too nervous for a real network.
    #[must_use]
    pub fn fast(cluster: ClusterName) -> Self {
        let mut config = Self::lan(cluster);
        let ms = Duration::from_millis;
        config.membership.gossip_interval = ms(100);
        config.membership.leader_actions_interval = ms(100);
        config.membership.periodic_tasks_initial_delay = ms(100);
        config.membership.seed_node_timeout = ms(1_000);
        config.membership.retry_unsuccessful_join_after = ms(2_000);
        config.membership.exit_drain_timeout = ms(5_000);
        config.membership.exiting_timeout = ms(3_000);
        config.membership.allow_weakly_up_members = Some(ms(700));
        config.membership.quarantine_removed_node_after = ms(1_000);
        config.failure_detector.heartbeat_interval = ms(200);
        config.failure_detector.min_std_deviation = ms(50);
        config.failure_detector.acceptable_heartbeat_pause = ms(800);
        config.failure_detector.expected_response_after = ms(400);
        config.failure_detector.unreachable_nodes_reaper_interval = ms(200);
        config.downing.stable_after = Some(ms(1_500));
        config.downing.down_removal_margin = Some(ms(1_000));
        config.ddata.gossip_interval = ms(200);
        config.ddata.notify_subscribers_interval = ms(50);
        config.ddata.delta_interval = Some(ms(50));
        config.ddata.pruning_interval = Some(ms(2_000));
        config.ddata.max_pruning_dissemination = ms(3_000);
        config.sharding.retry_interval = ms(200);
        config.sharding.handoff_timeout = ms(10_000);
        config.sharding.shard_start_timeout = ms(1_000);
        config.sharding.rebalance_interval = ms(500);
        config.sharding.rebalance_relative_limit = 0.5;
        config.executor.stall_timeout = Some(ms(10_000));
        config
    }
}
