//! Whether entities may begin with a message. Closed while the node's loop has not run for longer than a
//! pause of the process is accepted, and after such a pause until the node knows that it is still a member:
//! its entities may run elsewhere by then. The loop opens and closes it; entities only ask. Spec: membership
//! 8.5.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use quorate_core::time::Instant;

use crate::sync::lock;

/// See the module.
pub(crate) struct MailboxGate {
    /// The runtime's, which the loop goes by.
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
    /// How long the loop may be silent.
    patience: Duration,
    /// When the loop ran last, in microseconds of that clock.
    beat: AtomicU64,
    /// The process stood still, and whether the node is still a member is not known.
    held: AtomicBool,
    has_waiting: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Default for MailboxGate {
    /// One that closes only when told.
    fn default() -> Self {
        Self::new(Duration::MAX, Instant::default)
    }
}

impl MailboxGate {
    /// A gate that closes when the loop is silent for longer than `patience`.
    pub(crate) fn new(patience: Duration, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        let beat = AtomicU64::new(clock().as_micros());
        Self {
            clock: Box::new(clock),
            patience,
            beat,
            held: AtomicBool::new(false),
            has_waiting: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    /// The loop runs, and has looked at the time.
    pub(crate) fn beat(&self) {
        self.beat.store(self.micros(), Ordering::Release);
        if self.has_waiting.load(Ordering::SeqCst) && !self.held.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Nobody begins from now on.
    pub(crate) fn hold(&self) {
        self.held.store(true, Ordering::SeqCst);
    }

    /// Everybody may go on.
    pub(crate) fn release(&self) {
        self.held.store(false, Ordering::SeqCst);
        self.wake();
    }

    /// Whether the node doubts that it is a member.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst)
    }

    /// Ready if an entity may begin; remembers who may not.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_open() {
            return Poll::Ready(());
        }
        lock(&self.waiting).push(cx.waker().clone());
        self.has_waiting.store(true, Ordering::SeqCst);
        // It may have been opened between the two.
        if self.is_open() {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    fn is_open(&self) -> bool {
        let silent = self.micros().saturating_sub(self.beat.load(Ordering::Acquire));
        !self.held.load(Ordering::SeqCst) && Duration::from_micros(silent) <= self.patience
    }

    /// The time by that clock.
    pub(crate) fn now(&self) -> Instant {
        (self.clock)()
    }

    fn micros(&self) -> u64 {
        self.now().as_micros()
    }

    fn wake(&self) {
        self.has_waiting.store(false, Ordering::SeqCst);
        for waker in lock(&self.waiting).drain(..) {
            waker.wake();
        }
    }
}

impl fmt::Debug for MailboxGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("patience", &self.patience)
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sync::CountedWakes;

    fn poll(gate: &MailboxGate) -> Poll<()> {
        gate.poll(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn s_8_5_nobody_begins_while_the_loop_is_silent_or_the_node_in_doubt() {
        let micros = Arc::new(AtomicU64::new(7_000_000));
        let clock = Arc::clone(&micros);
        let now = move || Instant::from_micros(clock.load(Ordering::SeqCst));
        let gate = MailboxGate::new(Duration::from_millis(20), now);
        assert_eq!(poll(&gate), Poll::Ready(()));
        micros.fetch_add(20_000, Ordering::SeqCst);
        assert_eq!(poll(&gate), Poll::Ready(()));
        micros.fetch_add(1, Ordering::SeqCst);
        assert_eq!(poll(&gate), Poll::Pending);
        gate.hold();
        gate.beat();
        assert_eq!(poll(&gate), Poll::Pending);
        gate.release();
        gate.beat();
        assert_eq!(poll(&gate), Poll::Ready(()));
    }

    #[test]
    fn s_8_5_who_waits_for_a_silent_loop_is_woken_by_it_unless_the_node_is_in_doubt() {
        let micros = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&micros);
        let now = move || Instant::from_micros(clock.load(Ordering::SeqCst));
        let gate = MailboxGate::new(Duration::from_millis(20), now);
        let woken = Arc::<CountedWakes>::default();
        let waker = woken.waker();
        micros.store(30_000, Ordering::SeqCst);
        assert_eq!(gate.poll(&Context::from_waker(&waker)), Poll::Pending);
        gate.hold();
        gate.beat();
        assert_eq!(woken.count(), 0, "it may not begin");
        gate.release();
        assert_eq!(woken.count(), 1);
        micros.store(60_000, Ordering::SeqCst);
        assert_eq!(gate.poll(&Context::from_waker(&waker)), Poll::Pending);
        gate.beat();
        assert_eq!(woken.count(), 2);
        assert_eq!(gate.poll(&Context::from_waker(&waker)), Poll::Ready(()));
    }
}
