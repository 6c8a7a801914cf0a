//! What is said about shards that a user wants stopped, and what the user hears. Types only. Spec: sharding
//! 1.1 (StopShards).

use alloc::vec::Vec;

use crate::sharding::state::ids::ShardId;

/// Shards named in one message: 2 KB, and as many hand-offs as a coordinator begins in a few steps.
pub const STOP_SHARDS_MAX: usize = 1_024;

/// Between a region whose user wants shards stopped and the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopMsg {
    /// Region to coordinator: stop these. Said again until each was acknowledged. 1 to [`STOP_SHARDS_MAX`].
    Stop {
        /// The shards.
        shards: Vec<ShardId>,
    },
    /// Coordinator to region: these have stopped, and begin with their next messages. 1 to
    /// [`STOP_SHARDS_MAX`].
    Stopped {
        /// The shards.
        shards: Vec<ShardId>,
    },
    /// Coordinator to region: none of the kind's is stopped by command.
    Refused {
        /// Why.
        why: StopRefusal,
    },
}

/// Why no shard is stopped by command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopRefusal {
    /// The kind remembers its entities: they would begin again at once.
    Remembers,
    /// The cluster prepares to shut down.
    ShuttingDown,
}

/// Which shards have stopped, and which have not in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoppedShards {
    /// Nothing of these runs anywhere, or did since; they begin with their next messages.
    pub stopped: Vec<ShardId>,
    /// Nobody has said so of these in time: they may stop yet.
    pub unconfirmed: Vec<ShardId>,
}
