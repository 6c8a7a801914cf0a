//! Coordinators whose state is stored: where shards live is known again after their coordinator died, and
//! after all nodes did. In virtual time, with the stores of simulated machines.

use core::time::Duration;
use std::collections::BTreeMap;

use quorate_core::journal::erasure::Erasure;
use quorate_core::owner::Requester;
use quorate_core::sharding::coordinator_log;
use quorate_core::sharding::fields::StoreMode;
use quorate_core::sharding::ids::ShardId;
use quorate_core::stats::Stats;
use quorate_core::store::LogName;
use quorate_core::store::layout::{seal, unseal};
use quorate_core::store::memory::MemoryMap;
use quorate_tests::sim::{KIND, Sim, all_up, calm, secs};

const NODES: usize = 5;
const STORED: [StoreMode; 2] = [StoreMode::DistributedData, StoreMode::Events];

/// Five nodes, three stores of which vote, and a home for every entity's shard.
fn formed(seed: u64, mode: StoreMode) -> Sim {
    let mut sim = Sim::new(seed)
        .config(|config| {
            config.journal.voters = 3;
            config.sharding.state_store_mode = mode;
            config.sharding.snapshot_after = 4;
        })
        .nodes(NODES);
    sim.run_until(all_up);
    let asks = ask_all(&mut sim, 0);
    sim.run_until(calm);
    sim.expect_answered(asks);
    // Whatever the first balance moves.
    sim.run_for(secs(5));
    sim
}

fn ask_all(sim: &mut Sim, from: usize) -> Vec<usize> {
    let asks = (0..20).filter_map(|entity| sim.ask(from, &format!("e{entity}"), secs(20)));
    asks.collect()
}

/// Every node dies at once, and comes back on its address in another order.
fn all_die_and_come_back(sim: &mut Sim) {
    (0..NODES).for_each(|index| sim.crash(index));
    sim.run_for(secs(1));
    for index in [3, 1, 4, 0, 2] {
        sim.start(index);
        sim.run_for(Duration::from_millis(300));
    }
    sim.run_until(all_up);
}

fn homes_before_and_after(seed: u64, mode: StoreMode) -> [BTreeMap<ShardId, usize>; 2] {
    let mut sim = formed(seed, mode);
    let before = sim.homes();
    all_die_and_come_back(&mut sim);
    // In another order than at first, which is what a coordinator without a memory gives homes by.
    let asks = (0..20).rev();
    let asks: Vec<usize> = asks
        .filter_map(|entity| sim.ask(2, &format!("e{entity}"), secs(20)))
        .collect();
    sim.run_until(calm);
    sim.expect_answered(asks);
    sim.check_invariants();
    [before, sim.homes()]
}

#[test]
fn homes_are_honoured_after_all_nodes_were_killed() {
    for (seed, mode) in (700..).zip(STORED.repeat(5)) {
        let [before, after] = homes_before_and_after(seed, mode);
        assert!(before.len() > 10, "seed {seed}: {before:?}");
        assert_eq!(before, after, "seed {seed}");
    }
}

#[test]
fn in_memory_they_are_not() {
    let moved = (700..710).filter(|seed| {
        let [before, after] = homes_before_and_after(*seed, StoreMode::Memory);
        before != after
    });
    assert!(moved.count() > 5, "or the test above shows nothing");
}

#[test]
fn a_shard_whose_home_does_not_come_back_gets_another() {
    for (seed, mode) in (720..).zip(STORED) {
        let mut sim = formed(seed, mode);
        let before = sim.homes();
        let lost = *before.values().max().expect("somebody hosts something");
        (0..NODES).for_each(|index| sim.crash(index));
        let back: Vec<usize> = (0..NODES).filter(|index| *index != lost).collect();
        // With two of three voters, wherever the third one is.
        back.iter().for_each(|index| sim.start(*index));
        sim.run_until(all_up);
        let asks = ask_all(&mut sim, back[0]);
        sim.run_until(calm);
        sim.expect_answered(asks);
        for (shard, home) in sim.homes() {
            let was = before[&shard];
            assert!(
                home != lost && (home == was || was == lost),
                "seed {seed}: {shard} {was} {home}"
            );
        }
    }
}

#[test]
fn a_coordinator_that_dies_leaves_every_other_home_as_it_was() {
    for (seed, mode) in (740..).zip(STORED.repeat(3)) {
        let mut sim = formed(seed, mode);
        let before = sim.homes();
        let oldest = sim.oldest_of(1).expect("there is one");
        sim.crash(oldest);
        sim.run_until(all_up);
        let from = (0..NODES).find(|index| *index != oldest).expect("others live");
        let asks = ask_all(&mut sim, from);
        sim.run_until(calm);
        sim.expect_answered(asks);
        for (shard, home) in sim.homes() {
            assert!(
                home == before[&shard] || before[&shard] == oldest,
                "seed {seed}: {shard}"
            );
        }
        assert!(sim.sum(|stats: &Stats| stats.sharding.state_writes) > 0);
        sim.check_invariants();
    }
}

/// Puts another first byte into everything that a coordinator has written, with the seal that belongs to it.
fn damage(map: &mut MemoryMap, log: &str) -> usize {
    let of_log = |key: &[u8]| key.windows(log.len()).any(|part| part == log.as_bytes());
    let all = map.entries().filter(|(key, _)| of_log(key));
    let all: Vec<(Vec<u8>, Vec<u8>)> = all.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    let mut damaged = 0;
    for (key, sealed) in all {
        let mut value = unseal(&key, &sealed).expect("a disk that does not lie").to_vec();
        // Behind the first byte of a store's key and its space: 2 for an item; behind the log 0 and 4 bytes
        // for a part of a snapshot, or 1 and 8 bytes for an entry, whose first record lies behind two tokens,
        // a number and a length.
        let place = key[3 + 3 + log.len()..].len();
        let at = match (key[3], place) {
            (2, 5) => 0,
            (2, 9) => 44,
            _ => continue,
        };
        if let Some(version) = value.get_mut(at) {
            *version = 9;
            damaged += 1;
        }
        map.damage(&key, seal(&key, &[&value]));
    }
    damaged
}

/// Empties a log as a command does that is given the store of a node that does not run.
fn erase(map: &mut MemoryMap, log: &str) {
    let space = Requester::Journal.space();
    let mut erasure = Erasure::of([LogName::from(log)]);
    while let Some(question) = erasure.ask() {
        let answer = map.obey(space, &question);
        erasure.on_answer(&answer).expect("the store works");
    }
    for order in erasure.removals() {
        map.obey(space, order).expect("the store works");
    }
}

#[test]
fn damaged_state_is_named_at_the_start_and_removing_it_cures_it() {
    let log = coordinator_log(KIND);
    for (seed, mode) in (760..).zip(STORED) {
        let mut sim = formed(seed, mode);
        (0..NODES).for_each(|index| sim.crash(index));
        let others = |map: &MemoryMap| {
            let named = |key: &[u8]| key.windows(log.len()).any(|part| part == log.as_bytes());
            map.entries().filter(|(key, _)| !named(key)).count()
        };
        let mut damaged = 0;
        for index in 0..NODES {
            let mut map = sim.stored(index).expect("it has a store").clone();
            damaged += damage(&mut map, &log);
            sim.replace_store(index, map);
        }
        assert!(damaged >= 3, "seed {seed}: what three voters hold");
        (0..NODES).for_each(|index| sim.start(index));
        sim.run_until(all_up);
        ask_all(&mut sim, 0);
        sim.run_for(secs(25));
        assert!(sim.sum(|stats| stats.sharding.states_damaged) > 0, "seed {seed}");
        assert!(sim.homes().is_empty(), "seed {seed}: nothing is allocated");

        (0..NODES).for_each(|index| sim.crash(index));
        for index in 0..NODES {
            let mut map = sim.stored(index).expect("it has a store").clone();
            let before = others(&map);
            erase(&mut map, &log);
            assert_eq!(others(&map), before, "nothing else is touched");
            sim.replace_store(index, map);
        }
        (0..NODES).for_each(|index| sim.start(index));
        sim.run_until(all_up);
        let asks = ask_all(&mut sim, 1);
        sim.run_until(calm);
        sim.expect_answered(asks);
        assert!(sim.homes().len() > 10, "seed {seed}");
    }
}
