//! What removed nodes contributed is taken over once, and late data is not counted twice. Spec: sharding 1.12, 6.9, 10.8;
//! reliability I-64, I-66.

use alloc::vec::Vec;

use super::super::protocol::{Body, Carried, Event, Msg};
use super::super::state::consistency::Consistency::{All, Local};
use super::super::state::{Envelope, Pruning};
use super::world::{SECOND, World, add, increment, key};
use crate::ident::UniqueAddress;
use crate::membership::state::member::Status;

/// Three nodes that counted 3 + 3 + 3, and a set; the third one has gone.
fn after_a_removal() -> (World, UniqueAddress) {
    let (mut world, gone) = before_a_removal();
    world.see(|index| (index < 2).then_some(Status::Up), &[]);
    (world, gone)
}

/// As above, cut off and not yet removed.
fn before_a_removal() -> (World, UniqueAddress) {
    let mut world = World::new(3, |_| {});
    for index in 0..3 {
        world.update(index, "a", increment(3), All);
        world.update(index, "s", add(&alloc::format!("e{index}")), All);
        world.run(SECOND);
    }
    world.run(5 * SECOND);
    world.assert_equal();
    let gone = world.peers[2].fixture.me.clone();
    world.partition(&[0, 1], &[2]);
    (world, gone)
}

fn mentions(world: &World, index: usize, name: &str, node: &UniqueAddress) -> bool {
    world.peers[index]
        .machine
        .envelope(&key(name))
        .unwrap()
        .mentions(node)
}

#[test]
fn s_218_a_removed_nodes_part_is_taken_over_and_the_value_stays() {
    let (mut world, gone) = after_a_removal();
    world.run(250 * SECOND);
    assert!(mentions(&world, 0, "a", &gone), "too early");
    world.run(600 * SECOND);
    for index in 0..2 {
        for name in ["a", "s"] {
            assert!(!mentions(&world, index, name, &gone), "{name} at {index}");
        }
        assert_eq!(world.count(index, "a"), 9);
    }
    for index in 0..2 {
        world.update(index, "a", increment(1), All);
        world.run(SECOND);
    }
    assert_eq!([world.count(0, "a"), world.count(1, "a")], [11, 11]);
    // The marker goes after six hours, and nothing with it.
    world.run(7 * 3600 * SECOND);
    let envelope = world.peers[1].machine.envelope(&key("a")).unwrap();
    assert!(envelope.pruning.is_empty(), "{envelope:?}");
    assert_eq!(world.count(1, "a"), 11);
}

#[test]
fn s_218_late_data_is_counted_once_and_newer_late_data_is_taken_over_too() {
    let (mut world, gone) = before_a_removal();
    // What the removed node held, before and after one more change that nobody saw.
    let old = world.peers[2].machine.envelope(&key("a")).unwrap().clone();
    world.update(2, "a", increment(5), Local);
    let newer = world.peers[2].machine.envelope(&key("a")).unwrap().clone();
    world.see(|index| (index < 2).then_some(Status::Up), &[]);
    world.run(900 * SECOND);
    assert!(!mentions(&world, 0, "a", &gone));
    let from = world.peers[0].fixture.me.clone();
    let tell = |world: &mut World, index: usize, envelope: Envelope| {
        let carried = Carried {
            key: key("a"),
            envelope,
            idle_ms: None,
        };
        let body = Body::Gossip {
            send_back: false,
            entries: Vec::from([carried]),
        };
        let to_uid = world.peers[index].fixture.me.uid();
        let from = if index == 0 {
            world.peers[1].fixture.me.clone()
        } else {
            from.clone()
        };
        world.with(index, |machine, cx| {
            machine.on_message(
                cx,
                &from,
                Msg {
                    to_uid,
                    body,
                    weight: 0,
                },
            )
        });
    };
    for index in 0..2 {
        tell(&mut world, index, old.clone());
        assert_eq!(world.count(index, "a"), 9);
    }
    // S-220: it may come to both, and more than once.
    for _ in 0..2 {
        for index in 0..2 {
            tell(&mut world, index, newer.clone());
            assert_eq!(world.count(index, "a"), 14);
        }
    }
    world.run(300 * SECOND);
    tell(&mut world, 1, newer);
    tell(&mut world, 0, old);
    world.run(300 * SECOND);
    for index in 0..2 {
        assert_eq!(world.count(index, "a"), 14);
        assert!(!mentions(&world, index, "a", &gone));
    }
    let folds = |world: &World| match &world.peers[0].machine.envelope(&key("a")).unwrap().pruning[&gone] {
        Pruning::Performed { folds, .. } => folds.len(),
        Pruning::Initialized { .. } => 0,
    };
    assert_eq!(folds(&world), 2);
}

#[test]
fn s_220_a_late_delta_of_a_node_in_pruning_is_dropped() {
    let (mut world, gone) = after_a_removal();
    world.run(900 * SECOND);
    world.update(2, "a", increment(5), Local);
    let delta = world.sent.iter().rev().find_map(|(from, _, body)| match body {
        Body::Deltas { .. } if *from == 2 => Some(body.clone()),
        _ => None,
    });
    let to_uid = world.peers[0].fixture.me.uid();
    if let Some(body) = delta {
        world.with(0, |machine, cx| {
            machine.on_message(
                cx,
                &gone,
                Msg {
                    to_uid,
                    body,
                    weight: 0,
                },
            )
        });
    }
    assert_eq!(world.count(0, "a"), 9);
}

#[test]
fn s_221_nothing_is_pruned_while_anybody_is_unreachable() {
    let mut world = World::new(4, |_| {});
    for index in 0..4 {
        world.update(index, "a", increment(1), All);
        world.run(SECOND);
    }
    let gone = world.peers[3].fixture.me.clone();
    world.partition(&[0, 1, 2], &[3]);
    world.see(|index| (index < 3).then_some(Status::Up), &[2]);
    world.run(2000 * SECOND);
    assert!((0..3).all(|index| mentions(&world, index, "a", &gone)));
    world.see(|index| (index < 3).then_some(Status::Up), &[]);
    world.run(2000 * SECOND);
    assert!((0..3).all(|index| !mentions(&world, index, "a", &gone)));
    assert_eq!(world.count(0, "a"), 4);
}

#[test]
fn pruning_waits_until_every_member_knows() {
    let (mut world, gone) = after_a_removal();
    // The second one hears nothing: it is not unreachable, only deaf.
    world.partition(&[0], &[1]);
    world.run(2000 * SECOND);
    assert!(mentions(&world, 0, "a", &gone));
    world.heal();
    world.partition(&[0, 1], &[2]);
    world.run(1000 * SECOND);
    assert!(!mentions(&world, 0, "a", &gone));
    assert_eq!(world.count(1, "a"), 9);
}

#[test]
fn i_64_counters_are_exact_across_removal_restart_at_the_same_address_and_return() {
    let (mut world, gone) = after_a_removal();
    world.peers.pop();
    let again = crate::fixture::node("n2", 99);
    assert_ne!(again, gone);
    world.add_peer(
        again,
        super::world::config(),
        crate::store::memory::MemoryMap::new(),
    );
    world.heal();
    world.all_up();
    world.run(10 * SECOND);
    world.update(2, "a", increment(10), All);
    world.run(SECOND);
    assert_eq!(world.counts("a"), [19; 3]);
    world.run(2000 * SECOND);
    assert_eq!(world.counts("a"), [19; 3]);
    assert!((0..3).all(|index| !mentions(&world, index, "a", &gone)));
    world.assert_equal();
}

#[test]
fn i_64_a_change_right_after_a_pruning_is_not_counted_beside_what_was_taken_over() {
    let (mut world, _) = after_a_removal();
    let is_pruned = |world: &World| {
        let mut events = world.changes(0).into_iter();
        events.any(|event| matches!(event, Event::Pruned { key: pruned, .. } if pruned == key("a")))
    };
    while !is_pruned(&world) {
        world.run(SECOND / 50);
        assert!(world.now().as_millis() < 2_000_000, "never pruned");
    }
    // The other one has not heard of it yet: its share of the removed node still stands beside this one's new total.
    world.update(0, "a", increment(1), All);
    world.run(SECOND / 50);
    assert_eq!([world.count(0, "a"), world.count(1, "a")], [10, 10]);
}

#[test]
fn s_218_a_pruning_whose_owner_is_gone_is_begun_again_by_another_however_low_the_owner_was() {
    let (mut world, gone) = after_a_removal();
    let dead = crate::fixture::node("a-lower-name", 1);
    assert!(dead < world.peers[0].fixture.me);
    for index in 0..2 {
        let entries = &mut world.peers[index].machine.entries;
        let mut envelope = entries.take(&key("a")).unwrap();
        envelope.start_pruning(&gone, &dead);
        entries.put_back(&key("a"), envelope);
    }
    world.run(900 * SECOND);
    for index in 0..2 {
        assert!(!mentions(&world, index, "a", &gone), "at {index}");
        assert_eq!(world.count(index, "a"), 9);
    }
    assert_eq!(world.peers[0].machine.digests(), world.peers[1].machine.digests());
}

#[test]
fn i_66_who_adopts_what_a_removed_owner_took_over_keeps_it_and_takes_over_late_data() {
    let (mut world, gone) = before_a_removal();
    world.update(2, "a", increment(5), Local);
    let newer = world.peers[2].machine.envelope(&key("a")).unwrap().clone();
    world.see(|index| (index < 2).then_some(Status::Up), &[]);
    world.run(900 * SECOND);
    let dead = crate::fixture::node("a-lower-name", 1);
    assert!(dead < world.peers[0].fixture.me);
    for index in 0..2 {
        let entries = &mut world.peers[index].machine.entries;
        let mut envelope = entries.take(&key("a")).unwrap();
        assert!(!envelope.mentions(&gone));
        envelope.adopt(&gone, &dead);
        envelope.merge(newer.clone()).unwrap();
        entries.put_back(&key("a"), envelope);
    }
    world.run(600 * SECOND);
    for index in 0..2 {
        assert!(!mentions(&world, index, "a", &gone), "at {index}");
        assert_eq!(world.count(index, "a"), 14);
    }
}
