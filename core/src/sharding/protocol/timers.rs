//! What sharding waits for. Types only. Spec: sharding 1.1 to 1.4.

use crate::ident::UniqueAddress;
use crate::sharding::protocol::registry::RegistryTimer;
use crate::sharding::state::ids::{KindId, ShardId};

/// Timers of sharding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The earliest deadline of an open ask.
    AskDeadline,
    /// The registry of kinds.
    Registry(RegistryTimer),
    /// The earliest deadline of an open survey.
    Survey,
    /// Shards that are to stop and have not: said again, or the end of somebody's time.
    Stops,
    /// What was said about watches and has not been heard is said again, and nodes that have not appeared are
    /// looked for.
    Watch,
    /// A kind's region.
    Region(KindId, RegionTimer),
    /// A kind's coordinator.
    Coordinator(KindId, CoordinatorTimer),
}

/// Timers of a shard region.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegionTimer {
    /// Register again, or ask again for the homes of buffered shards.
    Retry,
    /// More buffered messages are waiting to be flushed than one step may send.
    Flush,
    /// The entities of a shard that hands off did not stop in time.
    ShardStop(ShardId),
    /// The region has not handed everything over in time; what is left is stopped now.
    Drain,
    /// Look for entities that have had no message for too long.
    Idle,
    /// More entities are too many than one step may passivate.
    Shrink,
    /// The store has not answered about what a shard remembers.
    Store(ShardId),
    /// A shard that failed begins again.
    RestartShard(ShardId),
    /// The keeper of a shard's lease has not said what was hoped for: ask again.
    Lease(ShardId),
    /// Remembered entities are due to be started.
    Recover,
    /// Marks that have not been acknowledged are sent again.
    Marks,
    /// Look for entities that shards here have and have not heard of.
    Look,
    /// Homes of shards to which entities belong that others remember are told again.
    Moves,
}

/// Timers of a shard coordinator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoordinatorTimer {
    /// Ask the members that have not registered yet once more.
    Recovery,
    /// More shards wait for a home than one step may allocate.
    Allocate,
    /// The store did not say which shards there are, or did not take a new one: ask again.
    Remembered,
    /// Look at the balance.
    Rebalance,
    /// A region did not say that it started a shard.
    ShardStart(ShardId),
    /// A hand-off took too long.
    HandOff(ShardId),
    /// The removal margin of a lost region has passed; its shards may be allocated again.
    RegionLost(UniqueAddress),
    /// The store owes an answer for long, or may be asked anew after a refusal.
    State,
    /// Shards have waited long enough for the home that is stored.
    Returning,
    /// The application has not said where shards should go.
    Homes,
    /// The application has not said which shards should move.
    Moves,
}
