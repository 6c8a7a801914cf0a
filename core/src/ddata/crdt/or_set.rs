//! A set with removal: an add wins over a removal that has not seen it. Never keeps anything per removal.
//! Spec: sharding 1.13, 10.6, 10.21.

use super::dotted::{Dotted, DottedChange, DottedDelta};
use super::op::{Element, OpError, OrSetOp, check_element};
use super::{MergeError, Minting};

/// A set with removal, in the order of the elements' bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrSet(pub(crate) Dotted<Element, ()>);

/// What operations changed in an [`OrSet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrSetDelta(pub(crate) DottedDelta<Element, ()>);

of_dots!(OrSet, OrSetOp, OrSetDelta, 0);

impl OrSet {
    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the element is in the set.
    #[must_use]
    pub fn contains(&self, element: &[u8]) -> bool {
        self.0.entries.contains_key(element)
    }

    /// The elements in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Element> {
        self.0.entries.keys()
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.entries.is_empty()
    }

    fn change(&mut self, op: &OrSetOp, minting: &mut Minting) -> Result<Option<OrSetDelta>, OpError> {
        let delta = match op {
            OrSetOp::Add(element) => {
                check_element(element)?;
                let mut change = DottedChange::writing(&mut self.0, minting)?;
                change.write(element, (), minting);
                change.finish()
            }
            OrSetOp::Remove(element) => {
                let mut change = DottedChange::of(&mut self.0);
                change.remove(element);
                change.finish()
            }
            OrSetOp::Change { add, remove } => {
                add.iter().try_for_each(check_element)?;
                let mut change = if add.is_empty() {
                    DottedChange::of(&mut self.0)
                } else {
                    DottedChange::writing(&mut self.0, minting)?
                };
                for element in remove {
                    change.remove(element);
                }
                for element in add {
                    change.write(element, (), minting);
                }
                change.finish()
            }
            OrSetOp::Clear if self.is_empty() => None,
            OrSetOp::Clear => {
                let mut change = DottedChange::of(&mut self.0);
                change.clear();
                change.finish()
            }
        };
        Ok(delta.map(OrSetDelta))
    }
}
