//! What is said to those who ask a durable entity, and to those who register a kind of them, when it cannot
//! be kept.

pub use quorate_core::durable::DurableFailure;

/// Why a kind of durable entities was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurabilityError {
    /// The node has no store.
    #[error("durable entities need a store; set one with `ClusterBuilder::store`")]
    NoStore,
    /// The node's store is its own ([`StoreScope::NodeLocal`](crate::store::StoreScope::NodeLocal)): an
    /// entity's log would stay behind when its shard moves, and the entity would silently start empty. Let
    /// the nodes' stores vote about logs (`journal.voters`), take a store that all nodes share, or say with
    /// [`Kind::single_host`](crate::Kind::single_host) that one member alone hosts the kind.
    #[error(
        "only this node can read its store, so entities would lose their logs when their shards move; set \
         `journal.voters`, use a store that all nodes share, or set `Kind::single_host`"
    )]
    NodeLocalStore,
    /// The kind names a bucket that is not open on this node: open it first.
    #[error("the bucket that is to keep the entities' logs is not open on this node")]
    BucketNotOpen,
    /// The kind names a bucket not every read of which meets every write.
    #[error("a bucket keeps logs of durable entities only if its least R and W are more than N together")]
    BucketNotStrict,
}
