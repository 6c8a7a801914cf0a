//! How a node ends, as its users say it: by leaving, with the whole cluster, at once, or when the system asks. Decides nothing: the core
//! does. Spec: membership 2.9, 2.12.

use std::time::Duration;

use quorate_core::effect::{CommandError, MembershipCommandError};
use quorate_core::input::{Command, MembershipCommand};
use quorate_core::view::Phase;

use crate::adapter::Adapter;
use crate::cluster::Cluster;
use crate::error::{ClusterError, Termination};
use crate::runtime::Runtime;
use crate::sync::{Either, race};

/// How long [`Cluster::run_until_signal`] lets a node leave before it stops anyway: the phases of a graceful exit have
/// limits of their own, but a cluster that cannot converge never lets a member go. Below the 30 s after which container
/// platforms kill.
pub const LEAVE_TIMEOUT: Duration = Duration::from_secs(25);

impl<A> Cluster<A> {
    /// Leaves the cluster gracefully: hands over this node's shards, says good-bye, ends. Completes when the node has ended;
    /// a node that has not joined just ends. Calling it again, even from elsewhere, waits for the same end.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if the node cannot leave now.
    ///
    /// # Cancel safety
    /// Dropping it stops waiting; once asked, the node goes on leaving.
    pub async fn leave(&self) -> Result<Termination, ClusterError> {
        match self
            .shared()
            .core(Command::Membership(MembershipCommand::Leave))
            .await
        {
            Ok(()) | Err(ClusterError::Stopped) => {}
            Err(ClusterError::Refused(CommandError::Membership(MembershipCommandError::NotAMember))) => {
                self.shared().stop()
            }
            Err(error) => return Err(error),
        }
        Ok(self.terminated().await)
    }

    /// Prepares the whole cluster for a full shutdown: all Up members become PreparingForShutdown and, once everybody knows,
    /// ReadyForShutdown. Completes when they are; then let every node leave. From the first on nobody joins or becomes Up, no shard
    /// moves, no singleton starts, and a node that leaves hands nothing over: its entities and instances stop with it. What a
    /// message needs still begins. There is no way back. Calling it again, from any node, waits for the same.
    ///
    /// It waits as long as somebody does not know: for a member that is unreachable until it is back or removed.
    /// [`Cluster::explain`] says for whom.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if this node is not a member
    /// ([`NotAMember`](MembershipCommandError::NotAMember)), or no member is Up yet
    /// ([`NobodyIsUp`](MembershipCommandError::NobodyIsUp)); [`ClusterError::Stopped`] if the node ends before.
    ///
    /// # Cancel safety
    /// Dropping it stops waiting; it may or may not have begun the preparation.
    pub async fn prepare_for_shutdown(&self) -> Result<(), ClusterError> {
        let mut events = self.events();
        let prepare = Command::Membership(MembershipCommand::PrepareForShutdown);
        self.shared().core(prepare).await?;
        loop {
            let view = self.view();
            if view.phase() == Phase::Halted {
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

    /// Stops the node at once, without leaving: the others find out by its silence. Completes when it has ended.
    ///
    /// # Cancel safety
    /// Dropping it stops waiting; the node ends anyway.
    pub async fn stop(&self) -> Termination {
        if self.shared().hub.termination().is_none() {
            self.shared().stop();
        }
        self.terminated().await
    }

    /// Waits until the node has ended, its links are closed and its port is free, and says how it ended. A node that was
    /// downed or removed never comes back; to join again without a new process, start another one from a builder with the
    /// same settings: it is a new incarnation of the address.
    ///
    /// # Cancel safety
    /// Safe: it only watches.
    pub async fn terminated(&self) -> Termination {
        self.shared().ended().await;
        self.shared().hub.termination().unwrap_or(Termination::Stopped)
    }
}

impl<A: Adapter> Cluster<A> {
    /// Runs until the system asks this process to end (SIGTERM or SIGINT), then leaves gracefully. A second signal, or
    /// [`LEAVE_TIMEOUT`], stops the node at once. Completes as well when the node ends for another reason.
    ///
    /// # Errors
    /// [`ClusterError::Signals`] if the system's signals cannot be had.
    ///
    /// # Cancel safety
    /// Dropping it stops watching for signals; a leave that was begun goes on.
    pub async fn run_until_signal(&self) -> Result<Termination, ClusterError> {
        let signals = |error: std::io::Error| ClusterError::Signals(error.to_string());
        match race(self.terminated(), A::shutdown_signal()).await {
            Either::Left(termination) => return Ok(termination),
            Either::Right(signal) => signal.map_err(signals)?,
        }
        tracing::info!(target: "cluster::membership", event = "shutdown_signal", node = %self.address());
        let runtime = A::runtime().map_err(signals)?;
        let limit = runtime.sleep_until(runtime.now().mono + LEAVE_TIMEOUT);
        match race(self.leave(), race(A::shutdown_signal(), limit)).await {
            Either::Left(left) => left,
            Either::Right(_) => Ok(self.stop().await),
        }
    }
}
