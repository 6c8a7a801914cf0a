//! A tree of sums over a range, kept up on every write: two replicas find the keys in which they differ by
//! comparing from the root down. A node is the sum of what lies below it, so a write changes one path and
//! reads no other key. Knows digests, never entries. Spec: sharding 10.19 f; reliability I-74.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use crate::ddata::state::key::Key;

/// Children of a node.
pub const FAN_OUT: usize = 16;

/// Levels below the root.
pub const DEPTH: u8 = 3;

const LEAVES: u64 = 16 * 16 * 16;

/// Where the nodes of a level begin.
const BEGINS: [usize; DEPTH as usize + 1] = [0, 1, 17, 273];
const NODES: usize = 273 + 4_096;

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MerkleNode {
    level: u8,
    at: u16,
}

impl MerkleNode {
    /// The whole range.
    pub const ROOT: Self = Self { level: 0, at: 0 };

    /// The leaf that a key lies in.
    #[must_use]
    pub fn leaf_of(key: &Key) -> Self {
        // Ranges take the upper bits of the hash.
        let at = u16::try_from(key.hash() % LEAVES).unwrap_or_default();
        Self { level: DEPTH, at }
    }

    /// A node by its numbers; `None` if the tree has none of them.
    #[must_use]
    pub fn of(level: u8, at: u16) -> Option<Self> {
        let is_one = level <= DEPTH && usize::from(at) < FAN_OUT.pow(u32::from(level));
        is_one.then_some(Self { level, at })
    }

    /// On which level, 0 for the root, and which of that level.
    #[must_use]
    pub const fn numbers(self) -> (u8, u16) {
        (self.level, self.at)
    }

    /// Whether keys lie in it, and no nodes.
    #[must_use]
    pub const fn is_leaf(self) -> bool {
        self.level == DEPTH
    }

    fn parent(self) -> Option<Self> {
        let level = self.level.checked_sub(1)?;
        let at = self.at / FAN_OUT as u16;
        Some(Self { level, at })
    }

    fn index(self) -> usize {
        BEGINS[usize::from(self.level)] + usize::from(self.at)
    }

    fn first_child(self) -> Option<Self> {
        Self::of(self.level + 1, self.at.checked_mul(FAN_OUT as u16)?)
    }
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
            let sum = &mut self.sums[at.index()];
            *sum = sum.wrapping_sub(before).wrapping_add(after);
            node = at.parent();
        }
    }

    /// What is below a node: equal where nothing below it differs.
    #[must_use]
    pub fn sum(&self, node: MerkleNode) -> u64 {
        self.sums.get(node.index()).copied().unwrap_or_default()
    }

    /// The sums of a node's children; `None` for a leaf.
    #[must_use]
    pub fn children(&self, node: MerkleNode) -> Option<[u64; FAN_OUT]> {
        let first = node.first_child()?.index();
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
        let differ = (first.at..).zip(own.iter().zip(theirs));
        let differ = differ.filter(|(_, (own, theirs))| own != theirs);
        differ
            .map(|(at, _)| MerkleNode {
                level: first.level,
                at,
            })
            .collect()
    }
}

/// A comparison with another replica's tree: what to ask for next, and which leaves differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MerkleComparison {
    open: Vec<MerkleNode>,
    leaves: Vec<MerkleNode>,
}

impl MerkleComparison {
    /// Begins with the sum of the other one's root.
    #[must_use]
    pub fn new(own: &MerkleTree, their_root: u64) -> Self {
        let differs = own.sum(MerkleNode::ROOT) != their_root;
        Self {
            open: if differs {
                [MerkleNode::ROOT].into()
            } else {
                Vec::new()
            },
            leaves: Vec::new(),
        }
    }

    /// The node whose children the other one is asked for next; `None` once all differences are found.
    #[must_use]
    pub fn question(&self) -> Option<MerkleNode> {
        self.open.last().copied()
    }

    /// The other one has said what the children of the node of [`Self::question`] are.
    pub fn on_children(&mut self, own: &MerkleTree, theirs: &[u64; FAN_OUT]) {
        let Some(node) = self.open.pop() else { return };
        let found = own.differing(node, theirs);
        let (leaves, open): (Vec<_>, Vec<_>) = found.into_iter().partition(|node| node.is_leaf());
        self.leaves.extend(leaves);
        self.open.extend(open);
    }

    /// The leaves that differ, as far as is known.
    #[must_use]
    pub fn leaves(&self) -> &[MerkleNode] {
        &self.leaves
    }
}
