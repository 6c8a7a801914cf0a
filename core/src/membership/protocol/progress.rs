//! The phases of a node's own way out, as its users hear of them. Types only. Spec: membership 2.9.

use crate::drain::DrainPart;

/// A phase of the node's own way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownProgress {
    /// Shards are handed over (`cluster_sharding_shutdown_region_timeout`).
    Sharding,
    /// Slots of paths are handed over (`paths.exit_timeout`).
    Paths,
    /// Ranges of buckets are handed over (`kv.exit_timeout`).
    Kv,
    /// Singletons are handed over (`cluster_exiting_timeout`).
    Singletons,
    /// The last changes of replicated data are told to others (1 s).
    Ddata,
    /// The leader moves the leaving node to Exiting (`cluster_exiting_timeout`).
    Exiting,
}

impl ShutdownProgress {
    /// The phase in which a part hands over.
    #[must_use]
    pub const fn of(part: DrainPart) -> Self {
        match part {
            DrainPart::Sharding => Self::Sharding,
            DrainPart::Paths => Self::Paths,
            DrainPart::Singletons => Self::Singletons,
            DrainPart::Kv => Self::Kv,
            DrainPart::Ddata => Self::Ddata,
        }
    }
}
