//! Replicators under partitions, losses and random operations. Spec: sharding 6.9 (S-217); reliability I-61
//! to I-64.

use alloc::format;
use alloc::vec::Vec;

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::super::crdt::{DataOp, DataType, DataValue, PnCounterOp};
use super::super::protocol::{Answer, Command, DdataBody};
use super::super::state::consistency::Consistency::{self, All, Local, Majority, Replicas};
use super::world::{SECOND, World, add, increment, key, remove};
use crate::membership::state::member::Status;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::rng;

const DONE: Answer = Answer::Written(Ok(()));

fn decrement(by: u64) -> (DataValue, DataOp) {
    let op = DataOp::PnCounter(PnCounterOp::Decrement(by));
    (DataValue::empty(DataType::PnCounter).unwrap(), op)
}

fn raise(by: u64) -> (DataValue, DataOp) {
    let op = DataOp::PnCounter(PnCounterOp::Increment(by));
    (DataValue::empty(DataType::PnCounter).unwrap(), op)
}

fn elements(world: &World, index: usize, name: &str) -> OrderedSet<Vec<u8>> {
    match world.peers[index].machine.get(&key(name)).map(|data| &**data) {
        Some(DataValue::OrSet(set)) => set.iter().map(|element| element.to_vec()).collect(),
        Some(other) => panic!("no set: {other:?}"),
        None => OrderedSet::new(),
    }
}

fn signed(world: &World, index: usize, name: &str) -> i128 {
    match world.peers[index].machine.get(&key(name)).map(|data| &**data) {
        Some(DataValue::PnCounter(counter)) => counter.value(),
        other => panic!("no counter: {other:?}"),
    }
}

fn set_of(names: &[&str]) -> OrderedSet<Vec<u8>> {
    names.iter().map(|name| name.as_bytes().to_vec()).collect()
}

#[test]
fn s_217_five_nodes_split_lose_one_and_agree_afterwards() {
    let mut world = World::new(5, |_| {});
    for _ in 0..5 {
        world.update(0, "a", increment(1), Local);
        world.update(0, "b", decrement(1), Local);
        world.update(0, "c", increment(1), All);
    }
    world.update(1, "a", increment(20), Local);
    world.update(1, "b", raise(20), Replicas(2));
    world.update(1, "c", increment(20), All);
    for (at, names) in [(1, ["e1", "e2"]), (3, ["e2", "e3"])] {
        for name in names {
            world.update(at, "e", add(name), Local);
            world.update(at, "f", add(name), Local);
        }
    }
    world.update(3, "d", increment(40), Local);
    world.update(4, "x", increment(50), Replicas(2));
    let delete = Command::Delete {
        key: key("x"),
        consistency: Local,
        timeout: SECOND,
    };
    world.command(4, delete);
    world.run(20 * SECOND);
    world.assert_equal();
    assert_eq!(
        (world.counts("a"), world.counts("c"), world.counts("d")),
        (alloc::vec![25; 5], alloc::vec![25; 5], alloc::vec![40; 5])
    );
    assert_eq!(signed(&world, 2, "b"), 15);
    assert_eq!(elements(&world, 2, "e"), set_of(&["e1", "e2", "e3"]));
    assert!(world.peers[0].machine.envelope(&key("x")).unwrap().is_deleted());
    world.partition(&[0, 1], &[2, 3, 4]);
    let writes = [
        (0, world.update(0, "a", increment(1), Replicas(2))),
        (2, world.update(2, "a", increment(2), Replicas(2))),
        (2, world.update(2, "e", add("e4"), Replicas(2))),
        (2, world.update(2, "f", remove("e2"), Replicas(2))),
        (3, world.update(3, "d", increment(1), Replicas(2))),
    ];
    world.run(10 * SECOND);
    for (at, token) in writes {
        assert_eq!(*world.answer(at, token), DONE);
    }
    assert_eq!(world.counts("a"), [26, 26, 27, 27, 27]);
    assert_eq!(world.counts("d"), [40, 40, 41, 41, 41]);
    assert_eq!(elements(&world, 0, "f"), set_of(&["e1", "e2", "e3"]));
    assert_eq!(elements(&world, 4, "f"), set_of(&["e1", "e3"]));
    // The fourth crashes; the others heal.
    world.heal();
    world.partition(&[0, 1, 2, 4], &[3]);
    world.see(|index| (index != 3).then_some(Status::Up), &[]);
    world.run(30 * SECOND);
    for index in [0, 1, 2, 4] {
        assert_eq!((world.count(index, "a"), world.count(index, "d")), (28, 41));
        assert_eq!(elements(&world, index, "e"), set_of(&["e1", "e2", "e3", "e4"]));
        assert_eq!(elements(&world, index, "f"), set_of(&["e1", "e3"]));
    }
}

#[test]
fn i_63_no_acknowledged_write_of_200_writers_is_missing_after_a_split_of_three_and_two() {
    let mut world = World::new(5, |_| {});
    let mut tokens: OrderedMap<u64, (usize, usize)> = OrderedMap::new();
    let write = |world: &mut World, tokens: &mut OrderedMap<u64, (usize, usize)>, from: usize, to: usize| {
        for writer in from..to {
            let at = writer % 5;
            let token = world.update(at, "log", add(&format!("w{writer}")), Majority);
            tokens.insert(token, (writer, at));
        }
    };
    write(&mut world, &mut tokens, 0, 60);
    world.partition(&[0, 1, 2], &[3, 4]);
    write(&mut world, &mut tokens, 60, 140);
    world.run(3 * SECOND);
    world.heal();
    write(&mut world, &mut tokens, 140, 200);
    world.run(2 * SECOND);
    let acknowledged: Vec<usize> = tokens
        .iter()
        .filter(|(token, (_, at))| *world.answer(*at, **token) == DONE)
        .map(|(_, (writer, _))| *writer)
        .collect();
    // The smaller side could not confirm what it wrote while it was cut off.
    assert!((120..200).contains(&acknowledged.len()), "{}", acknowledged.len());
    for at in 0..5 {
        let read = world.get(at, "log", Majority);
        world.run(SECOND);
        let Answer::Value(Ok(data)) = world.answer(at, read) else {
            panic!("{:?}", world.answer(at, read));
        };
        let DataValue::OrSet(set) = &**data else {
            panic!("no set")
        };
        let missing = acknowledged
            .iter()
            .filter(|writer| !set.contains(format!("w{writer}").as_bytes()));
        assert_eq!(missing.count(), 0, "at {at}");
    }
    // And what was not acknowledged stays and spreads.
    world.run(20 * SECOND);
    assert_eq!(elements(&world, 4, "log").len(), 200);
    world.assert_equal();
}

/// One random history: operations of all levels on counters and sets, cuts, losses; then peace.
fn history(seed: u64) {
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let mut world = World::new(3 + rng::below(&mut chance, 3), |_| {});
    let nodes = world.peers.len();
    let mut counted = OrderedMap::<usize, u128>::new();
    let (mut cuts, mut losses) = (0, 0);
    for _ in 0..150 {
        let at = rng::below(&mut chance, nodes);
        let level: Consistency = [Local, Majority, Replicas(2), All][rng::below(&mut chance, 4)];
        let which = rng::below(&mut chance, 4);
        match rng::below(&mut chance, 10) {
            0..=3 => {
                let by = 1 + rng::below(&mut chance, 9) as u64;
                world.update(at, &format!("c{which}"), increment(by), level);
                *counted.entry(which).or_default() += u128::from(by);
            }
            4 | 5 => drop(world.update(
                at,
                &format!("s{which}"),
                add(&format!("{}", rng::below(&mut chance, 6))),
                level,
            )),
            6 | 7 => drop(world.update(
                at,
                &format!("s{which}"),
                remove(&format!("{}", rng::below(&mut chance, 6))),
                level,
            )),
            8 => {
                let other = (at + 1 + rng::below(&mut chance, nodes - 1)) % nodes;
                world.cut.insert((at, other));
                cuts += 1;
            }
            _ => {
                world.cut.clear();
                let kinds: [fn(&DdataBody) -> bool; 3] = [
                    |_| false,
                    |body| matches!(body, DdataBody::Deltas { .. }),
                    |body| matches!(body, DdataBody::Gossip { .. } | DdataBody::WriteAck { .. }),
                ];
                let kind = rng::below(&mut chance, 3);
                losses += kind;
                world.lose = kinds[kind];
            }
        }
        world.run(SECOND * rng::below(&mut chance, 400) as u32 / 1000);
    }
    assert!(cuts > 0 && losses > 0, "seed {seed} had no faults");
    world.cut.clear();
    world.lose = |_| false;
    world.run(60 * SECOND);
    world.assert_equal();
    for (which, sum) in counted {
        assert_eq!(
            world.count(0, &format!("c{which}")),
            sum,
            "seed {seed}, counter {which}"
        );
    }
    assert!(world.peers.iter().all(|peer| peer.machine.open_operations() == 0));
}

#[test]
fn i_61_i_64_random_histories_with_cuts_and_losses_end_equal_and_exact() {
    for seed in 0..40 {
        history(seed);
    }
}
