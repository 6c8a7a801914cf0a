//! The map.

use super::entry::{Entry, OccupiedEntry, VacantEntry};
use super::iter::{IntoIter, Iter, IterMut, Pairs, PairsMut, Range, RangeMut};
use super::table::ValueTable;
use alloc::collections::btree_map::{self, BTreeMap};
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;
use core::ops::{Bound, RangeBounds};

/// A map in the order of its keys. It has the methods of [`BTreeMap`] under their names; [what it
/// costs](super).
#[derive(Clone)]
pub struct OrderedMap<K, V> {
    index: BTreeMap<K, u32>,
    table: ValueTable<V>,
}

impl<K, V> OrderedMap<K, V> {
    /// An empty map. Allocates nothing.
    pub const fn new() -> Self {
        Self {
            index: BTreeMap::new(),
            table: ValueTable::new(),
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Removes all entries and gives back their memory.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Entries in the order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Pairs::new(self.index.iter(), &self.table)
    }

    /// Entries in the order of their keys, the values to be changed. Allocates 8 bytes per entry.
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        PairsMut::new(self.index.iter(), self.table.all_mut())
    }

    /// Keys in their order.
    pub fn keys(&self) -> btree_map::Keys<'_, K, u32> {
        self.index.keys()
    }

    /// Values in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// Values in the order of their keys, to be changed. Allocates 8 bytes per entry.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }

    /// Keys in their order, the map is used up.
    pub fn into_keys(self) -> btree_map::IntoKeys<K, u32> {
        self.index.into_keys()
    }

    /// Values in the order of their keys, the map is used up.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = V> {
        self.into_iter().map(|(_, value)| value)
    }
}

impl<K: Ord, V> OrderedMap<K, V> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.table.get(*self.index.get(key)?)
    }

    /// The value of a key, to be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.table.get_mut(*self.index.get(key)?)
    }

    /// Whether there is an entry of this key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.index.contains_key(key)
    }

    /// The entry of the lowest key.
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// The entry of the highest key.
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next_back()
    }

    /// Sets the value of a key and returns the one that it had; the map keeps the key that it has.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.entry(key) {
            Entry::Occupied(mut entry) => Some(entry.insert(value)),
            Entry::Vacant(entry) => {
                entry.insert(value);
                None
            }
        }
    }

    /// The entry of a key, whether there is one or not: found once, then read, set or removed.
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        match self.index.entry(key) {
            btree_map::Entry::Occupied(index) => Entry::Occupied(OccupiedEntry {
                index,
                table: &mut self.table,
            }),
            btree_map::Entry::Vacant(index) => Entry::Vacant(VacantEntry {
                index,
                table: &mut self.table,
            }),
        }
    }

    /// Removes the entry of a key.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let place = self.index.remove(key)?;
        self.given_up(place)
    }

    /// Removes the entry of the lowest key.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        let (key, place) = self.index.pop_first()?;
        Some((key, self.given_up(place)?))
    }

    /// Keeps the entries for which `f` is true. It is called in the order of the keys.
    pub fn retain(&mut self, mut f: impl FnMut(&K, &mut V) -> bool) {
        let table = &mut self.table;
        self.index.retain(|key, place| {
            let stays = table.get_mut(*place).is_some_and(|value| f(key, value));
            if !stays {
                table.take(*place);
            }
            stays
        });
        self.tidy();
    }

    /// Entries of the keys in `range`, in their order.
    ///
    /// # Panics
    ///
    /// If the range begins behind its end, as [`BTreeMap::range`] does.
    pub fn range<Q: Ord + ?Sized, R: RangeBounds<Q>>(&self, range: R) -> Range<'_, K, V>
    where
        K: Borrow<Q>,
    {
        Pairs::new(self.index.range(range), &self.table)
    }

    /// Entries of the keys in `range`, in their order, the values to be changed. Allocates 8 bytes per entry
    /// of the whole map; [`Self::next_mut`] allocates nothing.
    ///
    /// # Panics
    ///
    /// If the range begins behind its end.
    pub fn range_mut<Q: Ord + ?Sized, R: RangeBounds<Q>>(&mut self, range: R) -> RangeMut<'_, K, V>
    where
        K: Borrow<Q>,
    {
        PairsMut::new(self.index.range(range), self.table.all_mut())
    }

    /// The entry of the lowest key from `from` on, the value to be changed.
    pub fn next_mut<Q: Ord + ?Sized>(&mut self, from: Bound<&Q>) -> Option<(&K, &mut V)>
    where
        K: Borrow<Q>,
    {
        let (key, place) = self.index.range((from, Bound::Unbounded)).next()?;
        Some((key, self.table.get_mut(*place)?))
    }

    /// Removes the entries from `key` on and returns them as a map.
    pub fn split_off<Q: Ord + ?Sized>(&mut self, key: &Q) -> Self
    where
        K: Borrow<Q>,
    {
        let mut rest = Self {
            index: self.index.split_off(key),
            table: ValueTable::new(),
        };
        for place in rest.index.values_mut() {
            if let Some(value) = self.table.take(*place) {
                *place = rest.table.put(value);
            }
        }
        self.tidy();
        rest
    }

    /// How many places the table has, free ones too.
    #[cfg(test)]
    pub(super) const fn places(&self) -> usize {
        self.table.places()
    }

    fn given_up(&mut self, place: u32) -> Option<V> {
        let value = self.table.take(place);
        self.tidy();
        value
    }

    fn tidy(&mut self) {
        if self.table.is_sparse() {
            self.table.compact(self.index.values_mut());
        }
    }
}

impl<K, V> Default for OrderedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for OrderedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for OrderedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for OrderedMap<K, V> {}

impl<K: Ord, V: Ord> PartialOrd for OrderedMap<K, V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, V: Ord> Ord for OrderedMap<K, V> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl<K: Ord, V> Extend<(K, V)> for OrderedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for OrderedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for OrderedMap<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K, V> IntoIterator for OrderedMap<K, V> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    fn into_iter(self) -> IntoIter<K, V> {
        IntoIter::new(self.index, self.table)
    }
}

impl<'a, K, V> IntoIterator for &'a OrderedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<'a, K, V> IntoIterator for &'a mut OrderedMap<K, V> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = IterMut<'a, K, V>;

    fn into_iter(self) -> IterMut<'a, K, V> {
        self.iter_mut()
    }
}

/// For tests: what is read so without it panics.
#[cfg(test)]
impl<K: Ord + Borrow<Q>, Q: Ord + ?Sized, V> core::ops::Index<&Q> for OrderedMap<K, V> {
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("the map has the key")
    }
}
