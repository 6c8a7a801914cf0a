//! The way of tasks to the node's store: entities that keep what they do ask here and wait for the answer.
//! Bounded by the number of orders that wait; a task that finds no place waits its turn. Decides nothing.
//! Spec: sharding 10.10; reliability I-83.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use async_channel::{Receiver, Sender};
use quorate_core::owner::Requester;
use quorate_core::store::{Outcome, Space, StoreError, StoreOrder};

use super::StoreScope;
use crate::sync::{self, lock};

/// Orders of tasks that wait at the store's thread: two commits full. Half of all places, so that the
/// machines of the node, which do not wait, find one however many entities write. What an order carries is
/// held by its task anyway, so its bytes are not counted again.
const TASK_ORDERS_MAX: usize = 512;

/// One order on its way to the store.
pub(super) struct AskedOrder {
    pub(super) space: Space,
    pub(super) order: StoreOrder,
    pub(super) asker: OrderAsker,
}

/// Who is told the outcome.
pub(super) enum OrderAsker {
    /// A machine of the core, with its name for the order: by way of the loop.
    Machine(Requester, u64),
    /// A task that waits.
    Task(WaitingTask),
}

/// A task that waits, and the place that it holds.
pub(super) struct WaitingTask {
    answer: sync::Sender<Outcome>,
    place: TaskPlace,
}

impl WaitingTask {
    /// Tells it.
    pub(super) fn answer(self, outcome: Outcome) {
        drop(self.place);
        self.answer.send(outcome);
    }
}

/// One of [`TASK_ORDERS_MAX`]; free again when it is dropped.
struct TaskPlace(Receiver<()>);

impl Drop for TaskPlace {
    fn drop(&mut self) {
        // Each place was filled by who holds it.
        let _ = self.0.try_recv();
    }
}

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct StoreAccess {
    /// `None` once the node lets go of its store.
    orders: Arc<Mutex<Option<SyncSender<AskedOrder>>>>,
    places: (Sender<()>, Receiver<()>),
    scope: StoreScope,
    openers: Arc<AtomicU64>,
}

impl StoreAccess {
    pub(super) fn new(orders: SyncSender<AskedOrder>, scope: StoreScope) -> io::Result<Self> {
        Ok(Self {
            orders: Arc::new(Mutex::new(Some(orders))),
            places: async_channel::bounded(TASK_ORDERS_MAX),
            scope,
            openers: Arc::new(AtomicU64::new(getrandom::u64()?)),
        })
    }

    /// Who finds here what is appended.
    pub(crate) const fn scope(&self) -> StoreScope {
        self.scope
    }

    /// A name for one who opens logs: no other of this node has it, and by chance none of any node.
    pub(crate) fn next_opener(&self) -> u64 {
        self.openers.fetch_add(1, Ordering::Relaxed)
    }

    /// Does an order. Waits for a place, then for the store.
    ///
    /// # Cancel safety
    /// Dropping it before the order was handed over does nothing; later it is done, and answered to nobody.
    pub(crate) async fn order(&self, space: Space, order: StoreOrder) -> Outcome {
        let (fill, free) = &self.places;
        if fill.send(()).await.is_err() {
            return Err(StoreError::Unavailable);
        }
        let place = TaskPlace(free.clone());
        let is_read = order.is_read();
        let (answer, outcome) = sync::oneshot();
        let asked = AskedOrder {
            space,
            order,
            asker: OrderAsker::Task(WaitingTask { answer, place }),
        };
        // Closed while nobody looks, or full of what machines ask: it was not taken.
        let taken = match &*lock(&self.orders) {
            Some(orders) => orders.try_send(asked).is_ok(),
            None => false,
        };
        if !taken {
            return Err(StoreError::Unavailable);
        }
        let lost = if is_read {
            StoreError::Unavailable
        } else {
            StoreError::OutcomeUnknown
        };
        outcome.await.unwrap_or(Err(lost))
    }

    /// Takes no more orders.
    pub(super) fn close(&self) {
        drop(lock(&self.orders).take());
    }
}
