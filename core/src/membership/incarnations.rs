//! Two incarnations at one address: which one goes, and that no two of them are Up at once. An address
//! belongs to the process that listens there now, so whoever runs at it, or asks to join from it, is proof
//! that the others are gone. Never decides by silence, and never ends an incarnation by its address alone.
//! Spec: membership 2.1 (6b), 8.10.

use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::membership::Cx;
use crate::membership::machine::Membership;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::{Member, Status};

/// Whether another incarnation of the member's address is in and neither Down nor gone. Both cannot be alive,
/// and which one is may not be known yet: two members can each have admitted one before they heard of each
/// other. Until the other is Down nothing may be entrusted to this one.
pub(super) fn has_rival(gossip: &Gossip, member: &Member) -> bool {
    let here = gossip.at(member.node.address()).iter();
    here.filter(|other| other.node != member.node)
        .any(|other| other.status != Status::Down && !gossip.is_gone(&other.node))
}

impl Membership {
    /// Whom a joiner's admission waits for: another incarnation of its address that is a member and has not
    /// said that nothing runs there any more.
    pub(super) fn incarnation_before(&self, joiner: &UniqueAddress) -> Option<UniqueAddress> {
        let here = self.gossip.at(joiner.address()).iter();
        let others = here.filter(|m| m.node != *joiner && !self.gossip.is_gone(&m.node));
        let first = others.min_by_key(|m| m.status == Status::Down);
        first.map(|m| m.node.clone())
    }

    /// A new incarnation wants in while an old one of its address is still a member: the old one is proven
    /// gone, by its exact incarnation. The joiner keeps asking until it has been removed.
    pub(super) fn end_old_incarnation(&mut self, cx: &mut Cx<'_>, old: &UniqueAddress) {
        self.end_incarnations(cx, core::slice::from_ref(old));
    }

    /// These members are proven gone. One change, however many they are: a state may name as many as a
    /// cluster has members.
    fn end_incarnations(&mut self, cx: &mut Cx<'_>, old: &[UniqueAddress]) {
        let mut next = Gossip::clone(&self.gossip);
        let mut terminated = 0;
        for node in old {
            terminated += u64::from(next.reachability_mut().terminated(cx.me(), node));
        }
        // One that is exiting is removed now that it is known to have stopped. It is not known that it had
        // stopped everything before; if it says so, the word may still be on its way, and who is Down is not
        // asked any more.
        let lives = |gossip: &Gossip, node| gossip.member(node).is_some_and(|m| !m.status.is_terminal());
        let downed = old
            .iter()
            .filter(|node| lives(&next, node) && next.mark_down(node));
        let downed: Vec<&UniqueAddress> = downed.collect();
        if terminated == 0 && downed.is_empty() {
            return;
        }
        cx.counters().incarnations_terminated += terminated;
        self.update(cx, next);
        self.tell_downed(cx, downed);
    }

    /// This node runs at its address, so every other incarnation there has ended. Whoever admitted this one
    /// may not have known of them, and nobody else would end them before the detector does. A node on its own
    /// way out leaves it to its successor: it may be the old one.
    pub(super) fn end_rivals(&mut self, cx: &mut Cx<'_>) {
        let stays = |status: Status| status < Status::Leaving;
        if !self.is_member() || !self.gossip.member(cx.me()).is_some_and(|m| stays(m.status)) {
            return;
        }
        let here = self.gossip.at(cx.me().address()).iter();
        let rivals =
            here.filter(|m| m.node != *cx.me() && m.status != Status::Down && !self.gossip.is_gone(&m.node));
        let rivals: Vec<UniqueAddress> = rivals.map(|m| m.node.clone()).collect();
        self.end_incarnations(cx, &rivals);
    }
}
