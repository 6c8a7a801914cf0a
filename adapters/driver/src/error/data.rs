//! What can go wrong with reads and writes of replicated data, each saying what became of the write.

use quorate_core::ddata::protocol::{ReadError, WriteError};

/// Why a read failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DataReadError {
    /// The replicas said so, or too few of them answered.
    #[error(transparent)]
    Failed(#[from] ReadError),
    /// The key holds a value of another type than the handle's.
    #[error("the key holds a value of another type")]
    WrongType,
    /// An element cannot be read as the handle's type: somebody wrote another one under this key.
    #[error("an element of the value cannot be decoded as this type")]
    Decode,
    /// The key has not 1 to 255 bytes.
    #[error("a key has 1 to 255 bytes")]
    BadKey,
    /// This node has as many streams of changes as it may (`ddata.subscribers_max`).
    #[error("this node has too many change streams; raise `ddata.subscribers_max` or drop some")]
    TooManySubscribers,
    /// The node has stopped.
    #[error("this node has stopped")]
    Stopped,
}

impl DataReadError {
    /// Whether too few replicas answered within the time limit.
    #[must_use]
    pub const fn is_timeout(&self) -> bool {
        matches!(self, Self::Failed(ReadError::Timeout { .. }))
    }
}

/// Why a write was not confirmed. [`Self::may_have_been_handled`] says whether it took place all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DataWriteError {
    /// It was not confirmed as asked, or refused: the error says what became of it. A write that too few
    /// replicas confirmed in time is not undone: it stays and spreads.
    #[error(transparent)]
    Failed(#[from] WriteError),
    /// The element's `Serialize` failed. Nothing changed.
    #[error("the element cannot be serialised; nothing changed")]
    Encode,
    /// The key has not 1 to 255 bytes. Nothing changed.
    #[error("a key has 1 to 255 bytes; nothing changed")]
    BadKey,
    /// The node has stopped. The write may have taken place and spread before.
    #[error("this node has stopped; the write may have taken place")]
    Stopped,
}

impl DataWriteError {
    /// Whether too few replicas confirmed the write within the time limit.
    #[must_use]
    pub const fn is_timeout(&self) -> bool {
        matches!(self, Self::Failed(WriteError::Unconfirmed { .. }))
    }

    /// Whether the write took place, or may have, and spreads; a retry would then count twice. `false`:
    /// nothing changed.
    #[must_use]
    pub const fn may_have_been_handled(&self) -> bool {
        match self {
            Self::Failed(error) => error.may_have_been_handled(),
            Self::Stopped => true,
            Self::Encode | Self::BadKey => false,
        }
    }
}
