//! What sharding asks of the machines of its node that keep something. Types only. Spec: `ARCHITECTURE.md`.

use crate::sharding::state::ids::{KindId, ShardId};

/// Who asks, and what it calls the question: the answer carries it home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreAsk {
    /// Of which kind.
    pub(crate) kind: KindId,
    /// Who of it.
    pub(crate) user: StoreUser,
    /// Which question; answers to earlier ones are passed over.
    pub(crate) request: u64,
    /// Which part of it.
    pub(crate) part: u8,
}

/// Who of a kind asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreUser {
    /// A shard, about its entities.
    Shard(ShardId),
    /// A shard, whether there are entities that it has not heard of.
    Look(ShardId),
    /// The coordinator, about which shards there are.
    Coordinator,
    /// The coordinator, about its log: the request is who opened it.
    CoordinatorLog,
}
