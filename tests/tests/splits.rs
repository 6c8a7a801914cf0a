//! Whole splits under every strategy, and joiners whose settings do not fit, in virtual time. Spec:
//! membership 6, sections I, M, O and P.

use quorate_core::agreement::{Differences, JoinCheckers, Setting, SettingDifference};
use quorate_core::config::{Config, DowningStrategy, LeaseMajorityConfig};
use quorate_core::effect::HaltReason;
use quorate_core::event::JoinFailure;
use quorate_core::membership::member::Status;
use quorate_tests::sim::{Sim, all_up, secs};

/// A clean split of a settled cluster: so many nodes with the lowest addresses and the oldest member on one
/// side, so many on the other. Which of them still run half a minute later, and that each side that does has
/// settled.
fn survivors(strategy: DowningStrategy, one: usize, other: usize) -> (usize, usize) {
    let mut sim = Sim::new((one * 10 + other) as u64)
        .config(|config| config.downing.strategy = strategy)
        .nodes(one + other);
    sim.run_until(all_up);
    sim.partition(0..one, one..one + other);
    sim.run_for(secs(30));
    let (left, right): (Vec<usize>, Vec<usize>) = sim.running().into_iter().partition(|index| *index < one);
    for side in [&left, &right] {
        sim.expect_members(side.clone(), side.clone());
    }
    (left.len(), right.len())
}

#[test]
fn m_372_static_quorum_keeps_the_side_that_has_it_or_nobody() {
    let quorum = |one, other| {
        survivors(
            DowningStrategy::StaticQuorum {
                quorum: 5,
                role: None,
            },
            one,
            other,
        )
    };
    assert_eq!(quorum(1, 2), (0, 0));
    assert_eq!(quorum(4, 4), (0, 0));
    assert_eq!(quorum(5, 4), (5, 0));
    assert_eq!(quorum(1, 5), (0, 5));
    assert_eq!(quorum(4, 5), (0, 5));
}

#[test]
fn m_373_keep_majority_keeps_the_larger_side_or_the_lowest_address() {
    let majority = |one, other| survivors(DowningStrategy::KeepMajority { role: None }, one, other);
    assert_eq!(majority(2, 1), (2, 0));
    assert_eq!(majority(1, 2), (0, 2));
    assert_eq!(majority(4, 5), (0, 5));
    assert_eq!(majority(4, 4), (4, 0));
}

#[test]
fn m_374_keep_oldest_keeps_its_side_unless_it_is_alone_against_several() {
    let down_if_alone = true;
    let oldest = |one, other| {
        survivors(
            DowningStrategy::KeepOldest {
                down_if_alone,
                role: None,
            },
            one,
            other,
        )
    };
    assert_eq!(oldest(3, 3), (3, 0));
    assert_eq!(oldest(1, 1), (1, 0));
    assert_eq!(oldest(1, 2), (0, 2));
}

#[test]
fn m_375_a_cut_between_data_centers_ends_nobody() {
    let mut sim = Sim::new(375)
        .config(|config| config.data_center = "one".to_owned())
        .nodes(3);
    sim.run_until(all_up);
    let mut sim = sim.config(|config| config.data_center = "two".to_owned());
    for index in [3, 4] {
        sim.start_with_seeds(index, &[0]);
    }
    sim.run_until(all_up);
    sim.partition(0..3, 3..5);
    sim.run_for(secs(30));
    sim.expect_members(0..5, 0..5);
    // Within its own data center each side decides as ever.
    sim.crash(4);
    sim.run_for(secs(30));
    sim.expect_members(3..4, 0..4);
    sim.expect_members(0..3, 0..5);
}

#[test]
fn m_376_down_all_keeps_nobody() {
    assert_eq!(survivors(DowningStrategy::DownAll, 1, 2), (0, 0));
}

#[test]
fn m_377_and_m_413_the_majority_gets_the_lease_first() {
    let lease = || DowningStrategy::LeaseMajority(LeaseMajorityConfig::default());
    assert_eq!(survivors(lease(), 4, 5), (0, 5));
    assert_eq!(survivors(lease(), 3, 2), (3, 0));
}

#[test]
fn m_408_two_sides_that_downed_each_other_by_hand_stay_apart_and_nobody_ends() {
    let mut sim = Sim::new(408)
        .config(|config| config.downing.strategy = DowningStrategy::Off)
        .nodes(4);
    sim.run_until(all_up);
    sim.partition([0, 1], [2, 3]);
    sim.run_for(secs(3));
    for (at, target) in [(0, 2), (0, 3), (2, 0), (2, 1)] {
        sim.down(at, target);
    }
    sim.run_for(secs(8));
    sim.heal();
    sim.run_for(secs(15));
    sim.expect_members([0, 1], [0, 1]);
    sim.expect_members([2, 3], [2, 3]);
}

#[test]
fn m_409_a_node_that_the_others_removed_stops_on_contact_although_its_own_decision_is_far() {
    let mut sim = Sim::new(409).nodes(2);
    sim.run_until(all_up);
    let mut sim = sim.config(|config| config.downing.stable_after = Some(secs(60)));
    sim.start(2);
    sim.run_until(all_up);
    sim.partition([0, 1], [2]);
    sim.run_for(secs(8));
    sim.expect_members([0, 1], [0, 1]);
    assert!(sim.running().contains(&2), "it has not decided yet");
    sim.heal();
    sim.run_for(secs(5));
    sim.expect_halted([2], HaltReason::Removed);
    // A plain departure causes nothing of the kind.
    sim.leave(1);
    sim.run_for(secs(5));
    sim.expect_members([0], [0]);
}

#[test]
fn m_428_auto_down_waits_its_time_and_spares_whoever_comes_back() {
    let auto = |stable_after| {
        Sim::new(428)
            .config(move |config| {
                config.downing.strategy = DowningStrategy::AutoDown;
                config.downing.stable_after = Some(stable_after);
            })
            .nodes(3)
    };
    let mut sim = auto(secs(4));
    sim.run_until(all_up);
    sim.partition([0, 1], [2]);
    sim.run_for(secs(3));
    sim.heal();
    sim.run_until(all_up);
    sim.expect_members(0..3, 0..3);
    sim.crash(2);
    sim.run_for(secs(4));
    assert_eq!(sim.view(0).members().len(), 3, "not yet");
    sim.run_for(secs(6));
    sim.expect_members([0, 1], [0, 1]);
}

#[test]
fn m_187_and_m_188_and_m_194_a_joiner_with_another_strategy_stops_and_one_with_the_same_joins() {
    let mut sim = Sim::new(187).nodes(2);
    sim.run_until(all_up);
    let mut sim = sim.config(|config| config.downing.strategy = DowningStrategy::DownAll);
    sim.start(2);
    sim.run_for(secs(5));
    sim.expect_halted([2], HaltReason::IncompatibleConfig);
    let differences = Differences::from(vec![SettingDifference {
        key: "downing.strategy".into(),
        own: Some("down-all".into()),
        other: Some("keep-majority".into()),
    }]);
    for member in sim.view(0).members() {
        let (seed, differences) = (member.node.address().clone(), differences.clone());
        let refused = JoinFailure::IncompatibleConfig { seed, differences };
        assert_eq!(sim.join_failures(refused), 1, "of {member:?}");
    }
    let mut sim = sim.config(|config| config.downing.strategy = DowningStrategy::KeepMajority { role: None });
    sim.start(2);
    sim.run_until(all_up);
    sim.expect_members(0..3, 0..3);
}

#[test]
fn m_189_and_m_190_settings_of_the_application_divide_nodes_that_differ_and_no_others() {
    let currency = |value: &'static str| {
        move |config: &mut Config| {
            let setting = Setting::new("billing.currency", value);
            config.membership.join_checkers = JoinCheckers::default();
            config.membership.join_checkers.add_equal(setting).unwrap();
        }
    };
    let mut sim = Sim::new(189).config(currency("EUR")).nodes(3);
    sim.run_until(all_up);
    let mut sim = sim.config(currency("USD"));
    sim.start(3);
    sim.run_for(secs(5));
    let mut sim = sim.config(|config| config.membership.join_checkers = JoinCheckers::default());
    sim.start(4);
    sim.run_for(secs(5));
    sim.expect_halted([3, 4], HaltReason::IncompatibleConfig);
    let mut sim = sim.config(currency("EUR"));
    sim.start(5);
    sim.run_until(all_up);
    sim.expect_members([0, 1, 2, 5], [0, 1, 2, 5]);
}

#[test]
fn m_191_and_m_192_where_it_is_not_enforced_it_joins_all_the_same() {
    let mut sim = Sim::new(191).nodes(2);
    sim.run_until(all_up);
    let mut sim = sim.config(|config| {
        config.downing.strategy = DowningStrategy::DownAll;
        config.membership.enforce_config_on_join = false;
    });
    sim.start(2);
    sim.run_until(all_up);
    assert!(sim.view(2).members().iter().all(|m| m.status == Status::Up));
}
