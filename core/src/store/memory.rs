//! An ordered map in memory under the rules of a store: for tests, simulators and hosts that keep nothing
//! over a restart. Decides nothing. Spec: sharding 10.10.

use alloc::vec::Vec;
use core::convert::Infallible;
use core::ops::Bound;

use super::rules::{self, ReadTransaction, Visit, WriteTransaction};
use super::{Outcome, Space, StoreIdentity, StoreOrder};
use crate::ordered::OrderedMap;

/// Keys and sealed values. A clone is a picture of the whole store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryMap {
    entries: OrderedMap<Vec<u8>, Vec<u8>>,
}

impl MemoryMap {
    /// Nothing is stored, and it was never booted.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: OrderedMap::new(),
        }
    }

    /// Counts one more life. `new_id` is the store's id if it has none yet, or if what it holds is damaged:
    /// then it holds nothing any more.
    pub fn boot(&mut self, new_id: u128) -> StoreIdentity {
        let Ok(booted) = rules::boot(self, new_id);
        booted.unwrap_or_else(|_| {
            self.entries.clear();
            self.boot(new_id)
        })
    }

    /// Which store this is; `None` if it was never booted, or is damaged.
    #[must_use]
    pub fn identity(&self) -> Option<StoreIdentity> {
        let Ok(identity) = rules::identity(self);
        identity.ok().flatten()
    }

    /// Does an order at once.
    pub fn obey(&mut self, space: Space, order: &StoreOrder) -> Outcome {
        let Ok(outcome) = rules::obey(self, space, order);
        outcome
    }

    /// What is stored, as an engine would keep it: keys and sealed values in ascending order.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Puts bytes in place that no rule made: what a disk does that lies.
    pub fn damage(&mut self, key: &[u8], value: Vec<u8>) {
        self.entries.insert(key.to_vec(), value);
    }
}

impl ReadTransaction for MemoryMap {
    type Error = Infallible;

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(self.entries.get(key).cloned())
    }

    fn range(&self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), Infallible> {
        if from < to {
            let bounds = (Bound::Included(from), Bound::Excluded(to));
            for (key, value) in self.entries.range::<[u8], _>(bounds) {
                if visit(key, value).is_break() {
                    break;
                }
            }
        }
        Ok(())
    }
}

impl WriteTransaction for MemoryMap {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Infallible> {
        self.entries.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Infallible> {
        self.entries.remove(key);
        Ok(())
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<(), Infallible> {
        if from < to {
            let bounds = (Bound::Included(from), Bound::Excluded(to));
            let gone = self.entries.range::<[u8], _>(bounds).map(|(key, _)| key.clone());
            let gone: Vec<Vec<u8>> = gone.collect();
            for key in gone {
                self.entries.remove(&key);
            }
        }
        Ok(())
    }
}
