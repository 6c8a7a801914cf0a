//! Who has been removed, and from when on its work may be done by others. Spec: sharding 10.1.

use super::*;
use crate::fixture::{member, node, picture_of};
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::Status;

const MARGIN: Duration = Duration::from_secs(20);

fn me() -> UniqueAddress {
    node("a", 1)
}

fn other() -> UniqueAddress {
    node("b", 2)
}

fn at(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1000)
}

/// This node, and perhaps the other one, which is about to go.
fn state(with_other: bool) -> Gossip {
    let mut gossip = Gossip::new();
    gossip.upsert_member(member(&me(), Status::Up));
    if with_other {
        gossip.upsert_member(member(&other(), Status::Exiting));
    }
    gossip
}

/// The other one was removed; perhaps it had said that nothing runs there any more.
fn removed(said_gone: bool) -> Gossip {
    let mut gossip = state(true);
    if said_gone {
        assert!(gossip.mark_gone(&other()));
    }
    assert!(gossip.remove(&other()));
    gossip
}

/// What a member since 1 s makes of a change at 2 s: when the work of all, and of a role that the other did
/// not have, is free.
fn after(before: &Gossip, after: &Gossip) -> (Departures, Instant, Instant) {
    let mut departures = Departures::default();
    let view = |gossip: &Gossip| picture_of(&me(), gossip.clone());
    departures.on_view_changed(at(1), MARGIN, &View::idle(me()), &view(before));
    departures.on_view_changed(at(2), MARGIN, &view(before), &view(after));
    let role = Role::new("backend").unwrap();
    let of_all = departures.safe_at(None, |_| true);
    let of_role = departures.safe_at(Some(&role), |_| true);
    (departures, of_all, of_role)
}

#[test]
fn s_091_a_member_that_was_seen_counts_for_its_roles_until_the_margin_is_over() {
    let (departures, of_all, of_role) = after(&state(true), &removed(false));
    assert_eq!((of_all, of_role), (at(22), Instant::ZERO));
    assert_eq!(departures.safe_at_of(&other()), at(22));
}

#[test]
fn a_tombstone_of_a_node_that_was_never_seen_counts_for_every_role_and_every_age() {
    let (departures, of_all, of_role) = after(&state(false), &removed(false));
    assert_eq!((of_all, of_role), (at(22), at(22)));
    let oldest = |departure: &Departure| departure.up_number == UpNumber::FIRST;
    assert_eq!(departures.safe_at(None, oldest), at(22));
}

#[test]
fn who_was_removed_before_this_node_was_up_is_older_whatever_numbers_both_had() {
    for (status, expected) in [(Status::Joining, UpNumber::FIRST), (Status::Up, UpNumber::new(6))] {
        let mut before = Gossip::new();
        let mut own = member(&me(), status);
        own.up_number = if status == Status::Up {
            UpNumber::new(3)
        } else {
            UpNumber::NONE
        };
        before.upsert_member(own);
        let mut gone = member(&other(), Status::Up);
        gone.up_number = UpNumber::new(6);
        before.upsert_member(gone);
        let mut left = before.clone();
        assert!(left.remove(&other()));
        let (departures, ..) = after(&before, &left);
        let noted = |departure: &Departure| departure.up_number == expected;
        assert_eq!(departures.safe_at(None, noted), at(22), "{status}");
    }
}

#[test]
fn the_margin_of_those_that_were_removed_before_begins_when_this_node_is_a_member() {
    let mut heard = Gossip::new();
    heard.upsert_member(member(&other(), Status::Exiting));
    assert!(heard.remove(&other()));
    let mut departures = Departures::default();
    let view = |gossip: &Gossip| picture_of(&me(), gossip.clone());
    departures.on_view_changed(at(1), MARGIN, &View::idle(me()), &view(&heard));
    departures.on_view_changed(at(5), MARGIN, &view(&heard), &view(&removed(false)));
    assert_eq!(departures.safe_at(None, |_| true), at(25));
}

#[test]
fn one_that_said_that_nothing_runs_there_any_more_needs_no_margin_seen_or_not() {
    let mut gone = state(true);
    assert!(gone.mark_gone(&other()));
    for before in [state(true), state(false), gone.clone()] {
        let (_, of_all, of_role) = after(&before, &removed(true));
        assert_eq!((of_all, of_role), (Instant::ZERO, Instant::ZERO));
    }
    // Whoever removed it had not heard so; this node had.
    let (_, of_all, _) = after(&gone, &removed(false));
    assert_eq!(of_all, Instant::ZERO);
}

/// A picture with another incarnation at the other one's address.
fn with_successor(mut gossip: Gossip, status: Status) -> Gossip {
    gossip.upsert_member(member(&node("b", 3), status));
    gossip
}

#[test]
fn the_mere_use_of_its_address_again_waives_no_margin() {
    for status in [Status::Joining, Status::Up] {
        // It was there before, it comes with the removal, and it comes later.
        for (before, then) in [
            (
                with_successor(state(true), status),
                with_successor(removed(false), status),
            ),
            (state(true), with_successor(removed(false), status)),
            (
                with_successor(state(false), status),
                with_successor(removed(false), status),
            ),
        ] {
            let (departures, of_all, _) = after(&before, &then);
            assert_eq!(
                (of_all, departures.safe_at_of(&other())),
                (at(22), at(22)),
                "{status:?}"
            );
        }
        let (mut departures, ..) = after(&state(true), &removed(false));
        let (alone, joined) = (removed(false), with_successor(removed(false), status));
        let view = |gossip: &Gossip| picture_of(&me(), gossip.clone());
        departures.on_view_changed(at(3), MARGIN, &view(&alone), &view(&joined));
        assert_eq!(departures.safe_at(None, |_| true), at(22), "{status:?}");
    }
}

#[test]
fn nor_does_the_word_of_another_incarnation_at_its_address() {
    let mut said = with_successor(state(true), Status::Exiting);
    assert!(said.mark_gone(&node("b", 3)));
    let mut then = said.clone();
    assert!(then.remove(&other()));
    let (departures, of_all, _) = after(&said, &then);
    assert_eq!((of_all, departures.safe_at_of(&other())), (at(22), at(22)));
}

#[test]
fn who_was_exiting_and_is_removed_without_the_word_gets_the_margin_however_orderly_it_looked() {
    // Its drain timed out, it said goodbye all the same, and everybody has seen it: this is how it looks.
    for status in [Status::Leaving, Status::Exiting, Status::Down, Status::Up] {
        let mut before = state(false);
        before.upsert_member(member(&other(), status));
        before.add_seen(&me());
        before.add_seen(&other());
        let mut then = before.clone();
        assert!(then.remove(&other()));
        let (departures, of_all, _) = after(&before, &then);
        assert_eq!(
            (of_all, departures.safe_at_of(&other())),
            (at(22), at(22)),
            "{status:?}"
        );
    }
}

#[test]
fn a_joiner_waits_for_the_margin_unless_all_of_whom_it_finds_tombstones_had_said_that_they_were_gone() {
    let joined = |gossip: &Gossip| {
        let mut departures = Departures::default();
        let view = picture_of(&me(), gossip.clone());
        departures.on_view_changed(at(5), MARGIN, &View::idle(me()), &view);
        departures.safe_at(None, |_| true)
    };
    assert_eq!(joined(&state(true)), Instant::ZERO);
    assert_eq!(joined(&removed(true)), Instant::ZERO);
    assert_eq!(joined(&removed(false)), at(25));
    let mut both = removed(true);
    both.upsert_member(member(&node("c", 4), Status::Exiting));
    assert!(both.remove(&node("c", 4)));
    assert_eq!(joined(&both), at(25), "of one of two");
}

#[test]
fn a_removal_is_counted_once_and_forgotten_when_its_margin_is_over() {
    let (mut departures, ..) = after(&state(true), &removed(false));
    let view = picture_of(&me(), removed(false));
    departures.on_view_changed(at(5), MARGIN, &view, &view);
    assert_eq!(departures.safe_at(None, |_| true), at(22));
    departures.on_view_changed(at(22), MARGIN, &view, &view);
    assert!(departures.recent.is_empty());
}
