//! The mark that one region sends behind its messages for a shard. A type only. Spec: sharding 10.14 a and d.

use crate::sharding::state::ids::{KindId, ShardId};

/// A mark, or the acknowledgement of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardMark {
    /// The entity kind.
    pub kind: KindId,
    /// The shard whose messages it stands behind.
    pub shard: ShardId,
    /// The sender's count of its marks, from 1. One that is sent again keeps its number.
    pub number: u64,
}
