//! The nodes of the tree of sums over a range: their names, on the wire too. Spec: sharding 10.19 f.

use crate::ddata::state::key::Key;

/// Children of a node.
pub const FAN_OUT: usize = 16;

/// Levels below the root.
pub const DEPTH: u8 = 3;

const LEAVES: u64 = 16 * 16 * 16;

/// Nodes that one question is about at most.
pub const NODES_ASKED_MAX: usize = 16;

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

    /// The node above it.
    #[must_use]
    pub fn parent(self) -> Option<Self> {
        let level = self.level.checked_sub(1)?;
        let at = self.at / FAN_OUT as u16;
        Some(Self { level, at })
    }

    /// The first node below it.
    #[must_use]
    pub fn first_child(self) -> Option<Self> {
        Self::of(self.level + 1, self.at.checked_mul(FAN_OUT as u16)?)
    }
}
