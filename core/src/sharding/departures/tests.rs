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

/// What a member since 1 s makes of a change at 2 s: when the work of all, and of a role that the other did not have, is free.
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

#[test]
fn a_removal_is_counted_once_and_forgotten_when_its_margin_is_over() {
    let (mut departures, ..) = after(&state(true), &removed(false));
    let view = picture_of(&me(), removed(false));
    departures.on_view_changed(at(5), MARGIN, &view, &view);
    assert_eq!(departures.safe_at(None, |_| true), at(22));
    departures.on_view_changed(at(22), MARGIN, &view, &view);
    assert!(departures.recent.is_empty());
}
