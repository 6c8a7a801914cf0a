//! A map of counters: per key one dot for every node that has counted there since the key was last removed, with what it
//! counted. A removal takes away what it has seen of each node; a node that counts meanwhile brings back its own part.
//! Spec: sharding 1.13, 10.21.

use super::counters::{Tally, down, up};
use super::dotted::{Change, Dotted, DottedDelta, Payload};
use super::op::{Element, OpError, PnCounterMapOp, check_element};
use super::{MergeError, Minting};
use crate::ident::UniqueAddress;

impl Payload for Tally {
    fn join(&mut self, other: &Self) -> bool {
        let joined = self.joined(*other);
        let changed = joined != *self;
        *self = joined;
        changed
    }
}

/// A map of counters that go up and down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PnCounterMap(pub(crate) Dotted<Element, Tally>);

/// What operations changed in a [`PnCounterMap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PnCounterMapDelta(pub(crate) DottedDelta<Element, Tally>);

impl PnCounterMap {
    /// The empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a key's counter.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<i128> {
        self.0.entries.get(key).map(value)
    }

    /// Keys and values in the order of the keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Element, i128)> {
        self.0.entries.iter().map(|(key, live)| (key, value(live)))
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.entries.is_empty()
    }

    pub(super) fn apply(
        &mut self,
        op: &PnCounterMapOp,
        minting: &mut Minting,
    ) -> Result<Option<PnCounterMapDelta>, OpError> {
        let delta = match op {
            PnCounterMapOp::Increment { key, by } => self.count(key, up(*by), minting)?,
            PnCounterMapOp::Decrement { key, by } => self.count(key, down(*by), minting)?,
            PnCounterMapOp::Remove(key) => {
                let mut change = Change::of(&mut self.0);
                change.remove(key, |_, _| true);
                change.finish()
            }
            PnCounterMapOp::Clear if self.is_empty() => None,
            PnCounterMapOp::Clear => {
                let mut change = Change::of(&mut self.0);
                change.clear();
                change.finish()
            }
        };
        Ok(delta.map(PnCounterMapDelta))
    }

    fn count(
        &mut self,
        key: &Element,
        by: Tally,
        minting: &mut Minting,
    ) -> Result<Option<DottedDelta<Element, Tally>>, OpError> {
        check_element(key)?;
        let mut change = Change::adding(&mut self.0, minting)?;
        let me = minting.me().clone();
        let own = change
            .live(key)
            .iter()
            .filter(|live| *change.context().node(live.dot.node) == me);
        let total = own.fold(by, |sum, live| sum.plus(live.payload));
        change.remove(key, |context, dot| *context.node(dot.node) == me);
        change.add(key, total, minting);
        Ok(change.finish())
    }

    pub(super) fn merge(&mut self, other: &Self) -> Result<bool, MergeError> {
        self.0.merge(&other.0)
    }

    pub(super) fn merge_delta(&mut self, delta: &PnCounterMapDelta) -> Result<bool, MergeError> {
        self.0.merge_delta(&delta.0)
    }

    /// Adds what the removed node has counted to what the minting node has.
    pub(super) fn prune(&mut self, removed: &UniqueAddress, minting: &mut Minting) -> Result<u64, OpError> {
        let me = minting.me().clone();
        self.0.prune(
            removed,
            minting,
            |node| node == removed || *node == me,
            |context, live, _| {
                let of = |node: &UniqueAddress| {
                    let theirs = live.iter().filter(|live| context.node(live.dot.node) == node);
                    theirs.map(|live| live.payload).reduce(Tally::plus)
                };
                Ok(of(removed).map(|gone| gone.plus(of(&me).unwrap_or_default())))
            },
        )
    }
}

fn value(live: &super::few::Few<super::dotted::Live<Tally>>) -> i128 {
    live.iter()
        .fold(Tally::default(), |sum, live| sum.plus(live.payload))
        .value()
}
