//! Who asked the host for something, so that the answer finds its way home. Names only. Spec:
//! `ARCHITECTURE.md`.

use crate::store::Space;

/// A machine that asks the host to keep something: its effects carry it, and the router hands the answers to
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Requester {
    /// The split-brain resolver, for its lease.
    Resolver,
    /// The replicator, for the keys that are durable.
    Ddata,
    /// The singletons, for their leases and for the terms that this node has promised.
    Singleton,
    /// The quorum logs, for this node's vote.
    Journal,
    /// Sharding, for the leases of shards.
    Sharding,
    /// The paths, for their instances.
    Path,
    /// The keyed store, for what its durable buckets hold.
    Kv,
}

impl Requester {
    /// Its part of a store. These numbers are on disks: they are never given to another owner. From 16 on
    /// they are the host's, for what it keeps beside the core.
    #[must_use]
    pub const fn space(self) -> Space {
        match self {
            Self::Resolver => Space(1),
            Self::Ddata => Space(2),
            Self::Singleton => Space(3),
            Self::Journal => Space(4),
            Self::Sharding => Space(5),
            Self::Path => Space(6),
            Self::Kv => Space(7),
        }
    }
}
