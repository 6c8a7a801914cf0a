//! A map of counters. Spec: sharding 1.13, 10.21; what a removal beside an increment leaves, `docs/adr/0010`
//! says.

use super::dotted::{Dotted, DottedChange, DottedDelta};
use super::op::{Element, OpError, PnCounterMapOp, PnCounterOp, check_element};
use super::replicated::ReplicatedData;
use super::{MergeError, Minting, PnCounter};

/// A map of counters that go up and down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PnCounterMap(pub(crate) Dotted<Element, PnCounter>);

/// What operations changed in a [`PnCounterMap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PnCounterMapDelta(pub(crate) DottedDelta<Element, PnCounter>);

of_dots!(PnCounterMap, PnCounterMapOp, PnCounterMapDelta, 0);

impl PnCounterMap {
    /// The empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a key's counter.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<i128> {
        self.0.entries.get(key).map(|entry| entry.value.value())
    }

    /// Keys and values in the order of the keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Element, i128)> {
        self.0
            .entries
            .iter()
            .map(|(key, entry)| (key, entry.value.value()))
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

    fn change(
        &mut self,
        op: &PnCounterMapOp,
        minting: &mut Minting,
    ) -> Result<Option<PnCounterMapDelta>, OpError> {
        let delta = match op {
            PnCounterMapOp::Increment { key, by } => {
                self.count(key, &PnCounterOp::Increment(*by), minting)?
            }
            PnCounterMapOp::Decrement { key, by } => {
                self.count(key, &PnCounterOp::Decrement(*by), minting)?
            }
            PnCounterMapOp::Remove(key) => {
                let mut change = DottedChange::of(&mut self.0);
                change.remove(key);
                change.finish()
            }
            PnCounterMapOp::Clear if self.is_empty() => None,
            PnCounterMapOp::Clear => {
                let mut change = DottedChange::of(&mut self.0);
                change.clear();
                change.finish()
            }
        };
        Ok(delta.map(PnCounterMapDelta))
    }

    fn count(
        &mut self,
        key: &Element,
        op: &PnCounterOp,
        minting: &mut Minting,
    ) -> Result<Option<DottedDelta<Element, PnCounter>>, OpError> {
        check_element(key)?;
        let mut counter = self
            .0
            .entries
            .get(key)
            .map_or_else(PnCounter::new, |held| held.value.clone());
        counter.apply(op, minting)?;
        let mut change = DottedChange::writing(&mut self.0, minting)?;
        change.write(key, counter, minting);
        Ok(change.finish())
    }
}
