//! What went wrong in other systems, as scenarios: each names the report it comes from. Spec: membership 7.1.

use core::time::Duration;

use quorate_core::membership::member::Status;
use quorate_tests::sim::{FaultKind, Sim, all_up, secs};

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The Up members that each of these nodes sees.
fn up_at(sim: &Sim, index: usize) -> usize {
    let members = sim.view(index).members();
    members.iter().filter(|m| m.status == Status::Up).count()
}

/// A sick node does not hear the answers of one healthy neighbour, marks it unreachable, and leaves. By the
/// classic rule the two of them are indirectly connected and may both go (I-19 counts such a case); the other
/// eighteen must not.
#[test]
fn pekko_578_one_sick_leaving_node_of_twenty_takes_at_most_its_neighbour_along() {
    let mut sim = Sim::new(578)
        .config(|config| config.failure_detector.monitored_by_nr_of_members = 19)
        .nodes(20);
    sim.run_until(all_up);
    for _ in 0..200 {
        sim.lose_next("HeartbeatRsp", 3, 7);
    }
    // As soon as the sick node has complained, before anybody decides, it is asked to leave.
    sim.run_until(|sim| (0..20).any(|index| !sim.view(index).unreachable().is_empty()));
    sim.leave(7);
    sim.run_for(secs(30));
    let running = sim.running();
    assert!(running.len() >= 18 && !running.contains(&7), "{running:?}");
    sim.expect_members(running.clone(), running);
}

#[test]
fn akka_core_29388_seen_sets_are_exchanged_at_equal_clocks_until_all_know() {
    let mut sim = Sim::new(29_388).nodes(4);
    sim.run_until(all_up);
    // Everybody holds the last state, but what says so is lost: nothing changes the clock any more.
    for _ in 0..20 {
        for (from, to) in [(0, 1), (1, 2), (2, 3), (3, 0), (1, 0), (2, 1), (3, 2), (0, 3)] {
            sim.lose_next("GossipStatus", from, to);
        }
    }
    sim.start(4);
    sim.run_until(all_up);
    sim.run_for(secs(2));
    let clock = sim.view(0).gossip().version().clone();
    assert!((0..5).all(|index| sim.view(index).is_converged()));
    assert!((0..5).all(|index| *sim.view(index).gossip().version() == clock));
    assert!((0..5).all(|index| sim.view(index).gossip().seen_count() == 5));
}

#[test]
fn akka_net_8467_a_lagging_peer_does_not_bring_a_removed_member_back() {
    let mut sim = Sim::new(8_467).nodes(5);
    sim.run_until(all_up);
    // The peer stands still while a member leaves and is removed; its old state arrives afterwards.
    let gone = sim.incarnation(2).expect("it runs");
    sim.pause(4, millis(900));
    sim.leave(2);
    sim.run_until(|sim| sim.view(0).is_removed(&gone));
    sim.run_for(secs(5));
    sim.expect_members([0, 1, 3, 4], [0, 1, 3, 4]);
    assert!(
        sim.running()
            .iter()
            .all(|index| sim.view(*index).is_removed(&gone))
    );
    assert!(sim.running().iter().all(|index| sim.view(*index).is_converged()));
}

#[test]
fn restate_5156_a_node_that_stood_still_takes_nobody_for_dead() {
    let mut sim = Sim::new(5_156).nodes(5);
    sim.run_until(all_up);
    // Long enough for each of its detectors to find everybody silent, short enough that nobody removes it.
    sim.pause(2, millis(2_200));
    sim.run_for(secs(10));
    assert_eq!(sim.sum(|stats| stats.detector.pauses_compensated), 1);
    assert_eq!(sim.fault_counts().of(FaultKind::Pause), 1);
    sim.expect_members(0..5, 0..5);
    assert_eq!(sim.sum(|stats| stats.downing.decisions), 0);
}

#[test]
fn akka_core_18554_a_first_seed_that_starts_late_or_slowly_joins_the_cluster_there_is() {
    let mut sim = Sim::new(18_554).nodes(0);
    // Others wait for the first seed instead of forming a cluster each.
    for index in [1, 2] {
        sim.start_with_seeds(index, &[0, 1, 2]);
    }
    sim.run_for(secs(6));
    assert!([1, 2].iter().all(|index| sim.view(*index).members().is_empty()));
    sim.start_with_seeds(0, &[0, 1, 2]);
    sim.run_until(all_up);
    // It comes back while the others still run: it joins them, it does not begin anew.
    let oldest = sim.oldest_of(1);
    assert_eq!(oldest, Some(0));
    sim.restart(0);
    sim.run_until(all_up);
    assert_ne!(sim.oldest_of(1), Some(0), "it is the youngest now");
    sim.expect_members(0..3, 0..3);
}

#[test]
fn akka_net_2584_nobody_stays_joining_in_a_cluster_of_twenty() {
    let mut sim = Sim::new(2_584).nodes(16);
    sim.run_until(all_up);
    for index in 16..20 {
        sim.start(index);
    }
    // While they join, the leader is lost.
    let leader = sim.leader_of(0).expect("somebody leads");
    sim.run_for(millis(150));
    sim.crash(leader);
    sim.run_for(secs(25));
    let running = sim.running();
    assert_eq!(running.len(), 19);
    assert!(running.iter().all(|index| up_at(&sim, *index) == 19));
    sim.expect_members(running.clone(), running);
}
