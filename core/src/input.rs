//! What a host tells the node: time, bytes, link changes, commands and what entities did.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::ident::{Address, Role, UniqueAddress};
use crate::lease::LeaseReport;
use crate::message::{Lane, Message};
use crate::owner::Owner;
use crate::sharding::errors::AskFailure;
use crate::sharding::ids::{AskRef, EntityId, KindId, Payload, Slot};
use crate::store::StoreReport;

/// The caller's name for a command; the node's answer carries it. Never reused by the host while it is open.
pub type Token = u64;

/// One input. Every input runs to completion; nothing blocks, nothing panics on peer data.
#[derive(Debug)]
pub enum Input<'a> {
    /// Time has passed: due timers fire.
    Tick,
    /// The body of a checked frame from the peer of an established link (its checksum, length and epoch are already
    /// verified by [`crate::wire::decode_frame`]).
    Frame {
        /// The link's peer, as fixed by the handshake.
        from: &'a UniqueAddress,
        /// The frame's lane.
        lane: Lane,
        /// The frame's message kind.
        kind: u16,
        /// The frame's body.
        body: &'a [u8],
    },
    /// A link changed.
    Link(LinkEvent),
    /// Somebody wants something.
    Command {
        /// Named in the answer.
        token: Token,
        /// What is wanted.
        command: Command,
    },
    /// A message to an entity that expects no answer: the hot path has no token.
    Tell {
        /// The entity's kind.
        kind: KindId,
        /// The entity.
        entity: EntityId,
        /// The bytes.
        payload: Payload,
    },
    /// An entity's host reports.
    Entity(EntityReport),
    /// The keeper of a lease reports.
    Lease(LeaseReport),
    /// The node's store answers a request of [`crate::effect::Effect::Store`].
    Stored(Owner, StoreReport),
}

/// What happened to the links to a peer.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkEvent {
    /// A handshake completed.
    Up {
        /// The incarnation at the other end.
        peer: UniqueAddress,
        /// Counts the links to this peer; frames of an older epoch are dropped by the host.
        epoch: u32,
    },
    /// A message was addressed to an incarnation that is not at its address any more.
    WrongIncarnation {
        /// Who was meant.
        expected: UniqueAddress,
        /// Who answered.
        found: UniqueAddress,
    },
    /// A peer refuses this very incarnation for good.
    QuarantinedBy {
        /// Who.
        peer: UniqueAddress,
    },
    /// The links to this peer are gone; what was on the way is lost.
    Down {
        /// The incarnation.
        peer: UniqueAddress,
    },
    /// The host gives a message back that it has not sent, not even in part: whoever waits for an answer hears that it was
    /// not handled. What waited for a link comes back before that link's [`LinkEvent::Down`], after which the node takes
    /// everything else for lost.
    Dropped {
        /// Whom it was for.
        to: Target,
        /// The message, so that it is accounted for.
        message: Message,
        /// Why.
        reason: DropReason,
    },
}

/// Why the host dropped a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The queue to the peer is full.
    QueueFull,
    /// The peer cannot be reached.
    Unreachable,
    /// The message does not fit into a frame.
    TooLarge,
}

/// Whom a message is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Whoever listens there: used before the incarnation is known.
    Address(Address),
    /// Exactly this incarnation.
    Node(UniqueAddress),
}

impl Target {
    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> &Address {
        match self {
            Self::Address(address) => address,
            Self::Node(node) => node.address(),
        }
    }
}

/// What an application or an operator asks of the node.
#[derive(Clone, Debug)]
pub enum Command {
    /// Become a member through these seeds; the first seed may form a new cluster. Answered when the process started.
    JoinSeeds(Vec<Address>),
    /// Become a member through this node; my own address forms a cluster of one.
    Join(Address),
    /// Leave gracefully: this node hands its work over, then halts.
    Leave,
    /// Move another member to Leaving.
    LeaveMember(Address),
    /// Move a member to Down.
    Down(DownTarget),
    /// Remove a member at once, without convergence and without waiting for proof that it stopped. The last resort of an
    /// operator: if it still runs, it hears that it was removed and stops, but until then it may do what others now do
    /// too.
    Remove(DownTarget),
    /// Prepare the whole cluster for a full shutdown: nobody joins or rises any more. There is no way back.
    PrepareForShutdown,
    /// Host or reach entities of a kind.
    RegisterKind(KindSettings),
    /// A message to an entity, with an answer. Answered with [`crate::effect::Answer::Asked`], exactly once.
    Ask {
        /// The entity's kind.
        kind: KindId,
        /// The entity.
        entity: EntityId,
        /// The bytes.
        payload: Payload,
        /// How long to wait (1 ms to 24 h; clamped).
        timeout: Duration,
    },
}

/// Whom to down or remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownTarget {
    /// The live incarnation at this address.
    Address(Address),
    /// Exactly this incarnation.
    Node(UniqueAddress),
}

/// An entity kind on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindSettings {
    /// The kind's name, 1 to 255 bytes.
    pub name: Arc<str>,
    /// How many shards it has, 1 to [`crate::sharding::ids::SHARDS_MAX`]; the same on every node.
    pub shards: u32,
    /// Members with this role host it and run its coordinator; all members if `None`. The same on every node.
    pub role: Option<Role>,
    /// Whether this node hosts entities (it must have the role) or only reaches them (a proxy region).
    pub hosts: bool,
}

/// What the host of the entities says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntityReport {
    /// An entity answered an ask (or failed to).
    Answered {
        /// The ask.
        ask: AskRef,
        /// Its answer.
        result: Result<Payload, AskFailure>,
    },
    /// An entity has stopped and nothing of it runs any more. Messages that were in its mailbox were answered or
    /// reported before.
    Stopped {
        /// Its slot.
        slot: Slot,
    },
    /// A delivery was refused by the entity's mailbox.
    Refused {
        /// Its slot.
        slot: Slot,
        /// The ask, if it was one.
        ask: Option<AskRef>,
        /// Why.
        reason: AskFailure,
    },
}
