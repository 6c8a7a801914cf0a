//! A node's end in phases, with the application's tasks in them: see `docs/shutdown.md`. Decides nothing: the
//! order is the core's (`quorate_core::shutdown`). Spec: membership 2.9, shutdown of Akka.

mod life;
mod tasks;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use quorate_core::shutdown::ShutdownPhase;

use crate::error::Termination;

pub use crate::signals::{ShutdownSignal, shutdown_signal};
pub(crate) use life::{Life, ShutdownNext};
pub(crate) use tasks::{RegisteredTask, RunningTask, TaskOutcome, boxed};

/// The most tasks that a node may have in all its phases together, and the most callbacks of each kind. Far
/// more than the parts of an application: one per request is a mistake.
pub const SHUTDOWN_TASKS_MAX: usize = 1_024;

/// Why a task or a callback was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The phase has begun or is over, or the node ends at once: the task would never run.
    #[error("the phase {phase} has begun or is over; the task was not added")]
    TooLate {
        /// The phase.
        phase: ShutdownPhase,
    },
    /// There are as many as may be.
    #[error("{max} shutdown tasks are already registered, the most allowed")]
    TooMany {
        /// The limit, [`SHUTDOWN_TASKS_MAX`].
        max: usize,
    },
}

/// Why a node ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownCause {
    /// This program asked for it, or a signal did that it waits for.
    Asked,
    /// Another member had this node leave.
    MadeToLeave,
    /// The application's executor made no progress for `executor.stall_timeout`, so that this node gave up
    /// its place.
    ExecutorStalled,
    /// The node has ended by itself: it was downed or removed, or it could not join.
    Ended(Termination),
}

/// In words.
impl fmt::Display for ShutdownCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("the application asked for it"),
            Self::MadeToLeave => f.write_str("another member made it leave"),
            Self::ExecutorStalled => {
                f.write_str("its executor made no progress for `executor.stall_timeout`")
            }
            Self::Ended(termination) => termination.fmt(f),
        }
    }
}

/// How a shutdown task failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskFailure {
    /// It had not ended when its phase's limit had passed. It is dropped where it waits; one that holds its
    /// thread goes on.
    GivenUp {
        /// The limit.
        after: Duration,
    },
    /// It panicked.
    Panicked,
    /// Its executor has dropped it: it has ended before the node.
    Lost,
    /// The node was stopped at once while it ran.
    CutShort,
}

/// In words.
impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GivenUp { after } => write!(f, "it did not end within {after:?} and was dropped"),
            Self::Panicked => f.write_str("it panicked"),
            Self::Lost => f.write_str("its executor ended first"),
            Self::CutShort => f.write_str("the node was stopped at once"),
        }
    }
}

/// What happens while a node ends. Its `Display` is one line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownEvent {
    /// The first phase follows.
    Begun {
        /// Why.
        cause: ShutdownCause,
    },
    /// A phase begins.
    PhaseBegun {
        /// Which.
        phase: ShutdownPhase,
    },
    /// A task did not end as it should. The others of its phase, and the next phases, go on.
    TaskFailed {
        /// The phase.
        phase: ShutdownPhase,
        /// The task's name.
        task: Arc<str>,
        /// What was wrong.
        failure: TaskFailure,
    },
    /// The limit of a phase has passed before the node itself had done what it does in it.
    NodeLate {
        /// The phase.
        phase: ShutdownPhase,
    },
}

impl fmt::Display for ShutdownEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begun { cause } => write!(f, "this node is shutting down: {cause}"),
            Self::PhaseBegun { phase } => write!(f, "phase {phase} of the shutdown begins"),
            Self::TaskFailed { phase, task, failure } => {
                write!(f, "task {task:?} of phase {phase}: {failure}")
            }
            Self::NodeLate { phase } => {
                write!(
                    f,
                    "the node's work in phase {phase} took too long; the shutdown goes on without waiting"
                )
            }
        }
    }
}
