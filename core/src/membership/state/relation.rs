//! How a state that arrives relates to the one that a node holds: whether it is the same, older, or has news.
//! The rule stands here once, for a state as it is held and for one as it came over the wire; each form only
//! says what it holds. Never says what to do with a state. Spec: membership 2.5, performance B2.

use alloc::sync::Arc;
use core::cmp::Ordering;

use crate::ident::UniqueAddress;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::merge::same_content;
use crate::membership::state::vector_clock::{ClockOrder, are_far_apart, order_of_entries};

/// A node as a form of a state names it.
pub(crate) trait NamedNode: Copy {
    /// Whether it is that node. Cheaper than the order.
    fn is(&self, node: &UniqueAddress) -> bool;
    /// The order of this node and that one.
    fn order_to(&self, node: &UniqueAddress) -> Ordering;
}

impl NamedNode for &UniqueAddress {
    #[inline]
    fn is(&self, node: &UniqueAddress) -> bool {
        *self == node
    }

    #[inline]
    fn order_to(&self, node: &UniqueAddress) -> Ordering {
        (**self).cmp(node)
    }
}

/// What every form of a state can be asked. Cursors rise by node; nothing allocates.
pub(crate) trait StateForm {
    /// A node as this form names it.
    type Node<'a>: NamedNode
    where
        Self: 'a;

    /// The entries of its clock.
    fn clock(&self) -> impl Iterator<Item = (Self::Node<'_>, u64)>;
    /// Its members.
    fn nodes(&self) -> impl Iterator<Item = Self::Node<'_>>;
    /// Whether clock and members are known, without a look, to be `held`'s: they are the same memory.
    fn shares_with(&self, held: &Gossip) -> CommonParts;
    /// The counter of its table of paths.
    fn paths_counter(&self) -> u64;
    /// Whether it agrees with `held` in all but clock, who has seen it and who is gone.
    fn has_content_of(&self, held: &Gossip) -> bool;
    /// Whether `held`, with the same content, knows of everybody who is gone here that they are.
    fn is_gone_within(&self, held: &Gossip) -> bool;
    /// Whether everybody who has seen it has seen `held`, with the same members.
    fn is_seen_within(&self, held: &Gossip) -> bool;
}

impl StateForm for Gossip {
    type Node<'a> = &'a UniqueAddress;

    fn clock(&self) -> impl Iterator<Item = (&UniqueAddress, u64)> {
        let entries = self.version().entries().iter();
        entries.map(|entry| (&entry.0, entry.1))
    }

    fn nodes(&self) -> impl Iterator<Item = &UniqueAddress> {
        self.members().iter().map(|member| &member.node)
    }

    fn shares_with(&self, held: &Gossip) -> CommonParts {
        CommonParts {
            clock: self.version().shares_with(held.version()),
            members: Arc::ptr_eq(self.members_arc(), held.members_arc()),
        }
    }

    fn paths_counter(&self) -> u64 {
        self.paths().counter()
    }

    fn has_content_of(&self, held: &Gossip) -> bool {
        same_content(self, held)
    }

    fn is_gone_within(&self, held: &Gossip) -> bool {
        self.gone().is_subset(held.gone())
    }

    fn is_seen_within(&self, held: &Gossip) -> bool {
        self.seen_set().is_subset(held.seen_set())
    }
}

/// Which parts of two states are one in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommonParts {
    pub(crate) clock: bool,
    pub(crate) members: bool,
}

/// How the clock of `state` relates to that of `held`, if receiving the state can change nothing in `held`:
/// it is the same state, seen by nobody else, or an older one. `None` if it has to be opened. Linear.
pub(crate) fn without_news(state: &impl StateForm, held: &Gossip) -> Option<ClockOrder> {
    let order = clock_order(state, held);
    let no_news = match order {
        ClockOrder::Same => is_covered(state, held),
        ClockOrder::Before => !adds_member(state, held),
        ClockOrder::After | ClockOrder::Concurrent => false,
    };
    no_news.then_some(order)
}

/// How the clock of `state` relates to that of `held`.
pub(crate) fn clock_order(state: &impl StateForm, held: &Gossip) -> ClockOrder {
    if state.shares_with(held).clock {
        return ClockOrder::Same;
    }
    let theirs = held.version().entries().iter().map(|entry| (&entry.0, entry.1));
    order_of_entries(state.clock(), theirs, |ours, node| ours.order_to(node))
}

/// Whether the clocks of `state` and `held` have entries that are further apart than `by`; one that is not
/// there counts as 0.
pub(crate) fn is_far_from(state: &impl StateForm, held: &Gossip, by: u64) -> bool {
    let theirs = held.version().entries().iter().map(|entry| (&entry.0, entry.1));
    !state.shares_with(held).clock
        && are_far_apart(state.clock(), theirs, by, |ours, node| ours.order_to(node))
}

/// Whether `held` is `state` in all but the clock, and seen by everybody who has seen `state`.
fn is_covered(state: &impl StateForm, held: &Gossip) -> bool {
    state.has_content_of(held) && state.is_gone_within(held) && state.is_seen_within(held)
}

/// Whether `state` has a member that `held` neither has nor has removed. Linear; free where both share their
/// members.
pub(crate) fn adds_member(state: &impl StateForm, held: &Gossip) -> bool {
    if state.shares_with(held).members {
        return false;
    }
    let mut members = held.members().iter().map(|member| &member.node);
    let mut tombstones = held.tombstones().iter();
    let mut nodes = state.nodes();
    nodes.any(|node| !is_next(&mut members, node) && !is_next(&mut tombstones, node))
}

/// Whether the node is among these, which rise; skips those before it. By value and in line, since it runs
/// once per member.
#[inline]
fn is_next<'a>(
    nodes: &mut (impl Iterator<Item = &'a UniqueAddress> + Clone),
    wanted: impl NamedNode,
) -> bool {
    // A copy looks ahead: for members that is two pointers, and less than to keep what was seen.
    let mut ahead = nodes.clone();
    while let Some(node) = ahead.next() {
        // Equality is cheaper than order, and mostly true.
        if wanted.is(node) {
            *nodes = ahead;
            return true;
        }
        match wanted.order_to(node) {
            Ordering::Greater => nodes.clone_from(&ahead),
            Ordering::Equal => return true,
            Ordering::Less => return false,
        }
    }
    false
}
