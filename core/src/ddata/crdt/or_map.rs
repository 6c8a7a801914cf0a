//! A map whose values are replicated data themselves. Never nests maps. Spec: sharding 1.13, 10.21; what a
//! removal beside an update leaves, `docs/adr/0010` says.

use super::dotted::{Dotted, DottedChange, DottedDelta, DottedValue};
use super::op::{Element, OpError, OrMapOp, check_element};
use super::{DataValue, MergeError, Minting, ValueType};
use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;

impl DottedValue for DataValue {
    fn join(&mut self, other: &Self) -> bool {
        // Values of one map have one type, so only a limit refuses, and then each side keeps its own.
        self.merge(other).is_ok_and(|merged| merged.changed)
    }

    fn mentions(&self, node: &UniqueAddress) -> bool {
        self.mentions(node)
    }

    fn nodes(&self, all: &mut OrderedSet<UniqueAddress>) {
        all.extend(self.nodes());
    }

    fn settle(&mut self, removed: &UniqueAddress) -> Result<(), OpError> {
        self.settle(removed)
    }

    fn newest_stamp(&self) -> Option<i64> {
        self.newest_stamp()
    }
}

/// A map of values of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrMap {
    pub(crate) values: ValueType,
    pub(crate) map: Dotted<Element, DataValue>,
}

/// What operations changed in an [`OrMap`]: of a key that was updated its whole value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrMapDelta {
    pub(crate) values: ValueType,
    pub(crate) map: DottedDelta<Element, DataValue>,
}

of_dots!(OrMap, OrMapOp, OrMapDelta, map, newest_stamp);

impl OrMap {
    /// An empty map of values of this type.
    #[must_use]
    pub fn new(values: ValueType) -> Self {
        Self {
            values,
            map: Dotted::default(),
        }
    }

    /// The type of its values.
    #[must_use]
    pub const fn value_type(&self) -> ValueType {
        self.values
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&DataValue> {
        self.map.entries.get(key).map(|entry| &entry.value)
    }

    /// Keys and values in the order of the keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Element, &DataValue)> {
        self.map.entries.iter().map(|(key, entry)| (key, &entry.value))
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.entries.is_empty()
    }

    fn change(&mut self, op: &OrMapOp, minting: &mut Minting) -> Result<Option<OrMapDelta>, OpError> {
        let delta = match op {
            OrMapOp::Update { key, op } => {
                check_element(key)?;
                let held = self.map.entries.get(key);
                let mut value =
                    held.map_or_else(|| DataValue::of_value(self.values), |held| held.value.clone());
                minting.check(self.map.context.highest(minting.me()))?;
                value.apply(op, minting)?;
                self.write(key, value, minting)?
            }
            OrMapOp::Put { key, value } => {
                check_element(key)?;
                let (expected, found) = (self.values.into(), value.data_type());
                if expected != found {
                    return Err(OpError::WrongValueType { expected, found });
                }
                if self.values == ValueType::OrSet && self.map.entries.contains_key(key) {
                    return Err(OpError::PutOverSet);
                }
                self.write(key, (**value).clone(), minting)?
            }
            OrMapOp::Remove(key) => {
                let mut change = DottedChange::of(&mut self.map);
                change.remove(key);
                change.finish()
            }
            OrMapOp::Clear if self.is_empty() => None,
            OrMapOp::Clear => {
                let mut change = DottedChange::of(&mut self.map);
                change.clear();
                change.finish()
            }
        };
        let values = self.values;
        Ok(delta.map(|map| OrMapDelta { values, map }))
    }

    fn write(
        &mut self,
        key: &Element,
        value: DataValue,
        minting: &mut Minting,
    ) -> Result<Option<DottedDelta<Element, DataValue>>, OpError> {
        let mut change = DottedChange::writing(&mut self.map, minting)?;
        change.write(key, value, minting);
        Ok(change.finish())
    }
}
