//! Links that one of their ends refuses for good. Such a link says nothing about who lives: its ends learn of
//! each other through the rest of the cluster, and neither reports the other for it alone. Values only. Spec:
//! membership 2.11, 8.11.

use core::time::Duration;

use crate::ident::UniqueAddress;
use crate::membership::state::member::{Member, Status};
use crate::membership::state::reachability::ReachabilityStatus;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::time::Instant;
use crate::view::View;

/// The members at the other end of such a link.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    ends: OrderedMap<UniqueAddress, Refusal>,
    /// Members that count this node in, since one refused it last.
    counted_in_by: OrderedSet<UniqueAddress>,
}

#[derive(Clone, Copy, Debug)]
struct Refusal {
    /// The member refuses this node, or says that it was removed; otherwise this node refuses the member.
    is_theirs: bool,
    /// No link gets through: nothing has been heard over one since it was refused.
    is_cut: bool,
    /// When the member last had seen the state that this node held, which it can only have from others.
    seen_at: Instant,
}

impl Refusals {
    /// A link to or from a member is refused for good; says whether one got through until now.
    pub(super) fn cut(&mut self, node: &UniqueAddress, now: Instant) -> bool {
        let refusal = self.of(node, now);
        let was_cut = core::mem::replace(&mut refusal.is_cut, true);
        if !was_cut {
            refusal.seen_at = now;
        }
        !was_cut
    }

    /// A link to and from a member gets through; says whether none did until now.
    pub(super) fn heard(&mut self, node: &UniqueAddress) -> bool {
        let refusal = self.ends.get_mut(node);
        refusal.is_some_and(|refusal| core::mem::replace(&mut refusal.is_cut, false))
    }

    /// Those to whom none does.
    pub(super) fn cut_off(&self) -> OrderedSet<UniqueAddress> {
        let cut = self.ends.iter().filter(|(_, refusal)| refusal.is_cut);
        cut.map(|(node, _)| node.clone()).collect()
    }

    /// A member refuses this node; says whether that is news. Then who counts it in is asked anew.
    pub(super) fn refused_by(&mut self, node: &UniqueAddress, now: Instant) -> bool {
        let is_news = !core::mem::replace(&mut self.of(node, now).is_theirs, true);
        if is_news {
            self.counted_in_by.clear();
        }
        is_news
    }

    fn of(&mut self, node: &UniqueAddress, now: Instant) -> &mut Refusal {
        self.ends.entry(node.clone()).or_insert(Refusal {
            is_theirs: false,
            is_cut: false,
            seen_at: now,
        })
    }

    /// A member that does not refuse this node counts it in; says whether as many do as refuse it. So one
    /// sick member ends nobody, and those whom a majority has removed do not keep each other.
    pub(super) fn counted_in_by(&mut self, node: &UniqueAddress) -> bool {
        self.counted_in_by.insert(node.clone());
        self.counted_in_by.len() >= self.refusing()
    }

    /// Takes another picture: who is no member any more is forgotten.
    pub(super) fn follow(&mut self, before: &View, after: &View, now: Instant) {
        self.ends.retain(|node, refusal| {
            if before.gossip().has_seen(node) || after.gossip().has_seen(node) {
                refusal.seen_at = now;
            }
            after.member(node).is_some()
        });
        self.counted_in_by.retain(|node| after.member(node).is_some());
    }

    pub(super) fn clear(&mut self) {
        self.ends.clear();
        self.counted_in_by.clear();
    }

    /// Whether this member refuses this node.
    pub(super) fn is_refused_by(&self, node: &UniqueAddress) -> bool {
        self.ends.get(node).is_some_and(|refusal| refusal.is_theirs)
    }

    /// How many members do.
    pub(super) fn refusing(&self) -> usize {
        self.ends.values().filter(|refusal| refusal.is_theirs).count()
    }

    /// Whether fewer members are left, without those that are Down, than would have to count this node in.
    pub(super) fn is_beyond_hope(&self, view: &View) -> bool {
        let others = view.members().iter().filter(|member| member.node != *view.me());
        let could = |member: &&Member| member.status != Status::Down && !self.is_refused_by(&member.node);
        others.filter(could).count() < self.refusing()
    }

    /// Whether the silence of a member is that of a refused link alone: it has seen the present state, or did
    /// so within `patience`, and nobody else reports it.
    pub(super) fn explain(
        &self,
        node: &UniqueAddress,
        view: &View,
        now: Instant,
        patience: Duration,
    ) -> bool {
        let Some(refusal) = self.ends.get(node).filter(|refusal| refusal.is_cut) else {
            return false;
        };
        let is_seen = view.gossip().has_seen(node) || now.since(refusal.seen_at) <= patience;
        let records = view.gossip().reachability().records();
        let mut reports = records.iter().filter(|record| {
            record.subject == *node
                && record.observer != *node
                && record.observer != *view.me()
                && record.status != ReachabilityStatus::Reachable
        });
        is_seen && reports.next().is_none()
    }
}
