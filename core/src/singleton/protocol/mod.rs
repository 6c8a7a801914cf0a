//! What managers, proxies and voters of singletons say and hear: messages between nodes, commands, orders to
//! the host of the instances, timers, events. Types only. Spec: sharding 2.2, 10.7.

pub mod counters;

use alloc::sync::Arc;
use core::time::Duration;

use crate::ident::{Role, UniqueAddress};
use crate::lane::{MessageTag, tags};
use crate::messaging::protocol::{AskReply, AskTicket};
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::fields::FieldDifferences;
use crate::sharding::state::ids::Payload;
use crate::singleton::state::SingletonId;
use crate::token::Token;

/// One message of the singletons between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Msg {
    /// Between managers, proxies and voters.
    Statement(SingletonStatement),
    /// A message to an instance.
    Delivery(InstanceMessage),
    /// The answer to an ask.
    Reply(AskReply),
}

impl Msg {
    tags! {
        /// `Singleton`; unstable.
        SINGLETON = 0x0110 on Control;
        /// `SingletonMessage`; unstable.
        SINGLETON_MESSAGE = 0x0111 on User;
        /// `SingletonReply`; unstable.
        SINGLETON_REPLY = 0x0112 on Reply;
    }

    /// The message's tag.
    #[must_use]
    pub const fn tag(&self) -> MessageTag {
        match self {
            Self::Statement(_) => Self::SINGLETON,
            Self::Delivery(_) => Self::SINGLETON_MESSAGE,
            Self::Reply(_) => Self::SINGLETON_REPLY,
        }
    }

    /// The user's bytes in it.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Statement(_) => 0,
            Self::Delivery(delivery) => delivery.payload.len(),
            Self::Reply(reply) => reply.result.as_ref().map_or(0, |payload| payload.len()),
        }
    }
}

/// What one node says to another about a singleton.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SingletonStatement {
    /// The singleton.
    pub singleton: SingletonId,
    /// The incarnation that is meant; who speaks is the link's.
    pub to: UniqueAddress,
    /// Who asks counts its questions; the answer carries the number of the question.
    pub epoch: u64,
    /// What is said.
    pub body: SingletonBody,
}

/// What is said about a singleton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingletonBody {
    /// Manager: I am the oldest now; stop your instance, then let me begin.
    HandOverToMe,
    /// The answer: my instance is told to stop.
    HandOverInProgress,
    /// The answer: nothing runs here.
    HandOverDone {
        /// The highest term that the answering node knows of.
        term: u64,
    },
    /// Manager: you are the oldest now; ask me.
    TakeOverFromMe,
    /// Proxy to the member where the instance should be: is it there?
    Identify,
    /// The answer: it is.
    Identified {
        /// Which instance.
        token: Token,
    },
    /// To who has identified it: this instance takes nothing any more.
    Gone {
        /// Which instance.
        token: Token,
    },
    /// Manager to every member that votes: I want to give out tokens of this term.
    Claim {
        /// The term.
        term: u64,
    },
    /// The answer: from now on I refuse every lower one.
    Promised {
        /// The term.
        term: u64,
    },
    /// The answer: I have promised a higher one, or this one to another node.
    Refused {
        /// The highest term promised.
        held: u64,
    },
}

/// A message to an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceMessage {
    /// The singleton.
    pub singleton: SingletonId,
    /// Exactly this instance; its successors do not take it.
    pub token: Token,
    /// Set if an answer is expected.
    pub ask: Option<AskTicket>,
    /// The user's bytes.
    pub payload: Payload,
}

/// What a caller wants of singletons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Host or reach a singleton. Registered again as it is, nothing happens; a node that only reached it may
    /// host it.
    Register(SingletonSettings),
    /// This node hosts it no more, until it registers it again as a host: its instance, if it has one,
    /// handles what is in its mailbox and stops. Answered with [`Answer::Stopped`], exactly once. No other
    /// node begins while this one stays the oldest member of the role.
    Stop {
        /// The singleton.
        singleton: SingletonId,
        /// How long the instance may take before it is killed (1 ms to 24 h; clamped).
        timeout: Duration,
    },
    /// Something that the instance of this node writes to has refused its token, because it holds this one or
    /// has seen it: the instance is ended, and the next one, here or elsewhere, has a higher term. Answered
    /// once that is known; nothing is ended if the instance has a higher token.
    ///
    /// Without this a cluster whose nodes have no store, and that was restarted as a whole, would begin at
    /// the first term for ever, while a database remembers higher ones.
    TokenRefused {
        /// The singleton.
        singleton: SingletonId,
        /// The token that is held.
        held: Token,
    },
}

/// What singletons answer a command with, beyond that it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What a stop has come to.
    Stopped(StopOutcome),
}

/// What became of an instance that this node was to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopOutcome {
    /// There was none on this node.
    NothingRan,
    /// It handled what it had and stopped.
    Stopped,
    /// It did not stop in time and was killed, or its token was void; it has ended.
    Killed,
    /// It was killed and has not ended: its handler blocks its thread. When it ends nothing is said but the
    /// event.
    StillRuns,
}

/// Why a command was refused. The caller's mistake, never the peer's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SingletonCommandError {
    /// The name is empty or longer than 255 bytes.
    #[error("the singleton's name must have 1 to 255 bytes")]
    BadName,
    /// In the cluster, or in an earlier registration on this node, it has other fields.
    #[error("the singleton differs from the cluster's: {difference}")]
    Differs {
        /// What differs, with both values.
        difference: FieldDifferences,
    },
    /// It is being registered already.
    #[error("the singleton is being registered by another call")]
    RegistrationPending,
    /// This node or the cluster has as many as it may have.
    #[error("too many singletons are registered")]
    TooMany,
    /// A node without the role cannot host; it may reach the singleton.
    #[error("this node lacks the role that hosts the singleton")]
    RoleMissing,
    /// This node is on its way out.
    #[error("this node is leaving and hosts nothing new")]
    Leaving,
    /// This node does not host it.
    #[error("this node does not host the singleton")]
    NotHosted,
    /// It is being stopped on this node, and its instance has not ended.
    #[error("the singleton is being stopped on this node")]
    Stopping,
    /// A token that no instance can have had.
    #[error("no instance of a singleton can have had this token")]
    TokenOutOfRange,
    /// It runs under a lease, and this node has no lease keeper. Said by the host.
    #[error("the singleton needs a lease, and this node has no lease keeper; set one with `leases`")]
    NoLeaseKeeper,
    /// A message that was not accepted: it was not handled.
    #[error(transparent)]
    NotAccepted(AskFailure),
}

/// A singleton on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SingletonSettings {
    /// Its name, 1 to 255 bytes. The same on every node.
    pub name: Arc<str>,
    /// The oldest member with this role hosts it; of all members if `None`. The same on every node.
    pub role: Option<Role>,
    /// Whether this node may host it (it must have the role) or only reaches it.
    pub hosts: bool,
    /// Whether an instance runs only while this node holds the lease `<cluster>-singleton-<name>`. The same
    /// on every node that hosts.
    pub lease: bool,
    /// Whether what it holds is kept in the store: the jobs of a durable work queue; `false` for any other
    /// singleton. Changes nothing here. The same on every node that hosts.
    pub durable: bool,
}

/// Timers of singletons.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The earliest deadline of an open ask.
    AskDeadline,
    /// Ask for the hand-over, or to be asked, once more.
    Retry(SingletonId),
    /// Ask for the lease once more.
    Lease(SingletonId),
    /// Ask those for the term who have not promised it.
    Claim(SingletonId),
    /// An instance that failed is started again.
    Restart(SingletonId),
    /// The instance did not stop in time.
    StopLate(SingletonId),
    /// Ask once more where the instance is.
    Identify(SingletonId),
    /// More messages wait than one step may send.
    Flush(SingletonId),
}

/// What happened to a singleton on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// This node hosts it from now on, and the cluster's downing strategy lets both sides of a partition go
    /// on: each may run an instance. The fencing tokens decide whose writes count, where what is written to
    /// looks at them; a lease keeps one of the sides from it.
    MayRunTwice {
        /// The strategy.
        strategy: &'static str,
    },
    /// It has other fields in the cluster: this node neither hosts nor reaches it, until all who have them
    /// are gone.
    Refused {
        /// What differs.
        difference: FieldDifferences,
    },
    /// This node is the oldest member of the cluster, and refused the one of another node, because its fields
    /// differ from what stands.
    RefusedOn {
        /// The other one.
        node: UniqueAddress,
        /// What differs; "ours" is that node's.
        difference: FieldDifferences,
    },
    /// An instance was started here.
    Started {
        /// Its token, above that of every earlier instance.
        token: Token,
    },
    /// The instance of this node has ended, as it was told to.
    Stopped {
        /// Its token.
        token: Token,
    },
    /// The instance of this node ended by itself; another one is started after a while.
    Failed {
        /// Its token.
        token: Token,
        /// After how long.
        restart_after: Duration,
    },
    /// The instance did not stop in time and is killed. Its successor waits until it has ended.
    StopTimeout {
        /// Its token.
        token: Token,
    },
    /// Another node took a higher term, or something that it writes to holds one: this instance's token is
    /// void, and it is ended.
    Superseded {
        /// Its token.
        token: Token,
        /// The higher term.
        term: u64,
    },
    /// No term is left for an instance: a store holds one that no cluster can have taken. Nothing begins here
    /// before an operator has mended that (`docs/limits.md`) and this node has been started anew.
    TermsUsedUp,
    /// The instance's work is another node's now.
    HandedOver {
        /// Whose.
        to: UniqueAddress,
    },
    /// The lease was lost; the instance is stopped.
    LeaseLost,
    /// Nobody answered for too long, and nobody is known to be gone: the hand-over begins anew.
    HandOverStuck,
    /// A message without an asker was not handled.
    DeadLetter {
        /// Why.
        reason: AskFailure,
    },
}

/// What was wrong with a peer's message to a singleton. Catalogue: reliability 3c.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The answer to a question that is not open.
    #[error("the answer is of an earlier epoch")]
    StaleEpoch,
    /// A term that no node can have taken.
    #[error("the term is out of range")]
    TermOutOfRange,
}
