//! What a writer is told, what it wants done and what it says. Types only. Spec: sharding 10.7.

use alloc::sync::Arc;

use crate::journal::protocol::ReplicaRequest;
use crate::journal::state::{OpenedLog, StoreId, TokenClaim, WriterEnd};
use crate::store::{LogName, Sequence};

/// Which log is opened, where it lies, and within which bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterSettings {
    /// The log.
    pub log: LogName,
    /// All stores that vote, the same for every opener there ever is. A majority of them acknowledges.
    pub stores: Arc<[StoreId]>,
    /// Drawn for this opening: no other one has it.
    pub opener: u64,
    /// Which token it wants; it takes another one whenever that is refused, unless there is none.
    pub claim: TokenClaim,
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
    Ask(ReplicaRequest),
    /// The log is this writer's, and this is what it holds.
    Opened(OpenedLog),
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
    /// The log is nearly as large as it may be. Said once, and again after it was much smaller.
    NearlyFull {
        /// Bytes of the entries behind the newest snapshot.
        bytes: usize,
    },
    /// The token was refused: call [`super::LogWriter::take_again`], later from time to time, so that two who
    /// open do not refuse each other for ever.
    TakeAgain {
        /// How often it was refused.
        attempt: u32,
    },
    /// This replica contradicts itself: it is not heard any more in this opening.
    Nonsense(StoreId),
    /// It owns the log no more, or never will. What was being appended is in the log or not.
    Ended(WriterEnd),
}
