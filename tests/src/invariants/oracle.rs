//! Convergence and leader worked out a second time, from the specification's words and in the plainest way,
//! so that a mistake in the core's own functions cannot hide itself. Each data center has its own. Spec:
//! membership 2.4, 2.7.

use std::collections::BTreeSet;

use quorate_core::ident::UniqueAddress;
use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::member::{Member, Status};
use quorate_core::membership::reachability::ReachabilityStatus;

const FULL: [Status; 4] = [
    Status::Up,
    Status::Leaving,
    Status::PreparingForShutdown,
    Status::ReadyForShutdown,
];

/// The data center that `me` is in; the one that has no name while it is no member.
pub(super) fn home<'a>(gossip: &'a Gossip, me: &UniqueAddress) -> &'a str {
    gossip.member(me).map_or("default", Member::data_center)
}

/// The members whose having seen a state convergence waits for in the data center of `me`.
pub(super) fn required<'a>(gossip: &'a Gossip, me: &UniqueAddress) -> Vec<&'a UniqueAddress> {
    let dc = home(gossip, me);
    let mut own = gossip
        .members()
        .iter()
        .filter(|member| member.data_center() == dc);
    let first = !own.any(|member| FULL.contains(&member.status));
    let blocking = |status: Status| {
        FULL.contains(&status) || (first && matches!(status, Status::Joining | Status::WeaklyUp))
    };
    let members = gossip.members().iter();
    members
        .filter(|member| blocking(member.status) && (first || member.data_center() == dc))
        .map(|member| &member.node)
        .collect()
}

/// Whether `me` may take the state for converged; `confirmed` said that they are done exiting.
pub(super) fn converged(gossip: &Gossip, me: &UniqueAddress, confirmed: &BTreeSet<UniqueAddress>) -> bool {
    let seen: BTreeSet<&UniqueAddress> = gossip.seen().collect();
    let dc = home(gossip, me);
    let all_saw = required(gossip, me)
        .into_iter()
        .all(|node| seen.contains(node) || confirmed.contains(node));
    let nobody_missing = gossip.members().iter().all(|member| {
        member.node == *me
            || confirmed.contains(&member.node)
            || matches!(member.status, Status::Down | Status::Exiting)
            || member.data_center() != dc
            || !missed(gossip, &member.node, dc, true)
    });
    all_saw && nobody_missing
}

/// Whether `me` has gone on alone in one step: it downed everybody who was left, nobody's having seen that
/// is to be waited for, and it acts in the same step. All the others it missed, or they are done exiting.
pub(super) fn left_alone(
    before: &Gossip,
    after: &Gossip,
    me: &UniqueAddress,
    confirmed: &BTreeSet<UniqueAddress>,
) -> bool {
    let dc = home(before, me);
    let is_gone =
        |member: &Member| confirmed.contains(&member.node) || missed(before, &member.node, dc, true);
    let mut others = before.members().iter().filter(|member| member.node != *me);
    after.members().iter().all(|member| member.node == *me) && others.all(is_gone)
}

/// Whether any observer in a data center takes `node` for unreachable or terminated.
pub(super) fn missed(gossip: &Gossip, node: &UniqueAddress, dc: &str, without_downed: bool) -> bool {
    gossip.reachability().records().iter().any(|record| {
        let counts = gossip.member(&record.observer).is_some_and(|observer| {
            observer.data_center() == dc && (!without_downed || observer.status != Status::Down)
        });
        counts && record.subject == *node && record.status != ReachabilityStatus::Reachable
    })
}

/// The leader as `me` sees it; with or without what downed members observed.
pub(super) fn leader<'a>(
    gossip: &'a Gossip,
    me: &UniqueAddress,
    without_downed: bool,
) -> Option<&'a UniqueAddress> {
    let rank = |status: Status| match status {
        Status::Up | Status::Leaving | Status::PreparingForShutdown | Status::ReadyForShutdown => 0,
        Status::WeaklyUp => 1,
        Status::Joining => 2,
        Status::Exiting => 3,
        Status::Down | Status::Removed => 4,
    };
    let dc = home(gossip, me);
    let available = gossip.members().iter().filter(|m| {
        m.data_center() == dc
            && m.status != Status::Down
            && (m.node == *me || !missed(gossip, &m.node, dc, without_downed))
    });
    let best = available.min_by_key(|member| (rank(member.status), &member.node));
    best.map(|member| &member.node)
}
