//! Logs that several nodes of one process share, as they would a database's: for tests and examples. Spec:
//! sharding 10.7, 10.10.

use std::sync::{Arc, Mutex};

use quorate_core::store::memory::MemoryMap;
use quorate_core::store::{Outcome, Space, StoreIdentity, StoreOrder};

use super::{MemoryStore, Store, StoreFault, StoreScope};
use crate::sync::lock;

/// A store in memory whose logs all nodes find, and whose keys are each node's own: what PostgreSQL is to
/// several machines, for the nodes of one process. Give each node its own [`SharedMemoryStore::node`]; a
/// clone is the same node's store, for that node's next life.
///
/// ```
/// use quorate_driver::store::SharedMemoryStore;
/// let stores = SharedMemoryStore::new();
/// let (first, second) = (stores.node(), stores.node());
/// // quorate_tokio::builder("orders").store(first) ... and the other node: .store(second)
/// ```
#[derive(Clone, Debug, Default)]
pub struct SharedMemoryStore {
    logs: Arc<Mutex<MemoryMap>>,
    /// Keys, identity and lives.
    own: MemoryStore,
}

impl SharedMemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The store of one more node: the same logs, keys of its own.
    #[must_use]
    pub fn node(&self) -> Self {
        Self {
            logs: Arc::clone(&self.logs),
            own: MemoryStore::new(),
        }
    }

    /// Turns a bit over in every value of a log whose key is so.
    #[cfg(test)]
    pub(crate) fn damage(&self, is_it: impl Fn(&[u8]) -> bool) {
        let mut logs = lock(&self.logs);
        let hit = |(key, value): (&[u8], &[u8])| is_it(key).then(|| (key.to_vec(), value.to_vec()));
        let hit: Vec<_> = logs.entries().filter_map(hit).collect();
        for (key, mut value) in hit {
            if let Some(last) = value.last_mut() {
                *last ^= 1;
            }
            logs.damage(&key, value);
        }
    }
}

impl Store for SharedMemoryStore {
    fn open(&mut self) -> Result<StoreIdentity, StoreFault> {
        self.own.open()
    }

    fn commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault> {
        let mut outcomes = Vec::with_capacity(orders.len());
        for (space, order) in orders {
            outcomes.push(if is_of_a_log(order) {
                lock(&self.logs).obey(*space, order)
            } else {
                self.own.obey(*space, order)
            });
        }
        Ok(outcomes)
    }

    fn scope(&self) -> StoreScope {
        StoreScope::Shared
    }
}

const fn is_of_a_log(order: &StoreOrder) -> bool {
    match order {
        StoreOrder::Open { .. }
        | StoreOrder::Append { .. }
        | StoreOrder::ReadLog { .. }
        | StoreOrder::Snapshot { .. }
        | StoreOrder::ReadSnapshot { .. }
        | StoreOrder::DeleteRange { .. } => true,
        StoreOrder::Identify
        | StoreOrder::Read { .. }
        | StoreOrder::Range { .. }
        | StoreOrder::Write { .. } => false,
    }
}
