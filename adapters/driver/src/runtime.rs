//! What the driver needs of an executor: a clock, a sleep and a spawn. Decides nothing. Spec: `ARCHITECTURE.md`.

use std::future::Future;

use quorate_core::time::{Instant, Now};

/// An executor. Cheap to clone; every clone has the same clock.
///
/// The driver never blocks a thread of it: user code runs in tasks of its own, and a handler that computes or blocks for
/// long belongs on the executor's threads for that purpose (tokio: `spawn_blocking`).
pub trait Runtime: Clone + Send + Sync + 'static {
    /// Both clocks. The monotonic one counts from an origin the runtime chose and never goes backwards.
    fn now(&self) -> Now;

    /// Completes at `at` of this runtime's monotonic clock, or soon after; at once if that has passed.
    ///
    /// # Cancel safety
    /// Dropping it forgets the deadline.
    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send + 'static;

    /// Runs a task to its end, detached. A panic of the task must not reach other tasks.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);
}
