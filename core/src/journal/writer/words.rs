//! What a writer is told, what it wants done and what it says. Types only. Spec: sharding 10.7.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::journal::protocol::Request;
use crate::journal::state::StoreId;
use crate::store::{LogName, Record, Sequence, Snapshot};
use crate::token::Token;

/// Which log is opened, where it lies, and within which bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterSettings {
    /// The log.
    pub log: LogName,
    /// All stores that vote, the same for every opener there ever is. A majority of them acknowledges.
    pub stores: Arc<[StoreId]>,
    /// Drawn for this opening: no other one has it.
    pub opener: u64,
    /// The token to open with: refused, the opening has failed. `None`: the writer takes the largest that it hears of plus one,
    /// and again whenever that is refused.
    pub token: Option<Token>,
    /// How much it sends at once and keeps.
    pub bounds: WriterBounds,
}

/// How much a writer sends at once, and how large its log may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterBounds {
    /// Bytes of one request to a replica, but for its first entry; a part of a snapshot.
    pub page_bytes: usize,
    /// Bytes of one append.
    pub append_bytes_max: usize,
    /// Bytes of the entries behind the newest snapshot: as much as the next opening reads and writes back.
    pub log_bytes_max: usize,
    /// How often a token is taken again before the opening has failed.
    pub attempts_max: u32,
}

/// What the writer wants done, and what it has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriterOutput {
    /// Send this to the node of the store that it names. It may be lost.
    Ask(Request),
    /// The log is this writer's, and this is what it holds.
    Opened(Opened),
    /// A majority has the records durably.
    Appended {
        /// The last of them.
        last: Sequence,
    },
    /// A majority has the snapshot durably, and no entries that it covers.
    Kept {
        /// The last record that it covers.
        covers: Sequence,
    },
    /// The token was refused: call [`super::Writer::take_again`], later from time to time, so that two who open do not refuse each
    /// other for ever.
    TakeAgain {
        /// How often it was refused.
        attempt: u32,
    },
    /// This replica contradicts itself: it is not heard any more in this opening.
    Nonsense(StoreId),
    /// It owns the log no more, or never will. What was being appended is in the log or not.
    Ended(WriterEnd),
}

/// Why a writer has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriterEnd {
    /// Somebody else has the log.
    #[error("refused: token {held} owns the log")]
    Fenced {
        /// The token that owns it.
        held: Token,
    },
    /// What a majority holds cannot have been written by owners of one log.
    #[error("what a majority holds is no log")]
    Damaged,
}

/// What was found when a log was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The owner's token.
    pub token: Token,
    /// The newest snapshot.
    pub snapshot: Option<Snapshot>,
    /// The records behind it, without a gap, each with the token of who appended it.
    pub records: Vec<Record>,
    /// The last record there ever was.
    pub last: Sequence,
}

/// Why a writer does not do what it is told. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriterError {
    /// It is not open yet, or has ended.
    #[error("the log is not open")]
    NotOpen,
    /// What was told before is not acknowledged yet.
    #[error("an earlier one is not acknowledged yet")]
    InFlight,
    /// The log does not end there.
    #[error("the log ends at {last}")]
    SequenceConflict {
        /// The log's last record.
        last: Sequence,
    },
    /// Nothing to append, too many records, or too many bytes.
    #[error("the append or the snapshot is beyond a limit, or without a record")]
    TooLarge,
    /// The log is as large as it may be: a snapshot has to be kept first.
    #[error("the log is as large as it may be; a snapshot has to be kept first")]
    Full,
}
