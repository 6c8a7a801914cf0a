//! What nodes say to each other about paths, what callers want, what users hear. Types only. Spec: sharding
//! 2.5, 5.4, 10.17.

pub mod counters;

use alloc::sync::Arc;
use core::time::Duration;

use crate::ident::UniqueAddress;
use crate::lane::{MessageTag, tags};
use crate::messaging::protocol::{AskReply, AskTicket};
use crate::paths::state::name::{PathId, PathName};
pub use crate::paths::state::settings::PathPick;
use crate::paths::state::settings::{PathSettings, PathSettingsError};
use crate::paths::state::table::PathEpoch;
use crate::planner::MoveError;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::Payload;
use crate::token::Token;

/// One message about paths between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Msg {
    /// About hand-offs, and to the leader.
    Statement(PathStatement),
    /// A message to an instance.
    Delivery(PathMessage),
    /// Behind a sender's last message to an old host.
    Mark(PathMark),
    /// A part of an instance's state.
    State(StateChunk),
    /// The answer to an ask.
    Reply(AskReply),
}

impl Msg {
    tags! {
        /// `Path`; unstable.
        PATH = 0x0150 on Control;
        /// `PathMessage`; unstable.
        PATH_MESSAGE = 0x0151 on User;
        /// `PathMark`; unstable.
        PATH_MARK = 0x0152 on User;
        /// `PathState`; unstable.
        PATH_STATE = 0x0153 on Bulk;
        /// `PathReply`; unstable.
        PATH_REPLY = 0x0154 on Reply;
    }

    /// The message's tag.
    #[must_use]
    pub const fn tag(&self) -> MessageTag {
        match self {
            Self::Statement(_) => Self::PATH,
            Self::Delivery(_) => Self::PATH_MESSAGE,
            Self::Mark(_) => Self::PATH_MARK,
            Self::State(_) => Self::PATH_STATE,
            Self::Reply(_) => Self::PATH_REPLY,
        }
    }

    /// The user's bytes in it.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Statement(_) | Self::Mark(_) => 0,
            Self::Delivery(delivery) => delivery.payload.len(),
            Self::State(chunk) => chunk.bytes.len(),
            Self::Reply(reply) => reply.result.as_ref().map_or(0, |payload| payload.len()),
        }
    }
}

/// Which move of which slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MoveRef {
    /// The path.
    pub path: PathId,
    /// The slot.
    pub slot: u16,
    /// The move.
    pub id: PathEpoch,
}

/// What one node says to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStatement {
    /// The incarnation that is meant; who speaks is the link's.
    pub to: UniqueAddress,
    /// What is said.
    pub body: PathBody,
}

/// What is said about paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathBody {
    /// Any node to the leader.
    Request {
        /// The asking node's number of the request; the answer carries it.
        number: u64,
        /// What is wanted.
        request: PathRequest,
    },
    /// The leader's answer.
    Answer {
        /// The number of the request.
        number: u64,
        /// Why not, if it is refused.
        refusal: Option<PathRefusal>,
    },
    /// Old host to new host: begin. Repeated until there is an answer.
    Init(MoveRef),
    /// New host to old host: it runs and takes messages.
    Ready(MoveRef),
    /// New host to old host: it cannot host the path.
    Failed(MoveRef),
    /// Old host to new host: the move is complete; handle messages. Repeated until acknowledged.
    Begin(MoveRef),
    /// New host to old host: it heard that.
    Begun(MoveRef),
    /// Old host to a sender: its mark is here.
    Marked(MoveRef),
    /// New host to old host: this sender's mark is here.
    ForwardMarked {
        /// The move.
        change: MoveRef,
        /// Whose mark.
        sender: UniqueAddress,
    },
    /// The leader to the old host: give the move up, if it is not complete.
    GiveUp(MoveRef),
    /// New host to old host: so many bytes of the state are here.
    StateReceived {
        /// The move.
        change: MoveRef,
        /// How many, from the start.
        bytes: u64,
    },
}

/// What a node wants of the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathRequest {
    /// A path with these settings. The asking node can run it if `hosts`.
    Register {
        /// The settings.
        settings: Arc<PathSettings>,
        /// Whether the asking node has its code.
        hosts: bool,
    },
    /// A path that is there is to have these settings.
    Change(Arc<PathSettings>),
    /// A path is to be removed, its instances stop.
    Remove(PathName),
    /// A slot is to move to this member.
    Move {
        /// Of which path.
        path: PathName,
        /// Which slot.
        slot: u16,
        /// To whom.
        to: UniqueAddress,
    },
}

/// Why the leader refuses something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathRefusal {
    /// The path is there with other settings: change them by command.
    #[error("the path is registered with other settings")]
    Differs,
    /// A path above or below it is there.
    #[error("the path {0} is registered, and one is above the other")]
    Overlaps(PathName),
    /// Another path has the same id: rename one of them.
    #[error("the path {0} has the same id on the wire")]
    SameId(PathName),
    /// The cluster has as many paths as it may have.
    #[error("the cluster has {limit} paths already", limit = crate::paths::state::settings::PATHS_MAX)]
    TooManyPaths,
    /// The slots of all paths together.
    #[error("the paths would have more than {limit} slots", limit = crate::paths::state::settings::SLOTS_MAX)]
    TooManySlots,
    /// The table would not fit into the gossip.
    #[error("the table of paths would take more bytes than fit beside the members in the gossip")]
    TooManyBytes,
    /// There is no such path.
    #[error("no path of this name is registered")]
    Unknown,
    /// A slot of the path moves; try again when it has.
    #[error("a slot of the path is being moved")]
    Moving,
    /// The move cannot be done.
    #[error(transparent)]
    Move(MoveError),
}

/// A message to an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathMessage {
    /// The path.
    pub path: PathId,
    /// Which instance.
    pub slot: u16,
    /// The counter of the slot's last move that the sender knows; 0 if none.
    pub known: u64,
    /// Whether the sender owes earlier hosts nothing: it never sent there, or they acknowledged its mark.
    pub is_first: bool,
    /// In a message that the old host passes on: who sent it.
    pub origin: Option<UniqueAddress>,
    /// Set if an answer is expected.
    pub ask: Option<AskTicket>,
    /// The user's bytes.
    pub payload: Payload,
}

/// A sender has sent its last message to the old host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathMark {
    /// The move.
    pub change: MoveRef,
    /// Where the old host passes it on: whose mark it is.
    pub origin: Option<UniqueAddress>,
}

/// A part of the state of an instance that moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChunk {
    /// The move.
    pub change: MoveRef,
    /// How many bytes there are in all.
    pub total: u64,
    /// Where this part begins.
    pub offset: u64,
    /// The part.
    pub bytes: Payload,
}

/// What a caller wants of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Register a path; this node hosts instances of it if `hosts`, and its members do if they have its role.
    /// Answered when the leader has accepted it.
    Register {
        /// With what.
        settings: PathSettings,
        /// Whether this node has its code.
        hosts: bool,
    },
    /// Change the settings of a path for the whole cluster. Slots that move keep their options.
    Change(PathSettings),
    /// Remove a path for the whole cluster.
    Remove(PathName),
    /// Move a slot.
    Move {
        /// Of which path.
        path: PathName,
        /// Which slot.
        slot: u16,
        /// To whom.
        to: UniqueAddress,
    },
}

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathCommandError {
    /// Settings that no path can have.
    #[error(transparent)]
    Settings(#[from] PathSettingsError),
    /// This node has too many requests open.
    #[error("too many commands about paths are open")]
    TooMany,
    /// The leader refuses it.
    #[error(transparent)]
    Refused(PathRefusal),
    /// No leader has answered in time: there is none, or the cluster does not converge.
    #[error("no leader has answered in time; it may still be done")]
    NoAnswer,
    /// A message that was not accepted: it was not handled.
    #[error(transparent)]
    NotAccepted(AskFailure),
}

/// Timers of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The earliest deadline of an open ask.
    AskDeadline,
    /// The leader looks whether something is to be planned.
    Plan,
    /// Say what was not answered once more: requests, marks, steps of hand-offs.
    Repeat,
    /// Write what has become of moves into the gossip.
    Write,
    /// More messages wait than one step may hand over.
    Flush,
    /// An instance that failed is started again.
    Restart(PathId, u16),
    /// The instance did not stop in time.
    StopLate(PathId, u16),
}

/// What happened to a path on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An instance was started here.
    Started {
        /// Which slot.
        slot: u16,
        /// Its token, above that of every earlier instance of the slot.
        token: Token,
    },
    /// An instance of this node has ended, as it was told to.
    Stopped {
        /// Which slot.
        slot: u16,
        /// Its token.
        token: Token,
    },
    /// An instance of this node ended by itself; another one is started after a while.
    Failed {
        /// Which slot.
        slot: u16,
        /// Its token.
        token: Token,
        /// After how long.
        restart_after: Duration,
    },
    /// This node, the leader, has decided a move.
    MoveBegun {
        /// Which slot.
        slot: u16,
        /// Who hosts it.
        from: Option<UniqueAddress>,
        /// Who is to host it.
        to: Option<UniqueAddress>,
    },
    /// A slot of this node is another member's now.
    MovedAway {
        /// Which slot.
        slot: u16,
        /// Whose; `None`: it was given up.
        to: Option<UniqueAddress>,
    },
    /// A move of a slot of this node was given up.
    MoveAborted {
        /// Which slot.
        slot: u16,
        /// Why.
        reason: AbortReason,
    },
    /// Members have not acknowledged a move for [`MARKS_REPORT_AFTER`]: messages go on being passed on.
    MarksMissing {
        /// Which slot.
        slot: u16,
        /// How many.
        members: usize,
    },
    /// This node is to host a slot and has not registered the path as its host.
    CodeMissing {
        /// Which slot.
        slot: u16,
    },
    /// The path's fault tolerance is not below the number of members that can host it, and counts as one
    /// less.
    ToleranceClamped {
        /// How many members can host it.
        members: u16,
    },
    /// A message without an asker was not handled.
    DeadLetter {
        /// Why.
        reason: AskFailure,
    },
}

/// Why a move was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbortReason {
    /// The new host was not ready in time.
    NotReady,
    /// The new host is no member any more.
    NewHostGone,
    /// The new host cannot host the path.
    CodeMissing,
    /// The state is larger than may be moved.
    StateTooLarge,
    /// The leader said so.
    ByLeader,
}

/// Requests of one node that may be open at once: as many as there can be paths.
pub const REQUESTS_MAX: usize = crate::paths::state::settings::PATHS_MAX;

/// How long marks may be missing before users hear of it (sharding 5.4).
pub const MARKS_REPORT_AFTER: Duration = Duration::from_secs(60);

/// What was wrong with a peer's message about paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// A step of a hand-off in which the sender has no part.
    #[error("the node has no part in the move")]
    NoPart,
    /// An answer to a request that was not made to the sender.
    #[error("the node was not asked")]
    NotAsked,
    /// A part of a state that is longer than may be moved, or beyond its end.
    #[error("the part of the state is out of place")]
    ChunkOutOfPlace,
    /// A message passed on after the new host opened its buffers for everybody.
    #[error("the old host passes on a message after its time")]
    ForwardedLate,
}
