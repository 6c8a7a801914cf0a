//! What a host tells the node: time, bytes, link changes, commands and what entities did.

use crate::admission::PeerProof;
pub use crate::ddata::protocol::Command as DdataCommand;
use crate::ident::{Address, UniqueAddress};
pub use crate::journal::protocol::Command as JournalCommand;
pub use crate::kv::protocol::Command as KvCommand;
use crate::lease::protocol::LeaseReport;
pub use crate::load::protocol::{LoadMeasure, PartMeasure};
pub use crate::membership::protocol::{Command as MembershipCommand, DownTarget};
use crate::message::{Lane, Message};
pub use crate::messaging::protocol::{Command as MessageCommand, HostReport, Recipient};
use crate::owner::Requester;
pub use crate::paths::protocol::Command as PathCommand;
pub(crate) use crate::sharding::protocol::StoreAsk;
pub use crate::sharding::protocol::{Command as ShardingCommand, KindSettings};
use crate::sharding::state::ids::Payload;
pub use crate::singleton::protocol::{Command as SingletonCommand, SingletonSettings};
use crate::store::StoreReport;

/// The caller's name for a command; the node's answer carries it. Never reused by the host while it is open.
pub type Token = u64;

/// Who gave a command, and is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The host, for somebody outside.
    Host(Token),
    /// Sharding of this node.
    Sharding(StoreAsk),
    /// The keyed store of this node, about a log that it has opened under this number.
    Kv(u64),
}

impl From<Token> for Caller {
    fn from(token: Token) -> Self {
        Self::Host(token)
    }
}

/// One input. Every input runs to completion; nothing blocks, nothing panics on peer data.
#[derive(Debug)]
pub enum Input<'a> {
    /// Time has passed: due timers fire.
    Tick,
    /// The body of a checked frame from the peer of an established link (its checksum, length and epoch are
    /// already verified by [`crate::wire::decode_frame`]).
    Frame {
        /// The link's peer, as fixed by the handshake.
        from: &'a UniqueAddress,
        /// What the link that the frame came over has proved of it, for the admission policy. Never looked at
        /// otherwise.
        proof: PeerProof<'a>,
        /// The frame's lane.
        lane: Lane,
        /// The frame's message kind.
        kind: u16,
        /// The frame's body.
        body: &'a [u8],
    },
    /// A message of a node of the same program, handed over as it is: nothing is encoded or decoded, and no
    /// limit of a frame is looked at. It has proved nothing ([`PeerProof::Nothing`]). A simulator of many
    /// nodes shares states like that.
    Message {
        /// The node that sent it.
        from: &'a UniqueAddress,
        /// What it sent.
        message: Message,
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
    /// A message that expects no answer: the hot path has no token. One that cannot be handled is a dead
    /// letter.
    Tell {
        /// Whom it is for.
        to: Recipient,
        /// The bytes.
        payload: Payload,
    },
    /// The host of entities, or of singletons' instances, reports.
    Host(Requester, HostReport),
    /// The keeper of a lease reports to who asked for it.
    Lease(Requester, LeaseReport),
    /// The node's store answers a request of [`crate::effect::Effect::Store`].
    Stored(Requester, StoreReport),
    /// The host has measured the load of its process, as it does every
    /// [`load.interval`](crate::config::LoadConfig::interval). One that never does takes no part in what is
    /// decided by load.
    Load(LoadMeasure),
}

/// What happened to the links to a peer.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkEvent {
    /// A message was addressed to an incarnation that is not at its address any more.
    WrongIncarnation {
        /// Who was meant.
        expected: UniqueAddress,
        /// Who answered.
        found: UniqueAddress,
    },
    /// This node refuses a peer from now on, because it broke the protocol too often.
    Quarantined {
        /// Who.
        peer: UniqueAddress,
    },
    /// A peer refuses this very incarnation for good.
    QuarantinedBy {
        /// Who.
        peer: UniqueAddress,
    },
    /// The links to this peer are gone, or the one for entity messages; what was on the way is lost. Not said
    /// of a control link while entity messages go to the peer over a link that is open: nothing is known to
    /// be lost then.
    Down {
        /// The incarnation.
        peer: UniqueAddress,
    },
    /// The host gives a message back that it has not sent, not even in part: whoever waits for an answer
    /// hears that it was not handled. What waited for a link comes back before that link's
    /// [`LinkEvent::Down`], after which the node takes everything else for lost.
    Dropped {
        /// Whom it was for.
        to: SendTarget,
        /// The message, so that it is accounted for.
        message: Message,
        /// Why.
        reason: DropReason,
    },
    /// The queue to this address, which had no room for something [offered](crate::effect::Effect::Offer),
    /// has room again. Said once, behind everything that came back because of it.
    Room {
        /// Where to.
        to: Address,
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
    /// It was only offered, and the queue to the peer has no room for it at the moment. [`LinkEvent::Room`]
    /// follows.
    NoRoom,
}

/// Whom a message is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SendTarget {
    /// Whoever listens there: used before the incarnation is known.
    Address(Address),
    /// Exactly this incarnation.
    Node(UniqueAddress),
}

impl SendTarget {
    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> &Address {
        match self {
            Self::Address(address) => address,
            Self::Node(node) => node.address(),
        }
    }
}

/// What a caller wants. Each command is answered once, by [`crate::effect::Effect::Reply`].
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// A message to an entity, a singleton or an instance of a path.
    Message(MessageCommand),
    /// Of membership.
    Membership(MembershipCommand),
    /// Of sharding.
    Sharding(ShardingCommand),
    /// Of the replicator.
    Ddata(DdataCommand),
    /// Of singletons.
    Singleton(SingletonCommand),
    /// Of quorum logs.
    Journal(JournalCommand),
    /// Of paths.
    Path(PathCommand),
    /// Of the keyed store.
    Kv(KvCommand),
}
