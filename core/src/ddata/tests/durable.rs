//! Keys that the store keeps: what is acknowledged is on disk, and a restart has it. Spec: sharding 1.12,
//! 6.9, 10.8, 10.10.

use alloc::vec::Vec;

use super::super::crdt::{DataOp, DataType, DataValue, OrSetOp};
use super::super::protocol::{Answer, Command, Event, ReadError, WriteError};
use super::super::state::Pruning;
use super::super::state::consistency::Consistency::{All, Local, Majority};
use super::super::state::key::Pattern;
use super::world::{Disk, SECOND, World, add, increment, increment_in_map, key, remove};
use crate::config::Config;
use crate::membership::state::member::Status;
use crate::store::StoreError;
use crate::store::memory::MemoryMap;

const DONE: Answer = Answer::Written(Ok(()));

fn durable(config: &mut Config) {
    config.ddata.durable_keys = Vec::from([Pattern::parse("d*").unwrap()]);
}

/// Markers of durable keys live for an hour.
fn an_hour(config: &mut Config) {
    durable(config);
    config.ddata.durable_pruning_marker_time_to_live = 3600 * SECOND;
}

fn world(count: usize) -> World {
    let mut world = World::new(count, durable);
    world.run(SECOND / 10);
    world
}

#[test]
fn an_answer_waits_for_the_store_here_and_over_there() {
    let mut world = world(3);
    for peer in &mut world.peers[1..] {
        peer.disk = Disk::Stalls;
    }
    let token = world.update(0, "d", increment(1), Majority);
    let volatile = world.update(0, "v", increment(1), Majority);
    world.run(SECOND / 2);
    assert!(world.is_open(0, token));
    assert_eq!(*world.answer(0, volatile), DONE);
    world.peers[0].disk = Disk::Stalls;
    world.peers[1].disk = Disk::Works;
    world.peers[2].disk = Disk::Works;
    let token_2 = world.update(0, "d", increment(1), Majority);
    world.run(SECOND / 10);
    assert_eq!(*world.answer(0, token), DONE);
    assert!(world.is_open(0, token_2), "its own store has not answered");
    world.peers[0].disk = Disk::Works;
    world.run(SECOND / 10);
    assert_eq!(*world.answer(0, token_2), DONE);
}

#[test]
fn s_227_a_write_that_enough_have_and_the_own_store_does_not_failed_at_the_store() {
    for (others, error) in [
        (Disk::Works, WriteError::StoreFailed),
        (
            Disk::Stalls,
            WriteError::Unconfirmed {
                confirmed: 1,
                required: 2,
            },
        ),
    ] {
        let mut world = world(3);
        world.peers[0].disk = Disk::Stalls;
        world.peers[1].disk = others;
        world.peers[2].disk = others;
        let token = world.update(0, "d", increment(1), Majority);
        world.run(2 * SECOND);
        assert_eq!(*world.answer(0, token), Answer::Written(Err(error)));
    }
}

#[test]
fn a_restart_has_everything_that_was_acknowledged() {
    let mut world = world(1);
    for number in 0..200 {
        let token = world.update(0, &alloc::format!("d{}", number % 20), increment(1), Local);
        world.run(SECOND / 100);
        assert_eq!(*world.answer(0, token), DONE);
        world.update(0, "d-set", add(&alloc::format!("{number}")), Local);
    }
    let delete = Command::Delete {
        key: key("d7"),
        consistency: Local,
        timeout: SECOND,
    };
    let token = world.command(0, delete);
    world.run(SECOND / 10);
    assert_eq!(*world.answer(0, token), DONE);
    let before = world.peers[0].machine.digests();
    let store = world.peers[0].store.clone();
    world.peers.clear();
    let mut config = super::world::config();
    durable(&mut config);
    world.add_peer(crate::fixture::node("n0", 55), config, store);
    world.all_up();
    let token = world.get(0, "d1", Local);
    assert!(world.is_open(0, token), "loading");
    world.run(SECOND / 10);
    assert!(matches!(world.answer(0, token), Answer::Value(Ok(_))));
    assert_eq!(world.peers[0].machine.digests(), before);
    assert_eq!(world.count(0, "d1"), 10);
    let token = world.update(0, "d7", increment(1), Local);
    assert_eq!(*world.answer(0, token), Answer::Written(Err(WriteError::Deleted)));
}

#[test]
fn s_227_a_store_that_fails_is_said_and_is_never_a_success() {
    let mut world = world(3);
    world.peers[0].disk = Disk::Fails;
    let token = world.update(0, "d", increment(1), Local);
    world.run(SECOND / 10);
    assert_eq!(
        *world.answer(0, token),
        Answer::Written(Err(WriteError::StoreFailed))
    );
    // S-228: too many of the others.
    world.peers[0].disk = Disk::Works;
    world.run(3 * SECOND);
    world.peers[1].disk = Disk::Fails;
    world.peers[2].disk = Disk::Fails;
    let token = world.update(0, "d", increment(1), Majority);
    world.run(SECOND / 2);
    assert_eq!(
        *world.answer(0, token),
        Answer::Written(Err(WriteError::StoreFailed))
    );
    // Once they work again, what failed is stored without being asked for.
    for peer in &mut world.peers {
        peer.disk = Disk::Works;
    }
    world.run(10 * SECOND);
    assert_eq!(world.counts("d"), [2; 3]);
    let token = world.update(1, "d", increment(1), All);
    world.run(SECOND);
    assert_eq!(*world.answer(1, token), DONE);
}

#[test]
fn s_227_a_store_that_cannot_be_read_keeps_the_replicator_from_serving() {
    let mut world = World::new(1, durable);
    world.peers[0].disk = Disk::Fails;
    let early = world.update(0, "v", increment(1), Local);
    assert!(world.is_open(0, early), "it waits for the store");
    world.run(SECOND);
    let refused = Answer::Written(Err(WriteError::NotServing));
    assert_eq!(*world.answer(0, early), refused);
    let token = world.update(0, "v", increment(1), Local);
    assert_eq!(
        *world.answer(0, token),
        Answer::Written(Err(WriteError::NotServing))
    );
    assert_eq!(world.changes(0), [Event::StoreLost]);
    let token = world.command(0, Command::Replicas);
    assert_eq!(*world.answer(0, token), Answer::Replicas(0));
}

#[test]
fn s_227_a_store_that_is_away_while_it_is_read_is_waited_for_and_then_all_of_it_is_served() {
    let mut world = world(1);
    world.update(0, "d", increment(5), Local);
    world.run(SECOND);
    let stored = world.peers[0].store.clone();
    let mut world = World::new(0, durable);
    let mut config = super::world::config();
    durable(&mut config);
    world.add_peer(crate::fixture::node("n0", 77), config, stored);
    world.peers[0].disk = Disk::Away;
    world.all_up();
    let asked = |world: &World| world.peers[0].requests;
    world.run(SECOND);
    let awaited = Event::StoreAwaited {
        error: StoreError::Unavailable,
    };
    assert_eq!(world.changes(0), core::slice::from_ref(&awaited));
    assert_eq!(asked(&world), 1 + 3, "after 0.1, 0.3 and 0.7 s");
    world.run(99 * SECOND);
    assert!(
        (20..30).contains(&asked(&world)),
        "later every five seconds: {}",
        asked(&world)
    );
    // It comes back between two parts of the reading as well.
    let early = world.update(0, "d", increment(1), Local);
    world.peers[0].disk = Disk::Works;
    world.run(6 * SECOND);
    assert_eq!(world.changes(0)[..2], [awaited, Event::StoreRead]);
    assert_eq!(
        *world.answer(0, early),
        Answer::Written(Err(WriteError::NotServing))
    );
    assert_eq!(world.count(0, "d"), 5);
}

#[test]
fn i_66_a_store_older_than_markers_live_is_not_merged_unless_that_is_asked_for() {
    let mut world = world(1);
    world.update(0, "d", increment(1), Local);
    world.run(SECOND);
    let mut store = world.peers[0].store.clone();
    // Eleven days earlier, by the wall clock.
    let alive = 1_700_000_000_000_u64 - 11 * 24 * 3_600_000;
    let change = crate::store::Change::Put {
        key: crate::store::Bytes::from(&b"a"[..]),
        value: crate::store::Bytes::from(&alive.to_le_bytes()[..]),
    };
    let order = crate::store::StoreOrder::Write {
        batch: Vec::from([change]),
    };
    store
        .obey(crate::owner::Requester::Ddata.space(), &order)
        .unwrap();
    for load in [false, true] {
        let mut again = World::new(0, |_| {});
        let mut config = super::world::config();
        durable(&mut config);
        config.ddata.load_outdated = load;
        again.add_peer(crate::fixture::node("n0", 55), config, store.clone());
        again.all_up();
        again.run(SECOND);
        let outdated = again
            .changes(0)
            .iter()
            .any(|event| matches!(event, Event::StoreOutdated { .. }));
        assert_eq!(outdated, !load);
        assert_eq!(again.count(0, "d"), u128::from(load));
    }
}

#[test]
fn write_behind_answers_at_once_and_stores_later() {
    let mut world = World::new(1, |config| {
        durable(config);
        config.ddata.write_behind_interval = Some(10 * SECOND);
    });
    world.run(SECOND);
    world.peers[0].disk = Disk::Stalls;
    let token = world.update(0, "d", increment(1), Local);
    assert_eq!(*world.answer(0, token), DONE);
    world.peers[0].disk = Disk::Works;
    world.run(30 * SECOND);
    assert!(world.peers[0].store.entries().count() > MemoryMap::new().entries().count() + 1);
}

#[test]
fn what_changes_while_the_store_is_busy_is_written_together() {
    let mut world = world(1);
    world.peers[0].disk = Disk::Stalls;
    world.update(0, "d0", increment(1), Local);
    let before = world.peers[0].requests;
    for number in 1..20 {
        world.update(0, &alloc::format!("d{number}"), increment(1), Local);
    }
    world.peers[0].disk = Disk::Works;
    world.run(SECOND / 10);
    assert_eq!(world.peers[0].requests, before + 1);
    assert_eq!(started_again(&world, 55).peers[0].machine.keys().count(), 20);
}

#[test]
fn what_is_asked_before_the_store_is_read_waits_for_it_and_keeps_its_order() {
    let mut world = World::new(1, |config| {
        durable(config);
        config.ddata.open_operations_max = 5;
    });
    world.peers[0].disk = Disk::Stalls;
    let written = [
        world.update(0, "d", increment(1), Local),
        world.update(0, "v", increment(2), Majority),
    ];
    let read = world.get(0, "d", Local);
    let keys = world.command(0, Command::Keys);
    let replicas = world.command(0, Command::Replicas);
    assert_eq!(*world.answer(0, replicas), Answer::Replicas(0));
    let last = world.get(0, "v", Local);
    let refused = world.update(0, "v", increment(4), Local);
    assert_eq!(
        *world.answer(0, refused),
        Answer::Written(Err(WriteError::TooManyOperations))
    );
    world.run(SECOND / 2);
    assert!(written.iter().all(|token| world.is_open(0, *token)));
    assert_eq!(world.peers[0].machine.open_operations(), 5);
    world.peers[0].disk = Disk::Works;
    world.run(SECOND / 10);
    for token in written {
        assert_eq!(*world.answer(0, token), DONE);
    }
    assert!(matches!(world.answer(0, read), Answer::Value(Ok(_))));
    assert!(matches!(world.answer(0, last), Answer::Value(Ok(_))));
    assert_eq!(
        *world.answer(0, keys),
        Answer::Keys(Vec::from([key("d"), key("v")]))
    );
    assert_eq!((world.count(0, "d"), world.count(0, "v")), (1, 2));
}

#[test]
fn what_waited_for_the_store_has_the_rest_of_its_time() {
    let mut world = World::new(3, durable);
    world.partition(&[0], &[1, 2]);
    world.peers[0].disk = Disk::Stalls;
    let token = world.update(0, "v", increment(1), Majority);
    world.run(SECOND * 8 / 10);
    world.peers[0].disk = Disk::Works;
    world.run(SECOND / 10);
    assert!(world.is_open(0, token));
    assert_eq!(world.count(0, "v"), 1, "it is begun");
    world.run(SECOND / 5);
    let unconfirmed = WriteError::Unconfirmed {
        confirmed: 1,
        required: 2,
    };
    assert_eq!(*world.answer(0, token), Answer::Written(Err(unconfirmed)));
}

#[test]
fn what_was_read_from_the_store_is_not_written_there_again() {
    let mut world = world(1);
    for number in 0..20 {
        world.update(0, &alloc::format!("d{number}"), increment(1), Local);
    }
    world.run(SECOND / 10);
    let again = started_again(&world, 55);
    assert_eq!(again.peers[0].machine.keys().count(), 20);
    assert_eq!(again.peers[0].written, 1, "that it is alive");
}

#[test]
fn what_is_large_together_is_written_in_several_orders() {
    let mut world = World::new(1, |config| {
        durable(config);
        config.ddata.value_bytes_max = 1_000_000;
    });
    world.run(SECOND / 10);
    world.peers[0].disk = Disk::Stalls;
    let write = |world: &mut World, number: u8| {
        let element = |first: u8| {
            let mut bytes = alloc::vec![number; 60_000];
            bytes[0] = first;
            bytes.into()
        };
        let op = OrSetOp::Change {
            add: (0..15).map(element).collect(),
            remove: Vec::new(),
        };
        let initial = DataValue::empty(DataType::OrSet).unwrap();
        world.update(
            0,
            &alloc::format!("d{number}"),
            (initial, DataOp::OrSet(op)),
            Local,
        )
    };
    let tokens: Vec<u64> = (0..12).map(|number| write(&mut world, number)).collect();
    world.peers[0].disk = Disk::Works;
    world.run(SECOND / 10);
    for token in tokens {
        assert_eq!(*world.answer(0, token), DONE);
    }
}

#[test]
fn a_store_that_refused_rests_before_it_is_asked_again() {
    let mut world = world(1);
    world.peers[0].disk = Disk::Fails;
    world.update(0, "d", increment(1), Local);
    let before = world.peers[0].requests;
    world.run(10 * SECOND);
    let asked = world.peers[0].requests - before;
    assert!((1..=50).contains(&asked), "{asked}");
}

#[test]
fn s_228_stores_that_fail_are_outvoted_by_those_that_are_asked_later() {
    let mut world = world(5);
    let token = world.update(0, "d", increment(1), Majority);
    let asked: Vec<usize> = world.sent.iter().map(|(_, to, _)| *to).collect();
    assert_eq!(asked.len(), 2);
    for at in asked {
        world.peers[at].disk = Disk::Fails;
    }
    world.run(SECOND / 2);
    assert_eq!(*world.answer(0, token), DONE);
}

#[test]
fn what_waits_too_long_for_the_store_to_be_read_is_told_and_changes_nothing() {
    let mut world = World::new(1, durable);
    world.peers[0].disk = Disk::Stalls;
    let write = world.update(0, "d", increment(1), Local);
    let read = world.get(0, "d", Local);
    world.run(SECOND - SECOND / 10);
    assert!(world.is_open(0, write) && world.is_open(0, read));
    world.run(SECOND / 5);
    assert_eq!(
        *world.answer(0, write),
        Answer::Written(Err(WriteError::NotServing))
    );
    assert_eq!(*world.answer(0, read), Answer::Value(Err(ReadError::NotServing)));
    world.peers[0].disk = Disk::Works;
    world.run(SECOND);
    assert_eq!(world.count(0, "d"), 0);
}

#[test]
fn a_read_of_a_durable_key_waits_until_what_it_found_is_stored_here() {
    let mut world = world(3);
    world.partition(&[0], &[1, 2]);
    let token = world.update(1, "d", increment(7), Majority);
    world.run(SECOND / 10);
    assert_eq!(*world.answer(1, token), DONE);
    world.heal();
    world.peers[0].disk = Disk::Stalls;
    let read = world.get(0, "d", All);
    world.run(SECOND / 10);
    assert!(world.is_open(0, read), "its store has not kept it yet");
    world.peers[0].disk = Disk::Works;
    world.run(SECOND / 10);
    assert!(matches!(world.answer(0, read), Answer::Value(Ok(_))));
    // A store that fails is said.
    world.partition(&[0], &[1, 2]);
    world.update(1, "d", increment(1), Majority);
    world.run(SECOND / 10);
    world.heal();
    world.peers[0].disk = Disk::Fails;
    let read = world.get(0, "d", All);
    world.run(SECOND / 10);
    assert_eq!(*world.answer(0, read), Answer::Value(Err(ReadError::StoreFailed)));
}

/// Three nodes that counted 3 each; as long after some of them have gone as it takes to take over what was
/// theirs.
fn without_the_first(stays: fn(usize) -> bool) -> World {
    let mut world = World::new(3, an_hour);
    world.run(SECOND / 10);
    for index in 0..3 {
        world.update(index, "d", increment(3), All);
        world.run(SECOND);
    }
    world.run(5 * SECOND);
    let (stay, go): (Vec<_>, Vec<_>) = (0..3).partition(|index| stays(*index));
    world.partition(&stay, &go);
    world.see(|index| stays(index).then_some(Status::Up), &[]);
    world.run(900 * SECOND);
    world
}

/// The second one knows when the marker of the first ends, stores that, is cut off before anybody hears of
/// it, and comes back.
#[test]
fn i_64_a_store_that_knows_of_a_pruning_of_which_nobody_heard_does_not_count_it_again() {
    let cut_off = without_the_first(|index| index > 0);
    let gone = cut_off.peers[0].fixture.me.clone();
    let marker = &cut_off.peers[1].machine.envelope(&key("d")).unwrap().pruning[&gone];
    assert!(matches!(marker, Pruning::Performed { .. }));
    let mut world = without_the_first(|index| index == 2);
    world.peers.drain(..2);
    let mut config = super::world::config();
    an_hour(&mut config);
    world.add_peer(
        crate::fixture::node("n1", 55),
        config,
        cut_off.peers[1].store.clone(),
    );
    world.heal();
    world.all_up();
    world.run(60 * SECOND);
    assert_eq!(world.counts("d"), [9; 2]);
    world.run(900 * SECOND);
    assert_eq!(world.counts("d"), [9; 2]);
    world.run(5_000 * SECOND);
    assert_eq!(world.counts("d"), [9; 2]);
    world.assert_equal();
}

/// An address is removed and comes back with its disk, four times, each time with something that nobody else
/// has heard of.
#[test]
fn i_64_counters_are_exact_while_one_address_is_removed_and_comes_back_again_and_again() {
    let mut world = World::new(3, an_hour);
    world.run(SECOND / 10);
    let mut sum: u32 = 0;
    for life in 0..5 {
        for index in 0..3 {
            world.update(index, "d", increment(1), All);
            world.update(index, "dm", increment_in_map(1), All);
            world.run(SECOND);
            sum += 1;
        }
        world.run(5 * SECOND);
        assert_eq!(world.counts("d"), [u128::from(sum); 3], "life {life}");
        if life == 4 {
            break;
        }
        world.partition(&[0, 1], &[2]);
        world.update(2, "d", increment(1), Local);
        world.update(2, "dm", increment_in_map(1), Local);
        sum += 1;
        world.run(SECOND);
        world.see(|index| (index < 2).then_some(Status::Up), &[]);
        // Long enough for the marker to be performed, in one life also for its end to come near.
        world.run(if life == 2 { 3000 * SECOND } else { 900 * SECOND });
        let last = world.peers.pop().unwrap();
        let mut config = super::world::config();
        an_hour(&mut config);
        world.add_peer(crate::fixture::node("n2", 100 + life), config, last.store);
        world.heal();
        world.all_up();
        world.run(10 * SECOND);
    }
    for wait in [60, 20_000] {
        world.run(wait * SECOND);
        assert_eq!(world.counts("d"), [u128::from(sum); 3]);
        assert_eq!(
            [0, 1, 2].map(|index| world.mapped(index, "dm")),
            [i128::from(sum); 3]
        );
        world.assert_equal();
    }
    for name in ["d", "dm"] {
        let named = world.peers[0].machine.get(&key(name)).unwrap().nodes();
        assert_eq!(named.len(), 3, "{named:?}");
    }
}

/// The disk of a node that was cut off and removed has a removal that nobody else has heard of.
#[test]
fn i_63_a_removal_on_the_disk_of_a_removed_node_holds_while_its_marker_lives() {
    let mut world = world(2);
    world.update(0, "ds", add("x"), All);
    world.run(10 * SECOND);
    world.partition(&[0], &[1]);
    world.update(0, "ds", remove("x"), Local);
    world.run(SECOND);
    let disk = world.peers[0].store.clone();
    world.see(|index| (index == 1).then_some(Status::Up), &[]);
    world.run(900 * SECOND);
    let gone = world.peers[0].fixture.me.clone();
    let marker = &world.peers[1].machine.envelope(&key("ds")).unwrap().pruning[&gone];
    assert!(matches!(marker, Pruning::Performed { .. }));
    world.peers.remove(0);
    let mut config = super::world::config();
    durable(&mut config);
    world.add_peer(crate::fixture::node("n0", 55), config, disk);
    world.heal();
    world.all_up();
    world.run(60 * SECOND);
    world.assert_equal();
    for peer in &world.peers {
        assert!(
            matches!(peer.machine.get(&key("ds")).map(|data| &**data), Some(DataValue::OrSet(set)) if set.is_empty())
        );
    }
}

#[test]
fn i_64_a_whole_cluster_that_restarts_after_a_taking_over_counts_on() {
    let before = without_the_first(|index| index > 0);
    let mut world = World::new(0, an_hour);
    for (uid, peer) in before.peers.iter().skip(1).enumerate() {
        let mut config = super::world::config();
        an_hour(&mut config);
        let node = crate::fixture::node(&alloc::format!("n{}", uid + 1), 55 + uid as u64);
        world.add_peer(node, config, peer.store.clone());
    }
    world.all_up();
    world.run(60 * SECOND);
    assert_eq!(world.counts("d"), [9; 2]);
    world.update(0, "d", increment(1), All);
    world.run(5_000 * SECOND);
    assert_eq!(world.counts("d"), [10; 2]);
    // What all earlier lives counted is nobody's.
    for peer in &world.peers {
        assert_eq!(
            peer.machine
                .envelope(&key("d"))
                .unwrap()
                .data
                .as_ref()
                .unwrap()
                .nodes()
                .len(),
            1
        );
    }
}

/// The node's process anew, with the same store.
fn started_again(world: &World, uid: u64) -> World {
    let store = world.peers[0].store.clone();
    let mut again = World::new(0, |_| {});
    let mut config = super::world::config();
    durable(&mut config);
    again.add_peer(crate::fixture::node("n0", uid), config, store);
    again.all_up();
    again.run(SECOND / 10);
    again
}

#[test]
fn s_227_what_the_store_refused_is_stored_later_without_another_change() {
    let mut world = world(1);
    world.peers[0].disk = Disk::Fails;
    let token = world.update(0, "d", increment(7), Local);
    world.run(SECOND / 10);
    assert_eq!(
        *world.answer(0, token),
        Answer::Written(Err(WriteError::StoreFailed))
    );
    world.peers[0].disk = Disk::Works;
    world.run(10 * SECOND);
    assert_eq!(started_again(&world, 55).count(0, "d"), 7);
}

#[test]
fn s_224_an_expired_key_is_not_back_after_a_restart() {
    let mut world = World::new(1, |config| {
        durable(config);
        let rule = (Pattern::parse("d-*").unwrap(), 10 * SECOND);
        config.ddata.expire_keys_after_inactivity = Vec::from([rule]);
    });
    world.update(0, "d-1", increment(1), Local);
    world.update(0, "d2", increment(2), Local);
    world.run(60 * SECOND);
    assert!(world.peers[0].machine.get(&key("d-1")).is_none());
    let again = started_again(&world, 55);
    assert!(again.peers[0].machine.get(&key("d-1")).is_none());
    assert_eq!(again.count(0, "d2"), 2);
}
