//! What can be wrong with a path before anybody is asked.

use quorate_core::effect::{CommandError, PathCommandError};
use quorate_core::paths::state::name::{PathName, PathNameError};
use quorate_core::paths::state::settings::PathSettingsError;

/// Why a path cannot be as it is described. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The name is no path.
    #[error("`{path}`: {error}")]
    Name {
        /// The name.
        path: String,
        /// What is wrong.
        error: PathNameError,
    },
    /// Settings that no path can have.
    #[error(transparent)]
    Settings(PathSettingsError),
    /// Its options move the state of its instances, and these have none: use `start_stateful`.
    #[error("the state of instances of `{path}` is moved; start them with `start_stateful`")]
    WithoutState {
        /// The path.
        path: String,
    },
    /// Its slots have a durable mailbox, which only
    /// [`InstancesBuilder::start_mailbox`](crate::InstancesBuilder::start_mailbox) serves.
    #[error("slots of `{path}` have a durable mailbox: host it with `start_mailbox`")]
    WithMailbox {
        /// The path.
        path: String,
    },
    /// The settings are those of another path.
    #[error("these are the settings of the path {path}")]
    OtherPath {
        /// Whose they are.
        path: PathName,
    },
}

/// Whether it was not refused: nobody has answered.
pub(super) const fn has_no_answer(error: &CommandError) -> bool {
    matches!(error, CommandError::Path(PathCommandError::NoAnswer))
}
