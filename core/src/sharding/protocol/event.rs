//! What happened in sharding, for users and their logs. Types only. Spec: sharding 1.1 to 1.4, 10.11.

use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::journal::protocol::JournalCommandError as LogError;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::fields::FieldDifferences;
use crate::sharding::state::ids::{EntityId, ShardId, Term};

/// What happened in sharding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// This region is registered with a coordinator.
    RegionRegistered {
        /// The coordinator's term.
        term: Term,
    },
    /// This kind has other fields in the cluster: nothing of it works on this node.
    KindRefused {
        /// What differs.
        difference: FieldDifferences,
    },
    /// The kind is accepted, and this node may host it, in a cluster whose downing strategy lets both sides
    /// of a partition go on: each side then runs its entities, until somebody ends one of the sides. Said
    /// once when the kind begins; not of kinds with a lease per shard, which only one side can hold.
    MayRunTwice {
        /// The downing strategy.
        strategy: &'static str,
    },
    /// This node is the oldest, and refused the kind of another one, because its fields differ from what
    /// stands.
    KindRefusedOn {
        /// The other one.
        node: UniqueAddress,
        /// What differs; "ours" is that node's.
        difference: FieldDifferences,
    },
    /// This node's coordinator has begun to recover the homes.
    CoordinatorStarted {
        /// Its term.
        term: Term,
    },
    /// This node's coordinator knows all homes and allocates.
    CoordinatorRecovered {
        /// Its term.
        term: Term,
        /// Shards with a home.
        shards: usize,
    },
    /// This node's coordinator waits for its store: a majority of the voters does not answer. Said the first,
    /// second, fourth, … time that a time limit has passed.
    CoordinatorStateLate {
        /// Whether something is being written. If not, the state is being read, and nothing is allocated yet.
        writing: bool,
        /// How often the time limit has passed.
        times: u32,
    },
    /// The store has refused this node's coordinator, because another one has written or it holds no more. It
    /// begins anew, if this node is the oldest still.
    CoordinatorRefused {
        /// Its term.
        term: Term,
        /// Why.
        error: LogError,
    },
    /// What the store holds of the kind's homes is none of what a coordinator writes. Nothing is allocated
    /// before it is removed.
    CoordinatorStateDamaged,
    /// This node's coordinator gave a shard a home, or gave it to the region that runs it anew.
    ShardAllocated {
        /// The shard.
        shard: ShardId,
        /// Its home.
        home: UniqueAddress,
    },
    /// This node's coordinator begins to move a shard because of load.
    ShardMovesByLoad {
        /// The shard.
        shard: ShardId,
        /// Its home: the node that could take on least.
        from: UniqueAddress,
        /// Where it goes: the node that could take on most.
        to: UniqueAddress,
    },
    /// The kind's own strategy has not said in time where shards should go, or has failed.
    AllocationUnanswered {
        /// So many went to who asked for them, or to the most suitable region. 0: it was asked which should
        /// move, and none does.
        shards: usize,
    },
    /// This node has begun to host a shard.
    ShardStarted {
        /// The shard.
        shard: ShardId,
        /// The term it was started under.
        term: Term,
    },
    /// This node has stopped hosting a shard.
    ShardStopped {
        /// The shard.
        shard: ShardId,
    },
    /// What a shard of this node remembers could not be read or stored: its entities are told to stop, and it
    /// begins again after a pause (`sharding.shard_failure_backoff`).
    ShardFailed {
        /// The shard.
        shard: ShardId,
    },
    /// What a log holds of which entities a shard has, or of which shards have any (`None`), is none of what
    /// is written there. The shard tries again and again; without the shards only those begin that run
    /// already.
    RememberedDamaged {
        /// The shard.
        shard: Option<ShardId>,
    },
    /// The lease of a shard was lost: its entities were stopped at once, and begin again when it is granted
    /// once more.
    ShardLeaseLost {
        /// The shard.
        shard: ShardId,
    },
    /// A shard did not stop in time, and not for a hand-off that can be cancelled; its entities were killed.
    ShardStopTimeout {
        /// The shard.
        shard: ShardId,
    },
    /// A hand-off did not finish in time; the shard keeps its home. Of each list at most 16 are named.
    HandOffTimeout {
        /// The shard.
        shard: ShardId,
        /// Regions that have not said that everything they sent there has arrived.
        unmarked: Vec<UniqueAddress>,
        /// Regions that were told to stop the shard and have not. Each says which of its entities have not
        /// stopped.
        running: Vec<UniqueAddress>,
    },
    /// The hand-off of a shard of this node was cancelled: it goes on here. What comes for entities that had
    /// been told to stop waits until they have.
    HandOffCancelled {
        /// The shard.
        shard: ShardId,
        /// Entities that have been told to stop and have not, at most 16 of them.
        running: Vec<EntityId>,
        /// How many more there are.
        more: usize,
    },
    /// Two regions claim to host one shard; it is stopped on both and gets a new home.
    ShardConflict {
        /// The shard.
        shard: ShardId,
    },
    /// A message without an asker could not be delivered. (One with an asker is answered instead.)
    DeadLetter {
        /// Its shard.
        shard: ShardId,
        /// Why.
        reason: AskFailure,
    },
    /// An envelope of this node's was for no entity of the kind: its own function found none in it, and it
    /// was not sent. The host says so.
    EnvelopeUnmatched,
    /// The region's buffer is full: this node's users should wait. Said once until it has room.
    BufferFull {
        /// Messages in it.
        messages: usize,
    },
    /// Less than three quarters of a buffer that was full are taken, and nobody waits for room.
    BufferHasRoom,
    /// This region has handed over everything.
    Drained,
}
