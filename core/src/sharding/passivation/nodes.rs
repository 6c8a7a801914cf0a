//! Entities in chains: a table of entries that are linked by their positions, so that one can be taken out of
//! the middle, put last or found again without a search. Decides nothing. Spec: sharding 1.6.

use alloc::vec::Vec;

use crate::time::Instant;

/// No position.
const NONE: u32 = u32::MAX;

/// Where an entity stands in its strategy. Void once the strategy has named the entity as one to be
/// passivated, or was told that it has stopped; a void one is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrategyPlace {
    pub(super) at: u32,
    generation: u32,
}

/// The neighbours of an entry in one of its chains.
#[derive(Clone, Copy, Debug)]
struct ChainLink {
    before: u32,
    after: u32,
}

const UNLINKED: ChainLink = ChainLink {
    before: NONE,
    after: NONE,
};

/// The two orders that an entry has a place in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChainOrder {
    /// The one in which entities are replaced.
    Replacement,
    /// The one in which they were used last.
    Idle,
}

/// One entity.
#[derive(Clone, Debug)]
pub(super) struct EntityNode<K> {
    pub(super) key: K,
    /// When it had its last message.
    pub(super) touched: Instant,
    /// Messages since it came in.
    pub(super) accesses: u64,
    /// Its rank among the frequencies.
    pub(super) priority: u64,
    /// In which segment of its area.
    pub(super) segment: u8,
    /// Whether it is in the window.
    pub(super) in_window: bool,
    replacement: ChainLink,
    idle: ChainLink,
}

#[derive(Clone, Debug)]
struct NodeEntry<K> {
    generation: u32,
    node: Option<EntityNode<K>>,
}

/// The table. As long as the most entities that were in it at once.
#[derive(Clone, Debug)]
pub(super) struct EntityNodes<K> {
    entries: Vec<NodeEntry<K>>,
    free: Vec<u32>,
}

impl<K> EntityNodes<K> {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Takes one in, in no chain yet.
    pub(super) fn add(&mut self, key: K, now: Instant) -> StrategyPlace {
        let node = EntityNode {
            key,
            touched: now,
            accesses: 0,
            priority: 0,
            segment: 0,
            in_window: false,
            replacement: UNLINKED,
            idle: UNLINKED,
        };
        if let Some(at) = self.free.pop() {
            let entry = &mut self.entries[at as usize];
            entry.generation = entry.generation.wrapping_add(1);
            entry.node = Some(node);
            let generation = entry.generation;
            return StrategyPlace { at, generation };
        }
        let at =
            u32::try_from(self.entries.len()).expect("invariant: entities are counted by their slots' u32");
        self.entries.push(NodeEntry {
            generation: 0,
            node: Some(node),
        });
        StrategyPlace { at, generation: 0 }
    }

    /// Whether somebody stands there, and is who stood there when the place was given.
    pub(super) fn holds(&self, place: StrategyPlace) -> bool {
        let entry = self.entries.get(place.at as usize);
        entry.is_some_and(|entry| entry.generation == place.generation && entry.node.is_some())
    }

    /// Takes one out that is in no chain any more.
    pub(super) fn remove(&mut self, at: u32) -> K {
        let node = self.entries[at as usize].node.take();
        self.free.push(at);
        node.expect("invariant: who is taken out is in the table").key
    }

    pub(super) fn get(&self, at: u32) -> &EntityNode<K> {
        let node = self.entries[at as usize].node.as_ref();
        node.expect("invariant: chains lead to entries in use")
    }

    pub(super) fn get_mut(&mut self, at: u32) -> &mut EntityNode<K> {
        let node = self.entries[at as usize].node.as_mut();
        node.expect("invariant: chains lead to entries in use")
    }

    fn link(&mut self, at: u32, order: ChainOrder) -> &mut ChainLink {
        let node = self.get_mut(at);
        match order {
            ChainOrder::Replacement => &mut node.replacement,
            ChainOrder::Idle => &mut node.idle,
        }
    }
}

/// A chain, oldest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    order: ChainOrder,
    first: u32,
    last: u32,
    len: usize,
}

impl Chain {
    /// A chain without entries.
    pub(super) const fn new(order: ChainOrder) -> Self {
        Self {
            order,
            first: NONE,
            last: NONE,
            len: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The oldest.
    pub(super) const fn first(&self) -> Option<u32> {
        if self.len == 0 { None } else { Some(self.first) }
    }

    /// The newest.
    pub(super) const fn last(&self) -> Option<u32> {
        if self.len == 0 { None } else { Some(self.last) }
    }

    /// Appends one that is in no chain of this order.
    pub(super) fn push<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32) {
        let before = self.last;
        *nodes.link(at, self.order) = ChainLink { before, after: NONE };
        if self.len == 0 {
            self.first = at;
        } else {
            nodes.link(before, self.order).after = at;
        }
        self.last = at;
        self.len += 1;
    }

    /// Takes one of its entries out.
    pub(super) fn remove<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32) {
        let ChainLink { before, after } = core::mem::replace(nodes.link(at, self.order), UNLINKED);
        if before == NONE {
            self.first = after;
        } else {
            nodes.link(before, self.order).after = after;
        }
        if after == NONE {
            self.last = before;
        } else {
            nodes.link(after, self.order).before = before;
        }
        self.len -= 1;
    }

    /// Makes one of its entries the newest.
    pub(super) fn renew<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32) {
        if self.last != at {
            self.remove(nodes, at);
            self.push(nodes, at);
        }
    }
}
