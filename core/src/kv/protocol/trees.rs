//! What two owners of a range say to each other to find the keys in which they differ. Types only. Spec:
//! sharding 10.19 f.

use alloc::vec::Vec;

use crate::journal::state::StoreId;
use crate::kv::state::configuration::Configuration;
use crate::kv::state::node::MerkleNode;
use crate::kv::state::part::RangeItem;
use crate::kv::state::table::RangeId;
use crate::store::Bytes;

/// Leaves that one question is about at most: an owner reads its keys once for all of them.
pub const LEAVES_ASKED_MAX: usize = 256;

/// What is said about the trees of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeStatement {
    /// An owner to another: what lies below these nodes?
    Compare {
        /// What is asked, of whom.
        asked: TreeAsk,
        /// Nodes with children.
        nodes: Vec<MerkleNode>,
    },
    /// The other one: these sums.
    Sums {
        /// Whose answer to what.
        said: TreeAnswer,
        /// Those of the children of each node, in the order of the question.
        sums: Vec<u64>,
    },
    /// An owner to another: what do you hold in these leaves?
    Fetch {
        /// What is asked, of whom.
        asked: TreeAsk,
        /// The leaves, ascending.
        leaves: Vec<MerkleNode>,
        /// Behind this key; `None`: from the first one on.
        after: Option<Bytes>,
    },
    /// The other one: this.
    Held {
        /// Whose answer to what.
        said: TreeAnswer,
        /// Keys ascending, each once.
        items: Vec<RangeItem>,
        /// The last key that was looked at, if there are more.
        next: Option<Bytes>,
    },
}

impl TreeStatement {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Sums { sums, .. } => size_of_val(sums.as_slice()),
            Self::Held { items, .. } => items.iter().map(RangeItem::bytes).sum(),
            Self::Compare { .. } | Self::Fetch { .. } => 0,
        }
    }
}

/// What surrounds a question about a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeAsk {
    /// Which store is meant.
    pub store: StoreId,
    /// Of which range.
    pub range: RangeId,
    /// Its owners, as far as who asks knows: adopted first.
    pub configuration: Configuration,
    /// The asking node's number of the comparison; the answer carries it.
    pub comparison: u64,
}

/// What surrounds an answer about a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeAnswer {
    /// Which store answers.
    pub store: StoreId,
    /// The asking node's number of the comparison.
    pub comparison: u64,
}
