//! What a check says and what the checked configuration is good for; the ends of every range are in
//! `config/tests.rs`.

use super::*;
use crate::config::{DownAllWhenUnstable, DowningConfig, LeaseMajorityConfig};
use crate::downing::state::view::IndirectRule;
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
        ("load.interval", |c| c.load.interval = Duration::ZERO),
        ("load.half_life", |c| c.load.half_life = Duration::ZERO),
        ("load.chord_timeout", |c| c.load.chord_timeout = Duration::ZERO),
        ("load.direct_members_max", |c| c.load.direct_members_max = 1),
        ("load.direct_members_max", |c| c.load.direct_members_max = 10_001),
        ("load.chord_contacts", |c| c.load.chord_contacts = 0),
        ("load.chord_contacts", |c| c.load.chord_contacts = 65),
        ("load.chord_neighbors", |c| c.load.chord_neighbors = 9),
        ("shutdown.before_service_unbind_timeout", |c| {
            c.shutdown.before_service_unbind_timeout = Duration::ZERO
        }),
        ("shutdown.service_unbind_timeout", |c| {
            c.shutdown.service_unbind_timeout = Duration::ZERO
        }),
        ("shutdown.service_requests_done_timeout", |c| {
            c.shutdown.service_requests_done_timeout = Duration::ZERO
        }),
        ("shutdown.service_stop_timeout", |c| {
            c.shutdown.service_stop_timeout = Duration::ZERO
        }),
        ("shutdown.before_cluster_shutdown_timeout", |c| {
            c.shutdown.before_cluster_shutdown_timeout = Duration::ZERO
        }),
        ("shutdown.cluster_sharding_shutdown_region_timeout", |c| {
            c.shutdown.cluster_sharding_shutdown_region_timeout = Duration::ZERO
        }),
        ("shutdown.cluster_leave_timeout", |c| {
            c.shutdown.cluster_leave_timeout = Duration::ZERO
        }),
        ("shutdown.cluster_exiting_timeout", |c| {
            c.shutdown.cluster_exiting_timeout = Duration::ZERO
        }),
        ("shutdown.cluster_exiting_done_timeout", |c| {
            c.shutdown.cluster_exiting_done_timeout = Duration::ZERO
        }),
        ("shutdown.cluster_shutdown_timeout", |c| {
            c.shutdown.cluster_shutdown_timeout = Duration::ZERO
        }),
        ("shutdown.before_process_end_timeout", |c| {
            c.shutdown.before_process_end_timeout = Duration::ZERO
        }),
        ("shutdown.process_end_timeout", |c| {
            c.shutdown.process_end_timeout = Duration::ZERO
        }),
        ("shutdown.after_signal_timeout", |c| {
            c.shutdown.after_signal_timeout = Duration::ZERO
        }),
        ("membership.gossip_time_to_live", |c| {
            c.membership.gossip_time_to_live = Duration::ZERO
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
            c.downing.stable_after = Some(Duration::ZERO)
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
        ("sharding.allocation_timeout", |c| {
            c.sharding.allocation_timeout = Duration::ZERO
        }),
        ("sharding.lease_retry_interval", |c| {
            c.sharding.lease_retry_interval = Duration::ZERO
        }),
        ("sharding.lease_time_to_live", |c| {
            c.sharding.lease_time_to_live = Duration::ZERO
        }),
        ("sharding.daemon_keep_alive_interval", |c| {
            c.sharding.daemon_keep_alive_interval = Duration::ZERO
        }),
        ("sharding.buffer_messages_max", |c| {
            c.sharding.buffer_messages_max = 0
        }),
        ("sharding.buffer_bytes_max", |c| c.sharding.buffer_bytes_max = 0),
        ("sharding.rebalance_threshold", |c| {
            c.sharding.rebalance_threshold = 0
        }),
        ("sharding.rebalance_max_simultaneous", |c| {
            c.sharding.rebalance_max_simultaneous = 0
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
        ("limits.bulk_frame_bytes_max", |c| {
            c.limits.bulk_frame_bytes_max = 1_023
        }),
        ("limits.log_lines_per_second_max", |c| {
            c.limits.log_lines_per_second_max = 10_001
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
    let margin = |config: &Config| config.clone().validate().unwrap().removal_margin(5);
    let mut config = lan();
    assert_eq!(margin(&config), Duration::from_secs(7));
    config.downing.stable_after = Some(Duration::from_secs(20));
    assert_eq!(margin(&config), Duration::from_secs(20));
    config.downing.strategy = DowningStrategy::Off;
    assert_eq!(margin(&config), Duration::ZERO);
    config.downing.down_removal_margin = Some(Duration::from_secs(3));
    assert_eq!(margin(&config), Duration::from_secs(3));
}

#[test]
fn s_3_8_the_wait_follows_the_number_of_members_unless_set() {
    let mut config = lan();
    let waits = |config: &Config, members: &[usize]| -> alloc::vec::Vec<u64> {
        let config = config.clone().validate().unwrap();
        members
            .iter()
            .map(|members| config.stable_after(*members).as_secs())
            .collect()
    };
    let sizes = [1, 5, 6, 10, 11, 20, 21, 50, 51, 100, 101, 1_000, 5_000];
    assert_eq!(
        waits(&config, &sizes),
        [7, 7, 10, 10, 13, 13, 17, 17, 20, 20, 30, 30, 30]
    );
    config.failure_detector.acceptable_heartbeat_pause = Duration::from_secs(10);
    assert_eq!(waits(&config, &[5, 100]), [12, 20]);
    config.downing.stable_after = Some(Duration::from_secs(8));
    // Where not everybody watches everybody, the longest first silence is 15.5 s here.
    assert_eq!(waits(&config, &[5, 10, 11, 1_000]), [8, 8, 15, 15]);
    config.downing.rule = IndirectRule::CascadeSafe;
    assert_eq!(waits(&config, &[5, 1_000]), [8, 8]);
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
    let shared = |change: &dyn Fn(&mut Config)| {
        let mut config = lan();
        change(&mut config);
        alloc::format!("{:?}", config.validate().unwrap().shared_settings())
    };
    let mut different: crate::ordered::OrderedSet<String> = strategies
        .iter()
        .map(|strategy| shared(&|config| config.downing.strategy = strategy.clone()))
        .collect();
    different.insert(shared(&|config| config.downing.rule = IndirectRule::Classic));
    different.insert(shared(&|config| {
        config.downing.down_all_when_indirectly_connected = Some(0.5)
    }));
    assert_eq!(different.len(), strategies.len() + 2);
    // What one node alone may set differently.
    assert!(different.contains(&shared(
        &|config| config.downing.stable_after = Some(Duration::from_secs(7))
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
    let quorum =
        |quorum| refused(&|config| config.strategy = DowningStrategy::StaticQuorum { quorum, role: None });
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
