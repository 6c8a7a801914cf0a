//! What an owner asks of whoever keeps its log, and what it is told. Types only.

use alloc::vec::Vec;

use crate::journal::protocol::JournalCommandError;
use crate::journal::state::{WriterEnd, WriterError};
use crate::store::{Bytes, Record, Sequence, Snapshot, StoreError};

/// What an owner asks of whoever keeps its log; answered once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRequest {
    /// Own it. Answered with [`LogOwner::on_claimed`](super::LogOwner::on_claimed), or with all there is at
    /// once: [`LogOwner::on_opened`](super::LogOwner::on_opened).
    Claim,
    /// The newest snapshot. Answered with [`LogOwner::on_snapshot`](super::LogOwner::on_snapshot).
    ReadSnapshot,
    /// Records from this one on, at least one if there is one. Answered with
    /// [`LogOwner::on_records`](super::LogOwner::on_records).
    Read {
        /// The first.
        from: Sequence,
    },
    /// Add records as one. Answered with [`LogOwner::on_appended`](super::LogOwner::on_appended) once they
    /// are durable.
    Append {
        /// The last record, as far as the owner knows.
        expected: Sequence,
        /// At least one.
        records: Vec<Bytes>,
        /// It makes the log shorter once it is there: a full log has some room for it.
        upkeep: bool,
    },
    /// Keep what all records amount to. Answered with [`LogOwner::on_kept`](super::LogOwner::on_kept).
    Keep {
        /// The last record.
        covers: Sequence,
        /// The state.
        state: Bytes,
    },
    /// Forget records. Answered with [`LogOwner::on_kept`](super::LogOwner::on_kept).
    Forget {
        /// The last of them.
        through: Sequence,
    },
    /// Own it no more: whatever was asked before is not waited for.
    Close,
}

/// A part of what a log holds, in the order in which it is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayedPart<'a> {
    /// The log, from its beginning: what was replayed before is void.
    Beginning,
    /// The newest snapshot.
    Snapshot(&'a Snapshot),
    /// A record behind it.
    Record(&'a Record),
}

impl<'a> ReplayedPart<'a> {
    /// What lies there; `None` at the beginning.
    #[must_use]
    pub const fn bytes(&self) -> Option<&'a Bytes> {
        match self {
            Self::Beginning => None,
            Self::Snapshot(snapshot) => Some(&snapshot.state),
            Self::Record(record) => Some(&record.bytes),
        }
    }
}

/// What a log holds is none of what its owner writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadableLog;

/// Takes what a log holds, one part after the other.
pub type Replay<'a> = dyn FnMut(ReplayedPart<'_>) -> Result<(), UnreadableLog> + 'a;

/// Why a request was not done: an owner has nothing else to decide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFault {
    /// Another owner has the log.
    Outdone {
        /// What was asked may have been done before.
        may_be_done: bool,
    },
    /// Not done: the log, or its store, is as large as it may be.
    Full,
    /// What is there is no log: nobody owns it.
    Damaged,
    /// Not done: a part of what is there fails its checksum, and is not given out.
    Corrupt,
    /// Done or not: only the answer to exactly the same tells.
    Unknown,
    /// Not done; ask later.
    Later,
    /// Not done, nor will it be.
    Never,
}

impl From<StoreError> for LogFault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Fenced { .. } | StoreError::SequenceConflict { .. } => {
                Self::Outdone { may_be_done: false }
            }
            StoreError::Full => Self::Full,
            StoreError::Corrupt => Self::Corrupt,
            StoreError::OutcomeUnknown => Self::Unknown,
            StoreError::Busy | StoreError::Unavailable => Self::Later,
            StoreError::NoStore | StoreError::TooLarge => Self::Never,
        }
    }
}

impl From<JournalCommandError> for LogFault {
    fn from(error: JournalCommandError) -> Self {
        match error {
            JournalCommandError::Closed | JournalCommandError::Ended(WriterEnd::Fenced { .. }) => {
                Self::Outdone { may_be_done: true }
            }
            JournalCommandError::NotOpen
            | JournalCommandError::Refused(WriterError::SequenceConflict { .. }) => {
                Self::Outdone { may_be_done: false }
            }
            JournalCommandError::Ended(WriterEnd::Damaged) => Self::Damaged,
            JournalCommandError::Refused(WriterError::Full) => Self::Full,
            JournalCommandError::TooMany
            | JournalCommandError::Refused(WriterError::NotOpen | WriterError::InFlight) => Self::Later,
            JournalCommandError::NotConfigured
            | JournalCommandError::BadName
            | JournalCommandError::Refused(WriterError::TooLarge) => Self::Never,
        }
    }
}

/// What an answer means to who owns a log, with what was being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogProgress<W> {
    /// Nothing: that was not waited for.
    Passed,
    /// The replay goes on with this.
    Ask(LogRequest),
    /// The log is this owner's, and all that it holds was replayed.
    Opened,
    /// This is durable.
    Appended(W),
    /// The snapshot is kept, or records are forgotten: there is room again.
    Trimmed,
    /// This was not written, and a snapshot makes room for it.
    Full(W),
    /// Surely not done, and the log is this owner's as before: what was to be written, unless it was a
    /// snapshot. A claim has ended.
    NotDone(Option<W>, LogFault),
    /// The same has to be asked once more, after a pause: [`LogOwner::again`](super::LogOwner::again).
    Again {
        /// It may be done already. If not, it can be taken back:
        /// [`LogOwner::take_back`](super::LogOwner::take_back).
        is_unknown: bool,
    },
    /// What the log holds is damaged: nothing is decided by it, and it is not this owner's until it is
    /// claimed anew.
    Damaged,
    /// Another owner has the log: whoever wants it claims it anew.
    Lost {
        /// What was being written.
        what: Option<W>,
        /// It may be in the log all the same.
        is_unknown: bool,
    },
}
