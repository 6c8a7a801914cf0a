//! A tree of sums over a range, kept up on every write: two replicas find the keys in which they differ by
//! comparing from the root down. A node is the sum of what lies below it, so a write changes one path and
//! reads no other key. Knows digests, never entries. Spec: sharding 10.19 f; reliability I-74.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use super::state::node::{DEPTH, FAN_OUT, MerkleNode, NODES_ASKED_MAX};
use crate::ddata::state::key::Key;

/// Where the nodes of a level begin.
const BEGINS: [usize; DEPTH as usize + 1] = [0, 1, 17, 273];
const NODES: usize = 273 + 4_096;

fn index(node: MerkleNode) -> usize {
    let (level, at) = node.numbers();
    BEGINS[usize::from(level)] + usize::from(at)
}

/// See the module. Takes 35 kB from the first key on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MerkleTree {
    sums: Vec<u64>,
}

impl MerkleTree {
    /// Of a range without keys.
    #[must_use]
    pub const fn new() -> Self {
        Self { sums: Vec::new() }
    }

    /// A key is held with another digest than before; 0 where it is not held.
    pub fn update(&mut self, key: &Key, before: u64, after: u64) {
        if before == after {
            return;
        }
        if self.sums.is_empty() {
            self.sums.resize(NODES, 0);
        }
        let mut node = Some(MerkleNode::leaf_of(key));
        while let Some(at) = node {
            let sum = &mut self.sums[index(at)];
            *sum = sum.wrapping_sub(before).wrapping_add(after);
            node = at.parent();
        }
    }

    /// What is below a node: equal where nothing below it differs.
    #[must_use]
    pub fn sum(&self, node: MerkleNode) -> u64 {
        self.sums.get(index(node)).copied().unwrap_or_default()
    }

    /// The sums of a node's children; `None` for a leaf.
    #[must_use]
    pub fn children(&self, node: MerkleNode) -> Option<[u64; FAN_OUT]> {
        let first = index(node.first_child()?);
        let mut sums = [0; FAN_OUT];
        if let Some(own) = self.sums.get(first..first + FAN_OUT) {
            sums.copy_from_slice(own);
        }
        Some(sums)
    }

    /// The children of a node that differ from those of another tree.
    #[must_use]
    pub fn differing(&self, node: MerkleNode, theirs: &[u64; FAN_OUT]) -> Vec<MerkleNode> {
        let (Some(first), Some(own)) = (node.first_child(), self.children(node)) else {
            return Vec::new();
        };
        let (level, first) = first.numbers();
        let differ = (first..).zip(own.iter().zip(theirs));
        let differ = differ.filter(|(_, (own, theirs))| own != theirs);
        differ.filter_map(|(at, _)| MerkleNode::of(level, at)).collect()
    }
}

/// A comparison with another replica's tree: what to ask for next, and which leaves differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MerkleComparison {
    open: Vec<MerkleNode>,
    leaves: Vec<MerkleNode>,
}

impl Default for MerkleComparison {
    fn default() -> Self {
        Self {
            open: [MerkleNode::ROOT].into(),
            leaves: Vec::new(),
        }
    }
}

impl MerkleComparison {
    /// The nodes whose children the other one is asked for next; none once all differences are found.
    #[must_use]
    pub fn question(&self) -> &[MerkleNode] {
        &self.open[self.first_asked()..]
    }

    fn first_asked(&self) -> usize {
        self.open.len().saturating_sub(NODES_ASKED_MAX)
    }

    /// The other one has said what the children of the nodes of [`Self::question`] are, one node's after
    /// another's. Whether that is what was asked for.
    pub fn on_children(&mut self, own: &MerkleTree, theirs: &[u64]) -> bool {
        let (children, rest) = theirs.as_chunks::<FAN_OUT>();
        if self.question().len() != children.len() || !rest.is_empty() {
            return false;
        }
        let asked = self.open.split_off(self.first_asked());
        for (node, theirs) in asked.into_iter().zip(children) {
            let found = own.differing(node, theirs);
            let (leaves, open): (Vec<_>, Vec<_>) = found.into_iter().partition(|node| node.is_leaf());
            self.leaves.extend(leaves);
            self.open.extend(open);
        }
        true
    }

    /// The leaves that differ, as far as is known.
    #[must_use]
    pub fn leaves(&self) -> &[MerkleNode] {
        &self.leaves
    }
}
