//! Scenarios in virtual time, each with a seed and a name that says what must happen. All of them run every
//! invariant after every step.

use core::time::Duration;
use std::collections::BTreeSet;

use quorate_core::config::{Config, DowningStrategy};
use quorate_core::effect::HaltReason;
use quorate_core::event::JoinFailure;
use quorate_core::ident::ClusterName;
use quorate_core::membership::member::Status;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{EntityId, ShardId};
use quorate_tests::sim::{FaultKind, SHARDS, Sim, Weather, all_up, calm, secs};

/// One ask for each of many entities, from the node at an address.
fn ask_all(sim: &mut Sim, from: usize) -> Vec<usize> {
    let asks = (0..20).filter_map(|entity| sim.ask(from, &format!("e{entity}"), secs(5)));
    asks.collect()
}

/// The shards that the entities of [`ask_all`] live in.
fn shards_of_all() -> usize {
    let shard = |entity: u64| ShardId::of(&EntityId::from(format!("e{entity}").as_str()), SHARDS);
    (0..20).map(shard).collect::<BTreeSet<ShardId>>().len()
}

fn shards_hosted(sim: &Sim) -> usize {
    sim.hosts().iter().map(|host| host.1).sum()
}

#[test]
fn m_395_two_then_three_nodes_are_up_everywhere_and_the_first_is_the_oldest() {
    let mut sim = Sim::new(1).nodes(2);
    sim.run_until(all_up);
    sim.start(2);
    sim.run_until(all_up);
    sim.expect_members(0..3, [0, 1, 2]);
    assert!((0..3).all(|index| sim.oldest_of(index) == Some(0)));
    let age = |index: usize| sim.view(0).by_age(None)[index].node.clone();
    assert_eq!(Some(age(2)), sim.incarnation(2), "who came last is the youngest");
    sim.check_invariants();
}

#[test]
fn a_minority_is_downed_after_the_stable_period() {
    let mut sim = Sim::new(7).nodes(5);
    sim.run_until(all_up);
    sim.partition([0, 1, 2], [3, 4]);
    sim.run_for(secs(8));
    sim.expect_members(0..3, [0, 1, 2]);
    sim.expect_halted(3..5, HaltReason::Downed);
    assert!(sim.assumptions().safe());
    sim.check_invariants();
}

#[test]
fn a_short_partition_changes_nothing() {
    let mut sim = Sim::new(8).nodes(5);
    sim.run_until(all_up);
    sim.partition([0, 1, 2], [3, 4]);
    sim.run_for(secs(2));
    sim.heal();
    sim.run_until(all_up);
    sim.run_for(secs(5));
    sim.expect_members(0..5, 0..5);
    sim.check_invariants();
}

#[test]
fn a_crashed_leader_is_downed_and_the_next_one_leads() {
    let mut sim = Sim::new(2).nodes(5);
    sim.run_until(all_up);
    let leader = sim.leader_of(3).expect("a settled cluster has a leader");
    sim.crash(leader);
    sim.run_until(all_up);
    let left: Vec<usize> = (0..5).filter(|index| *index != leader).collect();
    sim.expect_members(left.clone(), left.clone());
    assert!(left.iter().all(|index| sim.leader_of(*index) == Some(left[0])));
    sim.check_invariants();
}

#[test]
fn two_of_five_crash_and_three_stay() {
    let mut sim = Sim::new(3).nodes(5);
    sim.run_until(all_up);
    sim.crash(1);
    sim.crash(4);
    sim.run_until(all_up);
    sim.expect_members([0, 2, 3], [0, 2, 3]);
    sim.check_invariants();
}

#[test]
fn three_of_five_crash_and_nobody_goes_on_alone() {
    let mut sim = Sim::new(4).nodes(5);
    sim.run_until(all_up);
    for index in [0, 1, 4] {
        sim.crash(index);
    }
    sim.run_for(secs(10));
    sim.expect_halted([2, 3], HaltReason::Downed);
}

#[test]
fn m_211_the_leader_leaves_and_the_next_one_leads() {
    let mut sim = Sim::new(5).nodes(4);
    sim.run_until(all_up);
    let leader = sim.leader_of(2).expect("a settled cluster has a leader");
    sim.leave(leader);
    sim.run_for(secs(6));
    sim.expect_halted([leader], HaltReason::Left);
    sim.run_until(all_up);
    let next = if leader == 0 { 1 } else { 0 };
    assert!(
        sim.running()
            .iter()
            .all(|index| sim.leader_of(*index) == Some(next))
    );
    sim.check_invariants();
}

/// A node leaves and is started again at once; how long after its departure the new one is Up.
fn restarts_after_leaving(sim: &mut Sim, index: usize) -> Duration {
    let old = sim.incarnation(index);
    sim.leave(index);
    sim.run_until(|sim| !sim.running().contains(&index));
    let left = sim.now();
    sim.start(index);
    sim.run_until(all_up);
    assert_ne!(sim.incarnation(index), old);
    sim.now() - left
}

#[test]
fn a_node_that_left_in_order_and_is_started_again_at_once_is_up_within_three_seconds() {
    for (seed, index) in [(31, 0), (32, 1), (33, 2)] {
        let lan = |config: &mut Config| *config = Config::lan(config.cluster.clone());
        let mut sim = Sim::new(seed).config(lan).nodes(3);
        sim.run_until(all_up);
        ask_all(&mut sim, 0);
        sim.run_for(secs(5));
        let took = restarts_after_leaving(&mut sim, index);
        assert!(took < secs(3), "node {index}: {took:?}");
        sim.check_invariants();
    }
}

/// The drain of a node times out because a handler does not end; the node is started again at once, and
/// somebody asks its entities all the time. The handlers run on for the removal margin.
fn restarts_with_a_handler_that_runs_on(seed: u64, index: usize) {
    let mut sim = Sim::new(seed).nodes(3);
    sim.run_until(all_up);
    ask_all(&mut sim, 0);
    sim.run_for(secs(5));
    assert!(sim.hosts()[index].1 > 0, "it hosts something");
    sim.stick(index);
    sim.leave(index);
    let others: Vec<usize> = (0..3).filter(|other| *other != index).collect();
    let mut halted = None;
    // Whoever starts an entity that runs on breaks I-40, whoever gives its shard away too early I-25.
    while halted.is_none_or(|at| sim.now() < at + secs(8)) {
        for other in &others {
            ask_all(&mut sim, *other);
        }
        sim.run_for(Duration::from_millis(50));
        if halted.is_none() && !sim.running().contains(&index) {
            halted = Some(sim.now());
            sim.start(index);
            let old = sim.view(others[0]).gossip().gone().len();
            assert_eq!(old, 0, "it could not say that nothing runs there");
        }
    }
    sim.run_until(all_up);
    let asks = ask_all(&mut sim, others[0]);
    sim.run_for(secs(6));
    sim.expect_answered(asks);
}

#[test]
fn i_25_and_i_40_handlers_that_run_on_get_the_margin_although_their_node_is_started_again_at_once() {
    restarts_with_a_handler_that_runs_on(34, 2);
    restarts_with_a_handler_that_runs_on(36, 1);
}

#[test]
fn i_25_and_i_40_the_next_coordinator_gives_handlers_that_run_on_the_margin_too() {
    restarts_with_a_handler_that_runs_on(35, 0);
}

#[test]
fn the_last_of_the_old_members_leaves_and_the_rest_stays() {
    let mut sim = Sim::new(6).nodes(3);
    sim.run_until(all_up);
    sim.leave(0);
    sim.leave(1);
    sim.run_for(secs(10));
    sim.expect_halted(0..2, HaltReason::Left);
    sim.run_until(all_up);
    sim.expect_members([2], [2]);
    sim.check_invariants();
}

#[test]
fn m_403_a_node_restarted_at_once_replaces_its_old_incarnation() {
    let mut sim = Sim::new(9).nodes(3);
    sim.run_until(all_up);
    let old = sim.incarnation(2).expect("it runs");
    sim.restart(2);
    sim.run_until(all_up);
    sim.expect_members(0..3, 0..3);
    assert_ne!(sim.incarnation(2), Some(old.clone()));
    assert!(sim.view(0).is_removed(&old), "the old incarnation ended for good");
    sim.check_invariants();
}

#[test]
fn m_405_three_quick_restarts_leave_only_the_newest() {
    let mut sim = Sim::new(10).nodes(3);
    sim.run_until(all_up);
    for _ in 0..3 {
        sim.restart(1);
        sim.run_for(Duration::from_millis(900));
    }
    sim.run_until(all_up);
    sim.expect_members(0..3, 0..3);
    assert_eq!(sim.fault_counts().of(FaultKind::Restart), 3);
    sim.check_invariants();
}

#[test]
fn m_174_a_lost_welcome_is_sent_again() {
    let mut sim = Sim::new(11).nodes(2);
    sim.run_until(all_up);
    sim.lose_next("Welcome", 0, 2);
    sim.lose_next("Welcome", 1, 2);
    sim.start(2);
    sim.run_until(all_up);
    sim.expect_members(0..3, 0..3);
    assert!(
        sim.sum(|stats| stats.membership.welcomes_resent) >= 1,
        "the first one was lost"
    );
    assert!(sim.sum(|stats| stats.membership.welcomes_resent) >= 1);
    assert_eq!(
        sim.join_failures(JoinFailure::NoWelcome),
        0,
        "it was asked again in time"
    );
    sim.check_invariants();
}

#[test]
fn m_163_separate_clusters_never_merge() {
    let mut sim = Sim::new(12).nodes(0);
    for (index, seed) in [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4)] {
        sim.start_with_seeds(index, &[seed]);
    }
    sim.run_for(secs(5));
    for index in 0..5 {
        sim.join(index, &[(index + 2) % 5]);
    }
    sim.run_for(secs(5));
    sim.expect_members([0, 1], [0, 1]);
    sim.expect_members([2, 3], [2, 3]);
    sim.expect_members([4], [4]);
}

#[test]
fn m_161_and_i_14_a_node_of_another_cluster_is_not_let_in() {
    let mut sim = Sim::new(13).nodes(3);
    sim.run_until(all_up);
    let other = ClusterName::new("other").expect("a legal name");
    let mut sim = sim.config(|config| config.cluster = other);
    sim.start(3);
    sim.run_for(secs(10));
    sim.expect_members(0..3, 0..3);
    assert_eq!(sim.view(3).members().len(), 0);
}

#[test]
fn a_node_joins_while_another_is_unreachable() {
    let mut sim = Sim::new(14).nodes(4);
    sim.run_until(all_up);
    sim.crash(3);
    sim.run_for(Duration::from_millis(1_300));
    sim.start(4);
    sim.run_until(|sim| {
        sim.view(0)
            .members()
            .iter()
            .filter(|m| m.status == Status::Up)
            .count()
            == 4
            && all_up(sim)
    });
    sim.expect_members([0, 1, 2, 4], [0, 1, 2, 4]);
    sim.check_invariants();
}

#[test]
fn without_a_strategy_a_crashed_member_stays_unreachable_until_somebody_downs_it() {
    let mut sim = Sim::new(15)
        .config(|config| config.downing.strategy = DowningStrategy::Off)
        .nodes(3);
    sim.run_until(all_up);
    sim.crash(2);
    sim.run_for(secs(20));
    assert_eq!(sim.view(0).members().len(), 3);
    assert_eq!(sim.view(0).unreachable().len(), 1);
    sim.down(0, 2);
    sim.run_until(all_up);
    sim.expect_members(0..2, 0..2);
    sim.check_invariants();
}

#[test]
fn every_ask_is_answered_and_entities_spread_over_the_members() {
    let mut sim = Sim::new(20).nodes(3);
    sim.run_until(all_up);
    let mut asks = ask_all(&mut sim, 0);
    sim.run_for(secs(3));
    asks.extend(ask_all(&mut sim, 1));
    sim.run_until(calm);
    sim.expect_answered(asks);
    let hosts = sim.hosts();
    assert_eq!(shards_hosted(&sim), shards_of_all(), "{hosts:?}");
    assert!(hosts.iter().all(|host| host.1 >= 4), "{hosts:?}");
    sim.check_invariants();
}

#[test]
fn the_coordinator_crashes_and_the_entities_of_the_others_go_on() {
    let mut sim = Sim::new(21).nodes(4);
    sim.run_until(all_up);
    ask_all(&mut sim, 1);
    sim.run_for(secs(3));
    let oldest = sim.oldest_of(1).expect("a settled cluster has an oldest");
    sim.crash(oldest);
    sim.run_until(all_up);
    sim.run_for(secs(3));
    let from = sim.running()[0];
    let asks = ask_all(&mut sim, from);
    sim.run_until(calm);
    sim.expect_answered(asks);
    assert_eq!(shards_hosted(&sim), shards_of_all());
    sim.check_invariants();
}

#[test]
fn asks_in_flight_to_a_crashed_node_fail_at_once_and_say_so() {
    let mut sim = Sim::new(22).nodes(3);
    sim.run_until(all_up);
    ask_all(&mut sim, 1);
    sim.run_for(secs(2));
    let asks: Vec<usize> = (0..20)
        .filter_map(|e| sim.ask(1, &format!("e{e}"), secs(60)))
        .collect();
    sim.run_for(Duration::from_micros(300));
    sim.crash(0);
    sim.run_for(Duration::from_millis(200));
    let outcomes = asks.iter().map(|at| sim.history().messages[*at].outcome);
    let (lost, waiting): (Vec<_>, Vec<_>) =
        outcomes.filter(|o| *o != Some(Ok(()))).partition(Option::is_some);
    assert!(!lost.is_empty(), "some were at the crashed node");
    assert!(
        lost.iter()
            .all(|outcome| *outcome == Some(Err(AskFailure::PeerLost)))
    );
    assert!(waiting.is_empty(), "none waits for its minute");
}

/// Every ask is answered, and every message without an asker is handled once.
#[test]
fn shards_move_to_a_node_that_joins_and_nothing_is_lost() {
    for seed in 23..31 {
        let mut sim = Sim::new(seed).nodes(2);
        sim.run_until(all_up);
        let mut asks = ask_all(&mut sim, 0);
        let mut told = Vec::new();
        sim.run_for(secs(2));
        // Messages are on the way for longer than a hand-off takes.
        sim.weather(Weather {
            latency_max: 40_000,
            ..Weather::FINE
        });
        sim.start(2);
        for _ in 0..40 {
            sim.run_for(Duration::from_millis(100));
            asks.extend(ask_all(&mut sim, 1));
            told.extend((0..20).filter_map(|entity| sim.tell(0, &format!("e{entity}"))));
        }
        sim.run_until(calm);
        sim.run_for(secs(2));
        assert!(sim.sum(|stats| stats.sharding.hand_offs_completed) >= 4);
        assert!(sim.hosts().iter().all(|host| host.1 >= 4), "{:?}", sim.hosts());
        assert_eq!((asks.len(), told.len()), (41 * 20, 40 * 20));
        sim.expect_answered(asks);
        let messages = &sim.history().messages;
        let lost = told
            .iter()
            .map(|at| &messages[*at])
            .filter(|told| told.handled != 1);
        let lost: Vec<_> = lost.collect();
        assert!(lost.is_empty(), "seed {seed}: {lost:?}");
        sim.check_invariants();
    }
}

#[test]
fn a_node_that_leaves_hands_its_shards_over_before_it_goes() {
    let mut sim = Sim::new(24).nodes(3);
    sim.run_until(all_up);
    ask_all(&mut sim, 0);
    sim.run_for(secs(3));
    sim.leave(0);
    sim.run_for(secs(6));
    sim.expect_halted([0], HaltReason::Left);
    let drained = &sim.history().processes[0];
    assert!(drained.shards.is_empty());
    sim.run_until(all_up);
    sim.run_for(secs(2));
    let asks = ask_all(&mut sim, 1);
    sim.run_until(calm);
    sim.expect_answered(asks);
    sim.check_invariants();
}

#[test]
fn a_partition_with_asks_keeps_every_entity_in_one_place() {
    let mut sim = Sim::new(25).nodes(5);
    sim.run_until(all_up);
    ask_all(&mut sim, 0);
    sim.run_for(secs(3));
    sim.partition([0, 1, 2], [3, 4]);
    for _ in 0..80 {
        sim.run_for(Duration::from_millis(100));
        ask_all(&mut sim, 1);
        ask_all(&mut sim, 4);
    }
    sim.expect_halted(3..5, HaltReason::Downed);
    let asks = ask_all(&mut sim, 2);
    sim.run_until(calm);
    sim.expect_answered(asks);
    assert!(sim.assumptions().safe() && sim.assumptions().overlaps == 0);
    sim.check_invariants();
}

#[test]
fn everything_goes_on_through_loss() {
    let mut sim = Sim::new(26).nodes(3);
    sim.run_until(all_up);
    sim.weather(Weather {
        loss_per_mille: 50,
        ..Weather::FINE
    });
    for _ in 0..50 {
        sim.run_for(Duration::from_millis(200));
        ask_all(&mut sim, 2);
    }
    sim.weather(Weather::FINE);
    sim.run_until(calm);
    let asks = ask_all(&mut sim, 0);
    sim.run_until(calm);
    sim.expect_answered(asks);
    sim.check_invariants();
}

#[test]
fn all_links_break_again_and_again_and_nobody_is_taken_for_dead() {
    let mut sim = Sim::new(27).nodes(4);
    sim.run_until(all_up);
    for round in 0..20 {
        ask_all(&mut sim, round % 4);
        sim.reset(round % 4, (round + 1) % 4);
        sim.run_for(Duration::from_millis(150));
    }
    sim.run_until(calm);
    assert_eq!(sim.sum(|stats| stats.membership.members_removed), 0);
    sim.check_invariants();
}
