//! Paths as far as membership has to do with them: their table travels in the gossip, and a Leaving member is
//! Exiting only when it has handed its instances over. Decides nothing about paths. Spec: sharding 5.4,
//! 10.17.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::membership::Cx;
use crate::membership::machine::Membership;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::{Member, Status};
use crate::ordered::OrderedSet;
use crate::paths::state::table::PathTable;

impl Membership {
    /// Paths have something to gossip: it is merged into the state, and is a change if it adds anything.
    pub(crate) fn on_paths_written(&mut self, cx: &mut Cx<'_>, table: &Arc<PathTable>) {
        let takes_part = |m: &Member| m.status != Status::Down && !self.gossip.is_gone(&m.node);
        if !self.is_member() || !self.gossip.member(cx.me()).is_some_and(takes_part) {
            return;
        }
        let merged = self.gossip.paths().merged(table);
        if merged == *self.gossip.paths() {
            return;
        }
        let mut next = Gossip::clone(&self.gossip);
        next.set_paths(merged);
        self.update(cx, next);
    }

    /// Notes since when members are Leaving, and forgets those that are not any more.
    pub(super) fn age_leaving(&mut self, cx: &Cx<'_>, before: &Gossip) {
        if core::ptr::eq(before.members(), self.gossip.members()) {
            return;
        }
        let (gossip, since) = (&self.gossip, &mut self.leaving_since);
        let is_leaving = |m: &Member| m.status == Status::Leaving;
        since.retain(|node, _| gossip.member(node).is_some_and(is_leaving));
        for member in gossip.members().iter().filter(|m| is_leaving(m)) {
            since.entry(member.node.clone()).or_insert(cx.mono());
        }
    }

    /// Leaving members that stay so until others have their slots: as long as there are others who can, and
    /// not longer than their time.
    pub(super) fn held_by_paths(&self, cx: &Cx<'_>) -> OrderedSet<UniqueAddress> {
        if cx.view().is_shutting_down() {
            return OrderedSet::new();
        }
        let limit = cx.config().paths.exit_timeout;
        let in_time = self.leaving_since.iter();
        let in_time = in_time.filter(|(_, since)| cx.mono().since(**since) < limit);
        let held = in_time.filter(|(node, _)| self.gossip.awaits_hand_over(node));
        held.map(|(node, _)| node.clone()).collect()
    }

    /// Those of them that are let go with slots that others could have taken over.
    pub(super) fn not_handed_over(&self, cx: &Cx<'_>, exiting: &[UniqueAddress]) -> Vec<UniqueAddress> {
        if cx.view().is_shutting_down() {
            return Vec::new();
        }
        let late = |node: &&UniqueAddress| self.gossip.awaits_hand_over(node);
        exiting.iter().filter(late).cloned().collect()
    }
}
