//! Maps and sets in the order of their keys, for the whole workspace: what [`BTreeMap`] and [`BTreeSet`] do,
//! in a quarter of the code.
//!
//! The compiler writes a B-tree anew for each pair of a type of key and a type of value, some 15 kB each, and
//! there were 134 such pairs: more than a quarter of a program, and of what a user's first build costs. Here
//! the B-tree holds the key and a place, so there is one per type of key, and the values are in a table,
//! whose code is small.
//!
//! Costs: a look-up is one in a B-tree, and one by index. A walk reads the table once per entry.
//! [`OrderedMap::iter_mut`], [`OrderedMap::values_mut`] and [`OrderedMap::range_mut`] allocate 8 bytes per
//! entry; [`OrderedMap::next_mut`] does not. Memory of removed entries is used again, and given back once
//! three quarters of it are free.
//!
//! Three rooms keep those of `alloc`: open asks and timers, which every ask puts into and takes from (a tenth
//! of its instructions), and replicated values, which travel inside of messages (a map here is 56 bytes,
//! there 24) and whose bytes per element are documented.
//!
//! [`BTreeMap`]: alloc::collections::BTreeMap
//! [`BTreeSet`]: alloc::collections::BTreeSet

mod entry;
mod iter;
mod map;
mod set;
mod table;
#[cfg(test)]
mod tests;

pub use entry::{Entry, OccupiedEntry, VacantEntry};
pub use iter::{IntoIter, Iter, IterMut, Pairs, PairsMut, Range, RangeMut};
pub use map::OrderedMap;
pub use set::{Elements, OrderedSet};
