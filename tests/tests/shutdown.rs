//! A whole cluster stops (sharding 10.12): once it is prepared nothing is moved or started for balance,
//! nothing is handed over, and what a message needs still begins. Every invariant runs after every step; I-33
//! says that no instance starts.

use core::time::Duration;

use quorate_core::config::Config;
use quorate_core::effect::HaltReason;
use quorate_core::membership::member::Status;
use quorate_core::view::MembershipPhase;
use quorate_tests::sim::{Sim, all_up, secs};

const NODES: usize = 5;

fn ask_all(sim: &mut Sim, from: usize) -> Vec<usize> {
    let asks = (0..40).filter_map(|entity| sim.ask(from, &format!("e{entity}"), secs(5)));
    asks.collect()
}

fn all_ready(sim: &Sim) -> bool {
    let ready = |at: &usize| sim.view(*at).is_ready_for_shutdown();
    sim.running().iter().all(ready)
}

/// Panics unless each of these nodes sees exactly these many members, all Ready.
fn expect_ready(sim: &Sim, at: impl IntoIterator<Item = usize>, members: usize) {
    for at in at {
        let found = sim.view(at).members();
        let ready = |status| status == Status::ReadyForShutdown;
        assert!(
            found.len() == members && found.iter().all(|member| ready(member.status)),
            "{at} sees {found:?}"
        );
    }
}

/// Shards that got a home, and hand-offs that went to their end.
fn moves(sim: &Sim) -> (u64, u64) {
    let allocated = sim.sum(|stats| stats.sharding.shards_allocated);
    (allocated, sim.sum(|stats| stats.sharding.hand_offs_completed))
}

/// Five nodes with entities and two singletons, prepared to stop.
fn prepared(seed: u64, by: usize) -> Sim {
    let mut sim = Sim::new(seed).with_singletons(NODES).nodes(NODES);
    sim.run_until(all_up);
    ask_all(&mut sim, 0);
    sim.run_for(secs(10));
    assert!(sim.prepare_for_shutdown(by));
    sim.run_until(all_ready);
    sim
}

#[test]
fn m_220_and_s_110_five_prepared_nodes_leave_at_once_and_hand_nothing_over() {
    for seed in 0..20 {
        let mut sim = prepared(seed, usize::try_from(seed).unwrap() % NODES);
        let (before, began) = (moves(&sim), sim.history().instances.len());
        assert!(
            before.0 > 0 && began >= 2,
            "there is something that could be handed over"
        );
        for index in 0..NODES {
            sim.leave(index);
        }
        sim.run_for(secs(4));
        sim.expect_halted(0..NODES, HaltReason::Left);
        assert_eq!(moves(&sim), before, "seed {seed}");
        let instances = &sim.history().instances;
        assert_eq!(instances.len(), began, "seed {seed}");
        assert!(instances.iter().all(|it| it.ended_at.is_some()), "seed {seed}");
        assert!(sim.history().handed_over.is_empty(), "seed {seed}");
        sim.check_invariants();
    }
}

#[test]
fn prepared_nodes_that_leave_one_after_the_other_start_only_what_a_message_needs() {
    for seed in 0..10 {
        let mut sim = prepared(100 + seed, 0);
        let began = sim.history().instances.len();
        for index in 0..NODES - 1 {
            let before = moves(&sim);
            sim.leave(index);
            sim.run_for(secs(3));
            sim.expect_halted([index], HaltReason::Left);
            assert_eq!(moves(&sim), before, "seed {seed}: node {index} left");
            let asks = ask_all(&mut sim, NODES - 1);
            sim.run_for(secs(6));
            sim.expect_answered(asks);
        }
        sim.leave(NODES - 1);
        sim.run_for(secs(3));
        sim.expect_halted(0..NODES, HaltReason::Left);
        assert_eq!(sim.history().instances.len(), began, "seed {seed}");
        sim.check_invariants();
    }
}

#[test]
fn s_110_when_the_oldest_of_a_prepared_cluster_dies_no_instance_starts_and_asks_go_on() {
    for seed in 0..10 {
        let mut sim = prepared(200 + seed, 1);
        let began = sim.history().instances.len();
        let before = moves(&sim);
        sim.crash(0);
        sim.run_for(secs(30));
        expect_ready(&sim, 1..NODES, NODES - 1);
        assert_eq!(moves(&sim), before, "seed {seed}: nothing begins by itself");
        let asks = ask_all(&mut sim, 1);
        sim.run_for(secs(6));
        sim.expect_answered(asks);
        assert_eq!(sim.history().instances.len(), began, "seed {seed}");
        sim.check_invariants();
    }
}

#[test]
fn m_162_nobody_joins_a_prepared_cluster_although_those_who_prepared_leave_it() {
    let mut sim = prepared(300, 2);
    sim.start(NODES);
    sim.run_for(secs(5));
    expect_ready(&sim, 0..NODES, NODES);
    // Nobody shows any more that the cluster is prepared, and still nobody is let in.
    for index in 0..NODES {
        sim.leave(index);
    }
    while !sim.running().iter().all(|at| *at == NODES) {
        sim.run_for(Duration::from_millis(10));
        assert_eq!(sim.view(NODES).phase(), MembershipPhase::Joining);
    }
    sim.run_for(secs(4));
    sim.expect_halted(0..NODES, HaltReason::Left);
    sim.check_invariants();
}

#[test]
fn what_one_node_hands_over_while_another_prepares_the_cluster_ends_and_no_one_waits() {
    for seed in 0..20 {
        let documented = |config: &mut Config| *config = Config::lan(config.cluster.clone());
        let mut sim = Sim::new(400 + seed)
            .config(documented)
            .with_singletons(NODES)
            .nodes(NODES);
        sim.run_until(all_up);
        ask_all(&mut sim, 0);
        sim.run_for(secs(30));
        sim.leave(0);
        sim.run_for(Duration::from_millis(seed * 100));
        sim.prepare_for_shutdown(1);
        sim.run_for(secs(12));
        sim.expect_halted([0], HaltReason::Left);
        for index in 1..NODES {
            sim.leave(index);
        }
        sim.run_for(secs(12));
        sim.expect_halted(0..NODES, HaltReason::Left);
        sim.check_invariants();
    }
}
