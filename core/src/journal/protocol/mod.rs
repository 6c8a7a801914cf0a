//! What voters and owners of quorum logs say and hear: messages between nodes, commands, timers, events,
//! refusals. Types only. Spec: sharding 10.7, 10.16.

pub mod counters;
mod requests;

use alloc::sync::Arc;
use alloc::vec::Vec;

pub use self::requests::{
    ENTRIES_MAX, LOG_NAME_BYTES_MAX, NUMBER_MAX, PARTS_MAX, POSITION_END, REQUEST_BYTES_MAX, ReplicaAnswer,
    ReplicaAsk, ReplicaPage, ReplicaReply, ReplicaRequest, SNAPSHOT_BYTES_MAX, TERM_STEP,
};
pub use super::state::VOTERS_MAX;
use super::state::{OpenedLog, StoreId, TokenClaim, Voters, WriterEnd, WriterError};
use crate::ident::UniqueAddress;
use crate::lane::{MessageTag, tags};
use crate::store::{Bytes, LogName, Sequence};
use crate::token::Token;

/// One message of the quorum logs between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Msg {
    /// Who votes.
    Voter(VoterMsg),
    /// An owner to a replica.
    Request(ReplicaRequest),
    /// A replica to an owner.
    Reply(ReplicaReply),
}

impl Msg {
    tags! {
        /// `JournalVoter`; unstable.
        VOTER = 0x0120 on Control;
        /// `JournalRequest`; unstable.
        REQUEST = 0x0121 on Bulk;
        /// `JournalReply`; unstable.
        REPLY = 0x0122 on Bulk;
    }

    /// The message's tag.
    #[must_use]
    pub const fn tag(&self) -> MessageTag {
        match self {
            Self::Voter(_) => Self::VOTER,
            Self::Request(_) => Self::REQUEST,
            Self::Reply(_) => Self::REPLY,
        }
    }

    /// The user's bytes in it.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Voter(_) => 0,
            Self::Request(request) => request.payload_bytes(),
            Self::Reply(reply) => reply.payload_bytes(),
        }
    }
}

/// What one node says to another about who votes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoterMsg {
    /// The incarnation that is meant; who speaks is the link's.
    pub to: UniqueAddress,
    /// What is said.
    pub body: VoterBody,
}

/// What is said about who votes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoterBody {
    /// This is my store, and these are the voters that I know of.
    Introduction {
        /// Whether the sender wants to know the same of the receiver.
        asks: bool,
        /// The sender's store, if it has one.
        store: Option<StoreId>,
        /// The voters that it has agreed to, or knows to be settled.
        voters: Option<Voters>,
    },
    /// The oldest member to each of these: keep for ever that these are the voters, unless you have kept
    /// others. Answered with an introduction.
    Elect {
        /// All of them, ascending.
        stores: Arc<[StoreId]>,
    },
}

/// What a caller wants of quorum logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Own a log. Answered with [`Answer::Opened`] once it is this owner's, which may take until a majority
    /// of the stores can be reached. Whoever owned it on this node before has ended.
    Open {
        /// The log.
        log: LogName,
        /// Drawn for this opening: no other one, of any node, has it.
        opener: u64,
        /// Which token the owner wants.
        claim: TokenClaim,
    },
    /// Add records as one. Answered with [`Answer::Appended`] once a majority has them; repeated until then.
    Append {
        /// The log.
        log: LogName,
        /// Who has opened it.
        opener: u64,
        /// The last record, as far as the owner knows.
        expected: Sequence,
        /// At least one.
        records: Vec<Bytes>,
        /// It makes the log shorter, as what is written anew so that what stands before it can be forgotten:
        /// a full log has room for it, a quarter of `journal.log_bytes_max` more.
        upkeep: bool,
    },
    /// Keep what all records amount to, in place of them. Answered with [`Answer::Kept`].
    Keep {
        /// The log.
        log: LogName,
        /// Who has opened it.
        opener: u64,
        /// The last record.
        covers: Sequence,
        /// The state.
        state: Bytes,
    },
    /// Forget records, and the snapshot with them; see [`crate::journal::writer::LogWriter::forget`].
    /// Answered with [`Answer::Kept`].
    Forget {
        /// The log.
        log: LogName,
        /// Who has opened it.
        opener: u64,
        /// The last record to forget.
        through: Sequence,
    },
    /// Own it no more; what waits for an answer is refused.
    Close {
        /// The log.
        log: LogName,
        /// Who has opened it, or wants to.
        opener: u64,
    },
}

/// What quorum logs answer a command with, beyond that it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The log, as its owner finds it.
    Opened(OpenedLog),
    /// The records are durable.
    Appended {
        /// The last of them.
        last: Sequence,
    },
    /// The snapshot is durable, or the records are forgotten.
    Kept,
}

/// Why a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalCommandError {
    /// `journal.voters` is 0 on this node.
    #[error("the nodes' stores keep no logs together; set `journal.voters` above 0")]
    NotConfigured,
    /// The name is empty or too long.
    #[error("a log's name must have 1 to 960 bytes")]
    BadName,
    /// This node owns as many logs as it may.
    #[error("this node owns too many logs")]
    TooMany,
    /// It is not open here for this owner. Nothing was done.
    #[error("the log is not open here")]
    NotOpen,
    /// It was closed, or opened by somebody else on this node, before this was answered. What was being
    /// appended is there or not.
    #[error("the log was closed here")]
    Closed,
    /// Not done.
    #[error(transparent)]
    Refused(WriterError),
    /// The log is lost to this owner. What was being appended is there or not.
    #[error(transparent)]
    Ended(WriterEnd),
}

/// Timers of quorum logs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Ask members who they are, and have the voters agree.
    Introduce,
    /// Ask the replicas of a log again that have not answered.
    Repeat(LogName),
    /// Take another token for a log.
    TakeAgain(LogName),
}

/// What happened to quorum logs on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// All voters have agreed for good on who they are, or this node has heard of it. Logs can be opened.
    Settled {
        /// How many they are.
        voters: usize,
        /// Whether this node's store is one of them.
        votes: bool,
    },
    /// Another node holds other voters than this one: stores of two clusters meet, or the first voters were
    /// chosen twice. Logs of the two are different logs.
    Conflict {
        /// Who.
        node: UniqueAddress,
    },
    /// This many stores vote, and the setting says another number. The number of voters stays what it was.
    OtherNumber {
        /// How many vote.
        held: usize,
        /// What the setting says.
        configured: usize,
    },
    /// What the store holds about the voters, or of a log, fails its checksum: this node does not vote about
    /// it.
    Damaged,
    /// A log that this node owns has four fifths of the bytes that it may have. Said once, and again after it
    /// had less than half.
    NearlyFull {
        /// The log.
        log: LogName,
        /// Bytes behind its newest snapshot.
        bytes: usize,
        /// The setting.
        bytes_max: usize,
    },
    /// Somebody else owns a log that this node owned, or tried to own.
    Fenced {
        /// The log.
        log: LogName,
        /// Its owner's token.
        held: Token,
    },
}

/// What is wrong with a request or an answer. Catalogue: reliability 3c.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// A name, number, count or size that no owner can have sent.
    #[error("a request to a log is out of range")]
    OutOfBounds,
    /// The store that is meant is not the receiver's, or the one that speaks is not the sender's.
    #[error("the message is about a log in another store")]
    OtherStore,
    /// A replica says what cannot follow what it said before.
    #[error("an answer about a log contradicts itself")]
    Nonsense,
    /// Voters that this node's settings do not want.
    #[error("the voters have another number, or do not include this store")]
    BadVoters,
}
