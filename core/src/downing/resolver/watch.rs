//! What of a change of the picture concerns the resolver: who complains, what makes the wait begin again,
//! what counts as unrest. Values only. Spec: membership 3.1, 3.8.

use alloc::vec::Vec;

use crate::downing::state::view::Observation;
use crate::ident::UniqueAddress;
use crate::membership::state::member::{Member, Status};
use crate::membership::state::reachability::ReachabilityStatus;
use crate::view::View;

/// The members of this node's data center.
pub(super) fn own_members(view: &View) -> impl Iterator<Item = &Member> {
    let own = view.self_member().map(Member::data_center);
    view.members()
        .iter()
        .filter(move |member| Some(member.data_center()) == own)
}

/// Rows in which a member of this data center calls another one unreachable or terminated, in their order.
pub(super) fn observations(view: &View) -> Vec<Observation> {
    let own = view.self_member().map(Member::data_center);
    let is_own = |node: &UniqueAddress| own.is_some() && view.member(node).map(Member::data_center) == own;
    let bad = view
        .gossip()
        .reachability()
        .records()
        .iter()
        .filter(|record| match record.status {
            ReachabilityStatus::Reachable => false,
            ReachabilityStatus::Unreachable | ReachabilityStatus::Terminated => true,
        });
    // A row of a member about itself is nonsense that a peer may nevertheless send.
    bad.filter(|record| record.observer != record.subject)
        .filter(|record| is_own(&record.observer) && is_own(&record.subject))
        .map(|record| Observation {
            observer: record.observer.clone(),
            subject: record.subject.clone(),
        })
        .collect()
}

/// Whether a member withdrew its complaint about somebody whom others still complain about: who lives for a
/// part of us only is on a broken link, unless the others withdraw theirs, too.
pub(super) fn is_partly_withdrawn(before: &[Observation], after: &[Observation], view: &View) -> bool {
    let is_still_missing = |row: &Observation| after.iter().any(|other| other.subject == row.subject);
    before
        .iter()
        .filter(|row| view.member(&row.observer).is_some() && after.binary_search(row).is_err())
        .any(is_still_missing)
}

/// Whether the change makes the wait for a stable picture begin again: somebody became Up, Exiting or Down,
/// became unreachable, or is reachable again. Joining, leaving and being removed do not.
pub(super) fn is_unsettled(before: &View, after: &View) -> bool {
    let is_final = |status: Status| matches!(status, Status::Up | Status::Exiting | Status::Down);
    is_lost_or_back(before, after) || has_anybody_turned(before, after, is_final)
}

/// Whether the change counts as unrest: somebody became unreachable, is reachable again, or became Down.
pub(super) fn is_unstable(before: &View, after: &View) -> bool {
    let is_down = |status: Status| status == Status::Down;
    is_lost_or_back(before, after) || has_anybody_turned(before, after, is_down)
}

/// Whether somebody became Up.
pub(super) fn is_anybody_newly_up(before: &View, after: &View) -> bool {
    has_anybody_turned(before, after, |status| status == Status::Up)
}

/// Whether a full member is unreachable: without one there is no unrest.
pub(super) fn is_anybody_lost(view: &View) -> bool {
    let mut unreachable = view.unreachable().iter().filter_map(|node| view.member(node));
    unreachable.any(|member| member.status.is_up_like())
}

/// Whether a member that was unreachable is reachable again.
pub(super) fn is_anybody_back(before: &View, after: &View) -> bool {
    let is_member = |node: &UniqueAddress| after.member(node).is_some();
    before
        .unreachable()
        .iter()
        .any(|node| after.is_reachable(node) && is_member(node))
}

fn is_lost_or_back(before: &View, after: &View) -> bool {
    let lost = after.unreachable().iter().any(|node| before.is_reachable(node));
    lost || is_anybody_back(before, after)
}

fn has_anybody_turned(before: &View, after: &View, into: impl Fn(Status) -> bool) -> bool {
    let is_new = |member: &Member| {
        before
            .member(&member.node)
            .is_none_or(|old| old.status != member.status)
    };
    own_members(after).any(|member| into(member.status) && is_new(member))
}
