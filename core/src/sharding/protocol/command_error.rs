//! Why sharding refuses a command of its user. Types only. Spec: sharding 2.1.

use crate::config::ConfigError;
use crate::sharding::state::allocation::{AllocationError, PLACED_NAME_BYTES_MAX};
use crate::sharding::state::fields::{FieldDifferences, StoreMode};
use crate::sharding::state::ids::ShardId;

/// Why sharding refused a command. The caller's mistake, never the peer's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardingCommandError {
    /// The name of a kind is empty or longer than 255 bytes.
    #[error("the kind's name must have 1 to 255 bytes")]
    BadKindName,
    /// The name of an extractor of your own is empty or longer than 57 bytes.
    #[error("the name of a kind's extractor must have 1 to 57 bytes")]
    BadExtractorName,
    /// As many surveys of this node are open as may be.
    #[error("too many surveys are open on this node")]
    TooManySurveys,
    /// As many commands to stop shards are open on this node as may be.
    #[error("too many commands to stop shards are open on this node")]
    TooManyStops,
    /// Shards of a kind that remembers its entities are not stopped by command: they would begin again at
    /// once.
    #[error("the kind remembers its entities, so stopped shards would start again at once")]
    RemembersEntities,
    /// The cluster prepares to shut down: nothing is handed off any more.
    #[error("the cluster is preparing to shut down")]
    ClusterShuttingDown,
    /// The name of a kind that remembers its entities is longer than 230 bytes.
    #[error("the name of a kind that remembers its entities must have 1 to 230 bytes")]
    NameTooLongToRemember,
    /// The name of a kind whose shards are placed from outside is longer than 237 bytes
    /// ([`PLACED_NAME_BYTES_MAX`](crate::sharding::allocation::PLACED_NAME_BYTES_MAX)).
    #[error(
        "the name of a kind whose shards are placed from outside must have 1 to {PLACED_NAME_BYTES_MAX} bytes"
    )]
    NameTooLongToPlace,
    /// A shard that the kind does not have.
    #[error("the kind has {shards} shards, and none with the number {}", shard.0)]
    NoSuchShard {
        /// The shard.
        shard: ShardId,
        /// How many the kind has, counted from 0.
        shards: u32,
    },
    /// Nobody says from outside where this kind's shards are.
    #[error("the kind's shards are not placed from outside; set its allocation to `External`")]
    NotPlaced,
    /// The number of shards is out of range.
    #[error("a kind must have 1 to 65536 shards")]
    BadShardCount,
    /// The kind is registered on this node with other settings of those that may differ from node to node:
    /// hosted here or not, passivation, allocation, or those of its
    /// [`KindConfig`](crate::config::KindConfig).
    #[error(
        "the kind is registered on this node already, as a proxy or a host, or with another passivation, allocation or other settings"
    )]
    KindConflict,
    /// In the cluster, or in an earlier registration on this node, the kind has other fields.
    #[error("the kind differs from the cluster's: {difference}")]
    KindDiffers {
        /// What differs, with both values.
        difference: FieldDifferences,
    },
    /// The same kind is being registered already.
    #[error("the kind is being registered by another call")]
    RegistrationPending,
    /// This node or the cluster has as many kinds as it may have.
    #[error("too many kinds are registered")]
    TooManyKinds,
    /// As many watches of this node are open as may, or one with this number.
    #[error("too many watches are open on this node")]
    TooManyWatches,
    /// The entity is watched by as many as may, or its node keeps as many watches as it may.
    #[error("the entity or its node has too many watchers")]
    TooManyWatchers,
    /// The id of an entity is empty or too long.
    #[error("the length of the entity's id is out of range")]
    BadEntityId,
    /// The region is being shut down: what still runs here has to stop before the kind can be hosted again.
    #[error("the region is being shut down")]
    ShuttingDown,
    /// As many callers wait for one shutdown of the region as may.
    #[error("too many callers wait for the region to be shut down")]
    ShutdownPending,
    /// A node without the role cannot host; it may register as a proxy.
    #[error("this node lacks the role that hosts the kind")]
    RoleMissing,
    /// The region's buffer is full, and as many callers wait for room as may (`sharding.buffer_waiting_max`).
    #[error("the region's buffer is full, and too many wait for room")]
    BufferFull,
    /// The kind is not registered on this node.
    #[error("the kind is not registered on this node")]
    NotRegistered,
    /// The kind's passivation strategy on this node has no limit that could be changed.
    #[error("the kind's passivation strategy on this node has no limit")]
    NoEntityLimit,
    /// The kind has a lease per shard, and this node has no lease keeper. The host says so.
    #[error("a kind with a lease needs a lease keeper on every node that hosts it; set one with `leases`")]
    NoLeaseKeeper,
    /// The kind's homes are to be stored, and this node keeps no logs on several stores (`journal.voters` is
    /// 0); or the mode is one of a later version.
    #[error("the kind's store mode {mode} needs journal.voters, which is 0, or is unknown")]
    StoreModeUnavailable {
        /// The mode.
        mode: StoreMode,
    },
    /// Which entities the kind has is to be remembered in logs, and this node keeps none on several stores
    /// (`journal.voters` is 0).
    #[error("remembering entities as events needs journal.voters, which is 0")]
    RememberStoreUnavailable,
    /// A setting of the kind ([`KindConfig`](crate::config::KindConfig)) is out of the range that the node's
    /// has.
    #[error("the kind's setting {0}")]
    BadSetting(ConfigError),
    /// A number of the kind's allocation strategy is out of range.
    #[error("the kind's allocation strategy: {0}")]
    BadAllocation(AllocationError),
}
