//! Whom to gossip with: the candidates and the probability of preferring those who lack the newest state.
//! Pure; the draw itself and the sending are the caller's. Spec: membership 1.7, 2.6.

use crate::ident::UniqueAddress;
use crate::membership::state::convergence::data_center_of;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::{Member, Status};
use crate::membership::state::reachability::ReachabilityStatus;
use crate::ordered::OrderedSet;

/// How likely a round prefers members that have not seen the state: `config_p` up to `limit` members, a tenth
/// of it from three times `limit` on, and in between on the straight line. A `limit` of 0 counts as every
/// cluster being large.
#[must_use]
pub fn different_view_probability(config_p: f64, limit: usize, members: usize) -> f64 {
    let low = config_p / 10.0;
    if members >= limit.saturating_mul(3) {
        low
    } else if members <= limit {
        config_p
    } else {
        let over = (members - limit) as f64;
        config_p + over * (low - config_p) / (2.0 * limit as f64)
    }
}

/// The members `me` may gossip with, in order: everybody else that `me` itself finds reachable, whatever
/// others say. With `unseen_only` those of them that have not seen the state.
pub fn gossip_targets<'a>(
    gossip: &'a Gossip,
    me: &UniqueAddress,
    unseen_only: bool,
) -> impl Iterator<Item = &'a UniqueAddress> {
    let (seen, are_all_reachable) = (gossip.seen_set(), gossip.reachability().is_all_reachable());
    let has_all = unseen_only && seen.len() == gossip.members().len();
    let members = if has_all { &[] } else { gossip.members() };
    let numbered = members.iter().enumerate();
    let wanted = numbered.filter(move |(at, _)| !unseen_only || !seen.contains(*at));
    let nodes = wanted.map(|(_, member)| &member.node);
    nodes.filter(move |node| {
        if are_all_reachable {
            *node != me
        } else {
            is_valid_target(gossip, me, node)
        }
    })
}

/// One of the [`gossip_targets`] that are not cut off, the one whose number is drawn of so many; with
/// `prefer_unseen` of those that have not seen the state, unless there are none. At rest it reads one member.
pub(crate) fn choose_target<'a>(
    gossip: &'a Gossip,
    me: &UniqueAddress,
    prefer_unseen: bool,
    cut: &OrderedSet<UniqueAddress>,
    draw: impl FnOnce(usize) -> usize,
) -> Option<&'a UniqueAddress> {
    let found = |unseen_only| gossip_targets(gossip, me, unseen_only).filter(|node| !cut.contains(node));
    let unseen = if prefer_unseen { found(true).count() } else { 0 };
    if unseen > 0 {
        return found(true).nth(draw(unseen));
    }
    if !gossip.reachability().is_all_reachable() || !cut.is_empty() {
        let all = found(false).count();
        return (all > 0).then(|| draw(all)).and_then(|at| found(false).nth(at));
    }
    let (members, mine) = (gossip.members(), gossip.position(me));
    let all = members.len() - usize::from(mine.is_some());
    let at = (all > 0).then(|| draw(all))?;
    let behind_me = mine.is_some_and(|mine| at >= mine);
    members
        .get(at + usize::from(behind_me))
        .map(|member| &member.node)
}

/// Whether `me` may exchange gossip with `node`: another node that `me` itself finds reachable. What others
/// say about it does not count, or healed nodes would stay cut off.
#[must_use]
pub fn is_valid_target(gossip: &Gossip, me: &UniqueAddress, node: &UniqueAddress) -> bool {
    node != me && gossip.reachability().status(me, node) == ReachabilityStatus::Reachable
}

/// Whether `me` should gossip more often than the interval says: somebody of its data center is Leaving,
/// Exiting or Down, or less than half of it (rounded down) has seen the state.
#[must_use]
pub fn speed_up_needed(gossip: &Gossip, me: &UniqueAddress) -> bool {
    let dc = data_center_of(gossip, me);
    let (mut members, mut seen) = (0_usize, 0_usize);
    for (at, member) in gossip.members().iter().enumerate() {
        if member.data_center() != dc {
            continue;
        }
        if on_the_way_out(member) {
            return true;
        }
        members += 1;
        seen += usize::from(gossip.seen_set().contains(at));
    }
    seen < members / 2
}

fn on_the_way_out(member: &Member) -> bool {
    match member.status {
        Status::Leaving | Status::Exiting | Status::Down | Status::Removed => true,
        Status::Joining
        | Status::WeaklyUp
        | Status::Up
        | Status::PreparingForShutdown
        | Status::ReadyForShutdown => false,
    }
}
