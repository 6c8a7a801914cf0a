//! What is written down of a kind: where its shards live, and which of its entities are remembered. Values
//! only; the bytes are `wire`'s business. Spec: sharding 1.1 (domain events), 1.5, 10.16.

use alloc::vec::Vec;

use crate::ddata::crdt::Element;
use crate::ident::UniqueAddress;

/// Nodes, and terms, of one record: their places in its lists are two bytes, and [`NOWHERE`] is none.
pub(crate) const NODES_MAX: usize = NOWHERE as usize;

/// The place of no node: the shard has no home.
pub(crate) const NOWHERE: u16 = u16::MAX;

/// Homes of shards. Nodes and terms stand in it once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HomesRecord {
    /// What it says of other shards.
    pub(crate) what: HomesChange,
    /// How many shards the kind had.
    pub(crate) shards: u32,
    /// Nodes, as they come.
    pub(crate) nodes: Vec<UniqueAddress>,
    /// Terms of tokens, as they come.
    pub(crate) terms: Vec<u64>,
    /// The homes, by shard.
    pub(crate) homes: Vec<HomeRecord>,
}

/// What a record of homes says of the shards that it does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HomesChange {
    /// They have no home.
    Whole,
    /// Nothing.
    Changes,
}

/// Where a shard lives, and with which token it was placed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HomeRecord {
    /// The shard.
    pub(crate) shard: u32,
    /// The place of its node, or [`NOWHERE`]: then the rest is 0.
    pub(crate) node: u16,
    /// The place of the token's term.
    pub(crate) term: u16,
    /// The token's count.
    pub(crate) count: u32,
}

/// Ids of entities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamesRecord {
    /// What of them.
    pub(crate) what: NamesChange,
    /// The ids, ascending.
    pub(crate) names: Vec<Element>,
}

/// What a record of names says of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamesChange {
    /// They are all that are remembered: a snapshot.
    Whole,
    /// They are remembered from now on (EntitiesStarted).
    Added,
    /// They are not remembered any more (EntitiesStopped).
    Removed,
}
