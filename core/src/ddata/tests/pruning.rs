//! What removed nodes contributed is given to nobody once, and late data is not counted twice. Spec: sharding
//! 1.12, 6.9, 10.8; reliability I-64, I-66; `docs/adr/0012`.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::super::crdt::{
    DataOp, DataType, DataValue, Minting, OrMap, OrMapOp, PnCounterMapOp, PnCounterOp, ValueType,
};
use super::super::protocol::{Answer, CarriedValue, DdataBody, Msg};
use super::super::state::consistency::Consistency::{All, Local};
use super::super::state::key::Pattern;
use super::super::state::{DataEnvelope, Pruning};
use super::world::{SECOND, World, add, increment, increment_in_map, key};
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
        world.update(index, "m", increment_in_map(3), All);
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

/// Until its marker ends after six hours, what a node contributed stays what it is.
const MARKER_ENDS: Duration = Duration::from_secs(6 * 3600 + 1800);

fn marker<'a>(world: &'a World, index: usize, name: &str, node: &UniqueAddress) -> Option<&'a Pruning> {
    let envelope = world.peers[index].machine.envelope(&key(name)).unwrap();
    envelope.pruning.get(node)
}

fn is_performed(world: &World, index: usize, name: &str, node: &UniqueAddress) -> bool {
    matches!(marker(world, index, name, node), Some(Pruning::Performed { .. }))
}

/// Another replica's gossip arrives.
fn tell(world: &mut World, index: usize, name: &str, envelope: DataEnvelope) {
    let carried = CarriedValue {
        key: key(name),
        envelope,
        idle_ms: None,
    };
    let body = DdataBody::Gossip {
        send_back: false,
        entries: Vec::from([carried]),
    };
    let to_uid = world.peers[index].fixture.me.uid();
    let from = world.peers[usize::from(index == 0)].fixture.me.clone();
    let weight = 0;
    world.with(index, |machine, cx| {
        machine.on_message(cx, &from, Msg { to_uid, body, weight });
    });
}

#[test]
fn s_218_what_a_removed_node_contributed_is_nobodys_after_its_markers_life_and_the_value_stays() {
    let (mut world, gone) = after_a_removal();
    world.run(250 * SECOND);
    assert_eq!(marker(&world, 0, "a", &gone), None, "too early");
    world.run(600 * SECOND);
    for index in 0..2 {
        for name in ["a", "s"] {
            assert!(is_performed(&world, index, name, &gone), "{name} at {index}");
        }
        assert_eq!(world.count(index, "a"), 9);
    }
    for index in 0..2 {
        world.update(index, "a", increment(1), All);
        world.run(SECOND);
    }
    assert_eq!([world.count(0, "a"), world.count(1, "a")], [11, 11]);
    world.run(MARKER_ENDS);
    for index in 0..2 {
        for name in ["a", "s"] {
            let envelope = world.peers[index].machine.envelope(&key(name)).unwrap();
            assert!(envelope.pruning.is_empty(), "{envelope:?}");
            assert!(!mentions(&world, index, name, &gone), "{name} at {index}");
        }
        world.update(index, "a", increment(1), All);
        world.run(SECOND);
    }
    assert_eq!([world.count(0, "a"), world.count(1, "a")], [13, 13]);
    assert_eq!(world.peers[0].machine.digests(), world.peers[1].machine.digests());
}

#[test]
fn s_218_late_data_is_merged_like_any_other_while_the_marker_lives() {
    let (mut world, gone) = before_a_removal();
    // What the removed node held, before and after one more change that nobody saw.
    let old = world.peers[2].machine.envelope(&key("a")).unwrap().clone();
    world.update(2, "a", increment(5), Local);
    let newer = world.peers[2].machine.envelope(&key("a")).unwrap().clone();
    world.see(|index| (index < 2).then_some(Status::Up), &[]);
    world.run(900 * SECOND);
    assert!(is_performed(&world, 0, "a", &gone));
    for index in 0..2 {
        tell(&mut world, index, "a", old.clone());
        assert_eq!(world.count(index, "a"), 9);
    }
    // S-220: it may come to both, and more than once.
    for _ in 0..2 {
        for index in 0..2 {
            tell(&mut world, index, "a", newer.clone());
            assert_eq!(world.count(index, "a"), 14);
        }
    }
    world.run(MARKER_ENDS);
    for index in 0..2 {
        assert_eq!(world.count(index, "a"), 14);
        assert!(!mentions(&world, index, "a", &gone));
    }
}

/// As many replicas as there are orders in which they can hear of the end of a marker and of each other.
#[test]
fn i_64_what_is_settled_on_one_side_only_or_on_both_is_there_once_after_they_meet() {
    let ops: [(DataValue, DataOp); 4] = [
        increment(3),
        (
            DataValue::empty(DataType::PnCounterMap).unwrap(),
            DataOp::PnCounterMap(PnCounterMapOp::Increment {
                key: b"k"[..].into(),
                by: 3,
            }),
        ),
        (
            DataValue::OrMap(OrMap::new(ValueType::PnCounter)),
            DataOp::OrMap(OrMapOp::Update {
                key: b"k"[..].into(),
                op: Box::new(DataOp::PnCounter(PnCounterOp::Increment(3))),
            }),
        ),
        add("x"),
    ];
    let shown = |data: &DataValue| match data {
        DataValue::GCounter(held) => held.value(),
        DataValue::PnCounterMap(held) => held.get(b"k").unwrap().cast_unsigned(),
        DataValue::OrMap(held) => match held.get(b"k") {
            Some(DataValue::PnCounter(held)) => held.value().cast_unsigned(),
            _ => panic!("a counter"),
        },
        DataValue::OrSet(held) => 9 * held.len() as u128,
        _ => panic!("not here"),
    };
    let [gone, left, right] = ["gone", "left", "right"].map(|name| crate::fixture::node(name, 1));
    for (mut data, op) in ops {
        data.apply(&op, &mut Minting::new(gone.clone())).unwrap();
        let mut common = DataEnvelope::new(data);
        common.perform_pruning(&gone, 100);
        let with = |node: &UniqueAddress| {
            let mut mine = common.clone();
            let data = Arc::make_mut(mine.data.as_mut().unwrap());
            data.apply(&op, &mut Minting::new(node.clone())).unwrap();
            mine
        };
        for (left_ends, right_ends) in [(0, 100), (100, 0), (100, 100), (100, 170), (0, 0)] {
            let (mut mine, mut theirs) = (with(&left), with(&right));
            mine.settle(left_ends);
            theirs.settle(right_ends);
            let before = mine.clone();
            mine.merge(theirs.clone()).unwrap();
            theirs.merge(before).unwrap();
            theirs.merge(mine.clone()).unwrap();
            assert_eq!(mine, theirs);
            mine.settle(200);
            let data = mine.data.unwrap();
            assert_eq!(shown(&data), 9, "{data:?}");
            assert!(!data.mentions(&gone));
        }
    }
}

#[test]
fn i_64_a_change_of_a_value_that_is_settled_further_waits_for_the_whole_value() {
    let (mut world, gone) = after_a_removal();
    world.run(900 * SECOND);
    let until = |world: &World| match marker(world, 0, "m", &gone) {
        Some(Pruning::Performed { obsolete_at_ms }) => *obsolete_at_ms,
        _ => panic!("performed"),
    };
    let until = until(&world);
    // The first one has settled; the other one has not heard of it.
    let entries = &mut world.peers[0].machine.entries;
    let mut envelope = entries.take(&key("m")).unwrap();
    assert_eq!(envelope.settle(until), core::slice::from_ref(&gone));
    let bytes = entries.get(&key("m")).unwrap().bytes;
    let now = world.now();
    let entries = &mut world.peers[0].machine.entries;
    entries.replace(&key("m"), envelope, bytes, now);
    for (writer, other) in [(0, 1), (1, 0)] {
        let before = world.mapped(other, "m");
        let token = world.update(writer, "m", increment_in_map(1), All);
        world.run(SECOND / 2);
        assert_eq!(*world.answer(writer, token), Answer::Written(Ok(())));
        assert_eq!([0, 1].map(|index| world.mapped(index, "m")), [before + 1; 2]);
    }
    world.run(60 * SECOND);
    assert_eq!([0, 1].map(|index| world.mapped(index, "m")), [11; 2]);
    assert_eq!(world.peers[0].machine.digests(), world.peers[1].machine.digests());
}

#[test]
fn s_220_a_late_delta_of_a_node_in_pruning_is_dropped() {
    let (mut world, gone) = after_a_removal();
    world.run(900 * SECOND);
    world.update(2, "a", increment(5), Local);
    let delta = world.sent.iter().rev().find_map(|(from, _, body)| match body {
        DdataBody::Deltas { .. } if *from == 2 => Some(body.clone()),
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
    assert!((0..3).all(|index| marker(&world, index, "a", &gone).is_none()));
    world.see(|index| (index < 3).then_some(Status::Up), &[]);
    world.run(2000 * SECOND);
    assert!((0..3).all(|index| is_performed(&world, index, "a", &gone)));
    assert_eq!(world.count(0, "a"), 4);
}

#[test]
fn pruning_waits_until_every_member_knows() {
    let (mut world, gone) = after_a_removal();
    // The second one hears nothing: it is not unreachable, only deaf.
    world.partition(&[0], &[1]);
    world.run(2000 * SECOND);
    assert!(matches!(
        marker(&world, 0, "a", &gone),
        Some(Pruning::Initialized { .. })
    ));
    world.heal();
    world.partition(&[0, 1], &[2]);
    world.run(1000 * SECOND);
    assert!(is_performed(&world, 0, "a", &gone));
    assert_eq!(world.count(1, "a"), 9);
}

#[test]
fn durable_keys_are_pruned_once_as_many_stores_are_there_as_the_cluster_begins_with() {
    let mut world = World::new(3, |config| {
        config.ddata.durable_keys = Vec::from([Pattern::parse("d*").unwrap()]);
        config.membership.min_nr_of_members = 3;
    });
    world.run(SECOND);
    for index in 0..3 {
        for name in ["d", "v"] {
            world.update(index, name, increment(3), All);
            world.run(SECOND);
        }
    }
    let gone = world.peers[2].fixture.me.clone();
    world.partition(&[0, 1], &[2]);
    world.see(|index| (index < 2).then_some(Status::Up), &[]);
    world.run(900 * SECOND);
    assert!(is_performed(&world, 0, "v", &gone));
    assert_eq!(marker(&world, 0, "d", &gone), None);
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
    world.run(MARKER_ENDS);
    assert_eq!(world.counts("a"), [19; 3]);
    assert!((0..3).all(|index| !mentions(&world, index, "a", &gone)));
    world.assert_equal();
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
        assert!(is_performed(&world, index, "a", &gone), "at {index}");
        assert_eq!(world.count(index, "a"), 9);
    }
    assert_eq!(world.peers[0].machine.digests(), world.peers[1].machine.digests());
}

#[test]
fn s_218_the_announcement_of_a_dead_owner_does_not_take_the_place_of_a_living_ones() {
    let (mut world, gone) = after_a_removal();
    world.partition(&[0], &[1]);
    world.run(400 * SECOND);
    let is_mine = |world: &World| match marker(world, 0, "a", &gone) {
        Some(Pruning::Initialized { owner, .. }) => *owner == world.peers[0].fixture.me,
        Some(Pruning::Performed { .. }) | None => false,
    };
    assert!(is_mine(&world));
    let dead = crate::fixture::node("a-lower-name", 1);
    assert!(dead < world.peers[0].fixture.me);
    let mut late = world.peers[1].machine.envelope(&key("a")).unwrap().clone();
    late.start_pruning(&gone, &dead);
    tell(&mut world, 0, "a", late.clone());
    assert!(is_mine(&world));
    // Nor is it taken with a key that is not held yet.
    tell(&mut world, 0, "new", late);
    assert_eq!(marker(&world, 0, "new", &gone), None);
}

#[test]
fn i_64_the_end_of_one_marker_is_not_that_of_another_that_not_all_have_heard_of() {
    let [first, second] = ["first", "second"].map(|name| crate::fixture::node(name, 1));
    let (mut data, op) = increment(3);
    for node in [&first, &second] {
        data.apply(&op, &mut Minting::new(node.clone())).unwrap();
    }
    // By a clock that is ahead; the other one by a clock that is not.
    let mut unaware = DataEnvelope::new(data);
    unaware.perform_pruning(&first, 900);
    unaware.start_pruning(&second, &crate::fixture::node("owner", 1));
    let mut owner = unaware.clone();
    owner.perform_pruning(&second, 200);
    unaware.settle(900);
    unaware.merge(owner).unwrap();
    assert!(matches!(&**unaware.data.as_ref().unwrap(), DataValue::GCounter(held) if held.value() == 6));
}

#[test]
fn i_64_a_wall_clock_that_jumps_does_not_end_a_marker_before_others_have_heard_of_it() {
    let (mut world, gone) = after_a_removal();
    while !is_performed(&world, 0, "a", &gone) {
        world.run(SECOND);
        assert!(world.now().as_millis() < 2_000_000, "never performed");
    }
    world.peers[0].ahead_ms += 7 * 3600 * 1000;
    world.run(250 * SECOND);
    assert!((0..2).all(|index| mentions(&world, index, "a", &gone)));
    world.run(900 * SECOND);
    // The other one hears of it from the first.
    assert!((0..2).all(|index| !mentions(&world, index, "a", &gone)));
    assert_eq!([world.count(0, "a"), world.count(1, "a")], [9; 2]);
}

/// A value with one marker.
fn marked(marker: &Pruning) -> DataEnvelope {
    let mut envelope = DataEnvelope::new(DataValue::empty(DataType::GCounter).unwrap());
    envelope
        .pruning
        .insert(crate::fixture::node("gone", 3), marker.clone());
    envelope
}

#[test]
fn s_218_of_two_markers_of_a_node_the_one_that_is_further_or_ends_later_stays() {
    let performed = |obsolete_at_ms: u64| Pruning::Performed { obsolete_at_ms };
    let announced = |owner: &str, seen: &[&str]| Pruning::Initialized {
        owner: crate::fixture::node(owner, 1),
        seen: seen.iter().map(|name| crate::fixture::node(name, 1)).collect(),
    };
    let cases = [
        (performed(5), performed(9), performed(9)),
        (performed(5), announced("a", &["b"]), performed(5)),
        (
            announced("a", &["b"]),
            announced("a", &["c"]),
            announced("a", &["b", "c"]),
        ),
        (
            announced("a", &["b"]),
            announced("b", &["c"]),
            announced("a", &["b"]),
        ),
    ];
    for (left, right, both) in cases {
        for (held, came) in [(&left, &right), (&right, &left)] {
            let mut merged = marked(held);
            assert_eq!(merged.merge(marked(came)), Ok(*held != both));
            assert_eq!(merged, marked(&both), "{held:?} and {came:?}");
        }
    }
}

#[test]
fn s_221_time_in_which_somebody_is_unreachable_is_none_in_which_all_could_hear() {
    let (mut world, gone) = after_a_removal();
    world.see(|index| (index < 2).then_some(Status::Up), &[1]);
    world.run(1_000 * SECOND);
    world.see(|index| (index < 2).then_some(Status::Up), &[]);
    world.run(200 * SECOND);
    assert_eq!(
        marker(&world, 0, "a", &gone),
        None,
        "two hundred seconds of three hundred"
    );
    world.run(300 * SECOND);
    assert!(marker(&world, 0, "a", &gone).is_some());
}

#[test]
fn a_tombstone_that_comes_again_is_no_news() {
    let mut held = DataEnvelope::new(DataValue::empty(DataType::GCounter).unwrap());
    assert_eq!(held.merge(DataEnvelope::deleted()), Ok(true));
    assert_eq!(held.merge(DataEnvelope::deleted()), Ok(false));
    assert_eq!(held, DataEnvelope::deleted());
}
