//! Both ends of every range, and what lies beyond them: each key is refused by name, with its value and legal
//! range.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Config, ConfigError, DownAllWhenUnstable, DowningStrategy, LeaseMajorityConfig};
use crate::ident::{ClusterName, NameError, Role};

const SHORTEST: Duration = Duration::from_micros(1);
const LONGEST: Duration = Duration::from_secs(400 * 24 * 3600);

type Set<T> = fn(&mut Config, T);

fn build(change: impl FnOnce(&mut Config)) -> Result<(), ConfigError> {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    change(&mut config);
    config.validate().map(|_| ())
}

fn check<T: Clone + core::fmt::Debug>(key: &str, set: Set<T>, legal: &[T], illegal: &[T]) {
    for value in legal {
        assert_eq!(build(|c| set(c, value.clone())), Ok(()), "{key} = {value:?}");
    }
    for value in illegal {
        let error = build(|c| set(c, value.clone())).expect_err(&format!("{key} = {value:?} is legal"));
        assert_eq!(error.key, key, "{value:?}");
        assert!(error.value.contains(&format!("{value:?}")), "{error}");
        assert!(!error.legal.is_empty(), "{error}");
    }
}

fn lease(config: &mut Config, change: impl FnOnce(&mut LeaseMajorityConfig)) {
    let mut lease = LeaseMajorityConfig::default();
    change(&mut lease);
    config.downing.strategy = DowningStrategy::LeaseMajority(lease);
}

#[test]
fn every_interval_is_from_a_microsecond_to_400_days() {
    let keys: [(&str, Set<Duration>); 62] = [
        ("membership.gossip_interval", |c, v| {
            c.membership.gossip_interval = v
        }),
        ("membership.leader_actions_interval", |c, v| {
            c.membership.leader_actions_interval = v
        }),
        ("membership.periodic_tasks_initial_delay", |c, v| {
            c.membership.periodic_tasks_initial_delay = v;
        }),
        ("membership.seed_node_timeout", |c, v| {
            c.membership.seed_node_timeout = v
        }),
        ("membership.retry_unsuccessful_join_after", |c, v| {
            c.membership.retry_unsuccessful_join_after = v;
        }),
        ("membership.prune_gossip_tombstones_after", |c, v| {
            c.membership.prune_gossip_tombstones_after = v;
        }),
        ("load.interval", |c, v| c.load.interval = v),
        ("load.half_life", |c, v| c.load.half_life = v),
        ("load.chord_timeout", |c, v| c.load.chord_timeout = v),
        ("shutdown.before_service_unbind_timeout", |c, v| {
            c.shutdown.before_service_unbind_timeout = v
        }),
        ("shutdown.service_unbind_timeout", |c, v| {
            c.shutdown.service_unbind_timeout = v
        }),
        ("shutdown.service_requests_done_timeout", |c, v| {
            c.shutdown.service_requests_done_timeout = v
        }),
        ("shutdown.service_stop_timeout", |c, v| {
            c.shutdown.service_stop_timeout = v
        }),
        ("shutdown.before_cluster_shutdown_timeout", |c, v| {
            c.shutdown.before_cluster_shutdown_timeout = v
        }),
        ("shutdown.cluster_sharding_shutdown_region_timeout", |c, v| {
            c.shutdown.cluster_sharding_shutdown_region_timeout = v
        }),
        ("shutdown.cluster_leave_timeout", |c, v| {
            c.shutdown.cluster_leave_timeout = v
        }),
        ("shutdown.cluster_exiting_timeout", |c, v| {
            c.shutdown.cluster_exiting_timeout = v
        }),
        ("shutdown.cluster_exiting_done_timeout", |c, v| {
            c.shutdown.cluster_exiting_done_timeout = v
        }),
        ("shutdown.cluster_shutdown_timeout", |c, v| {
            c.shutdown.cluster_shutdown_timeout = v
        }),
        ("shutdown.before_process_end_timeout", |c, v| {
            c.shutdown.before_process_end_timeout = v
        }),
        ("shutdown.process_end_timeout", |c, v| {
            c.shutdown.process_end_timeout = v
        }),
        ("shutdown.after_signal_timeout", |c, v| {
            c.shutdown.after_signal_timeout = v
        }),
        ("membership.gossip_time_to_live", |c, v| {
            c.membership.gossip_time_to_live = v;
        }),
        ("membership.allow_weakly_up_members", |c, v| {
            c.membership.allow_weakly_up_members = Some(v);
        }),
        ("membership.shutdown_after_unsuccessful_join", |c, v| {
            c.membership.shutdown_after_unsuccessful_join = Some(v);
        }),
        ("membership.quarantine_removed_node_after", |c, v| {
            c.membership.quarantine_removed_node_after = v;
        }),
        ("failure_detector.heartbeat_interval", |c, v| {
            c.failure_detector.heartbeat_interval = v
        }),
        ("failure_detector.min_std_deviation", |c, v| {
            c.failure_detector.min_std_deviation = v
        }),
        ("failure_detector.expected_response_after", |c, v| {
            c.failure_detector.expected_response_after = v;
        }),
        ("failure_detector.unreachable_nodes_reaper_interval", |c, v| {
            c.failure_detector.unreachable_nodes_reaper_interval = v;
        }),
        ("downing.stable_after", |c, v| c.downing.stable_after = Some(v)),
        ("downing.down_all_when_unstable", |c, v| {
            c.downing.down_all_when_unstable = DownAllWhenUnstable::After(v);
        }),
        ("downing.strategy.release_after", |c, v| {
            lease(c, |l| l.release_after = v)
        }),
        ("downing.strategy.time_to_live", |c, v| {
            lease(c, |l| l.time_to_live = v)
        }),
        ("downing.strategy.operation_timeout", |c, v| {
            lease(c, |l| l.operation_timeout = v)
        }),
        ("sharding.retry_interval", |c, v| c.sharding.retry_interval = v),
        ("sharding.handoff_timeout", |c, v| c.sharding.handoff_timeout = v),
        ("sharding.shard_start_timeout", |c, v| {
            c.sharding.shard_start_timeout = v
        }),
        ("sharding.rebalance_interval", |c, v| {
            c.sharding.rebalance_interval = v
        }),
        ("sharding.waiting_for_state_timeout", |c, v| {
            c.sharding.waiting_for_state_timeout = v
        }),
        ("sharding.updating_state_timeout", |c, v| {
            c.sharding.updating_state_timeout = v
        }),
        ("sharding.coordinator_failure_backoff", |c, v| {
            c.sharding.coordinator_failure_backoff = v
        }),
        ("sharding.home_return_timeout", |c, v| {
            c.sharding.home_return_timeout = v
        }),
        ("sharding.allocation_timeout", |c, v| {
            c.sharding.allocation_timeout = v
        }),
        ("sharding.lease_retry_interval", |c, v| {
            c.sharding.lease_retry_interval = v
        }),
        ("sharding.lease_time_to_live", |c, v| {
            c.sharding.lease_time_to_live = v
        }),
        ("sharding.daemon_keep_alive_interval", |c, v| {
            c.sharding.daemon_keep_alive_interval = v
        }),
        ("singleton.hand_over_retry_interval", |c, v| {
            c.singleton.hand_over_retry_interval = v
        }),
        ("singleton.stop_timeout", |c, v| c.singleton.stop_timeout = v),
        ("singleton.lease_retry_interval", |c, v| {
            c.singleton.lease_retry_interval = v
        }),
        ("singleton.lease_time_to_live", |c, v| {
            c.singleton.lease_time_to_live = v
        }),
        ("singleton.identification_interval", |c, v| {
            c.singleton.identification_interval = v
        }),
        ("journal.retry_interval", |c, v| c.journal.retry_interval = v),
        ("paths.plan_interval", |c, v| c.paths.plan_interval = v),
        ("paths.repeat_interval", |c, v| c.paths.repeat_interval = v),
        ("paths.ready_timeout", |c, v| c.paths.ready_timeout = v),
        ("paths.write_delay", |c, v| c.paths.write_delay = v),
        ("paths.exit_timeout", |c, v| c.paths.exit_timeout = v),
        ("paths.request_timeout", |c, v| c.paths.request_timeout = v),
        ("paths.stop_timeout", |c, v| c.paths.stop_timeout = v),
        ("paths.restart_backoff_min", |c, v| {
            c.paths.restart_backoff_min = v;
            c.paths.restart_backoff_max = LONGEST;
        }),
        ("paths.restart_backoff_max", |c, v| {
            c.paths.restart_backoff_min = SHORTEST;
            c.paths.restart_backoff_max = v;
        }),
    ];
    let beyond = LONGEST + Duration::from_nanos(1);
    for (key, set) in keys {
        let short = Duration::from_nanos(999);
        check(
            key,
            set,
            &[SHORTEST, LONGEST],
            &[Duration::ZERO, short, beyond, Duration::MAX],
        );
    }
    let may_be_zero: [(&str, Set<Duration>); 4] = [
        ("paths.move_cooldown", |c, v| c.paths.move_cooldown = v),
        ("failure_detector.acceptable_heartbeat_pause", |c, v| {
            c.failure_detector.acceptable_heartbeat_pause = v;
        }),
        ("downing.down_removal_margin", |c, v| {
            c.downing.down_removal_margin = Some(v)
        }),
        ("downing.strategy.acquire_lease_delay_for_minority", |c, v| {
            lease(c, |l| l.acquire_lease_delay_for_minority = v);
        }),
    ];
    for (key, set) in may_be_zero {
        check(key, set, &[Duration::ZERO, LONGEST], &[beyond, Duration::MAX]);
    }
}

#[test]
fn every_number_has_a_lower_end_and_where_it_matters_an_upper_one() {
    const FRAME: (usize, usize) = (1 << 10, 16 << 20);
    let keys: [(&str, Set<usize>, (usize, usize)); 25] = [
        (
            "paths.buffer_bytes_max",
            |c, v| c.paths.buffer_bytes_max = v,
            (1, usize::MAX),
        ),
        (
            "paths.forwarded_asks_max",
            |c, v| c.paths.forwarded_asks_max = v,
            (1, usize::MAX),
        ),
        (
            "paths.open_asks_max",
            |c, v| c.paths.open_asks_max = v,
            (1, usize::MAX),
        ),
        (
            "paths.state_bytes_max",
            |c, v| c.paths.state_bytes_max = v,
            (1, usize::MAX),
        ),
        (
            "membership.min_nr_of_members",
            |c, v| c.membership.min_nr_of_members = v,
            (1, usize::MAX),
        ),
        (
            "membership.min_nr_of_members_per_role",
            |c, v| {
                let role = Role::new("backend").unwrap();
                c.membership.min_nr_of_members_per_role.insert(role, v);
            },
            (1, usize::MAX),
        ),
        (
            "membership.reduce_gossip_different_view_probability",
            |c, v| c.membership.reduce_gossip_different_view_probability = v,
            (1, usize::MAX),
        ),
        (
            "failure_detector.max_sample_size",
            |c, v| c.failure_detector.max_sample_size = v,
            (1, 10_000),
        ),
        (
            "failure_detector.monitored_by_nr_of_members",
            |c, v| c.failure_detector.monitored_by_nr_of_members = v,
            (1, usize::MAX),
        ),
        (
            "downing.strategy.quorum",
            |c, quorum| c.downing.strategy = DowningStrategy::StaticQuorum { quorum, role: None },
            (1, usize::MAX),
        ),
        (
            "sharding.buffer_messages_max",
            |c, v| c.sharding.buffer_messages_max = v,
            (1, usize::MAX),
        ),
        (
            "sharding.buffer_bytes_max",
            |c, v| c.sharding.buffer_bytes_max = v,
            (1, usize::MAX),
        ),
        (
            "sharding.rebalance_threshold",
            |c, v| c.sharding.rebalance_threshold = v,
            (1, usize::MAX),
        ),
        (
            "sharding.rebalance_max_simultaneous",
            |c, v| c.sharding.rebalance_max_simultaneous = v,
            (1, usize::MAX),
        ),
        (
            "sharding.snapshot_after",
            |c, v| c.sharding.snapshot_after = v,
            (1, usize::MAX),
        ),
        (
            "sharding.remember_updates_per_write",
            |c, v| c.sharding.remember_updates_per_write = v,
            (1, usize::MAX),
        ),
        (
            "sharding.open_asks_max",
            |c, v| c.sharding.open_asks_max = v,
            (1, usize::MAX),
        ),
        (
            "limits.control_frame_bytes_max",
            |c, v| c.limits.control_frame_bytes_max = v,
            FRAME,
        ),
        (
            "limits.gossip_frame_bytes_max",
            |c, v| c.limits.gossip_frame_bytes_max = v,
            (8 << 10, FRAME.1),
        ),
        (
            "limits.user_frame_bytes_max",
            |c, v| c.limits.user_frame_bytes_max = v,
            FRAME,
        ),
        (
            "limits.decompressed_bytes_max",
            |c, v| c.limits.decompressed_bytes_max = v,
            (64 << 10, 64 << 20),
        ),
        ("limits.members_max", |c, v| c.limits.members_max = v, (1, 10_000)),
        (
            "limits.tombstones_max",
            |c, v| c.limits.tombstones_max = v,
            (1, 10_000),
        ),
        (
            "limits.reachability_records_per_member_max",
            |c, v| c.limits.reachability_records_per_member_max = v,
            (1, usize::MAX),
        ),
        (
            "limits.entity_id_bytes_max",
            |c, v| c.limits.entity_id_bytes_max = v,
            (1, 4096),
        ),
    ];
    for (key, set, (low, high)) in keys {
        let mut illegal: Vec<usize> = [0, low - 1].into();
        illegal.extend(high.checked_add(1));
        check(key, set, &[low, high], &illegal);
    }
}

#[test]
fn a_path_may_buffer_nothing_and_rests_no_longer_than_its_longest_rest() {
    check(
        "paths.buffer_messages_max",
        |c, v: usize| c.paths.buffer_messages_max = v,
        &[0, 10_000],
        &[10_001, usize::MAX],
    );
    let least = Config::lan(ClusterName::new("test").unwrap())
        .paths
        .restart_backoff_min;
    check(
        "paths.restart_backoff_max",
        |c, v| c.paths.restart_backoff_max = v,
        &[least, LONGEST],
        &[least - Duration::from_micros(1)],
    );
}

#[test]
fn shares_and_levels_refuse_what_is_no_number() {
    let wrong = [-0.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    check(
        "membership.gossip_different_view_probability",
        |c, v| c.membership.gossip_different_view_probability = v,
        &[0.0, 1.0],
        &[wrong.as_slice(), &[1.000_001]].concat(),
    );
    check(
        "failure_detector.threshold",
        |c, v| c.failure_detector.threshold = v,
        &[f64::MIN_POSITIVE, f64::MAX],
        &[wrong.as_slice(), &[0.0]].concat(),
    );
    let shares: [(&str, Set<f64>); 2] = [
        ("sharding.rebalance_relative_limit", |c, v| {
            c.sharding.rebalance_relative_limit = v
        }),
        ("downing.down_all_when_indirectly_connected", |c, v| {
            c.downing.down_all_when_indirectly_connected = Some(v);
        }),
    ];
    for (key, set) in shares {
        let illegal = [wrong.as_slice(), &[0.0, 1.000_001]].concat();
        check(key, set, &[f64::MIN_POSITIVE, 1.0], &illegal);
    }
}

#[test]
fn names_and_roles_that_cannot_be_are_refused() {
    assert_eq!(Role::new("dc-east"), Err(NameError::ReservedRole));
    assert!(ClusterName::new("").is_err());
    assert!(ClusterName::new("two words").is_err());
    let names = |bytes: usize| Some("x".repeat(bytes));
    check::<Option<String>>(
        "downing.strategy.lease_name",
        |c, v| lease(c, |l| l.lease_name = v),
        &[None, names(1), names(63)],
        &[],
    );
    for bytes in [0, 64] {
        let error = build(|c| lease(c, |l| l.lease_name = names(bytes))).unwrap_err();
        assert_eq!(error.key, "downing.strategy.lease_name");
    }
    let roles = |count: usize| {
        (0..count)
            .map(|at| Role::new(&format!("r{at}")).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(build(|c| c.roles = roles(31)), Ok(()));
    assert_eq!(
        build(|c| c.roles = roles(32)).unwrap_err().key,
        "roles / data_center"
    );
    for (bytes, legal) in [(0, false), (1, true), (61, true), (62, false)] {
        assert_eq!(
            build(|c| c.data_center = "x".repeat(bytes)).is_ok(),
            legal,
            "{bytes}"
        );
    }
}
