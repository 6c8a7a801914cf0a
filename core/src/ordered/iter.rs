//! Walks over a map, in the order of its keys.

use super::table::ValueTable;
use alloc::collections::btree_map::{self, BTreeMap};
use alloc::vec::Vec;

/// Entries of a map: those whose keys and places `I` yields.
pub struct Pairs<'a, I, V> {
    index: I,
    table: &'a ValueTable<V>,
}

/// Entries of a map from a key to another one.
pub type Range<'a, K, V> = Pairs<'a, btree_map::Range<'a, K, u32>, V>;

/// All entries of a map.
pub type Iter<'a, K, V> = Pairs<'a, btree_map::Iter<'a, K, u32>, V>;

impl<'a, I, V> Pairs<'a, I, V> {
    pub(super) const fn new(index: I, table: &'a ValueTable<V>) -> Self {
        Self { index, table }
    }
}

impl<I: Clone, V> Clone for Pairs<'_, I, V> {
    fn clone(&self) -> Self {
        Self {
            index: self.index.clone(),
            table: self.table,
        }
    }
}

impl<'a, K: 'a, V, I: Iterator<Item = (&'a K, &'a u32)>> Iterator for Pairs<'a, I, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, place) = self.index.next()?;
        Some((key, self.table.get(*place)?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.index.size_hint()
    }
}

impl<'a, K: 'a, V, I: DoubleEndedIterator<Item = (&'a K, &'a u32)>> DoubleEndedIterator for Pairs<'a, I, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let (key, place) = self.index.next_back()?;
        Some((key, self.table.get(*place)?))
    }
}

impl<'a, K: 'a, V, I: ExactSizeIterator<Item = (&'a K, &'a u32)>> ExactSizeIterator for Pairs<'a, I, V> {}

/// Entries of a map, the values to be changed: those whose keys and places `I` yields.
pub struct PairsMut<'a, I, V> {
    index: I,
    values: Vec<Option<&'a mut V>>,
}

/// All entries of a map, the values to be changed.
pub type IterMut<'a, K, V> = PairsMut<'a, btree_map::Iter<'a, K, u32>, V>;

/// Entries of a map from a key to another one, the values to be changed.
pub type RangeMut<'a, K, V> = PairsMut<'a, btree_map::Range<'a, K, u32>, V>;

impl<'a, I, V> PairsMut<'a, I, V> {
    pub(super) const fn new(index: I, values: Vec<Option<&'a mut V>>) -> Self {
        Self { index, values }
    }
}

impl<'a, K: 'a, V, I: Iterator<Item = (&'a K, &'a u32)>> Iterator for PairsMut<'a, I, V> {
    type Item = (&'a K, &'a mut V);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, place) = self.index.next()?;
        Some((key, self.values.get_mut(*place as usize)?.take()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.index.size_hint()
    }
}

impl<'a, K: 'a, V, I: DoubleEndedIterator<Item = (&'a K, &'a u32)>> DoubleEndedIterator
    for PairsMut<'a, I, V>
{
    fn next_back(&mut self) -> Option<Self::Item> {
        let (key, place) = self.index.next_back()?;
        Some((key, self.values.get_mut(*place as usize)?.take()?))
    }
}

impl<'a, K: 'a, V, I: ExactSizeIterator<Item = (&'a K, &'a u32)>> ExactSizeIterator for PairsMut<'a, I, V> {}

/// All entries of a map that is used up.
pub struct IntoIter<K, V> {
    index: btree_map::IntoIter<K, u32>,
    table: ValueTable<V>,
}

impl<K, V> IntoIter<K, V> {
    pub(super) fn new(index: BTreeMap<K, u32>, table: ValueTable<V>) -> Self {
        Self {
            index: index.into_iter(),
            table,
        }
    }
}

impl<K, V> Iterator for IntoIter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        let (key, place) = self.index.next()?;
        Some((key, self.table.take(place)?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.index.size_hint()
    }
}

impl<K, V> DoubleEndedIterator for IntoIter<K, V> {
    fn next_back(&mut self) -> Option<(K, V)> {
        let (key, place) = self.index.next_back()?;
        Some((key, self.table.take(place)?))
    }
}

impl<K, V> ExactSizeIterator for IntoIter<K, V> {}
