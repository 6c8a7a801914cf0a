//! What the host is asked where shards of a kind should be, if a strategy of the application outside of the
//! core says so, and what it answers. Types only. Spec: sharding 1.7.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::member::Status;
use crate::ordered::OrderedSet;
use crate::sharding::state::ids::{KindId, ShardId};
use crate::time::Instant;

/// A question to the application, answered with
/// [`Command::AnswerAllocation`](super::Command::AnswerAllocation). A kind asks at most one of each sort at a
/// time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationQuestion {
    /// The kind.
    pub kind: KindId,
    /// The answer carries it.
    pub number: u64,
    /// What is asked.
    pub need: AllocationNeed,
    /// The regions that may have shards, sorted by node and not empty.
    pub regions: Arc<[RegionShards]>,
    /// From then on (this node's monotonic clock) an answer is of no use.
    pub deadline: Instant,
}

/// What is to be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllocationNeed {
    /// Homes for these shards, each once, at most 256 of them. What the answer leaves out goes to the most
    /// suitable region.
    Homes(Vec<HomeWanted>),
    /// Which shards should be taken from their regions now, for balance; none of these, which move already.
    Moves {
        /// Shards on the move.
        in_progress: OrderedSet<ShardId>,
    },
}

/// A shard without a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeWanted {
    /// The shard.
    pub shard: ShardId,
    /// A node that has a message for it, if there is one.
    pub requester: Option<UniqueAddress>,
}

/// A region, as it was when the question was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionShards {
    /// Its node.
    pub node: UniqueAddress,
    /// The status of its member.
    pub status: Status,
    /// The application version of its member.
    pub app_version: AppVersion,
    /// Its shards, the one allocated first at the front.
    pub shards: Vec<ShardId>,
}

/// The application's answer. Whatever it names is looked at anew: what is not so any more is passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationAnswer {
    /// The kind.
    pub kind: KindId,
    /// The question's number.
    pub number: u64,
    /// What was decided.
    pub decided: AllocationDecided,
}

/// What the application has decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllocationDecided {
    /// Homes for shards that were asked about.
    Homes(Vec<(ShardId, UniqueAddress)>),
    /// Shards that are to move.
    Moves(Vec<ShardId>),
    /// Nothing: it has failed. As if the time had passed.
    Failed,
}
