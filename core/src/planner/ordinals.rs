//! Numbers for nodes: 1 for the first in their order. Shown to people, stored nowhere: a node that joins
//! changes those of all nodes behind it. Spec: sharding 5.3, 10.17.

use alloc::vec::Vec;

/// The ordinals of some nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordinals<N> {
    /// Sorted, each once.
    nodes: Vec<N>,
}

impl<N: Ord> Ordinals<N> {
    /// Those of these nodes, in whatever order they come.
    pub fn new(nodes: impl IntoIterator<Item = N>) -> Self {
        let mut nodes: Vec<N> = nodes.into_iter().collect();
        nodes.sort_unstable();
        nodes.dedup();
        Self { nodes }
    }

    /// The ordinal of a node; `None` if it is none of them.
    pub fn of(&self, node: &N) -> Option<usize> {
        let at = self.nodes.binary_search(node).ok()?;
        Some(at + 1)
    }

    /// The node with this ordinal.
    pub fn node(&self, ordinal: usize) -> Option<&N> {
        self.nodes.get(ordinal.checked_sub(1)?)
    }

    /// The old and the new ordinal of each node that is in both.
    pub fn moved(&self, now: &Self) -> Vec<(usize, usize)> {
        let both = |(at, node)| Some((at + 1, now.of(node)?));
        self.nodes.iter().enumerate().filter_map(both).collect()
    }

    /// The ordinals of the nodes that were not there before.
    pub fn joined(&self, before: &Self) -> Vec<usize> {
        let is_new = |(at, node)| before.of(node).is_none().then_some(at + 1);
        self.nodes.iter().enumerate().filter_map(is_new).collect()
    }
}
