//! What is kept of this node's own changes, and when it is given up. Spec: sharding 1.12.

use super::{CHANGES_MAX, DeltaLog};
use crate::ddata::crdt::{Applied, DataDelta, DataOp, DataType, DataValue, GCounterOp, Minting};
use crate::ddata::state::key::Key;
use crate::fixture::node;
use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn peer(number: u64) -> UniqueAddress {
    node(&alloc::format!("n{number}"), number)
}

fn change() -> DataDelta {
    let mut data = DataValue::empty(DataType::GCounter).unwrap();
    let op = DataOp::GCounter(GCounterOp::Increment(1));
    match data.apply(&op, &mut Minting::new(peer(9))) {
        Ok(Applied::Delta(delta)) => delta,
        other => panic!("{other:?}"),
    }
}

/// So many changes of a key, none of them before; the number of the last.
fn logged(log: &mut DeltaLog, name: &str, count: usize, size_max: usize) -> u64 {
    let mut last = 0;
    for _ in 0..count {
        last = log.push(&key(name), (last, 0), Some(change()), size_max);
    }
    last
}

#[test]
fn s_210_changes_that_a_full_key_pushed_out_take_no_place_from_others() {
    let mut log = DeltaLog::default();
    logged(&mut log, "busy", CHANGES_MAX + 1, 2);
    log.push(&key("other"), (0, 0), Some(change()), 2);
    let entry = log.take_key_for(&key("other"), &peer(1));
    assert_eq!(entry.map(|entry| entry.deltas.len()), Some(1), "as a change");
}

#[test]
fn past_the_limit_on_all_changes_the_next_are_left_to_gossip() {
    let mut log = DeltaLog::default();
    for number in 0..CHANGES_MAX {
        log.push(
            &key(&alloc::format!("k{}", number % 10)),
            (0, 0),
            Some(change()),
            usize::MAX,
        );
    }
    log.push(&key("one more"), (0, 0), Some(change()), usize::MAX);
    assert_eq!(log.take_key_for(&key("one more"), &peer(1)), None);
    // What goes makes room.
    log.forget(&key("k3"));
    log.push(&key("again"), (0, 0), Some(change()), usize::MAX);
    assert!(log.take_key_for(&key("again"), &peer(1)).is_some());
}

#[test]
fn what_everybody_was_sent_is_kept_no_longer() {
    let mut log = DeltaLog::default();
    logged(&mut log, "a", 3, 100);
    let both = OrderedSet::from([peer(1), peer(2)]);
    assert_eq!(log.take_for(&peer(1)).len(), 1);
    log.clean_up(&both);
    assert!(!log.is_empty(), "the second was sent nothing");
    let late = log.take_key_for(&key("a"), &peer(2)).expect("all of it");
    assert_eq!((late.after, late.deltas.len()), (0, 3));
    log.clean_up(&both);
    assert!(log.is_empty(), "its last change too");
}

#[test]
fn who_was_sent_the_whole_value_gets_only_what_follows() {
    let mut log = DeltaLog::default();
    let last = logged(&mut log, "a", 3, 100);
    log.note_sent(&key("a"), &peer(1));
    assert_eq!(log.take_key_for(&key("a"), &peer(1)), None);
    let next = log.push(&key("a"), (last, 0), Some(change()), 100);
    let entry = log.take_key_for(&key("a"), &peer(1)).expect("the next");
    assert_eq!((entry.after, entry.upto, entry.deltas.len()), (last, next, 1));
}

#[test]
fn what_follows_a_change_that_only_gossip_brings_is_said_to_follow_it() {
    let mut log = DeltaLog::default();
    let large = log.push(&key("a"), (0, 0), None, 100);
    assert_eq!(log.take_key_for(&key("a"), &peer(1)), None, "gossip brings it");
    let last = log.push(&key("a"), (large, 0), Some(change()), 100);
    for number in [1, 2] {
        let entry = log.take_key_for(&key("a"), &peer(number)).expect("what follows");
        assert_eq!(
            (entry.after, entry.upto, entry.deltas.len()),
            (large, last, 1),
            "to {number}"
        );
    }
}

#[test]
fn s_210_who_lacks_what_was_pushed_out_gets_no_changes_of_the_key_until_gossip_has_brought_it() {
    let mut log = DeltaLog::default();
    let first = log.push(&key("a"), (0, 0), Some(change()), 2);
    log.note_sent(&key("a"), &peer(1));
    let second = log.push(&key("a"), (first, 0), Some(change()), 2);
    let third = log.push(&key("a"), (second, 0), Some(change()), 2);
    assert!(second < third);
    assert_eq!(log.take_key_for(&key("a"), &peer(1)), None, "the second is gone");
    assert_eq!(log.take_key_for(&key("a"), &peer(2)), None, "and the first");
}
