//! What of the application's runs when a node is up and when it ends, as its users say it. Decides nothing:
//! see `shutdown`.

use std::future::Future;

use quorate_core::shutdown::ShutdownPhase;

use super::Cluster;
use crate::shutdown::{self, ShutdownError};

impl Cluster {
    /// Adds a task to a phase of this node's end:
    /// `cluster.on_shutdown(ShutdownPhase::ServiceStop, || async { .. })`. The tasks of a phase run at once,
    /// on the caller's executor; the phase ends when all of them have ended, and the node has done what it
    /// does in it, or when its limit has passed (`shutdown.*_timeout`). They run once, however the node ends:
    /// it leaves, a signal comes, it is downed or removed. Only [`Cluster::stop`] and dropping the last
    /// handle run none.
    ///
    /// A task that holds a [`Cluster`] keeps the node running when all other handles are dropped.
    ///
    /// # Errors
    /// [`ShutdownError::TooLate`] if the phase has begun, [`ShutdownError::TooMany`].
    pub fn on_shutdown<F, Fut>(&self, phase: ShutdownPhase, task: F) -> Result<(), ShutdownError>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.shared().life.add(phase, None, shutdown::boxed(task))
    }

    /// The same with a name, by which the log and
    /// [`ShutdownEvent::TaskFailed`](crate::events::ShutdownEvent::TaskFailed) call it if it hangs or panics.
    /// Without one it is `task 1`, `task 2` and so on of its phase.
    ///
    /// # Errors
    /// Those of `on_shutdown`.
    pub fn on_shutdown_named<F, Fut>(
        &self,
        phase: ShutdownPhase,
        name: impl Into<String>,
        task: F,
    ) -> Result<(), ShutdownError>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let name = Some(name.into());
        self.shared().life.add(phase, name, shutdown::boxed(task))
    }

    /// Calls back when this node is a full member (Up), once; at once if it has been Up already. Never, if it
    /// never is.
    ///
    /// # Errors
    /// [`ShutdownError::TooMany`].
    pub fn on_up<F, Fut>(&self, callback: F) -> Result<(), ShutdownError>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.shared().life.on_up(shutdown::boxed(callback))
    }

    /// Calls back when this node is no member any more, once, however that came: it left, was downed or
    /// removed, could not join, or was stopped; at once if that is over. It runs in the phase
    /// [`ShutdownPhase::ClusterShutdown`] and is waited for within its limit.
    ///
    /// # Errors
    /// [`ShutdownError::TooMany`].
    pub fn on_removed<F, Fut>(&self, callback: F) -> Result<(), ShutdownError>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.shared().life.on_removed(shutdown::boxed(callback))
    }
}
