//! Stores that hold as much as they may: nothing new comes in, nothing is lost, and deletes make room.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use super::world::{World, carts, change, config, put, values};
use crate::kv::hosting::BucketStore;
use crate::kv::protocol::Event;
use crate::kv::protocol::ranges::RangeCommand;
use crate::kv::state::clock::VersionClock;
use crate::kv::state::exchange::KvChange;
use crate::kv::state::level::Level;
use crate::kv::state::outcome::{CallAnswer, CallError, CallGoal};
use crate::kv::state::siblings::PutError;
use crate::kv::state::table::RangeId;

const SECOND: Duration = Duration::from_secs(1);
const BYTES_MAX: usize = 4_000;
const FULL: CallError = CallError::Put(PutError::Full);

fn large() -> String {
    "v".repeat(300)
}

/// Three or more stores that take no new value; how many keys they hold.
fn filled(nodes: usize) -> (World, usize) {
    let mut config = config();
    config.kv.store_bytes_max = BYTES_MAX;
    let mut world = World::with_config(nodes, config);
    world.open(0..nodes);
    for number in 0..100 {
        let goal = put(&large(), VersionClock::new());
        match world.call(0, &format!("key {number}"), goal) {
            Ok(_) => {}
            Err(FULL) => return (world, number),
            Err(other) => panic!("unexpected {other:?}"),
        }
    }
    panic!("nothing bounds them")
}

fn held(world: &World, index: usize) -> usize {
    let open = world.peers[index].machine.bucket(&carts()).unwrap();
    open.store().map_or(0, BucketStore::held_bytes)
}

fn told(world: &World) -> usize {
    let events = world.peers.iter().flat_map(|peer| &peer.events);
    events
        .filter(|event| matches!(event, Event::StoreFull { .. }))
        .count()
}

fn delete(world: &mut World, name: &str) {
    let context = world.get(1, name).siblings.clock().clone();
    let goal = CallGoal::Write {
        change: KvChange::Delete,
        context,
        level: Level::Quorum,
    };
    world.call(1, name, goal).unwrap();
}

#[test]
fn a_full_store_refuses_new_values_and_loses_nothing() {
    let (mut world, keys) = filled(3);
    assert!(keys > 3);
    assert!(held(&world, 0) >= BYTES_MAX && held(&world, 0) < 2 * BYTES_MAX);
    assert!(
        world.get(1, &format!("key {keys}")).is_empty(),
        "nothing of it is anywhere"
    );
    for number in 0..keys {
        assert_eq!(values(&world.get(2, &format!("key {number}"))), [large()]);
    }
    let again = put("w", world.get(0, "key 0").siblings.clock().clone());
    assert_eq!(world.call(1, "key 0", again), Err(FULL));
    let refused = world.peers.iter().map(|peer| peer.fixture.stats.kv.puts_full);
    assert_eq!(refused.sum::<u64>(), 2);
    assert!((1..=2).contains(&told(&world)), "once by each store");
    assert!(world.peers.iter().all(|peer| peer.rejections == 0));
}

#[test]
fn a_conditional_put_of_a_new_key_is_refused_and_never_takes_effect() {
    let (mut world, _) = filled(3);
    let new = |expected| CallGoal::Conditional {
        expected,
        change: change("1"),
    };
    assert_eq!(world.call(1, "c", new(None)), Err(FULL));
    world.run(SECOND * 30);
    assert!(world.get(2, "c").is_empty());
}

#[test]
fn what_a_conditional_put_has_written_is_deleted_by_one() {
    let mut config = config();
    config.kv.store_bytes_max = BYTES_MAX;
    let mut world = World::with_config(3, config);
    world.open(0..3);
    let goal = |expected, change| CallGoal::Conditional { expected, change };
    let Ok(CallAnswer::Decided(version)) = world.call(0, "c", goal(None, change("1"))) else {
        panic!("nobody else was there")
    };
    let mut is_taken = |number: usize| {
        let goal = put(&large(), VersionClock::new());
        world.call(0, &format!("key {number}"), goal).is_ok()
    };
    assert!(!(0..100).all(&mut is_taken), "nothing bounds them");
    let gone = world.call(1, "c", goal(Some(version), KvChange::Delete));
    assert!(matches!(gone, Ok(CallAnswer::Decided(_))));
    assert!(values(&world.get(2, "c")).is_empty());
}

#[test]
fn what_is_deleted_and_forgotten_makes_room() {
    let (mut world, keys) = filled(3);
    for number in 0..keys {
        delete(&mut world, &format!("key {number}"));
    }
    assert!(held(&world, 0) > 0);
    // The grace, and the rounds in which it is noticed.
    world.run(SECOND * 90);
    for index in 0..3 {
        assert_eq!(held(&world, index), 0, "node {index}");
    }
    world.put(0, "key 0", "again");
    assert_eq!(values(&world.get(1, "key 0")), ["again"]);
}

#[test]
fn a_full_store_takes_over_ranges_that_it_is_to_own() {
    let (mut world, keys) = filled(4);
    let mut moved = 0;
    for range in (0..8).map(RangeId) {
        let owners = world.owners(0, range);
        let to = (0..4)
            .map(|index| world.store(index))
            .find(|store| !owners.contains(store));
        let (from, to) = (owners[0], to.unwrap());
        moved += usize::from(
            world
                .command_ranges(0, RangeCommand::Move { range, from, to })
                .is_ok(),
        );
        world.run(SECOND * 3);
    }
    assert!(moved > 0);
    for number in 0..keys {
        assert_eq!(values(&world.get(2, &format!("key {number}"))), [large()]);
    }
    for index in 0..4 {
        let open = world.peers[index].machine.bucket(&carts()).unwrap();
        let ranges = open.store().unwrap().ranges();
        let entries = ranges.flat_map(|(_, held)| held.entries());
        let bytes: usize = entries
            .map(|(key, entry)| key.as_str().len() + entry.bytes())
            .sum();
        assert_eq!(held(&world, index), bytes, "node {index}");
    }
}
