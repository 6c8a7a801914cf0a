//! How a kind remembers its entities: where, and how they come back. Values only. Spec: sharding 1.5, 4.1.

use core::fmt;
use core::time::Duration;

/// Where the ids of remembered entities are kept. Mirrors `remember-entities-store`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RememberStore {
    /// In replicated data, on a majority of the members. What outlives a stop of all nodes is what
    /// `ddata.durable_keys` names: add the pattern `shard-*`, on nodes with a store.
    Data,
    /// As events with snapshots, in a log per shard that a majority of the journal's voters keeps in their
    /// stores (`journal.voters`). Outlives a stop of all nodes. A shard's home owns its log with the token of
    /// its placement; where homes are stored (`store_mode`) an earlier home can write nothing there any more.
    Events,
}

impl fmt::Display for RememberStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "ddata",
            Self::Events => "events",
        })
    }
}

/// How a starting shard starts the entities that it remembers. Mirrors `entity-recovery-strategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntityRecovery {
    /// All at once, a bounded number per step.
    #[default]
    All,
    /// A few at a time, shard after shard. Mirrors `entity-recovery-constant-rate-strategy`.
    ConstantRate {
        /// Time between two batches (100 ms in Akka; > 0).
        frequency: Duration,
        /// Entities in each (5 in Akka; >= 1).
        entities: usize,
    },
}
