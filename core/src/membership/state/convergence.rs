//! Whether everybody who counts has seen this very state and nobody who counts is unreachable, so that a
//! leader may act. Judges only the state it is given, from one node's data center; changes nothing. Spec:
//! membership 1.7, 2.4.

use alloc::vec::Vec;

use crate::ident::{DEFAULT_DATA_CENTER, UniqueAddress};
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::{Member, Status};
use crate::membership::state::reachability::{Reachability, ReachabilityRecord, ReachabilityStatus};
use crate::ordered::OrderedSet;

/// Why a member keeps the state from being converged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Blocker {
    /// It is not known to have seen the state.
    NotSeen,
    /// Somebody of this data center who is not Down cannot reach it, and it is neither Down nor Exiting.
    Unreachable,
}

/// Whether the state is converged as `me` sees it. Nodes in `exiting_confirmed` said goodbye and block
/// nothing. The empty state is converged. Linear in members and reachability rows; allocates nothing.
#[must_use]
pub fn converged(gossip: &Gossip, me: &UniqueAddress, exiting_confirmed: &OrderedSet<UniqueAddress>) -> bool {
    !any_blocker(gossip, me, exiting_confirmed, |_, _| true)
}

/// Everybody who keeps the state from being converged, with the reason: first who has not seen it, then who
/// is unreachable, each in order. Empty exactly if [`converged`].
#[must_use]
pub fn blockers(
    gossip: &Gossip,
    me: &UniqueAddress,
    exiting_confirmed: &OrderedSet<UniqueAddress>,
) -> Vec<(UniqueAddress, Blocker)> {
    let mut found = Vec::new();
    any_blocker(gossip, me, exiting_confirmed, |node, blocker| {
        found.push((node.clone(), blocker));
        false
    });
    found.sort_by(|left, right| (left.1, &left.0).cmp(&(right.1, &right.0)));
    found.dedup();
    found
}

/// What the observers of one data center say (about anybody).
#[must_use]
pub fn dc_reachability(gossip: &Gossip, dc: &str) -> Reachability {
    restrict(gossip, |observer| observer.data_center() == dc, |_| true)
}

/// What the observers of one data center who are not Down say about members of that data center.
#[must_use]
pub fn dc_reachability_excluding_downed_observers(gossip: &Gossip, dc: &str) -> Reachability {
    restrict(
        gossip,
        |observer| observer.data_center() == dc && observer.status != Status::Down,
        |subject| subject.data_center() == dc,
    )
}

/// What the members of one data center say about each other: what users of that data center are told.
#[must_use]
pub fn dc_reachability_no_outside_nodes(gossip: &Gossip, dc: &str) -> Reachability {
    restrict(
        gossip,
        |observer| observer.data_center() == dc,
        |subject| subject.data_center() == dc,
    )
}

/// The data center of `me`; the default one while it is no member.
#[must_use]
pub(crate) fn data_center_of<'a>(gossip: &'a Gossip, me: &UniqueAddress) -> &'a str {
    gossip.member(me).map_or(DEFAULT_DATA_CENTER, Member::data_center)
}

/// Whether any observer that `counts` finds `subject` unreachable or terminated. Allocates nothing.
#[must_use]
pub(crate) fn is_unreachable_for(
    gossip: &Gossip,
    subject: &UniqueAddress,
    counts: impl Fn(&Member) -> bool,
) -> bool {
    bad_rows(gossip)
        .any(|record| record.subject == *subject && gossip.member(&record.observer).is_some_and(&counts))
}

fn bad_rows(gossip: &Gossip) -> impl Iterator<Item = &ReachabilityRecord> {
    gossip
        .reachability()
        .records()
        .iter()
        .filter(|record| record.status != ReachabilityStatus::Reachable)
}

/// Calls `stop` with every blocker until it says true; the same node may come several times.
fn any_blocker(
    gossip: &Gossip,
    me: &UniqueAddress,
    exiting_confirmed: &OrderedSet<UniqueAddress>,
    mut stop: impl FnMut(&UniqueAddress, Blocker) -> bool,
) -> bool {
    let dc = data_center_of(gossip, me);
    let has_member = gossip
        .members()
        .iter()
        .any(|m| m.status.is_up_like() && m.data_center() == dc);
    // Without a full member in this data center everybody everywhere has to know, so that up number 1 is
    // given once.
    let first = !has_member;
    for (at, member) in gossip.members().iter().enumerate() {
        let blocking = member.status.is_up_like()
            || (first && matches!(member.status, Status::Joining | Status::WeaklyUp));
        if blocking
            && !gossip.seen_set().contains(at)
            && (first || member.data_center() == dc)
            && !exiting_confirmed.contains(&member.node)
            && stop(&member.node, Blocker::NotSeen)
        {
            return true;
        }
    }
    bad_rows(gossip).any(|record| {
        let counts = record.subject != *me
            && !exiting_confirmed.contains(&record.subject)
            && gossip
                .member(&record.observer)
                .is_some_and(|observer| observer.status != Status::Down && observer.data_center() == dc)
            && gossip
                .member(&record.subject)
                .is_some_and(|subject| !subject.status.is_terminal() && subject.data_center() == dc);
        counts && stop(&record.subject, Blocker::Unreachable)
    })
}

fn restrict(
    gossip: &Gossip,
    observer_counts: impl Fn(&Member) -> bool,
    subject_counts: impl Fn(&Member) -> bool,
) -> Reachability {
    let all = gossip.reachability();
    if all.versions().is_empty() {
        return Reachability::new();
    }
    let is = |node: &UniqueAddress, counts: &dyn Fn(&Member) -> bool| gossip.member(node).is_some_and(counts);
    let mut kept = all.filter_records(|record| is(&record.subject, &subject_counts));
    let strangers = all
        .versions()
        .iter()
        .map(|entry| &entry.0)
        .filter(|node| !is(node, &observer_counts));
    let strangers: Vec<UniqueAddress> = strangers.cloned().collect();
    kept.remove_observers(&strangers);
    kept
}
