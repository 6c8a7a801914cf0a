//! A map of registers: the last write per key wins. Never reads a clock. Spec: sharding 1.13, 10.21,
//! reliability I-67.

use super::dotted::{Dotted, DottedChange, DottedDelta};
use super::op::{Element, LwwMapOp, LwwRegisterOp, OpError, check_element};
use super::replicated::ReplicatedData;
use super::{LwwRegister, LwwWrite, MergeError, Minting};

/// A map of registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LwwMap(pub(crate) Dotted<Element, LwwRegister>);

/// What operations changed in a [`LwwMap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LwwMapDelta(pub(crate) DottedDelta<Element, LwwRegister>);

of_dots!(LwwMap, LwwMapOp, LwwMapDelta, 0, newest_stamp);

impl LwwMap {
    /// The empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&Element> {
        let register = &self.0.entries.get(key)?.value;
        register.get().map(|written| &written.value)
    }

    /// Keys and values in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Element, &Element)> {
        let entries = self.0.entries.iter();
        entries.filter_map(|(key, entry)| entry.value.get().map(|written| (key, &written.value)))
    }

    /// Keys and what was written last under each, in the order of the keys.
    pub fn written(&self) -> impl Iterator<Item = (&Element, &LwwWrite)> {
        let entries = self.0.entries.iter();
        entries.filter_map(|(key, entry)| Some((key, entry.value.get()?)))
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

    fn change(&mut self, op: &LwwMapOp, minting: &mut Minting) -> Result<Option<LwwMapDelta>, OpError> {
        let delta = match op {
            LwwMapOp::Put { key, value, clock } => {
                check_element(key)?;
                let mut register = self
                    .0
                    .entries
                    .get(key)
                    .map_or_else(LwwRegister::new, |held| held.value.clone());
                let (value, clock) = (value.clone(), *clock);
                register.apply(&LwwRegisterOp::Set { value, clock }, minting)?;
                let mut change = DottedChange::writing(&mut self.0, minting)?;
                change.write(key, register, minting);
                change.finish()
            }
            LwwMapOp::Remove(key) => {
                let mut change = DottedChange::of(&mut self.0);
                change.remove(key);
                change.finish()
            }
            LwwMapOp::Clear if self.is_empty() => None,
            LwwMapOp::Clear => {
                let mut change = DottedChange::of(&mut self.0);
                change.clear();
                change.finish()
            }
        };
        Ok(delta.map(LwwMapDelta))
    }
}
