//! Convergence and leader worked out a second time, from the specification's words and in the plainest way, so that a
//! mistake in the core's own functions cannot hide itself. One data center. Spec: membership 2.4, 2.7.

use std::collections::BTreeSet;

use quorate_core::ident::UniqueAddress;
use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::member::Status;
use quorate_core::membership::reachability::Reach;

const FULL: [Status; 4] = [
    Status::Up,
    Status::Leaving,
    Status::PreparingForShutdown,
    Status::ReadyForShutdown,
];

/// The members whose having seen a state convergence waits for.
pub(super) fn required(gossip: &Gossip) -> Vec<&UniqueAddress> {
    let first = !gossip
        .members()
        .iter()
        .any(|member| FULL.contains(&member.status));
    let blocking = |status: Status| {
        FULL.contains(&status) || (first && matches!(status, Status::Joining | Status::WeaklyUp))
    };
    let members = gossip.members().iter();
    members
        .filter(|member| blocking(member.status))
        .map(|member| &member.node)
        .collect()
}

/// Whether `me` may take the state for converged; `confirmed` said that they are done exiting.
pub(super) fn converged(gossip: &Gossip, me: &UniqueAddress, confirmed: &BTreeSet<UniqueAddress>) -> bool {
    let seen: BTreeSet<&UniqueAddress> = gossip.seen().collect();
    let all_saw = required(gossip)
        .into_iter()
        .all(|node| seen.contains(node) || confirmed.contains(node));
    let nobody_missing = gossip.members().iter().all(|member| {
        member.node == *me
            || confirmed.contains(&member.node)
            || matches!(member.status, Status::Down | Status::Exiting)
            || !missed(gossip, &member.node, true)
    });
    all_saw && nobody_missing
}

/// Whether any observer takes `node` for unreachable or terminated.
pub(super) fn missed(gossip: &Gossip, node: &UniqueAddress, without_downed: bool) -> bool {
    gossip.reachability().records().iter().any(|record| {
        let counts = gossip
            .member(&record.observer)
            .is_some_and(|observer| !without_downed || observer.status != Status::Down);
        counts && record.subject == *node && record.status != Reach::Reachable
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
    let available = gossip
        .members()
        .iter()
        .filter(|m| m.status != Status::Down && (m.node == *me || !missed(gossip, &m.node, without_downed)));
    let best = available.min_by_key(|member| (rank(member.status), &member.node));
    best.map(|member| &member.node)
}
