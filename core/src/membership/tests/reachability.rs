//! Spec: membership §6 C.

use super::{n, names, observe, table};
use crate::membership::state::reachability::{Reachability, ReachabilityRecord, ReachabilityStatus};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Rows as `b>a:U1`, with the version behind the status.
fn rows(table: &Reachability) -> String {
    let show = |record: &ReachabilityRecord| {
        let status = match record.status {
            ReachabilityStatus::Reachable => 'R',
            ReachabilityStatus::Unreachable => 'U',
            ReachabilityStatus::Terminated => 'T',
        };
        let (observer, subject) = (record.observer.address().host(), record.subject.address().host());
        format!("{observer}>{subject}:{status}{}", record.version)
    };
    table.records().iter().map(show).collect::<Vec<_>>().join(" ")
}

fn versions(table: &Reachability) -> String {
    let show =
        |(node, version): &(crate::ident::UniqueAddress, u64)| format!("{}{version}", node.address().host());
    table.versions().iter().map(show).collect::<Vec<_>>().join(" ")
}

fn unreachable(table: &Reachability) -> String {
    names(&table.all_unreachable())
}

#[test]
fn m_043_and_m_044_everybody_is_reachable_until_somebody_says_otherwise() {
    assert!(Reachability::new().is_all_reachable());
    assert_eq!(
        Reachability::new().aggregate(&n("a")),
        ReachabilityStatus::Reachable
    );
    let one = table("b>a:U");
    assert_eq!(
        (one.aggregate(&n("a")), unreachable(&one)),
        (ReachabilityStatus::Unreachable, "a".into())
    );
    assert!(!one.is_all_reachable());
}

#[test]
fn m_045_and_m_046_terminated_is_final_and_apart() {
    let mut over = table("b>a:T");
    assert_eq!(over.aggregate(&n("a")), ReachabilityStatus::Terminated);
    assert_eq!(
        (unreachable(&over), names(&over.all_unreachable_or_terminated())),
        ("".into(), "a".into())
    );
    let before = over.clone();
    assert!(!over.reachable(&n("b"), &n("a")) && !over.unreachable(&n("b"), &n("a")));
    assert_eq!(over, before);
}

#[test]
fn m_047_saying_it_again_changes_nothing() {
    let mut once = table("b>a:U");
    assert!(!once.unreachable(&n("b"), &n("a")));
    assert_eq!(once, table("b>a:U"));
}

#[test]
fn m_048_one_observer_is_enough_and_a_first_reachable_is_not_recorded() {
    let three = table("b>a:U c>a:U d>a:R");
    assert_eq!(three.aggregate(&n("a")), ReachabilityStatus::Unreachable);
    assert_eq!(three.version_of(&n("d")), 0);
}

#[test]
fn m_049_reachable_again_for_every_observer_is_reachable() {
    let healed = table("b>a:U c>a:U b>a:R c>a:R b>c:U c>b:U");
    assert_eq!(healed.aggregate(&n("a")), ReachabilityStatus::Reachable);
}

#[test]
fn m_050_without_an_observer_its_rows_are_gone() {
    let mut crossed = table("c>a:U c>a:R c>b:U b>a:U b>c:U");
    assert_eq!(unreachable(&crossed), "a b c");
    crossed.remove_observers(&[n("b")]);
    assert_eq!(
        (unreachable(&crossed), crossed.version_of(&n("b"))),
        ("b".into(), 0)
    );
}

#[test]
fn m_051_a_fully_reachable_observer_keeps_only_its_version() {
    let mut pruned = table("b>a:U b>c:U d>c:U b>a:R b>c:R");
    assert_eq!(
        (rows(&pruned), versions(&pruned)),
        ("d>c:U1".into(), "b4 d1".into())
    );
    assert_eq!(names(&pruned.all_observers()), "d");
    observe(&mut pruned, "b>d:U b>e:U");
    assert_eq!(rows(&pruned), "b>d:U5 b>e:U6 d>c:U1");
}

#[test]
fn m_052_the_worst_word_wins() {
    let parts = [
        ("a", "b", ReachabilityStatus::Reachable, 2),
        ("c", "b", ReachabilityStatus::Unreachable, 2),
    ]
    .into_iter()
    .chain([
        ("a", "d", ReachabilityStatus::Unreachable, 3),
        ("d", "b", ReachabilityStatus::Terminated, 4),
    ])
    .map(|(o, s, status, version)| ReachabilityRecord {
        observer: n(o),
        subject: n(s),
        status,
        version,
    });
    let made = Reachability::from_parts(
        parts.collect(),
        [("a", 3), ("c", 2), ("d", 4)].map(|(o, v)| (n(o), v)).into(),
    )
    .unwrap();
    assert_eq!(made.aggregate(&n("a")), ReachabilityStatus::Reachable);
    assert_eq!(made.aggregate(&n("b")), ReachabilityStatus::Terminated);
    assert_eq!(made.aggregate(&n("d")), ReachabilityStatus::Unreachable);
}

#[test]
fn m_054_and_m_055_merge_takes_the_newer_rows_of_every_allowed_observer() {
    let older = table("b>a:U c>d:U");
    let mut newer = older.clone();
    observe(&mut newer, "b>a:R d>e:U c>a:U");
    for (left, right) in [(&older, &newer), (&newer, &older)] {
        let all = left.merge(|_| true, right);
        assert_eq!(rows(&all), "c>a:U2 c>d:U1 d>e:U1");
        assert_eq!(
            (unreachable(&all), all.aggregate(&n("a"))),
            ("a d e".into(), ReachabilityStatus::Unreachable)
        );
        let without = left.merge(|node| *node != n("d"), right);
        assert_eq!(
            (rows(&without), versions(&without)),
            ("c>a:U2".into(), "b2 c2".into())
        );
        assert_eq!(unreachable(&without), "a");
    }
}

#[test]
fn m_057_versions_merge_by_the_larger() {
    let of = |entries: [(&str, u64); 3]| {
        Reachability::from_parts(Vec::new(), entries.map(|(o, v)| (n(o), v)).into()).unwrap()
    };
    let (left, right) = (
        of([("a", 3), ("b", 5), ("c", 7)]),
        of([("a", 6), ("b", 2), ("d", 1)]),
    );
    assert_eq!(versions(&left.merge(|_| true, &right)), "a6 b5 c7 d1");
}

#[test]
fn m_058_and_m_059_removal_takes_rows_and_versions() {
    let mut left = table("b>a:U c>d:U b>c:U b>e:U");
    left.remove(&[n("a"), n("b")]);
    assert_eq!((rows(&left), versions(&left)), ("c>d:U1".into(), "c1".into()));
    let mut pruned = table("b>a:U b>a:R");
    assert_eq!((rows(&pruned), versions(&pruned)), ("".into(), "b2".into()));
    pruned.remove(&[n("b")]);
    assert_eq!(pruned, Reachability::new());
}

#[test]
fn m_060_filtered_rows_are_gone_from_every_answer() {
    let kept = table("c>b:U b>a:U b>c:U").filter_records(|record| record.observer != n("c"));
    assert_eq!(kept.aggregate(&n("b")), ReachabilityStatus::Reachable);
    assert_eq!(kept.aggregate(&n("a")), ReachabilityStatus::Unreachable);
    assert_eq!(names(&kept.all_observers()), "b");
}

#[test]
fn m_061_merging_an_equal_table_is_a_no_op() {
    let same = table("b>a:U c>a:U");
    assert_eq!(same.merge(|_| true, &same.clone()), same);
    assert!(same.covers(&same));
}

#[test]
fn m_062_rows_the_newer_side_has_pruned_stay_pruned() {
    let old = table("b>a:U");
    let new = table("b>a:U b>a:R");
    for (left, right) in [(&old, &new), (&new, &old)] {
        let merged = left.merge(|_| true, right);
        assert_eq!((rows(&merged), versions(&merged)), ("".into(), "b2".into()));
    }
    assert!(new.covers(&old) && !old.covers(&new));
}

#[test]
fn differing_rows_of_one_version_merge_to_the_same_table_on_both_sides() {
    let (left, right) = (table("b>a:U"), table("b>c:U"));
    assert_eq!(left.merge(|_| true, &right), right.merge(|_| true, &left));
}

#[test]
fn a_decoded_table_without_order_or_versions_is_refused() {
    let record = |version| ReachabilityRecord {
        observer: n("a"),
        subject: n("b"),
        status: ReachabilityStatus::Unreachable,
        version,
    };
    let made = |records: Vec<ReachabilityRecord>, versions: Vec<(&str, u64)>| {
        Reachability::from_parts(records, versions.into_iter().map(|(o, v)| (n(o), v)).collect())
    };
    assert!(made([record(1)].into(), [("a", 1)].into()).is_some());
    assert!(
        made([record(2)].into(), [("a", 1)].into()).is_none(),
        "a row newer than its observer"
    );
    assert!(
        made([record(1)].into(), [].into()).is_none(),
        "a row without its observer's version"
    );
    assert!(
        made([record(1), record(1)].into(), [("a", 1)].into()).is_none(),
        "a row twice"
    );
    assert!(
        made([].into(), [("a", 1), ("a", 2)].into()).is_none(),
        "a version twice"
    );
}
