//! What the node tells its host to do. The host does all of it, in order.

use alloc::boxed::Box;
use alloc::vec::Vec;

pub use crate::ddata::protocol::Answer as DdataAnswer;
use crate::event::Event;
use crate::ident::UniqueAddress;
use crate::input::{SendTarget, Token};
pub use crate::journal::protocol::{Answer as JournalAnswer, JournalCommandError};
pub use crate::kv::protocol::{Answer as KvOutcome, KvCommandError};
use crate::lease::protocol::LeaseOrder;
pub use crate::membership::protocol::MembershipCommandError;
use crate::message::Message;
pub use crate::messaging::protocol::{HostOrder, HostedInstance};
use crate::owner::Requester;
pub use crate::paths::protocol::{PathCommandError, PathRefusal};
pub use crate::sharding::protocol::{
    AllocationNeed, AllocationQuestion, Answer as ShardingAnswer, RegionShutdown, ShardingCommandError,
};
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::Payload;
pub use crate::sharding::state::placement::PlacementToken;
pub use crate::singleton::protocol::{Answer as SingletonAnswer, SingletonCommandError, StopOutcome};
use crate::store::StoreRequest;
use crate::time::Instant;
use crate::timer::Timer;

/// What [`crate::node::Node::poll`] yields: work, or the permission to sleep.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Output {
    /// Do this, then poll again.
    Effect(Effect),
    /// Nothing to do until the given time (or the next input); `None` after the node has halted or before it
    /// began.
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
        to: SendTarget,
        /// What.
        message: Message,
    },
    /// Send a message on its lane if the queue to its receiver has room. Without room, give it back with
    /// [`DropReason::NoRoom`](crate::input::DropReason::NoRoom), and from then on whatever is sent or offered
    /// to entities at that address as well, and every [mark](crate::message::ShardMark), with whatever
    /// reason, until [`LinkEvent::Room`](crate::input::LinkEvent::Room) was said: what waits keeps its order.
    /// A host whose queues have no bound sends it.
    Offer {
        /// Whom to.
        to: SendTarget,
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
    /// Something for what runs here: entities of [`Requester::Sharding`], instances of
    /// [`Requester::Singleton`] and of [`Requester::Path`]. Each has slots of its own. The report
    /// carries the same owner.
    Host(Requester, HostOrder),
    /// Something for the keeper of a lease. The report carries the same owner.
    Lease(Requester, LeaseOrder),
    /// Something for the node's store; answered with [`crate::input::Input::Stored`] once it is durable.
    Store(Requester, StoreRequest),
    /// Ask the application where shards of a kind should be; answered with
    /// [`ShardingCommand::AnswerAllocation`](crate::input::ShardingCommand::AnswerAllocation). Only kinds
    /// with [`AllocationSettings::Asked`](crate::sharding::allocation::AllocationSettings::Asked) ask.
    Allocate(Box<AllocationQuestion>),
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
    /// What sharding found out.
    Sharding(ShardingAnswer),
    /// What the replicator did or found.
    Ddata(DdataAnswer),
    /// What became of a singleton.
    Singleton(SingletonAnswer),
    /// What became of a quorum log.
    Journal(JournalAnswer),
    /// What became of a call of the keyed store.
    Kv(KvOutcome),
}

impl Answer {
    /// What a quorum log of this node says to who has opened it. `None` where it says nothing: it is closed,
    /// or this node is finished; the others are no answers of a log.
    pub(crate) fn of_log(self) -> Option<Result<JournalAnswer, JournalCommandError>> {
        match self {
            Self::Journal(answer) => Some(Ok(answer)),
            Self::Refused(CommandError::Journal(error)) => Some(Err(error)),
            Self::Done
            | Self::Refused(_)
            | Self::Asked(_)
            | Self::Sharding(_)
            | Self::Ddata(_)
            | Self::Singleton(_)
            | Self::Kv(_) => None,
        }
    }
}

/// Why a command was refused. The caller's mistake, never the peer's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The node has halted.
    #[error("this node has stopped")]
    Stopped,
    /// Membership refused it.
    #[error(transparent)]
    Membership(MembershipCommandError),
    /// Sharding refused it.
    #[error(transparent)]
    Sharding(ShardingCommandError),
    /// Singletons refused it.
    #[error(transparent)]
    Singleton(SingletonCommandError),
    /// Quorum logs refused it.
    #[error(transparent)]
    Journal(JournalCommandError),
    /// Paths refused it.
    #[error(transparent)]
    Path(PathCommandError),
    /// The keyed store refused it.
    #[error(transparent)]
    Kv(KvCommandError),
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

impl core::fmt::Display for HaltReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Left => "it left gracefully",
            Self::Downed => "it was declared Down",
            Self::IncompatibleConfig => "seeds refused its configuration",
            Self::JoinAborted => "it could not join in time",
            Self::JoinRefused => "a member refused this incarnation for good",
            Self::Removed => "other members removed it without its knowledge",
        })
    }
}

/// Several effects at once, for tests and batch hosts.
pub type Effects = Vec<Effect>;
