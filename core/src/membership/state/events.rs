//! What changed between two gossip states, as one node's users are told. Compares values only; keeps nothing
//! and decides nothing. Spec: membership 2.17.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::ident::{DEFAULT_DATA_CENTER, Role, UniqueAddress};
use crate::membership::state::convergence::converged;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::leader::leader_in;
use crate::membership::state::member::{Member, Status};
use crate::membership::state::reachability::ReachabilityStatus;
use crate::ordered::{OrderedMap, OrderedSet};

/// One change of the membership.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MembershipChange {
    /// The set of removed incarnations changed.
    TombstonesChanged,
    /// A member is gone for good.
    Removed {
        /// Its last record.
        member: Member,
        /// The status it had then.
        previous: Status,
    },
    /// A member is Joining.
    Joined(Member),
    /// A member is WeaklyUp.
    WeaklyUp(Member),
    /// A member is Up.
    Up(Member),
    /// A member is Leaving.
    Left(Member),
    /// A member is Exiting.
    Exited(Member),
    /// A member is Down.
    Downed(Member),
    /// A member prepares for the shutdown of the cluster.
    PreparingForShutdown(Member),
    /// A member is ready for the shutdown of the cluster.
    ReadyForShutdown(Member),
    /// Somebody of this data center cannot reach the member any more.
    Unreachable(Member),
    /// Everybody of this data center reaches the member again.
    Reachable(Member),
    /// Another leader, or none.
    LeaderChanged(Option<UniqueAddress>),
    /// Another leader of a role, or none.
    RoleLeaderChanged {
        /// The role.
        role: Role,
        /// Its leader.
        leader: Option<UniqueAddress>,
    },
    /// Other nodes have seen the state, or convergence was reached or lost.
    SeenChanged {
        /// Whether the state is converged, leaving confirmations left aside.
        converged: bool,
        /// How many have seen it. Who has, the state of the picture says ([`Gossip::seen`]).
        seen: usize,
    },
    /// The reachability table changed.
    ReachabilityChanged,
}

/// The changes from `before` to `after` as seen from `me`, in publishing order: tombstones, removals, member
/// changes, unreachable, reachable, leader, role leaders, seen, reachability; within each by address. Costs
/// nothing where both states share a part.
#[must_use]
pub fn diff(before: &Gossip, after: &Gossip, me: &UniqueAddress) -> Vec<MembershipChange> {
    let mut out = Vec::new();
    let dc = after
        .member(me)
        .or_else(|| before.member(me))
        .map_or(DEFAULT_DATA_CENTER, Member::data_center);
    let same_members = before.members_arc() == after.members_arc();
    let same_reachability = before.reachability_arc() == after.reachability_arc();
    if before.tombstones_arc() != after.tombstones_arc() {
        out.push(MembershipChange::TombstonesChanged);
    }
    if !same_members {
        diff_members(before.members(), after.members(), &mut out);
    }
    if !(same_members && same_reachability) {
        diff_reach(before, after, me, dc, &mut out);
        diff_leaders(before, after, me, dc, &mut out);
    }
    diff_seen(before, after, me, same_members && same_reachability, &mut out);
    if !same_reachability {
        out.push(MembershipChange::ReachabilityChanged);
    }
    out
}

fn diff_members(before: &[Member], after: &[Member], out: &mut Vec<MembershipChange>) {
    let mut changed = Vec::new();
    let (mut left, mut right) = (before, after);
    loop {
        let order = match (left.first(), right.first()) {
            (Some(old), Some(new)) => old.node.cmp(&new.node),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        if order == Ordering::Less {
            let member = left[0].clone();
            out.push(MembershipChange::Removed {
                previous: member.status,
                member,
            });
        }
        if order == Ordering::Greater || (order == Ordering::Equal && is_new_fact(&left[0], &right[0])) {
            changed.extend(member_change(&right[0]));
        }
        left = &left[usize::from(order.is_le())..];
        right = &right[usize::from(order.is_ge())..];
    }
    out.append(&mut changed);
}

fn is_new_fact(old: &Member, new: &Member) -> bool {
    old.status != new.status || old.up_number != new.up_number
}

fn member_change(member: &Member) -> Option<MembershipChange> {
    let fact = match member.status {
        Status::Joining => MembershipChange::Joined,
        Status::WeaklyUp => MembershipChange::WeaklyUp,
        Status::Up => MembershipChange::Up,
        Status::PreparingForShutdown => MembershipChange::PreparingForShutdown,
        Status::ReadyForShutdown => MembershipChange::ReadyForShutdown,
        Status::Leaving => MembershipChange::Left,
        Status::Exiting => MembershipChange::Exited,
        Status::Down => MembershipChange::Downed,
        Status::Removed => return None,
    };
    Some(fact(member.clone()))
}

fn diff_reach(
    before: &Gossip,
    after: &Gossip,
    me: &UniqueAddress,
    dc: &str,
    out: &mut Vec<MembershipChange>,
) {
    let (old, new) = (worst_in(before, dc), worst_in(after, dc));
    for (node, _) in new
        .iter()
        .filter(|(node, _)| **node != me && !old.contains_key(*node))
    {
        out.extend(after.member(node).cloned().map(MembershipChange::Unreachable));
    }
    let healed = old
        .iter()
        .filter(|(node, worst)| **worst == ReachabilityStatus::Unreachable && !new.contains_key(*node));
    for (node, _) in healed.filter(|(node, _)| **node != me) {
        out.extend(after.member(node).cloned().map(MembershipChange::Reachable));
    }
}

/// The worst that members of `dc` say about members of `dc`, for those about whom anything bad is said.
fn worst_in<'a>(gossip: &'a Gossip, dc: &str) -> OrderedMap<&'a UniqueAddress, ReachabilityStatus> {
    let mut worst = OrderedMap::new();
    let local = |node: &UniqueAddress| {
        gossip
            .member(node)
            .is_some_and(|member| member.data_center() == dc)
    };
    for record in gossip.reachability().records() {
        if record.status != ReachabilityStatus::Reachable && local(&record.observer) && local(&record.subject)
        {
            let entry = worst.entry(&record.subject).or_insert(record.status);
            *entry = record.status.max(*entry);
        }
    }
    worst
}

fn diff_leaders(
    before: &Gossip,
    after: &Gossip,
    me: &UniqueAddress,
    dc: &str,
    out: &mut Vec<MembershipChange>,
) {
    let of = |gossip: &Gossip, role: Option<&Role>| {
        let holders = gossip
            .members()
            .iter()
            .filter(|m| role.is_none_or(|role| m.roles.contains(role)));
        leader_in(gossip, me, dc, holders).map(|member| member.node.clone())
    };
    let leader = of(after, None);
    if leader != of(before, None) {
        out.push(MembershipChange::LeaderChanged(leader));
    }
    let mut roles: OrderedSet<&Role> = OrderedSet::new();
    let mut last = None;
    for member in before.members().iter().chain(after.members()) {
        // Most have the roles of the one before.
        if last.replace(&member.roles) != Some(&member.roles) {
            roles.extend(member.roles.as_slice());
        }
    }
    for role in roles {
        let leader = of(after, Some(role));
        if leader != of(before, Some(role)) {
            out.push(MembershipChange::RoleLeaderChanged {
                role: role.clone(),
                leader,
            });
        }
    }
}

fn diff_seen(
    before: &Gossip,
    after: &Gossip,
    me: &UniqueAddress,
    same_table: bool,
    out: &mut Vec<MembershipChange>,
) {
    let same_seen = if same_table {
        before.seen_set() == after.seen_set()
    } else {
        before.seen().eq(after.seen())
    };
    if same_table && same_seen {
        return;
    }
    let nobody = OrderedSet::new();
    let now = converged(after, me, &nobody);
    if !same_seen || now != converged(before, me, &nobody) {
        out.push(MembershipChange::SeenChanged {
            converged: now,
            seen: after.seen_count(),
        });
    }
}
