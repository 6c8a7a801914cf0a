//! What regions say to each other about entities that are remembered by a shard to which they do not belong
//! any more. A type only. Spec: sharding 1.5 (starter), 2.1.

use alloc::vec::Vec;

use crate::sharding::state::ids::{EntityId, KindId, ShardId};

/// Entities in one message: as many as one write of theirs takes.
pub const STARTS_MAX: usize = 1_000;

/// Entities that are to be remembered and started by the shard to which they belong, or the word that they
/// are remembered there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityStarts {
    /// The entity kind.
    pub kind: KindId,
    /// The shard that remembers them so far, at whoever asks.
    pub from: ShardId,
    /// The shard to which they belong.
    pub shard: ShardId,
    /// One to [`STARTS_MAX`].
    pub entities: Vec<EntityId>,
}
