//! Causal context: which dots a value has seen, as one version per node and a cloud of ranges above gaps.
//! Interns the nodes of a value, so that a dot is a small index and a version. Never knows elements. Spec:
//! sharding 10.21.

use alloc::vec::Vec;

use crate::ident::UniqueAddress;

/// Most nodes that one value may name. Ten times the largest cluster that is planned for, so that nodes which
/// left and are not yet pruned have room as well.
pub const NODES_MAX: usize = 10_000;

/// Most ranges in the cloud of a value before deltas that would add to it are refused. A removal of what was
/// not yet seen takes one; a delta carries at most some fifty changes, so this is the unseen part of twenty
/// full deltas.
pub const CLOUD_MAX: usize = 1_024;

/// A node within one value: its position in that value's table of nodes. Means nothing in another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeIndex(pub(crate) u16);

/// One event of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dot {
    pub(crate) node: NodeIndex,
    pub(crate) version: u64,
}

/// Versions from the first to the last of them, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VersionRange {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// What was seen of one node: every version up to `upto`, and the ranges of `later`, which rise and neither
/// touch each other nor `upto`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenVersions {
    pub(crate) node: UniqueAddress,
    pub(crate) upto: u64,
    pub(crate) later: Vec<VersionRange>,
}

impl SeenVersions {
    fn covers(&self, version: u64) -> bool {
        version <= self.upto || {
            let at = self.later.partition_point(|range| range.to < version);
            self.later.get(at).is_some_and(|range| range.from <= version)
        }
    }

    fn highest(&self) -> u64 {
        self.later.last().map_or(self.upto, |range| range.to)
    }

    fn is_nothing(&self) -> bool {
        self.upto == 0 && self.later.is_empty()
    }

    /// Whether the range added anything.
    fn add(&mut self, range: VersionRange) -> bool {
        if range.to <= self.upto {
            return false;
        }
        // The ranges that the new one overlaps or touches become one with it.
        let first = self.later.partition_point(|held| held.to + 1 < range.from);
        let after = self.later.partition_point(|held| held.from <= range.to + 1);
        if let [held] = &self.later[first..after]
            && held.from <= range.from
            && range.to <= held.to
        {
            return false;
        }
        let joined = VersionRange {
            from: self.later[first..after]
                .first()
                .map_or(range.from, |held| held.from.min(range.from)),
            to: self.later[first..after]
                .last()
                .map_or(range.to, |held| held.to.max(range.to)),
        };
        self.later.splice(first..after, [joined]);
        self.close_gap();
        true
    }

    fn close_gap(&mut self) {
        let closed = self.later.iter().take_while(|range| {
            let touches = range.from <= self.upto + 1;
            if touches {
                self.upto = self.upto.max(range.to);
            }
            touches
        });
        let closed = closed.count();
        self.later.drain(..closed);
    }

    fn merge(&mut self, other: &Self) -> bool {
        let mut changed = other.upto > self.upto;
        if changed {
            self.upto = other.upto;
            self.close_gap();
        }
        for range in &other.later {
            changed |= self.add(*range);
        }
        changed
    }
}

/// The dots that a value has seen. A context that names no node twice and has no empty entry has one written
/// form.
#[derive(Clone, Debug, Default)]
pub(crate) struct CausalContext {
    /// Positions never change while the value lives; a removed node rebuilds the table.
    seen: Vec<SeenVersions>,
    /// Positions in the order of the nodes.
    order: Vec<u16>,
}

impl CausalContext {
    /// Entries in the order of their nodes. `None` if the nodes do not rise strictly, one is empty, or there
    /// are too many.
    pub(crate) fn from_sorted(seen: Vec<SeenVersions>) -> Option<Self> {
        let legal = seen.len() <= NODES_MAX
            && seen.windows(2).all(|pair| pair[0].node < pair[1].node)
            && !seen.iter().any(SeenVersions::is_nothing);
        let count = u16::try_from(seen.len()).ok()?;
        legal.then(|| Self {
            seen,
            order: (0..count).collect(),
        })
    }

    fn find(&self, node: &UniqueAddress) -> Result<usize, usize> {
        self.order
            .binary_search_by(|at| self.seen[usize::from(*at)].node.cmp(node))
    }

    pub(crate) fn index(&self, node: &UniqueAddress) -> Option<NodeIndex> {
        self.find(node).ok().map(|at| NodeIndex(self.order[at]))
    }

    /// The node's position, a new one if it has none.
    fn intern(&mut self, node: &UniqueAddress) -> NodeIndex {
        match self.find(node) {
            Ok(at) => NodeIndex(self.order[at]),
            Err(at) => {
                let new =
                    u16::try_from(self.seen.len()).expect("invariant: NODES_MAX bounds a table and two fit");
                self.order.insert(at, new);
                self.seen.push(SeenVersions {
                    node: node.clone(),
                    upto: 0,
                    later: Vec::new(),
                });
                NodeIndex(new)
            }
        }
    }

    pub(crate) fn node(&self, index: NodeIndex) -> &UniqueAddress {
        &self.seen[usize::from(index.0)].node
    }

    /// Entries in the order of their nodes, with their positions.
    pub(crate) fn sorted(&self) -> impl ExactSizeIterator<Item = (NodeIndex, &SeenVersions)> {
        self.order
            .iter()
            .map(|at| (NodeIndex(*at), &self.seen[usize::from(*at)]))
    }

    pub(crate) fn len(&self) -> usize {
        self.seen.len()
    }

    /// How many nodes both name together.
    pub(super) fn len_with(&self, other: &Self) -> usize {
        let new = other.seen.iter().filter(|seen| self.find(&seen.node).is_err());
        self.len() + new.count()
    }

    pub(crate) fn covers(&self, dot: Dot) -> bool {
        self.seen[usize::from(dot.node.0)].covers(dot.version)
    }

    /// The highest version of this node that was seen.
    pub(crate) fn highest(&self, node: &UniqueAddress) -> u64 {
        self.index(node)
            .map_or(0, |index| self.seen[usize::from(index.0)].highest())
    }

    /// The highest version that was seen of each node.
    pub(super) fn highest_of_all(&self) -> impl Iterator<Item = (&UniqueAddress, u64)> {
        self.seen.iter().map(|seen| (&seen.node, seen.highest()))
    }

    /// How many ranges lie above gaps.
    pub(crate) fn cloud(&self) -> usize {
        self.seen.iter().map(|seen| seen.later.len()).sum()
    }

    /// Takes a version that this node itself minted: nothing of it is missing below.
    pub(super) fn mint(&mut self, node: &UniqueAddress, version: u64) -> (Dot, VersionRange) {
        let index = self.intern(node);
        let seen = &mut self.seen[usize::from(index.0)];
        let range = VersionRange {
            from: seen.upto + 1,
            to: version,
        };
        seen.add(range);
        (Dot { node: index, version }, range)
    }

    /// Adds a range of a node.
    pub(super) fn add(&mut self, node: &UniqueAddress, range: VersionRange) -> Dot {
        let index = self.intern(node);
        self.seen[usize::from(index.0)].add(range);
        Dot {
            node: index,
            version: range.to,
        }
    }

    /// Everything that either has seen; whether anything was new.
    pub(super) fn merge(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for theirs in &other.seen {
            let mine = self.intern(&theirs.node);
            changed |= self.seen[usize::from(mine.0)].merge(theirs);
        }
        changed
    }

    /// How the positions of two contexts correspond. Interns the other's nodes here.
    pub(super) fn translate(&mut self, other: &Self) -> PositionMap {
        let to_mine: Vec<NodeIndex> = other.seen.iter().map(|seen| self.intern(&seen.node)).collect();
        let mut to_theirs = Vec::from_iter(self.seen.iter().map(|_| None));
        for (theirs, mine) in (0_u16..).zip(&to_mine) {
            to_theirs[usize::from(mine.0)] = Some(NodeIndex(theirs));
        }
        PositionMap { to_mine, to_theirs }
    }

    /// Forgets a node; what the positions behind it become.
    pub(super) fn forget(&mut self, node: &UniqueAddress) -> Option<PositionShift> {
        let at = self.find(node).ok()?;
        let gone = self.order.remove(at);
        self.seen.remove(usize::from(gone));
        for position in &mut self.order {
            if *position > gone {
                *position -= 1;
            }
        }
        Some(PositionShift { gone })
    }
}

impl PartialEq for CausalContext {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self
                .sorted()
                .map(|(_, seen)| seen)
                .eq(other.sorted().map(|(_, seen)| seen))
    }
}

impl Eq for CausalContext {}

/// How positions moved when a node was forgotten.
pub(super) struct PositionShift {
    gone: u16,
}

impl PositionShift {
    pub(super) const fn shift(&self, index: &mut NodeIndex) {
        if index.0 > self.gone {
            index.0 -= 1;
        }
    }
}

/// Positions of one value's nodes in another value.
pub(super) struct PositionMap {
    to_mine: Vec<NodeIndex>,
    to_theirs: Vec<Option<NodeIndex>>,
}

impl PositionMap {
    pub(super) fn mine(&self, theirs: Dot) -> Dot {
        Dot {
            node: self.to_mine[usize::from(theirs.node.0)],
            version: theirs.version,
        }
    }

    pub(super) fn theirs(&self, mine: Dot) -> Option<Dot> {
        Some(Dot {
            node: self.to_theirs[usize::from(mine.node.0)]?,
            version: mine.version,
        })
    }
}
