//! Spec: membership §6 D, with 8.1 in place of M-065 and M-066.

use super::{clock, decoded, g, m, n, names, observe, of, reach, seen};
use crate::ident::Address;
use crate::membership::state::gossip::{Gossip, GossipError};
use crate::membership::state::member::Status;
use crate::membership::state::merge::{merge, with_merged_seen};
use crate::membership::state::vector_clock::ClockOrder;
use crate::paths::state::tests::sample_table;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

fn members(gossip: &Gossip) -> String {
    names(gossip.members().iter().map(|member| &member.node))
}

fn status(gossip: &Gossip, name: &str) -> Status {
    gossip.member(&n(name)).unwrap().status
}

fn stamped(mut gossip: Gossip, by: &str) -> Gossip {
    for name in by.split_whitespace() {
        gossip.stamp(&n(name), true, 0);
    }
    gossip
}

#[test]
fn m_063_merge_takes_the_later_status_of_every_member() {
    let (left, right) = (g("a cL eJ"), g("aJ c e"));
    for merged in [merge(&left, &right), merge(&right, &left)] {
        let found: Vec<_> = ["a", "c", "e"].map(|name| status(&merged, name)).into();
        assert_eq!(found, [Status::Up, Status::Leaving, Status::Up]);
    }
}

#[test]
fn m_064_merge_unites_what_observers_say() {
    let left = reach(g("a b c"), "b>a:U b>c:U");
    let right = reach(g("a b c d"), "a>d:U");
    for merged in [merge(&left, &right), merge(&right, &left)] {
        assert_eq!(names(&merged.reachability().all_unreachable()), "a c d");
    }
}

#[test]
fn merge_keeps_a_one_sided_exiting_member_unless_it_was_removed() {
    let left = reach(g("a b"), "b>a:U");
    let right = reach(g("a b cX"), "b>a:U b>c:U");
    let merged = merge(&left, &right);
    assert_eq!(
        (members(&merged), names(&merged.reachability().all_unreachable())),
        ("a b c".into(), "a c".into())
    );
    let mut removed = right.clone();
    removed.remove(&n("c"));
    for merged in [merge(&removed, &right), merge(&right, &removed)] {
        assert_eq!(
            (members(&merged), names(&merged.reachability().all_unreachable())),
            ("a b".into(), "a".into())
        );
    }
}

#[test]
fn m_067_nobody_has_seen_a_merged_state() {
    let merged = merge(&seen(g("a b"), "a"), &seen(g("a b c"), "b"));
    assert_eq!(merged.seen_count(), 0);
}

#[test]
fn m_068_removal_takes_everything_about_the_member_and_leaves_a_tombstone() {
    let before = seen(stamped(reach(g("a b c d"), "b>a:U c>b:U c>d:U"), "b d"), "a b d");
    let mut after = before.clone();
    assert!(after.remove(&n("b")));
    assert_eq!(
        (members(&after), names(after.seen())),
        ("a c d".into(), "a d".into())
    );
    assert_eq!(after.reachability().records().len(), 1);
    assert_eq!(after.version(), &clock("d"));
    assert_eq!(names(after.tombstones()), "b");
    assert_eq!(after.check_invariants(), Ok(()));
    assert!(
        !after.upsert_member(m("b")),
        "a removed incarnation never comes back"
    );
    assert!(after.upsert_member(m("b#2")) && !after.remove(&n("b")));
}

#[test]
fn m_069_a_tombstone_removes_the_member_from_the_other_side() {
    let full = reach(stamped(g("a b c d"), "a d"), "d>a:U a>d:U a>b:U");
    let mut without = full.clone();
    without.remove(&n("d"));
    without.stamp(&n("a"), true, 0);
    assert_eq!(full.version().compare(without.version()), ClockOrder::Concurrent);
    for merged in [merge(&full, &without), merge(&without, &full)] {
        assert_eq!(
            (members(&merged), names(merged.tombstones())),
            ("a b c".into(), "d".into())
        );
        assert_eq!(
            (merged.version(), merged.version().get(&n("a"))),
            (without.version(), 2)
        );
        assert_eq!(merged.reachability(), without.reachability());
        assert_eq!(merged.check_invariants(), Ok(()));
    }
}

#[test]
fn m_070_a_new_incarnation_stays_while_the_old_one_goes() {
    let old = g("a b c d");
    let mut new = old.clone();
    new.remove(&n("d"));
    new.upsert_member(m("d#3J"));
    for merged in [merge(&old, &new), merge(&new, &old)] {
        assert_eq!(
            (members(&merged), names(merged.tombstones())),
            ("a b c d#3".into(), "d".into())
        );
    }
}

#[test]
fn m_072_only_the_named_tombstones_are_pruned() {
    let mut gossip = g("a b c");
    gossip.remove(&n("b"));
    gossip.remove(&n("c"));
    assert!(!gossip.prune_tombstones(&[n("x")]));
    assert!(gossip.prune_tombstones(&[n("b"), n("x")]));
    assert_eq!(names(gossip.tombstones()), "c");
}

#[test]
fn m_073_a_downed_member_counts_no_longer_as_having_seen() {
    let mut gossip = seen(g("a b c"), "a b c");
    assert!(gossip.mark_down(&n("b")) && !gossip.mark_down(&n("b")));
    assert_eq!(
        (status(&gossip, "b"), names(gossip.seen())),
        (Status::Down, "a c".into())
    );
    assert!(!gossip.mark_down(&n("x")));
}

#[test]
fn m_074_a_changed_record_replaces_its_own_and_keeps_the_seen_set() {
    let mut gossip = seen(g("a b dJ"), "b d");
    gossip.upsert_member(m("d"));
    assert_eq!(
        (members(&gossip), status(&gossip, "d"), names(gossip.seen())),
        ("a b d".into(), Status::Up, "b d".into())
    );
    gossip.upsert_member(m("cJ"));
    assert_eq!(
        (members(&gossip), names(gossip.seen())),
        ("a b c d".into(), "b d".into())
    );
}

#[test]
fn m_075_merge_counts_no_clock_entry_up() {
    let (left, right) = (stamped(g("a b"), "a a"), stamped(g("a b"), "b"));
    assert_eq!(merge(&left, &right).version(), &clock("a a b"));
}

#[test]
fn m_077_states_that_break_an_invariant_are_refused() {
    let refused =
        |members, seen: &[usize], rows, ticks, tombs| decoded(members, seen, rows, ticks, tombs).unwrap_err();
    assert!(decoded("aJ b cD", &[0, 1], "a>c:U", "a b", "d").is_ok());
    assert_eq!(
        refused("a bZ", &[], "", "", ""),
        GossipError::RemovedMember(n("b"))
    );
    assert_eq!(
        refused("b a", &[], "", "", ""),
        GossipError::MembersNotSorted(n("a"))
    );
    assert_eq!(
        refused("a a", &[], "", "", ""),
        GossipError::MembersNotSorted(n("a"))
    );
    assert_eq!(
        refused("a b", &[], "", "", "b"),
        GossipError::TombstonedMember(n("b"))
    );
    assert_eq!(refused("a b", &[2], "", "", ""), GossipError::SeenNotMember(2));
    assert_eq!(
        refused("a", &[usize::from(u16::MAX)], "", "", ""),
        GossipError::SeenNotMember(65_535)
    );
    assert_eq!(
        refused("a b", &[], "c>a:U", "", ""),
        GossipError::ObserverNotMember(n("c"))
    );
    assert_eq!(
        refused("a b", &[], "a>c:U", "", ""),
        GossipError::SubjectNotMember(n("c"))
    );
    assert_eq!(
        refused("a b", &[], "c>a:U c>a:R", "", ""),
        GossipError::VersionNotMember(n("c"))
    );
    assert_eq!(
        refused("a b", &[], "", "a c", ""),
        GossipError::ClockNotMember(n("c"))
    );
}

#[test]
fn a_stamp_counts_up_once_and_only_the_writer_has_seen_it() {
    let mut gossip = seen(g("a b"), "a b");
    gossip.stamp(&n("b"), true, 0);
    assert_eq!(
        (gossip.version(), names(gossip.seen())),
        (&clock("b"), "b".into())
    );
    gossip.stamp(&n("b"), false, 0);
    assert_eq!((gossip.version(), gossip.seen_count()), (&clock("b b"), 0));
}

#[test]
fn seen_sets_of_one_state_unite() {
    let both = with_merged_seen(&seen(g("a b c"), "a"), &seen(g("a b c"), "c"));
    assert_eq!(names(both.seen()), "a c");
}

#[test]
fn a_change_by_a_removed_node_is_kept_although_its_clock_entry_is_gone() {
    let start = stamped(g("a b c"), "a b");
    let mut changed = start.clone();
    changed.upsert_member(m("dJ"));
    changed.stamp(&n("c"), true, 0);
    let mut removed = start;
    removed.remove(&n("c"));
    let merged = seen(merge(&removed, &changed), "b");
    assert_eq!(
        (merged.version().compare(removed.version()), members(&merged)),
        (ClockOrder::Same, "a b d".into())
    );
    for both in [
        with_merged_seen(&merged, &removed),
        with_merged_seen(&removed, &merged),
    ] {
        assert_eq!((members(&both), both.seen_count()), ("a b d".into(), 0));
    }
}

#[test]
fn the_seen_digest_depends_on_who_of_the_members_has_seen_the_state_only() {
    let one = seen(g("a b"), "b").seen_digest();
    assert_eq!(one, seen(g("a bX"), "b").seen_digest());
    assert_ne!(one, seen(g("a b"), "a").seen_digest());
    assert_ne!(one, seen(seen(g("a b"), "b"), "a").seen_digest());
    assert_ne!(one, g("a b").seen_digest());
}

#[test]
fn an_address_names_the_incarnation_that_is_not_down() {
    let mut gossip = g("a b bJ c");
    gossip.upsert_member(m("b#0D"));
    gossip.upsert_member(m("b#7D"));
    let at = |host: &str| {
        gossip
            .member_at(&Address::new(host, 7355).unwrap())
            .map(|member| member.node.uid())
    };
    assert_eq!((at("b"), at("x")), (Some(1), None));
    gossip.mark_down(&n("b"));
    let found = gossip.member_at(&Address::new("b", 7355).unwrap()).unwrap();
    assert_eq!(found.status, Status::Down);
}

#[test]
fn the_merge_of_states_merges_their_tables_of_paths() {
    let mut with = g("a");
    with.set_paths(sample_table());
    for merged in [merge(&with, &g("a")), merge(&g("a"), &with)] {
        assert!(Arc::ptr_eq(merged.paths(), with.paths()), "shared");
    }
}

#[test]
fn a_side_with_nothing_new_shares_the_other_sides_tables() {
    let small = reach(g("a b"), "a>b:U");
    let mut large = small.clone();
    large.upsert_member(m("c"));
    observe(large.reachability_mut(), "c>b:U");
    for merged in [merge(&small, &large), merge(&large, &small)] {
        assert!(Arc::ptr_eq(merged.members_arc(), large.members_arc()));
        assert!(Arc::ptr_eq(merged.reachability_arc(), large.reachability_arc()));
        assert!(Arc::ptr_eq(merged.tombstones_arc(), small.tombstones_arc()));
    }
}

#[test]
#[should_panic(expected = "illegal transition from Down to Up")]
fn an_illegal_transition_is_our_own_bug() {
    of([m("aD")]).set_status(&n("a"), Status::Up);
}
