//! Who leads, who is oldest, who is youngest. A leader is only a convention every node computes for itself:
//! two nodes may name different ones until the state has converged. Never decides what a leader does. Spec:
//! membership 1.2, 2.7.

use alloc::vec::Vec;

use crate::ident::{Role, UniqueAddress};
use crate::membership::state::convergence::{data_center_of, is_unreachable_for};
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::{Member, Status, UpNumber};

/// The leader as `me` sees it; `None` if nobody qualifies.
#[must_use]
pub fn leader(gossip: &Gossip, me: &UniqueAddress) -> Option<UniqueAddress> {
    leader_of(gossip, me, gossip.members().iter()).map(|member| member.node.clone())
}

/// Who may act as the leader on a converged state: what downed members observed does not count, as it does
/// not count for convergence. Otherwise a downed node that was cut off, and heard again before it stopped,
/// would have every node that it had lost sight of take itself for the leader of one and the same converged
/// state (I-09). Whoever acts also is [`leader`] in its own eyes.
#[must_use]
pub fn acting_leader(gossip: &Gossip, me: &UniqueAddress) -> Option<UniqueAddress> {
    acting_leader_of(gossip, me, gossip.members().iter()).map(|member| member.node.clone())
}

/// The one of `candidates` who may act as the leader.
pub(crate) fn acting_leader_of<'a>(
    gossip: &Gossip,
    me: &UniqueAddress,
    candidates: impl Iterator<Item = &'a Member>,
) -> Option<&'a Member> {
    let dc = data_center_of(gossip, me);
    let counts = |observer: &Member| observer.data_center() == dc && observer.status != Status::Down;
    first_available(me, dc, candidates, |node| {
        is_unreachable_for(gossip, node, counts)
    })
}

/// The leader among the members with `role`, as `me` sees it.
#[must_use]
pub fn role_leader(gossip: &Gossip, me: &UniqueAddress, role: &Role) -> Option<UniqueAddress> {
    let holders = gossip
        .members()
        .iter()
        .filter(|member| member.roles.contains(role));
    leader_of(gossip, me, holders).map(|member| member.node.clone())
}

/// The leader among `candidates`, which must come in address order: of `me`'s data center, not Down, and
/// reachable for the observers of that data center (`me` is always reachable for itself). The first full
/// member; without one the first WeaklyUp, then Joining, then Exiting. Reads the candidates up to the first
/// full member only.
#[must_use]
pub fn leader_of<'a>(
    gossip: &Gossip,
    me: &UniqueAddress,
    candidates: impl Iterator<Item = &'a Member>,
) -> Option<&'a Member> {
    leader_in(gossip, me, data_center_of(gossip, me), candidates)
}

pub(crate) fn leader_in<'a>(
    gossip: &Gossip,
    me: &UniqueAddress,
    dc: &str,
    candidates: impl Iterator<Item = &'a Member>,
) -> Option<&'a Member> {
    first_available(me, dc, candidates, |node| {
        is_unreachable_for(gossip, node, |observer| observer.data_center() == dc)
    })
}

fn first_available<'a>(
    me: &UniqueAddress,
    dc: &str,
    candidates: impl Iterator<Item = &'a Member>,
    is_unreachable: impl Fn(&UniqueAddress) -> bool,
) -> Option<&'a Member> {
    let mut best: Option<&Member> = None;
    for member in candidates {
        let better = best.is_none_or(|best| leader_rank(member.status) < leader_rank(best.status));
        let available = || member.node == *me || !is_unreachable(&member.node);
        if better && member.status != Status::Down && member.data_center() == dc && available() {
            if member.status.is_up_like() {
                return Some(member);
            }
            best = Some(member);
        }
    }
    best
}

/// The order in which statuses are preferred for a leader: full members, WeaklyUp, Joining, Exiting, Down.
#[must_use]
pub const fn leader_rank(status: Status) -> u8 {
    match status {
        Status::Up | Status::Leaving | Status::PreparingForShutdown | Status::ReadyForShutdown => 0,
        Status::WeaklyUp => 1,
        Status::Joining => 2,
        Status::Exiting => 3,
        Status::Down => 4,
        Status::Removed => 5,
    }
}

/// The largest up number given in a data center, whatever became of its holder's status; [`UpNumber::NONE`],
/// whose next number is the first, if nobody there has one.
#[must_use]
pub fn youngest_up_number(gossip: &Gossip, dc: &str) -> UpNumber {
    let given = gossip
        .members()
        .iter()
        .filter(|m| m.up_number.is_assigned() && m.data_center() == dc);
    given
        .map(|member| member.up_number)
        .max()
        .unwrap_or(UpNumber::NONE)
}

/// Members that have been Up (Up or any later status, and a number), oldest first: smaller up number, then
/// lower address. Ages compare only within a data center, so hand in the members of one, or name a role that
/// implies one.
#[must_use]
pub fn age_sorted<'a>(members: impl IntoIterator<Item = &'a Member>, role: Option<&Role>) -> Vec<&'a Member> {
    let has_age = |member: &&Member| has_age(member, role);
    let mut sorted: Vec<&Member> = members.into_iter().filter(has_age).collect();
    oldest_first(&mut sorted);
    sorted
}

/// The first of [`age_sorted`] in a data center; in all of them if `None`.
pub(crate) fn oldest_of<'a>(
    members: &'a [Member],
    role: Option<&Role>,
    dc: Option<&str>,
) -> Option<&'a Member> {
    members.iter().fold(None, |best: Option<&Member>, member| {
        // Hardly any is older than all before it: names are compared for those alone.
        let is_older = best.is_none_or(|best| age(member) < age(best));
        let is_wanted = || has_age(member, role) && dc.is_none_or(|dc| member.data_center() == dc);
        if is_older && is_wanted() {
            Some(member)
        } else {
            best
        }
    })
}

fn has_age(member: &Member, role: Option<&Role>) -> bool {
    let was_up = member.up_number.is_assigned() && member.status >= Status::Up;
    was_up && role.is_none_or(|role| member.roles.contains(role))
}

/// Sorts members by age: smaller up number, then lower address.
pub(crate) fn oldest_first(members: &mut [&Member]) {
    members.sort_by_key(|member| age(member));
}

const fn age(member: &Member) -> (UpNumber, &UniqueAddress) {
    (member.up_number, &member.node)
}

/// Whether somebody knows that the whole cluster is to shut down.
pub(crate) fn is_shutting_down(gossip: &Gossip) -> bool {
    gossip.members().iter().any(|m| m.status.is_preparing())
}
