//! Whoever stood still for longer than markers live tells nothing and answers nothing until the others have
//! said that it is still a member. Spec: sharding 10.8; reliability I-64; `docs/adr/0012`.

use alloc::vec::Vec;
use core::time::Duration;

use super::super::protocol::{Answer, DdataBody, Event, ReadError, WriteError};
use super::super::state::consistency::Consistency::{All, Local, Majority};
use super::world::{SECOND, World, add, config, increment};
use crate::fixture::node;
use crate::membership::state::member::Status::Up;
use crate::store::memory::MemoryMap;

const HOUR: Duration = Duration::from_secs(3600);
const HOUR_MS: u64 = 3_600_000;

/// As many that counted 3 each.
fn counted(nodes: usize) -> World {
    let mut world = World::new(nodes, |_| {});
    for index in 0..nodes {
        world.update(index, "a", increment(3), All);
        world.update(index, "s", add(&alloc::format!("e{index}")), All);
        world.run(SECOND);
    }
    world.run(5 * SECOND);
    world.assert_equal();
    world
}

fn away(world: &World, index: usize) -> usize {
    let events = world.changes(index);
    let away = events
        .iter()
        .filter(|event| matches!(event, Event::AwayForLong { .. }));
    away.count()
}

fn is_back(world: &World, index: usize) -> bool {
    world.changes(index).contains(&Event::StillReplica)
}

fn wall_clocks_jump(world: &mut World, by_ms: u64) {
    for peer in &mut world.peers {
        peer.ahead_ms += by_ms;
    }
}

/// Node 2 stands still for seven hours; it is removed meanwhile, and node 3 too, whose share has become
/// nobody's. Then it wakes, and a newcomer knows it before it hears of its removal.
fn removed_while_it_stood_still() -> World {
    let mut world = counted(4);
    world.frozen.insert(2);
    world.partition(&[0, 1, 2], &[3]);
    world.see_at(&[0, 1], |index| (index < 2).then_some(Up), &[]);
    world.run(7 * HOUR);
    let gone = world.peers[3].fixture.me.clone();
    assert!(
        !world.peers[0]
            .machine
            .envelope(&super::world::key("a"))
            .unwrap()
            .mentions(&gone)
    );
    world.frozen.clear();
    world.run(Duration::from_millis(1));
    world.add_peer(node("n4", 77), config(), MemoryMap::new());
    world.partition(&[0, 1, 2, 4], &[3]);
    world.see_at(&[0, 1], |index| matches!(index, 0 | 1 | 4).then_some(Up), &[]);
    world.see_at(&[2, 4], |_| Some(Up), &[]);
    world
}

#[test]
fn i_64_who_was_removed_while_it_stood_still_brings_a_newcomer_nothing() {
    let mut world = removed_while_it_stood_still();
    world.run(20 * SECOND);
    // It hears that it is removed, as does the newcomer.
    world.see_at(&[2], |_| None, &[]);
    world.see_at(&[4], |index| matches!(index, 0 | 1 | 4).then_some(Up), &[]);
    world.run(20 * SECOND);
    for index in [0, 1, 4] {
        assert_eq!(world.count(index, "a"), 12, "{index}");
    }
    assert_eq!(away(&world, 2), 1);
    assert!(!is_back(&world, 2));
}

#[test]
fn i_64_a_removed_node_that_stood_still_confirms_and_answers_nothing() {
    let mut world = removed_while_it_stood_still();
    let read = world.get(2, "a", Local);
    let write = world.update(2, "a", increment(1), Local);
    let begun = world.sent.len();
    world.run(2 * SECOND);
    // No wrong value, and no acknowledgement of what is lost.
    assert_eq!(*world.answer(2, read), Answer::Value(Err(ReadError::NotServing)));
    assert_eq!(
        *world.answer(2, write),
        Answer::Written(Err(WriteError::NotServing))
    );
    assert_eq!(world.count(2, "a"), 12, "it keeps what it held");
    let newcomers = world.get(4, "a", All);
    world.run(2 * SECOND);
    assert!(matches!(
        world.answer(4, newcomers),
        Answer::Value(Err(ReadError::Timeout { .. }))
    ));
    // Its questions and its confirmations of those of others are all that it says.
    let mut said = world.sent[begun..].iter().filter(|(from, ..)| *from == 2);
    assert!(said.all(|(_, _, body)| match body {
        DdataBody::Deltas { entries, .. } => entries.is_empty(),
        DdataBody::WriteAck { .. } | DdataBody::WriteNack { .. } => true,
        _ => false,
    }));
    world.see_at(&[2], |_| None, &[]);
    assert_eq!(away(&world, 2), 1);
}

#[test]
fn a_cluster_that_was_suspended_as_a_whole_loses_nothing_and_goes_on() {
    let mut world = counted(3);
    // The monotonic clocks stood still with the machine.
    wall_clocks_jump(&mut world, 7 * HOUR_MS);
    world.run(3 * SECOND);
    for index in 0..3 {
        assert_eq!(
            (away(&world, index), is_back(&world, index)),
            (1, true),
            "{index}"
        );
        let read = world.get(index, "a", Majority);
        let write = world.update(index, "a", increment(1), Majority);
        world.run(SECOND);
        assert!(matches!(world.answer(index, read), Answer::Value(Ok(_))));
        assert_eq!(*world.answer(index, write), Answer::Written(Ok(())));
    }
    world.run(5 * SECOND);
    assert_eq!(world.counts("a"), [12, 12, 12]);
    world.assert_equal();
}

#[test]
fn what_is_asked_for_meanwhile_waits_and_is_done() {
    let mut world = counted(3);
    world.frozen.insert(2);
    world.see_at(&[0, 1], |_| Some(Up), &[2]);
    world.run(7 * HOUR);
    world.frozen.clear();
    world.see_at(&[0, 1], |_| Some(Up), &[]);
    world.lose = |body| matches!(body, DdataBody::WriteAck { .. });
    world.run(Duration::from_millis(1));
    let read = world.get(2, "a", Local);
    let write = world.update(2, "a", increment(1), Local);
    world.run(Duration::from_millis(500));
    assert!(world.is_open(2, read) && world.is_open(2, write));
    assert_eq!(away(&world, 2), 1);
    world.lose = |_| false;
    // Its time is longer than the gossip interval, with which the question is asked again.
    let asked = world.command(
        2,
        super::super::protocol::Command::Get {
            key: super::world::key("a"),
            consistency: Local,
            timeout: 10 * SECOND,
        },
    );
    world.run(5 * SECOND);
    assert!(is_back(&world, 2));
    assert!(matches!(world.answer(2, asked), Answer::Value(Ok(_))));
    world.run(5 * SECOND);
    world.assert_equal();
}

#[test]
fn one_that_says_nothing_is_waited_for_until_it_is_removed() {
    let mut world = counted(3);
    world.partition(&[0, 1], &[2]);
    world.see_at(&[0, 1], |_| Some(Up), &[2]);
    wall_clocks_jump(&mut world, 7 * HOUR_MS);
    world.run(10 * SECOND);
    let command = super::super::protocol::Command::Replicas;
    let count = world.command(0, command.clone());
    assert_eq!(*world.answer(0, count), Answer::Replicas(0));
    assert!(!is_back(&world, 0));
    world.see_at(&[0, 1], |index| (index < 2).then_some(Up), &[]);
    assert!(is_back(&world, 0) && is_back(&world, 1));
    let count = world.command(0, command);
    assert_eq!(*world.answer(0, count), Answer::Replicas(2));
}

#[test]
fn an_answer_from_before_means_nothing_and_a_newcomer_is_not_asked() {
    let mut world = counted(2);
    wall_clocks_jump(&mut world, 7 * HOUR_MS);
    world.lose = |body| matches!(body, DdataBody::Deltas { .. });
    world.run(3 * SECOND);
    assert_eq!(away(&world, 0), 1);
    world.add_peer(node("n2", 77), config(), MemoryMap::new());
    world.all_up();
    world.lose = |_| false;
    let me = world.peers[0].fixture.me.uid();
    let other = world.peers[1].fixture.me.clone();
    for operation in 0..3 {
        let body = DdataBody::WriteAck { operation };
        let (to_uid, weight) = (me, 0);
        world.with(0, |machine, cx| {
            machine.on_message(cx, &other, super::super::protocol::Msg { to_uid, body, weight });
        });
    }
    assert!(!is_back(&world, 0));
    let begun = world.sent.len();
    world.run(3 * SECOND);
    assert!(is_back(&world, 0));
    let asked: Vec<usize> = world.sent[begun..]
        .iter()
        .filter(|(from, _, body)| {
            *from == 0 && matches!(body, DdataBody::Deltas { entries, .. } if entries.is_empty())
        })
        .map(|(_, to, _)| *to)
        .collect();
    assert!(!asked.is_empty() && asked.iter().all(|to| *to == 1), "{asked:?}");
}

#[test]
fn a_short_pause_and_an_empty_replica_ask_nothing() {
    let mut world = counted(2);
    wall_clocks_jump(&mut world, 5 * HOUR_MS);
    world.run(3 * SECOND);
    assert_eq!(away(&world, 0), 0);
    let mut world = World::new(2, |_| {});
    world.run(SECOND);
    wall_clocks_jump(&mut world, 7 * HOUR_MS);
    world.run(SECOND);
    let write = world.update(0, "a", increment(1), Majority);
    world.run(SECOND);
    assert_eq!(*world.answer(0, write), Answer::Written(Ok(())));
    assert_eq!(away(&world, 0) + away(&world, 1), 0);
}
