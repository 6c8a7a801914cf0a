//! The nodes of a plan by position: which zone each is in, what it has, what comes and goes, and which of
//! them gets the next slot. Knows no unit but by what it may be asked about one. Spec: sharding 5.3.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::values::{NodeStanding, PlanLimits, PlanNode};
use crate::ordered::OrderedSet;

/// A node.
pub(super) struct RingNode {
    pub(super) standing: NodeStanding,
    /// Its zone, by number.
    pub(super) zone: usize,
    class: usize,
    /// The weight of all slots that it has or gets.
    pub(super) load: u64,
    /// The part of it that goes.
    going: u64,
    arriving: usize,
    departing: usize,
}

/// Nodes of one zone and the same pools: a unit is either for all of them or for none.
struct NodeClass {
    zone: usize,
    pools: Vec<u16>,
    /// Those that may be given something, by load and position.
    open: OrderedSet<(u64, usize)>,
}

impl NodeClass {
    fn is_in(&self, pool: Option<u16>) -> bool {
        pool.is_none_or(|pool| self.pools.binary_search(&pool).is_ok())
    }
}

/// For what a node is looked for.
#[derive(Clone, Copy)]
pub(super) struct NodeSearch<'u> {
    /// Only nodes of this pool.
    pub(super) pool: Option<u16>,
    /// None of these, sorted.
    pub(super) holders: &'u [usize],
    /// None of these, sorted.
    pub(super) refused: &'u [usize],
    /// Of nodes that are equally good, the first from this position on.
    pub(super) from: usize,
    /// Only nodes with less load than this.
    pub(super) below: u64,
    /// Whether a node may get it although another slot is on its way there.
    pub(super) is_unlimited: bool,
}

/// All nodes, in their order.
pub(super) struct NodeRing {
    limits: PlanLimits,
    nodes: Vec<RingNode>,
    classes: Vec<NodeClass>,
    zones: usize,
    pending: usize,
    /// Whether what goes counts only where it comes to.
    is_settled: bool,
}

impl NodeRing {
    pub(super) fn of<N>(nodes: &[&PlanNode<N>], limits: PlanLimits) -> Self {
        let mut zones: Vec<Option<&Arc<str>>> = Vec::new();
        let mut ring = Self {
            limits,
            nodes: Vec::with_capacity(nodes.len()),
            classes: Vec::new(),
            zones: 0,
            pending: 0,
            is_settled: false,
        };
        for node in nodes {
            let zone = place(&mut zones, node.zone.as_ref());
            let mut pools = node.pools.clone();
            pools.sort_unstable();
            pools.dedup();
            let same = |class: &NodeClass| class.zone == zone && class.pools == pools;
            let class = ring.classes.iter().position(same).unwrap_or_else(|| {
                let open = OrderedSet::new();
                ring.classes.push(NodeClass { zone, pools, open });
                ring.classes.len() - 1
            });
            ring.nodes.push(RingNode {
                standing: node.standing,
                zone,
                class,
                load: 0,
                going: 0,
                arriving: 0,
                departing: 0,
            });
        }
        ring.zones = zones.len();
        for at in 0..ring.nodes.len() {
            ring.set_load(at, 0);
        }
        ring
    }

    pub(super) const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A position, or the first one for what lies behind the last.
    pub(super) const fn round(&self, at: usize) -> usize {
        if at < self.nodes.len() { at } else { 0 }
    }

    pub(super) fn node(&self, at: usize) -> &RingNode {
        &self.nodes[at]
    }

    pub(super) const fn zones(&self) -> usize {
        self.zones
    }

    /// How many nodes of a pool may be given something.
    pub(super) fn open(&self, pool: Option<u16>) -> usize {
        let classes = self.classes.iter().filter(|class| class.is_in(pool));
        classes.map(|class| class.open.len()).sum()
    }

    /// Whether a node is of a pool.
    pub(super) fn is_in(&self, at: usize, pool: Option<u16>) -> bool {
        self.classes[self.nodes[at].class].is_in(pool)
    }

    /// Whether another change may be under way.
    pub(super) const fn has_room(&self) -> bool {
        self.pending < self.limits.pending_max
    }

    /// Whether another slot may go from a node.
    pub(super) fn may_depart(&self, at: usize) -> bool {
        self.has_room() && self.nodes[at].departing < self.limits.departing_max
    }

    /// Whether another slot may come to a node.
    pub(super) fn may_arrive(&self, at: usize) -> bool {
        self.has_room() && self.nodes[at].arriving < self.limits.arriving_max
    }

    /// A node has a slot of this weight.
    pub(super) fn put(&mut self, at: usize, weight: u64) {
        self.set_load(at, self.nodes[at].load + weight);
    }

    /// A slot of this weight counts there no more.
    pub(super) fn take(&mut self, at: usize, weight: u64) {
        self.set_load(at, self.nodes[at].load - weight);
    }

    /// A slot of this weight begins to go from one node to another.
    pub(super) fn begin(&mut self, from: Option<usize>, to: Option<usize>, weight: u64) {
        self.pending += 1;
        if let Some(from) = from {
            self.nodes[from].departing += 1;
            self.nodes[from].going += weight;
            if self.is_settled {
                self.set_load(from, self.nodes[from].load - weight);
            }
        }
        if let Some(to) = to {
            self.nodes[to].arriving += 1;
            self.put(to, weight);
        }
    }

    /// What has begun to go from one node to another counts at the first for all that.
    pub(super) fn counts_on(&mut self, from: usize, to: usize, weight: u64) {
        self.nodes[from].going -= weight;
        self.take(to, weight);
    }

    /// From now on what goes counts only where it comes to.
    pub(super) fn settle(&mut self) {
        self.is_settled = true;
        for at in 0..self.nodes.len() {
            self.set_load(at, self.nodes[at].load - self.nodes[at].going);
        }
    }

    fn set_load(&mut self, at: usize, load: u64) {
        let node = &mut self.nodes[at];
        if node.standing == NodeStanding::Open {
            let open = &mut self.classes[node.class].open;
            open.remove(&(node.load, at));
            open.insert((load, at));
        }
        node.load = load;
    }

    /// The node for a slot: of those in the zones that come first by `rank` (none in a zone without one)
    /// that with the least load, of these the first round the ring.
    pub(super) fn target(
        &self,
        search: NodeSearch<'_>,
        rank: impl Fn(usize) -> Option<u32>,
    ) -> Option<usize> {
        let mut best: Option<(u32, u64, usize)> = None;
        for class in self.classes.iter().filter(|class| class.is_in(search.pool)) {
            let Some(rank) = rank(class.zone) else { continue };
            if best.is_some_and(|(before, ..)| before < rank) {
                continue;
            }
            if let Some((load, distance)) = self.first_open(class, search) {
                let found = (rank, load, distance);
                best = Some(best.map_or(found, |before| before.min(found)));
            }
        }
        best.map(|(.., distance)| (search.from + distance) % self.nodes.len())
    }

    /// The load of the best node of a class, and how far round the ring it is.
    fn first_open(&self, class: &NodeClass, search: NodeSearch<'_>) -> Option<(u64, usize)> {
        let fits = |at: usize| {
            (search.is_unlimited || self.may_arrive(at))
                && search.holders.binary_search(&at).is_err()
                && search.refused.binary_search(&at).is_err()
        };
        let mut next = class.open.first();
        while let Some((load, _)) = next.copied().filter(|(load, _)| *load < search.below) {
            let behind = class.open.range((load, search.from)..(load + 1, 0));
            let before = class.open.range((load, 0)..(load, search.from));
            if let Some((_, at)) = behind.chain(before).find(|(_, at)| fits(*at)) {
                let distance = at + self.nodes.len() - search.from;
                return Some((load, distance % self.nodes.len()));
            }
            next = class.open.range((load + 1, 0)..).next();
        }
        None
    }
}

/// Where something is in a list, after it was added if it was not there.
fn place<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter().position(|other| *other == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}
