//! The set.

use alloc::collections::btree_map::{self, BTreeMap};
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;
use core::iter::Peekable;
use core::ops::RangeBounds;

/// A set in the order of its elements. It has the methods of [`BTreeSet`](alloc::collections::BTreeSet) under
/// their names, and shares the code of its B-tree with the [maps](super::OrderedMap) of that key; [what it
/// costs](super).
#[derive(Clone)]
pub struct OrderedSet<T> {
    /// The places mean nothing here.
    index: BTreeMap<T, u32>,
}

/// Elements of a set, in their order.
pub type Elements<'a, T> = btree_map::Keys<'a, T, u32>;

impl<T> OrderedSet<T> {
    /// An empty set. Allocates nothing.
    pub const fn new() -> Self {
        Self {
            index: BTreeMap::new(),
        }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Removes all elements.
    pub fn clear(&mut self) {
        self.index.clear();
    }

    /// Elements in their order.
    pub fn iter(&self) -> Elements<'_, T> {
        self.index.keys()
    }
}

impl<T: Ord> OrderedSet<T> {
    /// Whether the element is there.
    pub fn contains<Q: Ord + ?Sized>(&self, element: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.index.contains_key(element)
    }

    /// Adds an element; says whether it was not there.
    pub fn insert(&mut self, element: T) -> bool {
        self.index.insert(element, 0).is_none()
    }

    /// Removes an element; says whether it was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, element: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.index.remove(element).is_some()
    }

    /// The lowest element.
    pub fn first(&self) -> Option<&T> {
        self.iter().next()
    }

    /// The highest element.
    pub fn last(&self) -> Option<&T> {
        self.iter().next_back()
    }

    /// Removes the lowest element.
    pub fn pop_first(&mut self) -> Option<T> {
        Some(self.index.pop_first()?.0)
    }

    /// Keeps the elements for which `f` is true. It is called in their order.
    pub fn retain(&mut self, mut f: impl FnMut(&T) -> bool) {
        self.index.retain(|element, _| f(element));
    }

    /// Elements in `range`, in their order.
    ///
    /// # Panics
    ///
    /// If the range begins behind its end, as [`BTreeSet::range`](alloc::collections::BTreeSet::range) does.
    pub fn range<Q: Ord + ?Sized, R: RangeBounds<Q>>(
        &self,
        range: R,
    ) -> impl DoubleEndedIterator<Item = &T> + Clone + use<'_, T, Q, R>
    where
        T: Borrow<Q>,
    {
        self.index.range(range).map(|(element, _)| element)
    }

    /// Whether all elements are in `other` as well.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.len() <= other.len() && self.difference(other).next().is_none()
    }

    /// Whether all elements of `other` are here as well.
    pub fn is_superset(&self, other: &Self) -> bool {
        other.is_subset(self)
    }

    /// Elements of this set or of `other`, in their order, each once.
    pub fn union<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> + Clone {
        Both::new(self, other).filter_map(|(ours, theirs)| ours.or(theirs))
    }

    /// Elements of this set that are not in `other`, in their order.
    pub fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> + Clone {
        Both::new(self, other)
            .filter(|(_, theirs)| theirs.is_none())
            .filter_map(|(ours, _)| ours)
    }
}

/// Two sets, walked beside each other: an element of one, of the other or of both.
struct Both<'a, T> {
    ours: Peekable<Elements<'a, T>>,
    theirs: Peekable<Elements<'a, T>>,
}

impl<'a, T> Both<'a, T> {
    fn new(ours: &'a OrderedSet<T>, theirs: &'a OrderedSet<T>) -> Self {
        Self {
            ours: ours.iter().peekable(),
            theirs: theirs.iter().peekable(),
        }
    }
}

impl<T> Clone for Both<'_, T> {
    fn clone(&self) -> Self {
        Self {
            ours: self.ours.clone(),
            theirs: self.theirs.clone(),
        }
    }
}

impl<'a, T: Ord> Iterator for Both<'a, T> {
    type Item = (Option<&'a T>, Option<&'a T>);

    fn next(&mut self) -> Option<Self::Item> {
        let order = match (self.ours.peek(), self.theirs.peek()) {
            (Some(ours), Some(theirs)) => ours.cmp(theirs),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        Some(match order {
            Ordering::Less => (self.ours.next(), None),
            Ordering::Equal => (self.ours.next(), self.theirs.next()),
            Ordering::Greater => (None, self.theirs.next()),
        })
    }
}

impl<T> Default for OrderedSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OrderedSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<T: PartialEq> PartialEq for OrderedSet<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for OrderedSet<T> {}

impl<T: Ord> PartialOrd for OrderedSet<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> Ord for OrderedSet<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl<T: Ord> Extend<T> for OrderedSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        for element in elements {
            self.insert(element);
        }
    }
}

impl<'a, T: Ord + Copy + 'a> Extend<&'a T> for OrderedSet<T> {
    fn extend<I: IntoIterator<Item = &'a T>>(&mut self, elements: I) {
        self.extend(elements.into_iter().copied());
    }
}

impl<T: Ord> FromIterator<T> for OrderedSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut set = Self::new();
        set.extend(elements);
        set
    }
}

impl<T: Ord, const N: usize> From<[T; N]> for OrderedSet<T> {
    fn from(elements: [T; N]) -> Self {
        elements.into_iter().collect()
    }
}

impl<T> IntoIterator for OrderedSet<T> {
    type Item = T;
    type IntoIter = btree_map::IntoKeys<T, u32>;

    fn into_iter(self) -> Self::IntoIter {
        self.index.into_keys()
    }
}

impl<'a, T> IntoIterator for &'a OrderedSet<T> {
    type Item = &'a T;
    type IntoIter = Elements<'a, T>;

    fn into_iter(self) -> Elements<'a, T> {
        self.iter()
    }
}
