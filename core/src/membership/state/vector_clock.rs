//! Vector clock keyed by incarnation: which of two states is newer, or that neither is. Never reads a clock
//! of the wall and never decides what to do with the answer. Spec: membership 1.6.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::ident::UniqueAddress;

/// How two clocks relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockOrder {
    /// The same entries.
    Same,
    /// The left clock is contained in the right one.
    Before,
    /// The left clock contains the right one.
    After,
    /// Each has something the other lacks.
    Concurrent,
}

/// Counters per incarnation, sorted by incarnation. An absent entry is not the same as an entry of 0: it is
/// behind it. Cloning is one reference count; a change of a shared clock copies it once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorClock {
    entries: Arc<Vec<(UniqueAddress, u64)>>,
}

/// Sorts numbers of nodes by node; says whether each node is there once.
pub(super) fn sort_by_node(numbers: &mut [(UniqueAddress, u64)]) -> bool {
    numbers.sort_by(|left, right| left.0.cmp(&right.0));
    numbers.windows(2).all(|pair| pair[0].0 != pair[1].0)
}

impl VectorClock {
    /// The clock of a state nobody has changed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A clock of these entries in any order; `None` if an incarnation appears twice.
    #[must_use]
    pub fn from_entries(mut entries: Vec<(UniqueAddress, u64)>) -> Option<Self> {
        sort_by_node(&mut entries).then(|| Self {
            entries: Arc::new(entries),
        })
    }

    /// Counts a node's entry up by one.
    pub fn increment(&mut self, node: &UniqueAddress) {
        self.increment_above(node, 0);
    }

    /// Counts a node's entry up to one above itself or above `floor`, whichever is higher.
    pub fn increment_above(&mut self, node: &UniqueAddress, floor: u64) {
        let entries = Arc::make_mut(&mut self.entries);
        match entries.binary_search_by(|entry| entry.0.cmp(node)) {
            Ok(at) => entries[at].1 = entries[at].1.max(floor).saturating_add(1),
            Err(at) => entries.insert(at, (node.clone(), floor.saturating_add(1))),
        }
    }

    /// Takes the larger counter of every entry. Allocates nothing if `other` has nothing new; shares
    /// `other`'s entries if they contain all of these.
    pub fn merge(&mut self, other: &Self) {
        match self.compare(other) {
            ClockOrder::Same | ClockOrder::After => {}
            ClockOrder::Before => self.entries = Arc::clone(&other.entries),
            ClockOrder::Concurrent => self.entries = Arc::new(merged(&self.entries, &other.entries)),
        }
    }

    /// Forgets the entry of `node`, if there is one.
    pub fn prune(&mut self, node: &UniqueAddress) {
        if let Ok(at) = self.entries.binary_search_by(|entry| entry.0.cmp(node)) {
            Arc::make_mut(&mut self.entries).remove(at);
        }
    }

    /// Forgets every entry whose incarnation `keep` refuses. Allocates nothing if it refuses none. `keep`
    /// must answer the same when asked twice.
    pub fn retain(&mut self, mut keep: impl FnMut(&UniqueAddress) -> bool) {
        if self.entries.iter().any(|entry| !keep(&entry.0)) {
            Arc::make_mut(&mut self.entries).retain(|entry| keep(&entry.0));
        }
    }

    /// Sets the entry of `node`; 0 means none.
    pub(crate) fn set(&mut self, node: &UniqueAddress, counter: u64) {
        match self.entries.binary_search_by(|entry| entry.0.cmp(node)) {
            Ok(_) if counter == 0 => self.prune(node),
            Ok(at) => Arc::make_mut(&mut self.entries)[at].1 = counter,
            Err(_) if counter == 0 => {}
            Err(at) => Arc::make_mut(&mut self.entries).insert(at, (node.clone(), counter)),
        }
    }

    /// The members whose entries here and in `other` are further apart than `by`, with both; one that is not
    /// there counts as 0.
    pub(crate) fn far_apart(&self, other: &Self, by: u64) -> Vec<(UniqueAddress, u64, u64)> {
        let ours = self
            .iter()
            .map(|(node, counter)| (node, counter, other.get(node)));
        let theirs = other.iter().filter(|(node, _)| self.get(node) == 0);
        let both = ours.chain(theirs.map(|(node, counter)| (node, 0, counter)));
        both.filter(|(_, left, right)| left.abs_diff(*right) > by)
            .map(|(node, left, right)| (node.clone(), left, right))
            .collect()
    }

    /// The counter of `node`; 0 if there is none.
    #[must_use]
    pub fn get(&self, node: &UniqueAddress) -> u64 {
        self.entries
            .binary_search_by(|entry| entry.0.cmp(node))
            .map_or(0, |at| self.entries[at].1)
    }

    /// How this clock relates to `other`. One walk over both.
    #[must_use]
    pub fn compare(&self, other: &Self) -> ClockOrder {
        if self.shares_with(other) {
            return ClockOrder::Same;
        }
        order_of_entries(self.iter(), other.iter(), |ours, theirs| ours.cmp(theirs))
    }

    /// Whether both are one in memory, and so the same.
    pub(crate) fn shares_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.entries, &other.entries)
    }

    /// How many incarnations have an entry.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nobody has an entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = (&UniqueAddress, u64)> {
        self.entries.iter().map(|entry| (&entry.0, entry.1))
    }

    /// The entries in order.
    #[must_use]
    pub fn entries(&self) -> &[(UniqueAddress, u64)] {
        &self.entries
    }
}

/// How the entries `left` relate to the entries `right`, both in rising order by `cmp`. One walk over both.
pub(crate) fn order_of_entries<L, R>(
    mut left: impl Iterator<Item = (L, u64)>,
    mut right: impl Iterator<Item = (R, u64)>,
    cmp: impl Fn(&L, &R) -> Ordering,
) -> ClockOrder {
    let (mut left_ahead, mut right_ahead) = (false, false);
    let (mut ours, mut theirs) = (left.next(), right.next());
    while let (Some(our), Some(their)) = (&ours, &theirs) {
        match cmp(&our.0, &their.0) {
            Ordering::Less => {
                left_ahead = true;
                ours = left.next();
            }
            Ordering::Greater => {
                right_ahead = true;
                theirs = right.next();
            }
            Ordering::Equal => {
                left_ahead |= our.1 > their.1;
                right_ahead |= our.1 < their.1;
                (ours, theirs) = (left.next(), right.next());
            }
        }
        if left_ahead && right_ahead {
            return ClockOrder::Concurrent;
        }
    }
    match (left_ahead || ours.is_some(), right_ahead || theirs.is_some()) {
        (false, false) => ClockOrder::Same,
        (false, true) => ClockOrder::Before,
        (true, false) => ClockOrder::After,
        (true, true) => ClockOrder::Concurrent,
    }
}

/// Whether entries of `left` and `right`, both in rising order by `cmp`, are further apart than `by`. One
/// walk over both, up to the first.
pub(crate) fn are_far_apart<L, R>(
    left: impl Iterator<Item = (L, u64)>,
    right: impl Iterator<Item = (R, u64)>,
    by: u64,
    cmp: impl Fn(&L, &R) -> Ordering,
) -> bool {
    let (mut left, mut right) = (left.peekable(), right.peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(ours), Some(theirs)) => cmp(&ours.0, &theirs.0),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return false,
        };
        let ours = left.next_if(|_| order.is_le()).map_or(0, |entry| entry.1);
        let theirs = right.next_if(|_| order.is_ge()).map_or(0, |entry| entry.1);
        if ours.abs_diff(theirs) > by {
            return true;
        }
    }
}

fn merged(
    mut left: &[(UniqueAddress, u64)],
    mut right: &[(UniqueAddress, u64)],
) -> Vec<(UniqueAddress, u64)> {
    let mut out = Vec::with_capacity(left.len().max(right.len()) + 1);
    while let (Some(ours), Some(theirs)) = (left.first(), right.first()) {
        match ours.0.cmp(&theirs.0) {
            Ordering::Less => {
                out.push(ours.clone());
                left = &left[1..];
            }
            Ordering::Greater => {
                out.push(theirs.clone());
                right = &right[1..];
            }
            Ordering::Equal => {
                out.push((ours.0.clone(), ours.1.max(theirs.1)));
                left = &left[1..];
                right = &right[1..];
            }
        }
    }
    out.extend_from_slice(left);
    out.extend_from_slice(right);
    out
}
