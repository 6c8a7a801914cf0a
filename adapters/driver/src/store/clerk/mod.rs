//! The thread that asks the store, so that the loop never waits for a disk or a database: takes everything
//! that waits as one group, opens again what failed, and answers every order exactly once. Decides nothing
//! else. Spec: reliability I-81 to I-83.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quorate_core::owner::Requester;
use quorate_core::store::limits::ORDER_BYTES_MAX;
use quorate_core::store::{Outcome, Space, StoreError, StoreOrder, StoreReport, StoreRequest};

use super::access::{AskedOrder, OrderAsker, StoreAccess};
use super::{Store, StoreFault};
use crate::sync::Notify;

/// Orders that wait for a slow store. With groups of [`ORDERS_PER_COMMIT_MAX`] that is what an ordinary disk
/// does in a tenth of a second; whoever has more open waits anyway, and hears so.
const ORDERS_WAITING_MAX: usize = 1_024;

/// The bytes of those orders: four of the largest.
const BYTES_WAITING_MAX: usize = 4 * ORDER_BYTES_MAX;

/// Orders that become durable together: an fsync costs what hundreds of small orders cost.
const ORDERS_PER_COMMIT_MAX: usize = 256;

/// The bytes of those, but for the first: one commit stays far below a second on a slow disk.
const BYTES_PER_COMMIT_MAX: usize = ORDER_BYTES_MAX;

/// Pause before a store that failed is opened again; doubled each time it fails again.
const REOPEN_AFTER_MIN: Duration = Duration::from_millis(50);

/// Longest such pause: a database that is back is found within seconds.
const REOPEN_AFTER_MAX: Duration = Duration::from_secs(2);

/// The loop's end: orders go in, reports come out, nothing waits.
#[derive(Debug, Default)]
pub(crate) struct Stores {
    thread: Option<RunningStoreClerk>,
    /// A thread that was told to end.
    ending: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct RunningStoreClerk {
    orders: SyncSender<AskedOrder>,
    /// The way of tasks, which is closed when the loop's is.
    access: StoreAccess,
    /// Unbounded, and as long as there were orders: the loop looks how many there are.
    reports: async_channel::Receiver<(Requester, StoreReport)>,
    bytes_waiting: Arc<AtomicUsize>,
    handle: JoinHandle<()>,
}

struct StoreClerk {
    store: Box<dyn Store>,
    orders: Receiver<AskedOrder>,
    reports: async_channel::Sender<(Requester, StoreReport)>,
    bytes_waiting: Arc<AtomicUsize>,
    wake: Arc<Notify>,
    state: StoreAvailability,
    /// Taken from the queue, and too large for the group before it.
    held_over: Option<AskedOrder>,
}

/// Whether the store may be asked.
enum StoreAvailability {
    Open,
    /// It failed: nothing is acknowledged until it was opened again.
    Closed {
        retry_at: Instant,
        pause: Duration,
    },
}

impl Stores {
    /// Starts the thread, which opens the store; `wake` is called for each report. It ends when this is
    /// stopped or dropped, after it has done what waits.
    pub(crate) fn start(store: Box<dyn Store>, wake: Arc<Notify>) -> io::Result<Self> {
        let (orders, orders_out) = sync_channel(ORDERS_WAITING_MAX);
        let access = StoreAccess::new(orders.clone(), store.scope())?;
        let (reports_in, reports) = async_channel::unbounded();
        let bytes_waiting = Arc::<AtomicUsize>::default();
        let clerk = StoreClerk {
            store,
            orders: orders_out,
            reports: reports_in,
            bytes_waiting: Arc::clone(&bytes_waiting),
            wake: Arc::clone(&wake),
            state: StoreAvailability::Closed {
                retry_at: Instant::now(),
                pause: REOPEN_AFTER_MIN,
            },
            held_over: None,
        };
        let handle = thread::Builder::new()
            .name("quorate-store".to_owned())
            .spawn(move || {
                clerk.run();
                wake.notify();
            })?;
        Ok(Self {
            thread: Some(RunningStoreClerk {
                orders,
                access,
                reports,
                bytes_waiting,
                handle,
            }),
            ending: None,
        })
    }

    /// Hands an order in. `Some`: the answer, because it was not taken. Never waits.
    pub(crate) fn order(&self, owner: Requester, request: StoreRequest) -> Option<(Requester, StoreReport)> {
        let Some(running) = &self.thread else {
            return Some((owner, request.without_a_store()));
        };
        let refused = |id, error| {
            let outcome = Err(error);
            Some((owner, StoreReport { id, outcome }))
        };
        let (id, bytes) = (request.id, request.order.bytes());
        if bytes > ORDER_BYTES_MAX {
            return refused(id, StoreError::TooLarge);
        }
        // Only this end adds, so the sum stays below its limit.
        if running.bytes_waiting.load(Ordering::SeqCst) + bytes > BYTES_WAITING_MAX {
            return refused(id, StoreError::Busy);
        }
        running.bytes_waiting.fetch_add(bytes, Ordering::SeqCst);
        let asked = AskedOrder {
            space: owner.space(),
            order: request.order,
            asker: OrderAsker::Machine(owner, id),
        };
        match running.orders.try_send(asked) {
            Ok(()) => None,
            Err(error) => {
                running.bytes_waiting.fetch_sub(bytes, Ordering::SeqCst);
                refused(
                    id,
                    match error {
                        TrySendError::Full(_) => StoreError::Busy,
                        TrySendError::Disconnected(_) => StoreError::Unavailable,
                    },
                )
            }
        }
    }

    /// The way to the store for tasks, which wait for its answers themselves; `None` without a store.
    pub(crate) fn access(&self) -> Option<StoreAccess> {
        self.thread.as_ref().map(|running| running.access.clone())
    }

    /// The next report.
    pub(crate) fn next_report(&self) -> Option<(Requester, StoreReport)> {
        self.thread.as_ref()?.reports.try_recv().ok()
    }

    /// Whether there is a report to take.
    pub(crate) fn has_reports(&self) -> bool {
        let thread = self.thread.as_ref();
        thread.is_some_and(|running| !running.reports.is_empty())
    }

    /// Takes no more orders. What was taken is still done, and answered to nobody.
    pub(crate) fn stop(&mut self) {
        if let Some(running) = self.thread.take() {
            drop(running.orders);
            running.access.close();
            self.ending = Some(running.handle);
        }
    }

    /// Whether the thread has ended, and with it the store is closed.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_none() && self.ending.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        self.stop();
    }
}

impl StoreClerk {
    fn run(mut self) {
        loop {
            match self.state {
                StoreAvailability::Open => {
                    let Some(first) = self.next() else {
                        return;
                    };
                    let group = self.gather(first);
                    self.commit(group);
                }
                StoreAvailability::Closed { retry_at, .. } => {
                    let pause = retry_at.saturating_duration_since(Instant::now());
                    if pause.is_zero() {
                        self.open();
                    } else if let Some(asked) = self.held_over.take() {
                        self.turn_away(asked);
                    } else {
                        match self.orders.recv_timeout(pause) {
                            Ok(asked) => self.turn_away(asked),
                            Err(RecvTimeoutError::Timeout) => {}
                            Err(RecvTimeoutError::Disconnected) => return,
                        }
                    }
                }
            }
        }
    }

    fn next(&mut self) -> Option<AskedOrder> {
        let held_over = self.held_over.take();
        held_over.or_else(|| self.orders.recv().ok())
    }

    /// Everything that waits, up to the bounds of a commit.
    fn gather(&mut self, first: AskedOrder) -> Vec<AskedOrder> {
        let mut bytes = first.order.bytes();
        let mut group = vec![first];
        while group.len() < ORDERS_PER_COMMIT_MAX {
            let Ok(next) = self.orders.try_recv() else {
                break;
            };
            bytes += next.order.bytes();
            if bytes > BYTES_PER_COMMIT_MAX {
                self.held_over = Some(next);
                break;
            }
            group.push(next);
        }
        group
    }

    fn commit(&mut self, group: Vec<AskedOrder>) {
        let orders: Vec<(Space, &StoreOrder)> =
            group.iter().map(|asked| (asked.space, &asked.order)).collect();
        let outcomes = match self.try_commit(&orders) {
            Ok(outcomes) => outcomes,
            // One that is too large must not keep the others from being read or written.
            Err(StoreFault::Full(_)) if orders.len() > 1 => self.one_by_one(&orders),
            Err(fault) => self.failed(&orders, &fault),
        };
        drop(orders);
        for (asked, outcome) in group.into_iter().zip(outcomes) {
            self.answer(asked, outcome);
        }
        self.wake.notify();
    }

    fn one_by_one(&mut self, orders: &[(Space, &StoreOrder)]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(orders.len());
        for order in orders {
            if matches!(self.state, StoreAvailability::Closed { .. }) {
                outcomes.push(Err(StoreError::Unavailable));
                continue;
            }
            let order = std::slice::from_ref(order);
            match self.try_commit(order) {
                Ok(outcome) => outcomes.extend(outcome),
                Err(fault) => outcomes.extend(self.failed(order, &fault)),
            }
        }
        outcomes
    }

    /// What the store says, whatever it does: one that panics or answers too little has failed.
    fn try_commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault> {
        let store = &mut self.store;
        let outcomes = catch_unwind(AssertUnwindSafe(|| store.commit(orders)))
            .unwrap_or_else(|panic| Err(StoreFault::Failed(panicked(&*panic))))?;
        if outcomes.len() != orders.len() {
            let error = io::Error::other("the store left orders without an outcome");
            return Err(StoreFault::Failed(error));
        }
        Ok(outcomes)
    }

    /// The outcomes of a group that was not done. Unless there is only no room, the store is opened again
    /// before it is asked for anything else.
    fn failed(&mut self, orders: &[(Space, &StoreOrder)], fault: &StoreFault) -> Vec<Outcome> {
        tracing::error!(target: "cluster::store", event = "store_failed", orders = orders.len(), error = %fault);
        let (of_a_write, of_a_read) = match fault {
            StoreFault::Full(_) => (StoreError::Full, StoreError::Full),
            StoreFault::Unavailable(_) => (StoreError::Unavailable, StoreError::Unavailable),
            StoreFault::Failed(_) => (StoreError::OutcomeUnknown, StoreError::Unavailable),
        };
        if !matches!(fault, StoreFault::Full(_)) {
            self.state = StoreAvailability::Closed {
                retry_at: Instant::now(),
                pause: REOPEN_AFTER_MIN,
            };
        }
        let outcome =
            |(_, order): &(Space, &StoreOrder)| Err(if order.is_read() { of_a_read } else { of_a_write });
        orders.iter().map(outcome).collect()
    }

    fn open(&mut self) {
        let store = &mut self.store;
        let opened = catch_unwind(AssertUnwindSafe(|| store.open()))
            .unwrap_or_else(|panic| Err(StoreFault::Unavailable(panicked(&*panic))));
        match opened {
            Ok(identity) => {
                self.state = StoreAvailability::Open;
                tracing::info!(
                    target: "cluster::store", event = "store_opened",
                    id = %format_args!("{:032x}", identity.id), boot = identity.boot
                );
            }
            Err(fault) => {
                let StoreAvailability::Closed { pause, .. } = self.state else {
                    return;
                };
                tracing::error!(target: "cluster::store", event = "store_not_opened", error = %fault, retry_in = ?pause);
                self.state = StoreAvailability::Closed {
                    retry_at: Instant::now() + pause,
                    pause: (pause * 2).min(REOPEN_AFTER_MAX),
                };
            }
        }
    }

    /// Answers what was asked of a store that is closed.
    fn turn_away(&self, asked: AskedOrder) {
        self.answer(asked, Err(StoreError::Unavailable));
        self.wake.notify();
    }

    fn answer(&self, asked: AskedOrder, outcome: Outcome) {
        match asked.asker {
            OrderAsker::Machine(owner, id) => {
                self.bytes_waiting
                    .fetch_sub(asked.order.bytes(), Ordering::SeqCst);
                // The loop may have ended: then nobody waits for it.
                drop(self.reports.try_send((owner, StoreReport { id, outcome })));
            }
            OrderAsker::Task(task) => task.answer(outcome),
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> io::Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    io::Error::other(format!(
        "the store panicked: {}",
        text.unwrap_or("without a word")
    ))
}

#[cfg(test)]
mod tests;
