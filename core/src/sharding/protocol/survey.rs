//! What a node asks the others about a kind for people to read, and what they answer. Types only. Spec: sharding 1.3 (queries).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::sharding::state::ids::{KindId, ShardId};

/// Between who wants to know and who may host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SurveyMsg {
    /// What do you host of this kind?
    Query {
        /// The question's number; answers carry it.
        id: u64,
        /// The kind.
        kind: KindId,
    },
    /// This.
    Counts {
        /// The question's number.
        id: u64,
        /// What is hosted; `None` if the kind is not registered here, or is not accepted.
        region: Option<RegionCounts>,
        /// Whether further shards follow in another answer.
        more: bool,
    },
    /// Where is this shard, and why? Asked of the coordinator.
    Where {
        /// The question's number; the answer carries it.
        id: u64,
        /// The kind.
        kind: KindId,
        /// The shard.
        shard: ShardId,
    },
    /// There.
    There {
        /// The question's number.
        id: u64,
        /// What is known; `None` if the kind is not registered here, or its coordinator is not here.
        placement: Option<Placement>,
    },
}

/// Decisions that a coordinator remembers of a shard: a move and a half are enough to see where it came from and why, and the
/// most shards that a kind can have cost a few megabytes.
pub const DECISIONS_MAX: usize = 5;

/// Where a shard is, as its coordinator knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Its home; none until somebody asks for one of its entities, and while a home that was lost is replaced.
    pub home: Option<UniqueAddress>,
    /// Whether it is being handed off.
    pub is_moving: bool,
    /// The last decisions about it, oldest first, [`DECISIONS_MAX`] at most. A coordinator that takes over begins with what it found.
    pub decided: Vec<Decided>,
}

/// One decision about a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// When, milliseconds since the Unix epoch by the coordinator's clock.
    pub at_ms: u64,
    /// What.
    pub decision: ShardDecision,
}

/// What a coordinator decides about a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardDecision {
    /// The kind's allocation strategy chose a home.
    Allocated {
        /// The home.
        home: UniqueAddress,
        /// Whether it is where somebody outside wants the shard to be (external placement).
        is_desired: bool,
    },
    /// A region that registered had it already: under the coordinator before, or before a network was healed.
    Found {
        /// The region's node.
        home: UniqueAddress,
    },
    /// It is to move, for balance, because its place is wanted elsewhere, or because its region is being emptied.
    Moves {
        /// Away from there.
        from: UniqueAddress,
    },
    /// It has no home any more: it was handed off, or the node is lost.
    Freed {
        /// Where it was.
        home: UniqueAddress,
    },
}

/// Where an entity's shard is and why, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The entity's shard.
    pub shard: ShardId,
    /// Who was asked: the kind's coordinator. `None`: this node's region has found none.
    pub coordinator: Option<UniqueAddress>,
    /// What it said; `None` if it said nothing in time, or coordinates no more.
    pub placement: Option<Placement>,
    /// The downing strategy, if it lets both sides of a partition go on: after one the entity may run on each side. `None` from a proxy,
    /// which is not asked whether the kind has a lease per shard: ask a node that hosts it.
    pub may_run_twice: Option<&'static str>,
}

/// What one node hosts of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionCounts {
    /// Shards with the entities that run in each, by number. A node of an earlier version leaves out what one message cannot hold,
    /// and what is lost on the way is missing.
    pub shards: Vec<(ShardId, u32)>,
    /// All shards, those that were left out included.
    pub shards_total: u32,
    /// All entities, those of shards that were left out included.
    pub entities_total: u64,
}

/// What the nodes that may host a kind have said about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// What each has said; `None` of a node where the kind is not registered, or not accepted.
    pub regions: BTreeMap<UniqueAddress, Option<RegionCounts>>,
    /// Who has not answered in time: it may host anything.
    pub silent: Vec<UniqueAddress>,
}
