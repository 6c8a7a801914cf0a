//! Spec: membership §6 A.

use super::{clock, n};
use crate::membership::state::vector_clock::{ClockOrder, VectorClock};
use alloc::vec;
use alloc::vec::Vec;

fn order(left: &str, right: &str) -> ClockOrder {
    clock(left).compare(&clock(right))
}

fn counts(clock: &VectorClock) -> Vec<(u64, &str)> {
    clock
        .entries()
        .iter()
        .map(|(node, count)| (*count, node.address().host()))
        .collect()
}

fn merged(left: &VectorClock, right: &VectorClock) -> VectorClock {
    let mut out = left.clone();
    out.merge(right);
    out
}

#[test]
fn m_001_to_m_003_equal_histories_are_the_same() {
    assert_eq!(order("", ""), ClockOrder::Same);
    assert_eq!(order("", "1"), ClockOrder::Before);
    assert_eq!(order("1", ""), ClockOrder::After);
    assert_eq!(order("1 2 1", "1 2 1"), ClockOrder::Same);
}

#[test]
fn m_004_to_m_007_a_longer_history_is_later_and_a_forked_one_concurrent() {
    assert_eq!(order("1 2 1", "1 2 1 3"), ClockOrder::Before);
    assert_eq!(order("1", "2"), ClockOrder::Concurrent);
    assert_eq!(order("1 2 1", "1 1 3"), ClockOrder::Concurrent);
    assert_eq!(order("2 2", "1 2 2 3"), ClockOrder::Before);
    assert_eq!(order("1 2 2 3", "2 2"), ClockOrder::After);
}

#[test]
fn m_008_and_m_010_concurrency_is_symmetric() {
    for (left, right) in [("1 2", "1 1"), ("1 3 3", "1 3 2")] {
        assert_eq!(order(left, right), ClockOrder::Concurrent);
        assert_eq!(order(right, left), ClockOrder::Concurrent);
    }
}

#[test]
fn m_011_and_m_012_merge_takes_every_larger_counter() {
    for (left, right, expected) in [
        ("1 2 2 2 2", "1 2 2 3", vec![(1, "1"), (4, "2"), (1, "3")]),
        ("1 2 2 3", "4 4", vec![(1, "1"), (2, "2"), (1, "3"), (2, "4")]),
    ] {
        let (left, right) = (clock(left), clock(right));
        let both = merged(&left, &right);
        assert_eq!(counts(&both), expected);
        assert_eq!(left.compare(&both), ClockOrder::Before);
        assert_eq!(right.compare(&both), ClockOrder::Before);
        assert_eq!(merged(&right, &left).compare(&both), ClockOrder::Same);
    }
}

#[test]
fn m_013_and_m_014_a_change_after_a_merge_is_after_both() {
    for changed in [clock("1"), clock("2")] {
        assert_eq!(changed.compare(&VectorClock::new()), ClockOrder::After);
    }
    assert_eq!(order("1", "2"), ClockOrder::Concurrent);
    let mut both = merged(&clock("1 1"), &clock("2"));
    both.increment(&n("3"));
    assert_eq!(both.compare(&clock("1 1")), ClockOrder::After);
    assert_eq!(both.compare(&clock("2")), ClockOrder::After);
}

#[test]
fn m_015_to_m_018_pruning_makes_clocks_concurrent_and_pruning_a_stranger_nothing() {
    let both = merged(&clock("1"), &clock("2"));
    let mut pruned = both.clone();
    pruned.prune(&n("1"));
    pruned.increment(&n("3"));
    assert_eq!(
        (pruned.get(&n("1")), counts(&pruned)),
        (0, vec![(1, "2"), (1, "3")])
    );
    assert_eq!(pruned.compare(&both), ClockOrder::Concurrent);
    let mut later = both.clone();
    later.increment(&n("2"));
    assert_eq!(pruned.compare(&later), ClockOrder::Concurrent);
    let mut same = both.clone();
    same.prune(&n("9"));
    assert_eq!(same, both);
}

#[test]
fn an_entry_of_zero_is_ahead_of_no_entry() {
    let zero = VectorClock::from_entries(vec![(n("a"), 0)]).unwrap();
    assert_eq!(zero.compare(&VectorClock::new()), ClockOrder::After);
    assert_eq!(VectorClock::new().compare(&zero), ClockOrder::Before);
}

#[test]
fn entries_are_sorted_and_a_repeated_one_is_refused() {
    let sorted = VectorClock::from_entries(vec![(n("b"), 2), (n("a"), 1)]).unwrap();
    assert_eq!(counts(&sorted), vec![(1, "a"), (2, "b")]);
    assert_eq!(VectorClock::from_entries(vec![(n("a"), 1), (n("a"), 2)]), None);
}

#[test]
fn a_counter_at_its_end_stays_there() {
    let mut full = VectorClock::from_entries(vec![(n("a"), u64::MAX)]).unwrap();
    full.increment(&n("a"));
    assert_eq!(full.get(&n("a")), u64::MAX);
}

#[test]
fn retain_keeps_what_it_is_told_to() {
    let mut kept = clock("a b c");
    kept.retain(|node| *node != n("b"));
    assert_eq!(counts(&kept), vec![(1, "a"), (1, "c")]);
}
