//! A map of sets: every binding of a value to a key is an element of its own, and all share one context, so
//! that a removed key leaves nothing behind. Spec: sharding 1.13, 10.21.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::dotted::{Dotted, DottedChange, DottedDelta};
use super::op::{Element, OpError, OrMultiMapOp, check_element};
use super::{MergeError, Minting};
use crate::ordered::OrderedSet;

/// A value under a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Binding {
    /// The key.
    pub key: Element,
    /// The value.
    pub value: Element,
}

impl Binding {
    fn new(key: &Element, value: &Element) -> Result<Self, OpError> {
        check_element(key)?;
        check_element(value)?;
        Ok(Self {
            key: key.clone(),
            value: value.clone(),
        })
    }
}

/// A map from keys to sets. A key with no value is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrMultiMap(pub(crate) Dotted<Binding, ()>);

/// What operations changed in an [`OrMultiMap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrMultiMapDelta(pub(crate) DottedDelta<Binding, ()>);

of_dots!(OrMultiMap, OrMultiMapOp, OrMultiMapDelta, 0);

impl OrMultiMap {
    /// The empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The values of a key in order.
    pub fn get(&self, key: &[u8]) -> impl Iterator<Item = &Element> {
        let first = Binding {
            key: Arc::from(key),
            value: Arc::from([]),
        };
        let from = self.0.entries.range(first.clone()..);
        from.map(|(binding, _)| binding)
            .take_while(move |binding| binding.key == first.key)
            .map(|binding| &binding.value)
    }

    /// All bindings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Binding> {
        self.0.entries.keys()
    }

    /// How many bindings there are.
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
        op: &OrMultiMapOp,
        minting: &mut Minting,
    ) -> Result<Option<OrMultiMapDelta>, OpError> {
        let delta = match op {
            OrMultiMapOp::AddBinding { key, value } => {
                let binding = Binding::new(key, value)?;
                let mut change = DottedChange::writing(&mut self.0, minting)?;
                change.write(&binding, (), minting);
                change.finish()
            }
            OrMultiMapOp::RemoveBinding { key, value } => {
                let mut change = DottedChange::of(&mut self.0);
                change.remove(&Binding::new(key, value)?);
                change.finish()
            }
            OrMultiMapOp::ReplaceBinding { old, new, .. } if old == new => None,
            OrMultiMapOp::ReplaceBinding { key, old, new } => {
                let (old, new) = (Binding::new(key, old)?, Binding::new(key, new)?);
                let mut change = DottedChange::writing(&mut self.0, minting)?;
                change.remove(&old);
                change.write(&new, (), minting);
                change.finish()
            }
            OrMultiMapOp::Put { key, values } => self.put(key, values, minting)?,
            OrMultiMapOp::Remove(key) => self.put(key, &[], minting)?,
            OrMultiMapOp::Clear if self.is_empty() => None,
            OrMultiMapOp::Clear => {
                let mut change = DottedChange::of(&mut self.0);
                change.clear();
                change.finish()
            }
        };
        Ok(delta.map(OrMultiMapDelta))
    }

    fn put(
        &mut self,
        key: &Element,
        values: &[Element],
        minting: &mut Minting,
    ) -> Result<Option<DottedDelta<Binding, ()>>, OpError> {
        let held: Vec<Element> = self.get(key).cloned().collect();
        let new = values
            .iter()
            .map(|value| Binding::new(key, value))
            .collect::<Result<OrderedSet<Binding>, OpError>>()?;
        let mut change = if new.is_empty() {
            DottedChange::of(&mut self.0)
        } else {
            DottedChange::writing(&mut self.0, minting)?
        };
        for value in held {
            change.remove(&Binding::new(key, &value)?);
        }
        for binding in &new {
            change.write(binding, (), minting);
        }
        Ok(change.finish())
    }
}
