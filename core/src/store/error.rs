//! Why a store did not do what it was asked. Says for each whether it may have been done after all.

use super::Sequence;
use crate::token::Token;

/// Why an order was not done. See [`StoreError::is_refusal`] and [`StoreError::may_have_been_done`]: an owner
/// has nothing else to decide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// This node has no store.
    #[error("this node has no store")]
    NoStore,
    /// Too much is waiting for the store already. Not done; ask later.
    #[error("too many requests wait for the store; the request was not done")]
    Busy,
    /// There is no room. Not done; what is there can be read, and writing goes on once there is room again.
    #[error("the store is full; the request was not done")]
    Full,
    /// The store is being opened again, or cannot be reached. Not done; ask later.
    #[error("the store is unavailable; the request was not done")]
    Unavailable,
    /// It failed while it was being made durable: all of it is there or nothing. Read it back, or repeat
    /// exactly the same.
    #[error("the store failed; the request may have been done")]
    OutcomeUnknown,
    /// A key, value, name, record or batch is beyond its limit, or a batch without records. Not done.
    #[error("the request exceeds a limit of the store; it was not done")]
    TooLarge,
    /// Somebody with a higher token owns it now, or a token was not opened with. Not done: the owner stops.
    #[error("refused: it is owned with token {held}")]
    Fenced {
        /// The token that owns it.
        held: Token,
    },
    /// The log does not end where the owner believes. Not done: the owner stops.
    #[error("refused: the log ends at {last}")]
    SequenceConflict {
        /// The log's last record.
        last: Sequence,
    },
    /// What is there fails its checksum, and is not given out. What else is there can be read.
    #[error("the stored data is damaged")]
    Corrupt,
}

impl StoreError {
    /// Whether another owner has taken over: who gets this stops at once and tells nobody anything any more.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        match self {
            Self::Fenced { .. } | Self::SequenceConflict { .. } => true,
            Self::NoStore
            | Self::Busy
            | Self::Full
            | Self::Unavailable
            | Self::OutcomeUnknown
            | Self::TooLarge
            | Self::Corrupt => false,
        }
    }

    /// Whether it may be durable although nobody said so.
    #[must_use]
    pub const fn may_have_been_done(self) -> bool {
        match self {
            Self::OutcomeUnknown => true,
            Self::NoStore
            | Self::Busy
            | Self::Full
            | Self::Unavailable
            | Self::TooLarge
            | Self::Fenced { .. }
            | Self::SequenceConflict { .. }
            | Self::Corrupt => false,
        }
    }
}
