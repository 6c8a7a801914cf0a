//! A set that only grows, and a flag that is only switched on. Neither knows who changed it. Spec: sharding
//! 1.13.

use alloc::collections::BTreeSet;

use super::op::{Element, FlagOp, GSetOp, OpError, check_element};
use super::replicated::ReplicatedData;
use super::{Applied, MergeError, Minting};

/// A set without removal, in the order of the elements' bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GSet(BTreeSet<Element>);

impl GSet {
    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) const fn from_elements(elements: BTreeSet<Element>) -> Self {
        Self(elements)
    }

    /// Whether the element is in the set.
    #[must_use]
    pub fn contains(&self, element: &[u8]) -> bool {
        self.0.contains(element)
    }

    /// The elements in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Element> {
        self.0.iter()
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl ReplicatedData for GSet {
    type Op = GSetOp;
    type Delta = Self;

    fn apply(&mut self, op: &GSetOp, _: &mut Minting) -> Result<Applied<Self>, OpError> {
        let GSetOp::Add(element) = op;
        check_element(element)?;
        if !self.0.insert(element.clone()) {
            return Ok(Applied::Unchanged);
        }
        Ok(Applied::Delta(Self(BTreeSet::from([element.clone()]))))
    }

    fn merge(&mut self, other: &Self) -> Result<bool, MergeError> {
        let before = self.0.len();
        for element in &other.0 {
            if !self.0.contains(element) {
                self.0.insert(element.clone());
            }
        }
        Ok(self.0.len() != before)
    }

    fn merge_delta(&mut self, delta: &Self) -> Result<bool, MergeError> {
        self.merge(delta)
    }

    fn size(&self) -> usize {
        self.len().max(1)
    }
}

/// A flag: off, then on for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flag(bool);

impl Flag {
    /// A flag that is off.
    #[must_use]
    pub const fn new() -> Self {
        Self(false)
    }

    pub(crate) const fn from_bool(on: bool) -> Self {
        Self(on)
    }

    /// Whether anybody has switched it on.
    #[must_use]
    pub const fn is_on(self) -> bool {
        self.0
    }

    const fn join(&mut self, other: Self) -> bool {
        let changed = other.0 && !self.0;
        self.0 |= other.0;
        changed
    }
}

impl ReplicatedData for Flag {
    type Op = FlagOp;
    type Delta = Self;

    fn apply(&mut self, op: &FlagOp, _: &mut Minting) -> Result<Applied<Self>, OpError> {
        let FlagOp::SwitchOn = op;
        Ok(Applied::of(self.join(Self(true)).then_some(*self)))
    }

    fn merge(&mut self, other: &Self) -> Result<bool, MergeError> {
        Ok(self.join(*other))
    }

    fn merge_delta(&mut self, delta: &Self) -> Result<bool, MergeError> {
        self.merge(delta)
    }
}
