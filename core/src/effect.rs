//! What the node tells its host to do. The host does all of it, in order.

use alloc::vec::Vec;

use crate::event::Event;
use crate::ident::UniqueAddress;
use crate::input::{Target, Token};
use crate::lease::LeaseOrder;
use crate::message::Message;
use crate::owner::Owner;
use crate::sharding::errors::AskFailure;
use crate::sharding::ids::{AskRef, EntityId, KindId, Payload, ShardId, Slot};
use crate::store::StoreRequest;
use crate::time::Instant;
use crate::timers::Timer;

/// What [`crate::node::Node::poll`] yields: work, or the permission to sleep.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Output {
    /// Do this, then poll again.
    Effect(Effect),
    /// Nothing to do until the given time (or the next input); `None` after the node has halted or before it began.
    Sleep(Option<Wake>),
}

/// When to hand in the next [`crate::input::Input::Tick`], and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The deadline.
    pub at: Instant,
    /// What is due then.
    pub why: Timer,
}

/// One thing for the host to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send a message on its lane.
    Send {
        /// Whom to.
        to: Target,
        /// What.
        message: Message,
    },
    /// Something happened that users may want to know.
    Notify(Event),
    /// The answer to a command.
    Reply {
        /// The command.
        token: Token,
        /// The answer.
        answer: Answer,
    },
    /// Something for an entity.
    Entity(EntityOrder),
    /// Something for the keeper of a lease.
    Lease(LeaseOrder),
    /// Something for the node's store; answered with [`crate::input::Input::Stored`] once it is durable.
    Store(Owner, StoreRequest),
    /// Refuse links from and to this incarnation from now on.
    Quarantine(UniqueAddress),
    /// The node is finished; flush what was sent, then close the links. No effect follows.
    Halt(HaltReason),
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done, or under way.
    Done,
    /// It was refused.
    Refused(CommandError),
    /// An ask's result.
    Asked(Result<Payload, AskFailure>),
}

/// Why a command was refused. The caller's mistake, never the peer's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The node is already a member or joining.
    #[error("this node has already joined or is joining a cluster")]
    AlreadyJoined,
    /// No seeds were given.
    #[error("the list of seeds is empty")]
    NoSeeds,
    /// No member has this address.
    #[error("no such member")]
    UnknownMember,
    /// The node has not joined yet.
    #[error("this node is not a member of a cluster")]
    NotAMember,
    /// A node cannot remove itself while there are others; it leaves.
    #[error("a node does not remove itself while there are other members; it leaves")]
    NotMyself,
    /// The node has halted.
    #[error("this node has stopped")]
    Stopped,
    /// The name of a kind is empty or longer than 255 bytes.
    #[error("the kind's name must have 1 to 255 bytes")]
    BadKindName,
    /// The number of shards is out of range.
    #[error("a kind has 1 to 65536 shards")]
    BadShardCount,
    /// Another kind has the same hash, or the same kind was registered with other settings.
    #[error("the kind is already registered with other settings, or its name collides with another kind's")]
    KindConflict,
    /// A node without the role cannot host; it may register as a proxy.
    #[error("this node lacks the role that hosts the kind")]
    RoleMissing,
}

/// What the host does with entities. Orders for one slot keep their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntityOrder {
    /// Start an entity in this slot.
    Start {
        /// Where.
        slot: Slot,
        /// Its kind.
        kind: KindId,
        /// Its shard.
        shard: ShardId,
        /// Its id.
        entity: EntityId,
    },
    /// Put a message into the mailbox of the entity in this slot.
    Deliver {
        /// Where.
        slot: Slot,
        /// The bytes.
        payload: Payload,
        /// Set if an answer is expected.
        reply_to: Option<AskRef>,
    },
    /// Stop the entity once it has handled what is in its mailbox, then report `Stopped`.
    Stop {
        /// Where.
        slot: Slot,
    },
    /// Stop the entity now, dropping its mailbox (asks in it are answered `EntityStopped`), then report `Stopped`.
    Kill {
        /// Where.
        slot: Slot,
    },
}

/// Why the node is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HaltReason {
    /// It left gracefully.
    Left,
    /// It was declared Down and stopped itself.
    Downed,
    /// Seeds refused its configuration.
    IncompatibleConfig,
    /// It could not join in time.
    JoinAborted,
    /// A member refused this incarnation for good; a new one may try.
    JoinRefused,
    /// The others removed it without its knowledge.
    Removed,
}

/// Several effects at once, for tests and batch hosts.
pub type Effects = Vec<Effect>;
