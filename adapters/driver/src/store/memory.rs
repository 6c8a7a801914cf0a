//! A store in the memory of one process: for tests and examples. Spec: sharding 10.10.

use std::io;
use std::sync::{Arc, Mutex};

use quorate_core::store::memory::MemoryMap;
use quorate_core::store::{Outcome, Space, StoreError, StoreIdentity, StoreOrder};
use quorate_core::token::Token;

use super::{Store, StoreFault};
use crate::sync::lock;

/// A store in memory, which survives its node and ends with the process. A clone is the same store: give one
/// to a node, and keep one for the node after it. Like a file it belongs to one node at a time: once the
/// later one has opened it, the earlier one is refused.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    shared: Arc<Mutex<MemoryMap>>,
    /// The life that this handle has opened.
    boot: Option<u64>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl MemoryStore {
    /// Does an order; that of an earlier life is refused by itself.
    pub(super) fn obey(&self, space: Space, order: &StoreOrder) -> Outcome {
        let mut map = lock(&self.shared);
        let now = map.identity().map(|identity| identity.boot);
        if self.boot.is_none() || now != self.boot {
            return Err(StoreError::Fenced { held: Token::NONE });
        }
        map.obey(space, order)
    }
}

impl Store for MemoryStore {
    fn open(&mut self) -> Result<StoreIdentity, StoreFault> {
        let new_id = new_store_id().map_err(StoreFault::Unavailable)?;
        let identity = lock(&self.shared).boot(new_id);
        self.boot = Some(identity.boot);
        Ok(identity)
    }

    fn commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault> {
        let mut map = lock(&self.shared);
        let now = map.identity().map(|identity| identity.boot);
        if self.boot.is_none() || now != self.boot {
            let error = io::Error::other("opened by another node");
            return Err(StoreFault::Unavailable(error));
        }
        let obey = |(space, order): &(Space, &StoreOrder)| map.obey(*space, order);
        Ok(orders.iter().map(obey).collect())
    }
}

/// An id that no other store has.
///
/// # Errors
/// The system has no entropy.
pub fn new_store_id() -> io::Result<u128> {
    let mut id = [0; 16];
    getrandom::fill(&mut id)?;
    Ok(u128::from_be_bytes(id))
}
