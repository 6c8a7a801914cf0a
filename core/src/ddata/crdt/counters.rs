//! Counters: per incarnation what it has counted, joined by the larger total. Never below zero per node; the
//! totals are 128 bits wide, so that sums of 64-bit amounts cannot wrap. Spec: sharding 1.13;
//! `docs/adr/0012`.

use alloc::vec::Vec;

use super::minting::nobody;
use super::op::{GCounterOp, OpError, PnCounterOp};
use super::replicated::ReplicatedData;
use super::{Applied, MergeError, Minting};
use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;

/// What one node has counted up and down. A grow-only counter leaves `down` at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sum of the increments.
    pub up: u128,
    /// Sum of the decrements.
    pub down: u128,
}

impl Tally {
    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            up: self.up.saturating_add(other.up),
            down: self.down.saturating_add(other.down),
        }
    }

    pub(super) fn joined(self, other: Self) -> Self {
        Self {
            up: self.up.max(other.up),
            down: self.down.max(other.down),
        }
    }

    pub(super) const fn is_zero(self) -> bool {
        self.up == 0 && self.down == 0
    }

    /// Ups minus downs, at the ends of the range where forged totals leave it.
    #[must_use]
    pub fn value(self) -> i128 {
        match self.up.checked_sub(self.down) {
            Some(above) => i128::try_from(above).unwrap_or(i128::MAX),
            None => i128::try_from(self.down - self.up).map_or(i128::MIN, |below| -below),
        }
    }
}

/// Tallies by node, sorted by node; a node that counted nothing is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tallies(Vec<(UniqueAddress, Tally)>);

impl Tallies {
    /// Entries in the order of their nodes, none zero; `None` if they are not.
    pub(crate) fn from_sorted(entries: Vec<(UniqueAddress, Tally)>) -> Option<Self> {
        let sorted = entries.windows(2).all(|pair| pair[0].0 < pair[1].0);
        (sorted && entries.iter().all(|(_, tally)| !tally.is_zero())).then_some(Self(entries))
    }

    pub(crate) fn entries(&self) -> &[(UniqueAddress, Tally)] {
        &self.0
    }

    fn find(&self, node: &UniqueAddress) -> Result<usize, usize> {
        self.0.binary_search_by(|entry| entry.0.cmp(node))
    }

    pub(super) fn get(&self, node: &UniqueAddress) -> Tally {
        self.find(node).map_or(Tally::default(), |at| self.0[at].1)
    }

    fn set(&mut self, node: &UniqueAddress, tally: Tally) {
        match self.find(node) {
            Ok(at) if tally.is_zero() => {
                self.0.remove(at);
            }
            Ok(at) => self.0[at].1 = tally,
            Err(_) if tally.is_zero() => {}
            Err(at) => self.0.insert(at, (node.clone(), tally)),
        }
    }

    /// Counts, and says the new totals of the node; `None` if nothing changed.
    fn count(&mut self, node: &UniqueAddress, by: Tally) -> Option<Self> {
        if by.is_zero() {
            return None;
        }
        let tally = self.get(node).plus(by);
        self.set(node, tally);
        Some(Self(Vec::from([(node.clone(), tally)])))
    }

    fn merge(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (node, theirs) in &other.0 {
            let mine = self.get(node);
            let joined = mine.joined(*theirs);
            if joined != mine {
                self.set(node, joined);
                changed = true;
            }
        }
        changed
    }

    /// Moves what a node counted to nobody's share.
    fn settle(&mut self, removed: &UniqueAddress) {
        let share = self.get(removed);
        self.set(removed, Tally::default());
        let nobody = nobody();
        self.set(&nobody, self.get(&nobody).plus(share));
    }

    fn total(&self) -> Tally {
        self.0.iter().fold(Tally::default(), |sum, (_, t)| sum.plus(*t))
    }
}

macro_rules! counter {
    ($(#[$docs:meta])* $name:ident, $op:ident) => {
        $(#[$docs])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name(Tallies);

        impl $name {
            /// A counter at 0.
            #[must_use]
            pub fn new() -> Self {
                Self::default()
            }

            pub(crate) const fn from_tallies(tallies: Tallies) -> Self {
                Self(tallies)
            }

            pub(crate) const fn tallies(&self) -> &Tallies {
                &self.0
            }

            /// How many nodes have counted, all that are [settled](super::DataValue::settle) as one.
            #[must_use]
            pub fn len(&self) -> usize {
                self.0.0.len()
            }

            /// Whether nobody has counted.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.0.0.is_empty()
            }

            /// The nodes that have counted, in order, [nobody](super::nobody) included.
            pub fn nodes(&self) -> impl Iterator<Item = &UniqueAddress> {
                self.0.0.iter().map(|(node, _)| node)
            }
        }

        impl ReplicatedData for $name {
            type Op = $op;
            type Delta = Self;

            fn apply(&mut self, op: &$op, minting: &mut Minting) -> Result<Applied<Self>, OpError> {
                Ok(Applied::of(self.0.count(minting.me(), op.tally()).map(Self)))
            }

            fn merge(&mut self, other: &Self) -> Result<bool, MergeError> {
                Ok(self.0.merge(&other.0))
            }

            fn merge_delta(&mut self, delta: &Self) -> Result<bool, MergeError> {
                self.merge(delta)
            }

            fn settle(&mut self, removed: &UniqueAddress) -> Result<(), OpError> {
                self.0.settle(removed);
                Ok(())
            }

            fn nodes(&self, all: &mut OrderedSet<UniqueAddress>) {
                all.extend(self.nodes().cloned());
            }

            fn mentions(&self, node: &UniqueAddress) -> bool {
                !self.0.get(node).is_zero()
            }

            fn size(&self) -> usize {
                self.len().max(1)
            }
        }
    };
}

counter! {
    /// A counter that only grows.
    GCounter, GCounterOp
}

counter! {
    /// A counter that goes up and down.
    PnCounter, PnCounterOp
}

impl GCounter {
    /// The sum over all nodes.
    #[must_use]
    pub fn value(&self) -> u128 {
        self.0.total().up
    }
}

impl PnCounter {
    /// The increments of all nodes minus their decrements.
    #[must_use]
    pub fn value(&self) -> i128 {
        self.0.total().value()
    }
}

impl GCounterOp {
    fn tally(&self) -> Tally {
        let Self::Increment(by) = self;
        up(*by)
    }
}

impl PnCounterOp {
    fn tally(&self) -> Tally {
        match self {
            Self::Increment(by) => up(*by),
            Self::Decrement(by) => down(*by),
        }
    }
}

pub(super) fn up(by: u64) -> Tally {
    Tally {
        up: u128::from(by),
        down: 0,
    }
}

pub(super) fn down(by: u64) -> Tally {
    Tally {
        up: 0,
        down: u128::from(by),
    }
}
