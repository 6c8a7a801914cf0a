//! Whom to gossip with: the candidates and the probability of preferring those who lack the newest state.
//! Pure; the draw itself and the sending are the caller's. Spec: membership 1.7, 2.6.

use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::membership::state::convergence::data_center_of;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::{Member, Status};
use crate::membership::state::reachability::ReachabilityStatus;

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

/// The members `me` may gossip with, sorted: everybody else that `me` itself finds reachable, whatever others
/// say. With `prefer_unseen` only those of them that have not seen the state, unless all have.
#[must_use]
pub fn gossip_targets(gossip: &Gossip, me: &UniqueAddress, prefer_unseen: bool) -> Vec<UniqueAddress> {
    let pick = |unseen_only: bool| -> Vec<UniqueAddress> {
        let numbered = gossip.members().iter().enumerate();
        let wanted = numbered.filter(|(at, _)| !unseen_only || !gossip.seen_set().contains(*at));
        let valid = wanted.filter(|(_, member)| is_valid_target(gossip, me, &member.node));
        valid.map(|(_, member)| member.node.clone()).collect()
    };
    if prefer_unseen {
        let unseen = pick(true);
        if !unseen.is_empty() {
            return unseen;
        }
    }
    pick(false)
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
