//! What can go wrong with calls of the keyed store, each saying what became of the write.

use quorate_core::effect::CommandError;
use quorate_core::kv::state::outcome::CallError;

use super::bucket::{MANY_BYTES_MAX, MANY_KEYS_MAX};
use super::version::KvVersion;

/// Why a get failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KvGetError {
    /// Too few owners of the key have answered, or the level is none of the bucket's.
    #[error(transparent)]
    Failed(#[from] CallError),
    /// This node does not make the call: too many are open, for instance.
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// A value cannot be read as the handle's type: somebody wrote another one under this key.
    #[error("a value of the key cannot be decoded as this type")]
    Decode,
    /// The key has not 1 to 255 bytes.
    #[error("a key has 1 to 255 bytes")]
    BadKey,
    /// Of a get of many keys: those before it hold [`MANY_BYTES_MAX`] already. It was not read; ask for it
    /// again.
    #[error("the keys before it hold {MANY_BYTES_MAX} bytes already; ask for it again")]
    ManyBytes,
    /// The node has stopped.
    #[error("this node has stopped")]
    Stopped,
}

impl KvGetError {
    /// Whether too few owners answered within the time limit.
    #[must_use]
    pub const fn is_timeout(&self) -> bool {
        matches!(self, Self::Failed(CallError::Timeout { .. }))
    }
}

/// Why a put or a delete was not confirmed. [`Self::may_have_been_handled`] says whether it took place all
/// the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KvPutError {
    /// It was not confirmed as asked, or refused: the error says what became of it. What some owners have
    /// acknowledged is not undone: it stays and spreads.
    #[error(transparent)]
    Failed(#[from] CallError),
    /// This node does not make the call: too many are open, for instance. Nothing changed.
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// The value's `Serialize` failed. Nothing changed.
    #[error("the value cannot be serialised; nothing changed")]
    Encode,
    /// The key has not 1 to 255 bytes. Nothing changed.
    #[error("a key has 1 to 255 bytes; nothing changed")]
    BadKey,
    /// The node has stopped. The put may have taken place before.
    #[error("this node has stopped; the put may have taken place")]
    Stopped,
}

impl KvPutError {
    /// Whether too few owners confirmed it within the time limit.
    #[must_use]
    pub const fn is_timeout(&self) -> bool {
        matches!(self, Self::Failed(CallError::Timeout { .. }))
    }

    /// Whether it took place, or may yet. `false`: nothing changed.
    #[must_use]
    pub const fn may_have_been_handled(&self) -> bool {
        match self {
            Self::Failed(_) => self.is_timeout(),
            Self::Stopped => true,
            Self::Refused(_) | Self::Encode | Self::BadKey => false,
        }
    }
}

/// Why a get or a put of many keys was not begun: nobody was asked anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KvManyError {
    /// They are more keys than [`MANY_KEYS_MAX`].
    #[error("at most {MANY_KEYS_MAX} keys are read or put at once, not {found}")]
    Keys {
        /// How many.
        found: usize,
    },
    /// The values have more bytes than [`MANY_BYTES_MAX`] together.
    #[error("at most {MANY_BYTES_MAX} bytes are put at once")]
    Bytes,
}

/// Why a conditional put or delete did not take effect, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KvPutIfError {
    /// The key holds another version than was expected, and the put will never take effect.
    #[error("the key holds another version")]
    Conflict {
        /// The one it holds; `None`: it was never written, or its deletion was forgotten.
        present: Option<KvVersion>,
    },
    /// As for [`KvPutError`].
    #[error(transparent)]
    Put(#[from] KvPutError),
}

impl KvPutIfError {
    /// Whether too few owners confirmed it within the time limit.
    #[must_use]
    pub const fn is_timeout(&self) -> bool {
        match self {
            Self::Put(error) => error.is_timeout(),
            Self::Conflict { .. } => false,
        }
    }

    /// Whether it took effect, or may yet. `false`: it has none.
    #[must_use]
    pub const fn may_have_been_handled(&self) -> bool {
        match self {
            Self::Put(error) => error.may_have_been_handled(),
            Self::Conflict { .. } => false,
        }
    }
}
