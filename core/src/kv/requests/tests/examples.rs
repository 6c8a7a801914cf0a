//! The worked examples of the store, number by number. Spec: sharding 5.6, 10.19 c; S-330 to S-337.

use alloc::vec;
use alloc::vec::Vec;

use super::world::{World, key, put, values};
use crate::journal::state::StoreId;
use crate::kv::requests::CallError;
use crate::kv::state::clock::VersionClock;
use crate::kv::state::exchange::KvChange;

fn counts(clock: &VersionClock) -> Vec<(u128, u64)> {
    clock
        .entries()
        .iter()
        .map(|entry| (entry.actor.store.0, entry.count))
        .collect()
}

#[test]
fn s_330_a_get_repairs_the_replica_that_was_down() {
    let mut world = World::new((3, 2, 2), 0);
    world.nodes[2].is_up = false;
    let clock = world.write(put("v1"), &VersionClock::new(), 2, &[0]).unwrap();
    assert_eq!(counts(&clock), [(0, 1)]);
    world.nodes[2].restart();
    assert_eq!(values(&world.get(2, &[1, 2]).unwrap()), ["v1"]);
    assert_eq!(values(&world.nodes[2].entry(&key("k"))), ["v1"], "it is repaired");
    assert_eq!(values(&world.get(1, &[2]).unwrap()), ["v1"]);
}

#[test]
fn s_331_below_w_and_r_above_n_a_get_may_be_stale_and_repairs_those_that_it_read() {
    let mut world = World::new((3, 1, 1), 0);
    world.write(put("v1"), &VersionClock::new(), 3, &[0]).unwrap();
    let context = world.get(1, &[0]).unwrap().siblings.clock().clone();
    world.cut = vec![StoreId(1), StoreId(2)];
    world.write(put("v2"), &context, 1, &[0]).unwrap();
    assert_eq!(values(&world.get(1, &[1]).unwrap()), ["v1"]);
    assert_eq!(values(&world.get(2, &[0, 1]).unwrap()), ["v2"]);
    assert_eq!(values(&world.nodes[1].entry(&key("k"))), ["v2"], "it is repaired");
    assert_eq!(values(&world.nodes[2].entry(&key("k"))), ["v1"], "still stale");
}

#[test]
fn s_332_two_puts_with_one_context_are_siblings_until_a_put_with_both() {
    let mut world = World::new((3, 2, 2), 0);
    let context = world.write(put("a"), &VersionClock::new(), 2, &[0]).unwrap();
    world.cut = vec![StoreId(2)];
    world.write(put("b"), &context, 2, &[0]).unwrap();
    world.cut = vec![StoreId(0)];
    world.write(put("c"), &context, 2, &[2]).unwrap();
    world.cut = vec![];
    let found = world.get(3, &[0, 1, 2]).unwrap();
    assert_eq!(values(&found), ["b", "c"]);
    assert_eq!(counts(found.siblings.clock()), [(0, 2), (2, 1)]);
    let clock = world.write(put("b+c"), found.siblings.clock(), 2, &[1]).unwrap();
    assert_eq!(counts(&clock), [(0, 2), (1, 1), (2, 1)]);
    assert_eq!(values(&world.get(2, &[0, 2]).unwrap()), ["b+c"]);
}

#[test]
fn i_73_a_put_that_misses_w_may_be_found_and_says_how_many_have_it() {
    let mut world = World::new((3, 2, 2), 0);
    world.cut = vec![StoreId(1), StoreId(2)];
    let missed = world.write(put("v1"), &VersionClock::new(), 2, &[0]);
    assert_eq!(missed, Err(CallError::Timeout { acknowledged: 1 }));
    assert_eq!(values(&world.get(2, &[1, 2]).unwrap()), [""; 0]);
    assert_eq!(values(&world.get(2, &[0, 1]).unwrap()), ["v1"]);
}

/// Overrides the last example of 5.6.
#[test]
fn s_335_two_blind_puts_through_one_owner_are_siblings() {
    let mut world = World::new((3, 2, 2), 0);
    world.write(put("v1"), &VersionClock::new(), 2, &[0]).unwrap();
    world.write(put("v2"), &VersionClock::new(), 2, &[0]).unwrap();
    let found = world.get(2, &[1, 2]).unwrap();
    assert_eq!(values(&found), ["v1", "v2"]);
}

#[test]
fn s_337_what_was_deleted_stays_so_for_older_puts_and_a_newer_one_wins() {
    let mut world = World::new((3, 2, 2), 0);
    let older = world.write(put("v1"), &VersionClock::new(), 3, &[0]).unwrap();
    world.cut = vec![StoreId(2)];
    let newer = world.write(KvChange::Delete, &older, 2, &[0]).unwrap();
    world.cut = vec![];
    assert_eq!(
        values(&world.nodes[2].entry(&key("k"))),
        ["v1"],
        "it has not heard"
    );
    assert_eq!(values(&world.get(2, &[1, 2]).unwrap()), [""; 0]);
    world.write(put("v2"), &newer, 2, &[2]).unwrap();
    assert_eq!(values(&world.get(2, &[0, 1]).unwrap()), ["v2"]);
}
