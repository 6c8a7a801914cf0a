//! A node's end in phases, with the application's tasks in them: see `docs/shutdown.md`. Decides nothing: the order is the core's
//! (`quorate_core::shutdown`). Spec: membership 2.9, shutdown of the reference.

mod life;
mod runner;
mod tasks;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::shutdown::Phase;

use crate::cluster::Cluster;
use crate::error::Termination;

pub(crate) use life::Life;
pub(crate) use runner::Runner;

/// Tasks that a node may have in all its phases together, and callbacks of each kind. Far more than parts of an application want
/// to end in order; who registers one per request has forgotten something.
pub const SHUTDOWN_TASKS_MAX: usize = 1_024;

/// Why a task or a callback was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The phase has begun or is over, or the node ends at once: the task would never run.
    #[error("the phase {phase} has begun or is over; the task was not added")]
    TooLate {
        /// The phase.
        phase: Phase,
    },
    /// There are as many as may be.
    #[error("{max} are registered already")]
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
    /// The application's executor made no progress for `executor.stall_timeout`, so that this node gave up its place.
    ExecutorStalled,
    /// The node has ended by itself: it was downed or removed, or it could not join.
    Ended(Termination),
}

/// In words.
impl fmt::Display for ShutdownCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("it was asked to"),
            Self::MadeToLeave => f.write_str("another member has it leave"),
            Self::ExecutorStalled => {
                f.write_str("its executor made no progress for `executor.stall_timeout`")
            }
            Self::Ended(termination) => termination.fmt(f),
        }
    }
}

/// What was wrong with a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskFailure {
    /// It had not ended when its phase's limit had passed. It is dropped where it waits; one that holds its thread goes on.
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
            Self::GivenUp { after } => write!(f, "it has not ended within {after:?} and is given up"),
            Self::Panicked => f.write_str("it panicked"),
            Self::Lost => f.write_str("its executor has ended before it"),
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
        phase: Phase,
    },
    /// A task did not end as it should. The others of its phase, and the next phases, go on.
    TaskFailed {
        /// The phase.
        phase: Phase,
        /// The task's name.
        task: Arc<str>,
        /// What was wrong.
        failure: TaskFailure,
    },
    /// The limit of a phase has passed before the node itself had done what it does in it.
    NodeLate {
        /// The phase.
        phase: Phase,
    },
}

impl fmt::Display for ShutdownEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begun { cause } => write!(f, "this node ends: {cause}"),
            Self::PhaseBegun { phase } => write!(f, "phase {phase} of the shutdown begins"),
            Self::TaskFailed { phase, task, failure } => {
                write!(f, "task {task:?} of phase {phase}: {failure}")
            }
            Self::NodeLate { phase } => {
                write!(f, "phase {phase} took the node too long; it goes on without")
            }
        }
    }
}

impl<A> Cluster<A> {
    /// Adds a task to a phase of this node's end: `cluster.on_shutdown(Phase::ServiceStop, || async { .. })`. The tasks of a phase run
    /// at once, on the caller's executor; the phase ends when all of them have ended, and the node has done what it does in it, or
    /// when its limit has passed (`shutdown.*_timeout`). They run once, however the node ends: it leaves, a signal comes, it is
    /// downed or removed. Only [`Cluster::stop`] and dropping the last handle run none.
    ///
    /// A task that holds a [`Cluster`] keeps the node running when all other handles are dropped.
    ///
    /// # Errors
    /// [`ShutdownError::TooLate`] if the phase has begun, [`ShutdownError::TooMany`].
    pub fn on_shutdown<F, Fut>(&self, phase: Phase, task: F) -> Result<(), ShutdownError>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.shared().life.add(phase, None, tasks::boxed(task))
    }

    /// The same with a name, by which the log and [`ShutdownEvent::TaskFailed`] call it if it hangs or panics. Without one it is
    /// `task 1`, `task 2` and so on of its phase.
    ///
    /// # Errors
    /// Those of `on_shutdown`.
    pub fn on_shutdown_named<F, Fut>(
        &self,
        phase: Phase,
        name: impl Into<String>,
        task: F,
    ) -> Result<(), ShutdownError>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let name = Some(name.into());
        self.shared().life.add(phase, name, tasks::boxed(task))
    }

    /// Calls back when this node is a full member (Up), once; at once if it has been Up already. Never, if it never is.
    ///
    /// # Errors
    /// [`ShutdownError::TooMany`].
    pub fn on_up<F, Fut>(&self, callback: F) -> Result<(), ShutdownError>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.shared().life.on_up(tasks::boxed(callback))
    }

    /// Calls back when this node is no member any more, once, however that came: it left, was downed or removed, could not join, or
    /// was stopped; at once if that is over. It runs in the phase [`Phase::ClusterShutdown`] and is waited for within its limit.
    ///
    /// # Errors
    /// [`ShutdownError::TooMany`].
    pub fn on_removed<F, Fut>(&self, callback: F) -> Result<(), ShutdownError>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.shared().life.on_removed(tasks::boxed(callback))
    }
}
