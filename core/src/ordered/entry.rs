//! One entry of a map, whether there is one or not.

use super::table::ValueTable;
use alloc::collections::btree_map;

/// What a map has of a key.
pub enum Entry<'a, K, V> {
    /// A value.
    Occupied(OccupiedEntry<'a, K, V>),
    /// Nothing.
    Vacant(VacantEntry<'a, K, V>),
}

/// An entry that there is.
pub struct OccupiedEntry<'a, K, V> {
    pub(super) index: btree_map::OccupiedEntry<'a, K, u32>,
    pub(super) table: &'a mut ValueTable<V>,
}

/// An entry that there is not.
pub struct VacantEntry<'a, K, V> {
    pub(super) index: btree_map::VacantEntry<'a, K, u32>,
    pub(super) table: &'a mut ValueTable<V>,
}

impl<'a, K: Ord, V> Entry<'a, K, V> {
    /// The value, after `value` has become it where there was none.
    pub fn or_insert(self, value: V) -> &'a mut V {
        self.or_insert_with(|| value)
    }

    /// The value, after the default has become it where there was none.
    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    /// The value, after what `value` returns has become it where there was none.
    pub fn or_insert_with(self, value: impl FnOnce() -> V) -> &'a mut V {
        match self {
            Self::Occupied(entry) => entry.into_mut(),
            Self::Vacant(entry) => entry.insert(value()),
        }
    }
}

/// What holds wherever an entry is: a place that the index names has a value.
const HELD: &str = "the index names places that have a value";

impl<'a, K: Ord, V> OccupiedEntry<'a, K, V> {
    /// The key.
    pub fn key(&self) -> &K {
        self.index.key()
    }

    /// The value.
    pub fn get(&self) -> &V {
        self.table.get(*self.index.get()).expect(HELD)
    }

    /// The value, to be changed.
    pub fn get_mut(&mut self) -> &mut V {
        self.table.get_mut(*self.index.get()).expect(HELD)
    }

    /// The value, to be changed for as long as the map is borrowed.
    pub fn into_mut(self) -> &'a mut V {
        self.table.get_mut(*self.index.get()).expect(HELD)
    }

    /// Sets the value and returns the one before.
    pub fn insert(&mut self, value: V) -> V {
        core::mem::replace(self.get_mut(), value)
    }

    /// Removes the entry.
    pub fn remove(self) -> V {
        self.table.take(self.index.remove()).expect(HELD)
    }
}

impl<'a, K: Ord, V> VacantEntry<'a, K, V> {
    /// The key.
    pub fn key(&self) -> &K {
        self.index.key()
    }

    /// Makes the entry.
    pub fn insert(self, value: V) -> &'a mut V {
        let place = self.table.put(value);
        self.index.insert(place);
        self.table.get_mut(place).expect(HELD)
    }
}
