//! Merge laws of the table, and its written form. Spec: sharding 10.17 b, reliability 3c.

use alloc::sync::Arc;
use alloc::vec::Vec;
use std::{format, vec};

use proptest::collection::vec as vec_of;
use proptest::prelude::*;

use super::name::PathName;
use super::options::HandoffOptions;
use super::settings::{PathSettings, SLOTS_MAX};
use super::table::{MoveStatus, PathEntry, PathEpoch, PathRecord, PathTable, SlotMove};
use super::written;
use crate::bytes::WireError;
use crate::ident::{Address, UniqueAddress};

fn node(number: u64) -> UniqueAddress {
    let host = format!("n{number}");
    UniqueAddress::new(Address::new(&host, 7355).unwrap(), number + 1)
}

fn epoch(counter: u64, leader: u64) -> PathEpoch {
    PathEpoch {
        counter,
        leader: node(leader),
    }
}

fn entry(name: &str, at: PathEpoch, hosts: &[Option<u64>], moves: Vec<Option<SlotMove>>) -> Arc<PathEntry> {
    let name = PathName::new(name).unwrap();
    Arc::new(PathEntry {
        record: PathRecord {
            epoch: at,
            settings: Some(Arc::new(PathSettings::new(name.clone()))),
            scale: 0,
            hosts: hosts.iter().map(|host| host.map(node)).collect(),
        },
        name,
        moves,
    })
}

fn a_move(id: PathEpoch, status: MoveStatus, from: Option<u64>, to: Option<u64>) -> SlotMove {
    SlotMove {
        id,
        status,
        from: from.map(node),
        to: to.map(node),
        options: HandoffOptions::ORDERED,
    }
}

fn table(counter: u64, entries: Vec<Arc<PathEntry>>) -> Arc<PathTable> {
    Arc::new(PathTable::new(counter, None, entries).unwrap())
}

/// The largest table that there can be, to a few bytes.
pub(crate) fn large_table() -> Arc<PathTable> {
    let mut entries = Vec::new();
    let hosts: Vec<_> = (0..1_000).map(Some).collect();
    for name in 0..8 {
        let moves = hosts
            .iter()
            .map(|host| Some(a_move(epoch(1, 0), MoveStatus::Applied, *host, Some(0))));
        entries.push(entry(&format!("p{name}"), epoch(1, 0), &hosts, moves.collect()));
    }
    table(1, entries)
}

/// A table without paths whose leaders have made so many changes.
pub(crate) fn table_at(counter: u64) -> Arc<PathTable> {
    table(counter, Vec::new())
}

/// A table with everything in it, for tests of what carries it.
pub(crate) fn sample_table() -> Arc<PathTable> {
    let moving = a_move(epoch(3, 1), MoveStatus::Complete, Some(1), Some(2));
    let begun = a_move(epoch(2, 1), MoveStatus::Applied, None, Some(1));
    let entries = vec![
        entry("a/b", epoch(3, 1), &[Some(1), None], vec![Some(moving), None]),
        entry("c", epoch(2, 1), &[Some(1)], vec![Some(begun)]),
    ];
    Arc::new(PathTable::new(3, Some((epoch(2, 1), node(2))), entries).unwrap())
}

prop_compose! {
    fn any_move()(counter in 1..4_u64, leader in 0..2_u64, status in 0..5_usize, ends in (0..3_u64, 0..3_u64))
        -> SlotMove {
        use MoveStatus::{Aborted, Applied, Awaiting, Complete, Settled};
        // What an id means never changes: only its status does.
        let status = [Awaiting, Complete, Settled, Aborted, Applied][status];
        let _ = ends;
        a_move(epoch(counter, leader), status, Some(counter), Some(leader))
    }
}

prop_compose! {
    fn any_entry()(
        name in 0..3_usize,
        counter in 1..4_u64,
        leader in 0..2_u64,
        hosts in vec_of(proptest::option::of(0..3_u64), 0..3),
        moves in vec_of(proptest::option::of(any_move()), 0..3),
    ) -> Arc<PathEntry> {
        entry(["a", "b/c", "d"][name], epoch(counter, leader), &hosts, moves)
    }
}

pub(crate) fn any_table() -> impl Strategy<Value = Arc<PathTable>> {
    vec_of(any_entry(), 0..4).prop_map(|mut entries| {
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.dedup_by(|a, b| a.name == b.name);
        table(4, entries)
    })
}

proptest! {
    #[test]
    fn section_10_17_b_the_merge_is_a_semilattice(a in any_table(), b in any_table(), c in any_table()) {
        prop_assert_eq!(&*a.merged(&a), &*a);
        prop_assert_eq!(&*a.merged(&b), &*b.merged(&a));
        prop_assert_eq!(&*a.merged(&b).merged(&c), &*a.merged(&b.merged(&c)));
        let both = a.merged(&b);
        prop_assert!(Arc::ptr_eq(&both.merged(&a), &both), "what contains the other is shared");
        let received = Arc::new(PathTable::from_checked(both.bytes()));
        prop_assert!(a == both || Arc::ptr_eq(&a.merged(&received), &received), "also if nothing of it was");
    }

    #[test]
    fn a_table_comes_back_as_it_was_written(a in any_table()) {
        written::check(a.bytes()).unwrap();
        let back = PathTable::from_checked(a.bytes());
        prop_assert_eq!(&back, &*a);
        prop_assert_eq!(back.entries(), a.entries());
        prop_assert_eq!(back.counter(), a.counter());
    }

    #[test]
    fn bytes_that_are_no_table_are_refused(a in any_table(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = a.bytes().to_vec();
        let place = at.index(bytes.len());
        bytes[place] = byte;
        if written::check(&bytes).is_ok() {
            let read = PathTable::from_checked(&bytes);
            let again = PathTable::of(read.counter(), read.forgotten(), read.placed().cloned(), read.entries().to_vec()).unwrap();
            prop_assert_eq!(&again.bytes()[..], &bytes[..], "one written form");
        }
        for end in 1..bytes.len() {
            let _ = written::check(&bytes[..end]);
        }
    }
}

#[test]
fn section_10_17_a_the_later_record_wins_and_of_two_at_once_the_higher_leader() {
    let of = |counter, leader, host| {
        table(
            9,
            vec![entry("a", epoch(counter, leader), &[Some(host)], vec![None])],
        )
    };
    let host = |table: &PathTable| table.entries()[0].host(0).cloned();
    assert_eq!(host(&of(2, 0, 1).merged(&of(1, 5, 2))), Some(node(1)));
    assert_eq!(host(&of(2, 0, 1).merged(&of(2, 1, 2))), Some(node(2)));
}

#[test]
fn section_10_17_b_a_status_survives_a_later_record() {
    let id = epoch(1, 0);
    let complete = a_move(id.clone(), MoveStatus::Complete, Some(1), Some(2));
    let awaiting = SlotMove {
        status: MoveStatus::Awaiting,
        ..complete.clone()
    };
    let old_host_wrote = table(
        1,
        vec![entry("a", epoch(1, 0), &[Some(1)], vec![Some(complete.clone())])],
    );
    let leader_wrote = table(
        2,
        vec![entry("a", epoch(2, 0), &[Some(1), Some(3)], vec![Some(awaiting)])],
    );
    let merged = old_host_wrote.merged(&leader_wrote);
    assert_eq!(merged.entries()[0].record.hosts.len(), 2);
    assert_eq!(merged.entries()[0].pending(0), Some(&complete));
    assert_eq!(
        merged.entries()[0].target(0),
        Some(&node(2)),
        "senders turn to the new host"
    );
    assert_eq!(
        merged.entries()[0].host(0),
        Some(&node(1)),
        "the leader has not written it"
    );
}

#[test]
fn tokens_of_a_slot_rise_with_its_moves_and_differ_between_hosts() {
    let token = |counter, at| {
        let change = a_move(epoch(counter, 0), MoveStatus::Applied, Some(1), Some(2));
        entry("a", epoch(9, 0), &[Some(2)], vec![Some(change)]).token(0, &node(at))
    };
    assert!(token(1, 2) < token(1, 1), "the old host goes on after an abort");
    assert!(token(1, 1) < token(2, 2));
}

#[test]
fn a_table_that_is_too_large_is_not_made() {
    let wide = |name: &str| {
        let hosts = vec![None; 1_024];
        entry(name, epoch(1, 0), &hosts, Vec::new())
    };
    let names: Vec<_> = (0..9).map(|at| format!("p{at}")).collect();
    let entries: Vec<_> = names.iter().map(|name| wide(name)).collect();
    assert!(SLOTS_MAX == 8 * 1_024 && PathTable::of(1, 0, None, entries[..8].to_vec()).is_ok());
    assert_eq!(
        PathTable::of(1, 0, None, entries).map(drop),
        Err(WireError::LimitExceeded { what: "path slots" })
    );
}
