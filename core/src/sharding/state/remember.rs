//! How a kind remembers its entities: where, and how they come back. Values only. Spec: sharding 1.5, 4.1.

use core::time::Duration;

/// Where it is kept which entities a kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RememberStore {
    /// In replicated data, on a majority of the members. What outlives a stop of all nodes is what `ddata.durable_keys` names: add
    /// the pattern `shard-*`, on nodes with a store.
    Data,
}

/// How a shard that begins starts the entities that it remembers. Mirrors `entity-recovery-strategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntityRecovery {
    /// All at once, a bounded number per step.
    #[default]
    All,
    /// A few at a time, shard after shard. Mirrors `entity-recovery-constant-rate-strategy`.
    ConstantRate {
        /// Time between two batches (100 ms in the reference; > 0).
        frequency: Duration,
        /// Entities in each (5 in the reference; >= 1).
        entities: usize,
    },
}
