//! The table of paths: which path there is, which member hosts which of its slots, and the last move of each
//! slot. A join semilattice entry by entry and slot by slot: what two sides changed at once is merged in any
//! order to the same table. Decides nothing. Spec: sharding 5.1, 10.17.
//!
//! What the leader decides about a path is one record, and the record with the later epoch wins. The last
//! move of a slot is a register of its own, ordered by the epoch that began it and then by how far it is: the
//! old host writes its progress without the leader.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;

pub use super::entry::{MoveStatus, PathEntry, PathEpoch, PathRecord, SlotMove};
use super::written::{self, TableParts};
use crate::bytes::WireError;
use crate::ident::UniqueAddress;
use crate::paths::state::name::{PathId, PathName};

/// See the module. Holds its written form: two tables are equal if their bytes are.
#[derive(Clone, Debug)]
pub struct PathTable {
    counter: u64,
    /// Removed paths whose record is not above it, and that have ended, are forgotten.
    forgotten: u64,
    placed: Option<(PathEpoch, UniqueAddress)>,
    entries: Vec<Arc<PathEntry>>,
    bytes: Arc<[u8]>,
}

impl Default for PathTable {
    fn default() -> Self {
        Self {
            counter: 0,
            forgotten: 0,
            placed: None,
            entries: Vec::new(),
            bytes: Arc::from([]),
        }
    }
}

impl PartialEq for PathTable {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.bytes, &other.bytes) || self.bytes == other.bytes
    }
}

impl Eq for PathTable {}

impl PathTable {
    /// A table of these parts.
    ///
    /// # Errors
    /// What is wrong with them, or which limit they exceed, as a peer would say it.
    pub fn new(
        counter: u64,
        placed: Option<(PathEpoch, UniqueAddress)>,
        entries: Vec<Arc<PathEntry>>,
    ) -> Result<Self, WireError> {
        let table = Self::of(counter, 0, placed, entries)?;
        written::check(&table.bytes)?;
        Ok(table)
    }

    /// The same of parts whose order and epochs the caller keeps.
    pub(crate) fn of(
        counter: u64,
        forgotten: u64,
        placed: Option<(PathEpoch, UniqueAddress)>,
        entries: Vec<Arc<PathEntry>>,
    ) -> Result<Self, WireError> {
        let bytes = written::write((counter, forgotten), placed.as_ref(), &entries)?;
        Ok(Self {
            counter,
            forgotten,
            placed,
            entries,
            bytes: Arc::from(bytes),
        })
    }

    /// From its written form, which was checked.
    pub(crate) fn from_checked(bytes: &[u8]) -> Self {
        let Ok(TableParts {
            counters: (counter, forgotten),
            placed,
            entries,
        }) = written::read(bytes)
        else {
            return Self::default();
        };
        Self {
            counter,
            forgotten,
            placed,
            entries,
            bytes: Arc::from(bytes),
        }
    }

    /// The written form; none at all for a table that never had a path.
    pub(crate) const fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// The largest counter of an epoch in it, now or ever.
    #[must_use]
    pub const fn counter(&self) -> u64 {
        self.counter
    }

    /// Up to which epoch removed paths are forgotten.
    pub(crate) const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The member that got a slot last: placing goes on behind it.
    #[must_use]
    pub fn last_placed(&self) -> Option<&UniqueAddress> {
        self.placed.as_ref().map(|(_, node)| node)
    }

    pub(crate) const fn placed(&self) -> Option<&(PathEpoch, UniqueAddress)> {
        self.placed.as_ref()
    }

    /// All paths by name, removed ones that are not forgotten yet included.
    #[must_use]
    pub fn entries(&self) -> &[Arc<PathEntry>] {
        &self.entries
    }

    /// A path. Costs the logarithm of the number of paths.
    #[must_use]
    pub fn get(&self, name: &PathName) -> Option<&Arc<PathEntry>> {
        let at = self.entries.binary_search_by(|entry| entry.name.cmp(name)).ok()?;
        self.entries.get(at)
    }

    /// A path by its id. Linear: only for what happens seldom.
    #[must_use]
    pub fn by_id(&self, id: PathId) -> Option<&Arc<PathEntry>> {
        self.entries.iter().find(|entry| entry.name.id() == id)
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether a slot or a move that is not over names this member: it has not handed over everything.
    #[must_use]
    pub fn names(&self, node: &UniqueAddress) -> bool {
        self.entries.iter().any(|entry| entry.names(node))
    }

    /// The least table that contains both. Equal ones, and one that contains the other, are shared: nothing
    /// is allocated.
    #[must_use]
    pub fn merged(self: &Arc<Self>, other: &Arc<Self>) -> Arc<Self> {
        if Arc::ptr_eq(self, other) || self == other {
            return Arc::clone(self);
        }
        let mut entries = Vec::with_capacity(self.entries.len().max(other.entries.len()));
        let (mut left, mut right) = (&self.entries[..], &other.entries[..]);
        while let (Some(mine), Some(theirs)) = (left.first(), right.first()) {
            let order = mine.name.cmp(&theirs.name);
            entries.push(match order {
                Ordering::Less => Arc::clone(mine),
                Ordering::Greater => Arc::clone(theirs),
                Ordering::Equal => mine.merged(theirs),
            });
            left = &left[usize::from(order.is_le())..];
            right = &right[usize::from(order.is_ge())..];
        }
        entries.extend_from_slice(left);
        entries.extend_from_slice(right);
        let counter = self.counter.max(other.counter);
        let forgotten = self.forgotten.max(other.forgotten);
        entries.retain(|entry| entry.record.epoch.counter > forgotten || !entry.has_ended());
        let placed = self.placed.as_ref().max(other.placed.as_ref());
        for side in [self, other] {
            if side.is_made_of((counter, forgotten), placed, &entries) {
                return Arc::clone(side);
            }
        }
        // Two tables that fit make one that does not only where each side of a partition has registered
        // paths of its own. The greater one stands then, whole: an operator registers the others anew.
        Self::of(counter, forgotten, placed.cloned(), entries).map_or_else(
            |_| {
                let greater = (self.counter, &self.bytes) >= (other.counter, &other.bytes);
                Arc::clone(if greater { self } else { other })
            },
            Arc::new,
        )
    }

    fn is_made_of(
        &self,
        (counter, forgotten): (u64, u64),
        placed: Option<&(PathEpoch, UniqueAddress)>,
        entries: &[Arc<PathEntry>],
    ) -> bool {
        // What came over the network shares nothing with what is held.
        let same = |(a, b): (&Arc<PathEntry>, &Arc<PathEntry>)| Arc::ptr_eq(a, b) || a == b;
        (self.counter, self.forgotten) == (counter, forgotten)
            && self.placed.as_ref() == placed
            && self.entries.len() == entries.len()
            && self.entries.iter().zip(entries).all(same)
    }
}
