//! What can go wrong with commands to daemons.

use quorate_core::daemons::DAEMONS_MAX;

use super::AskError;

/// Why a command to daemons failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonsError {
    /// A change is under way already: ask again later.
    #[error("the number of daemons is already being changed; try again later")]
    InProgress,
    /// The number is not 1 to [`DAEMONS_MAX`].
    #[error("the number of daemons must be 1 to {DAEMONS_MAX}")]
    Count,
    /// No majority of the members was told in time: the change may take place all the same.
    #[error("no majority of the members confirmed the change in time; it may still take effect")]
    NoMajority,
    /// Whoever sees to them has not answered. A change that was asked for may have begun, and goes on then.
    #[error("the daemon manager did not answer: {0}")]
    Failed(#[from] AskError),
}

impl DaemonsError {
    /// Whether no answer came within the time limit.
    #[must_use]
    pub const fn is_timeout(self) -> bool {
        match self {
            Self::Failed(error) => error.is_timeout(),
            Self::NoMajority => true,
            Self::InProgress | Self::Count => false,
        }
    }

    /// Whether the change may take effect all the same. `false`: nothing changes.
    #[must_use]
    pub const fn may_have_been_handled(self) -> bool {
        match self {
            Self::Failed(error) => error.may_have_been_handled(),
            Self::NoMajority => true,
            Self::InProgress | Self::Count => false,
        }
    }
}
