//! What becomes of a region that is shut down by command. Types only. Spec: sharding 1.3.

/// What became of the shards of a region that was shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionShutdown {
    /// Nothing runs here, and every shard that did has a new home. Also of a region that hosted nothing.
    HandedOver,
    /// Everything stopped in good order, and so many shards have no new home: no other node hosts the kind,
    /// or none was named in time. Messages for them wait until they have one.
    WithoutHome {
        /// How many.
        shards: usize,
    },
    /// The time was over before everything had stopped. What was left was killed, and nothing runs here.
    Killed,
    /// As `Killed`, but handlers that block their threads have not ended within another second. Their shards
    /// get new homes once they have.
    StillRuns,
}
