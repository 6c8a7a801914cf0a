//! A message to an entity between two nodes. A type only. Spec: sharding 10.2, 10.4.

use crate::messaging::protocol::AskTicket;
use crate::sharding::state::ids::{EntityId, KindId, Payload, ShardId};

/// A message to an entity on its way to the entity's home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityEnvelope {
    /// The entity's kind.
    pub kind: KindId,
    /// The entity's shard, computed by the sender.
    pub shard: ShardId,
    /// The entity.
    pub entity: EntityId,
    /// The user's bytes.
    pub payload: Payload,
    /// Set if an answer is expected.
    pub ask: Option<AskTicket>,
    /// Times this message has gone from one node to another: to what was taken for its home, and back
    /// (bounded, so that stale homes cannot keep it on its way for ever).
    pub hops: u8,
}
