//! How a node ends, as its users say it: by leaving, with the whole cluster, at once, or when the system
//! asks. Decides nothing: the core does. Spec: membership 2.9, 2.12.

#[cfg(doc)]
use quorate_core::effect::MembershipCommandError;
use quorate_core::input::{Command, MembershipCommand};
use quorate_core::view::MembershipPhase;

use super::Cluster;
use crate::error::{ClusterError, Termination};
use crate::signals::{self, ShutdownSignal};
use crate::sync::{Either, race};

impl Cluster {
    /// Shuts this node down gracefully: runs the shutdown phases with the application's tasks
    /// ([`Cluster::on_shutdown`]), in which it hands over its shards and singletons, leaves the cluster and
    /// closes its links. Completes when all of that is over; a node that has not joined just ends. Calling it
    /// again, even from elsewhere, waits for the same end. Every phase has a time limit, so it always
    /// completes.
    ///
    /// # Cancel safety
    /// Dropping it stops waiting; once asked, the node goes on.
    pub async fn shutdown(&self) -> Termination {
        self.shared().life.ask();
        self.terminated().await
    }

    /// Leaves the cluster gracefully: the same as [`Cluster::shutdown`].
    ///
    /// # Errors
    /// None at present: a node can always leave.
    ///
    /// # Cancel safety
    /// Dropping it stops waiting; once asked, the node goes on leaving.
    pub async fn leave(&self) -> Result<Termination, ClusterError> {
        Ok(self.shutdown().await)
    }

    /// Prepares the whole cluster for a full shutdown: all Up members become PreparingForShutdown and, once
    /// everybody knows, ReadyForShutdown. Completes when they are; then let every node leave. From the first
    /// on nobody joins or becomes Up, no shard moves, no singleton starts, and a node that leaves hands
    /// nothing over: its entities and instances stop with it. What a message needs still begins. There is no
    /// way back. Calling it again, from any node, waits for the same.
    ///
    /// It waits as long as somebody does not know: for a member that is unreachable until it is back or
    /// removed. [`Cluster::explain`] says for whom.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if this node is not a member
    /// ([`NotAMember`](MembershipCommandError::NotAMember)), or no member is Up yet
    /// ([`NobodyIsUp`](MembershipCommandError::NobodyIsUp)); [`ClusterError::Stopped`] if the node ends
    /// before.
    ///
    /// # Cancel safety
    /// Dropping it stops waiting; it may or may not have begun the preparation.
    pub async fn prepare_for_shutdown(&self) -> Result<(), ClusterError> {
        let mut events = self.events();
        let prepare = Command::Membership(MembershipCommand::PrepareForShutdown);
        self.shared().core(prepare).await?;
        loop {
            let view = self.view();
            if view.phase() == MembershipPhase::Halted {
                return Err(ClusterError::Stopped);
            }
            if view.is_ready_for_shutdown() {
                return Ok(());
            }
            if events.next().await.is_none() {
                return Err(ClusterError::Stopped);
            }
        }
    }

    /// Stops the node at once, without leaving and without shutdown tasks; other members will see it as
    /// unreachable. A shutdown in progress is cut short. Completes when it has ended.
    ///
    /// # Cancel safety
    /// Dropping it stops waiting; the node ends anyway.
    pub async fn stop(&self) -> Termination {
        if self.shared().hub.termination().is_none() {
            self.shared().stop();
        }
        self.terminated().await
    }

    /// Waits until the node has ended, its links are closed, its port is free and all phases of its end are
    /// over, and says how it ended. A node that was downed or removed never comes back; to join again without
    /// a new process, start another one from a builder with the same settings: it is a new incarnation of the
    /// address.
    ///
    /// # Cancel safety
    /// Safe: it only watches.
    pub async fn terminated(&self) -> Termination {
        self.shared().ended().await;
        self.shared().hub.termination().unwrap_or(Termination::Stopped)
    }

    /// Runs until the system asks this process to end (SIGTERM or SIGINT), then ends the node in good order
    /// ([`Cluster::shutdown`]). A second signal stops it at once, and this completes without waiting for
    /// that; `shutdown.after_signal_timeout` (25 s) is the limit of the whole. Completes as well when the
    /// node ends for another reason. [`Termination::exit_code`] says what to end the process with.
    ///
    /// Signals count from the call on, whether the future is polled or not: call it before you tell a
    /// supervisor that the process is ready, and await it afterwards.
    ///
    /// # Errors
    /// [`ClusterError::Signals`] if the system's signals cannot be had.
    ///
    /// # Cancel safety
    /// Dropping it stops watching for signals; a shutdown that was begun goes on.
    pub fn run_until_signal(&self) -> impl Future<Output = Result<Termination, ClusterError>> + Send {
        let listening = signals::listen();
        async move {
            let failed = |error: std::io::Error| ClusterError::Signals(error.to_string());
            self.end_at_signal(&listening.map_err(failed)?).await
        }
    }

    async fn end_at_signal(
        &self,
        signals: &async_channel::Receiver<ShutdownSignal>,
    ) -> Result<Termination, ClusterError> {
        let signal = match race(self.terminated(), signals::next(signals)).await {
            Either::Left(termination) => return Ok(termination),
            Either::Right(signal) => signal,
        };
        tracing::info!(target: "cluster::shutdown", event = "shutdown_signal", node = %self.address(), %signal);
        let background = &self.shared().background;
        let limit = background.now() + self.shared().life.limits.after_signal_timeout;
        let limit = background.sleep_until(Some(limit));
        match race(self.shutdown(), race(signals::next(signals), limit)).await {
            Either::Left(termination) => Ok(termination),
            Either::Right(Either::Left(signal)) => {
                self.shared().stop();
                Ok(Termination::Signalled(signal))
            }
            Either::Right(Either::Right(())) => Ok(self.stop().await),
        }
    }
}
