//! What the driver needs of an executor: a clock, a sleep, a spawn, and a place of its own for a node.
//! Decides nothing. Spec: `ARCHITECTURE.md`.

use std::future::Future;
use std::io;

use quorate_core::time::{Instant, Now};

/// An executor. Cheap to clone; every clone has the same clock.
///
/// A node uses two of them. Users' code runs on the one that they brought, in tasks of its own, and may hold
/// its threads: it should not, what computes or blocks for long belongs on the executor's threads for that
/// purpose (tokio: `spawn_blocking`). The node itself, its loop and its links, runs on a
/// [`Runtime::dedicated`] one, which users' code never sees; only one ask or answer at a time is said on the
/// thread that has it.
pub trait Runtime: Clone + Send + Sync + 'static {
    /// Both clocks. The monotonic one counts from an origin the runtime chose and never goes backwards.
    fn now(&self) -> Now;

    /// The monotonic clock alone: entities ask for it with every message. Where it costs less than both, say
    /// so here.
    fn mono(&self) -> Instant {
        self.now().mono
    }

    /// Completes at `at` of this runtime's monotonic clock, or soon after; at once if that has passed.
    ///
    /// # Cancel safety
    /// Dropping it forgets the deadline.
    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send + 'static;

    /// Runs a task to its end, detached. A panic of the task must not reach other tasks.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);

    /// One of the same kind and with the same clock for a node alone, whose tasks go on while every thread of
    /// this one is held: a thread of its own, usually. It ends some time after its last clone is gone, once
    /// its tasks have ended or had the time to.
    ///
    /// # Errors
    /// What the system says: no more threads or descriptors.
    fn dedicated(&self) -> io::Result<Self>;
}
