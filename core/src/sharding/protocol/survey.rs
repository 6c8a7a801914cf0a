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
    },
}

/// What one node hosts of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionCounts {
    /// Shards with the entities that run in each, by number. As many as fit into a message: some may be left out.
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
