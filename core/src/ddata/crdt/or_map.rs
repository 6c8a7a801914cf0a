//! A map whose values are replicated data themselves. An update writes the whole new value of its key under a new dot and
//! supersedes what it has seen; values that did not see each other are joined when read. Never nests maps. Spec: sharding
//! 1.13, 10.21.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;

use super::dotted::{Change, Dotted, DottedDelta, Live, Payload};
use super::few::Few;
use super::op::{Element, Op, OpError, OrMapOp, check_element};
use super::{Data, DataType, MergeError, Minting, ValueType};
use crate::ident::UniqueAddress;

impl Payload for Data {
    fn join(&mut self, other: &Self) -> bool {
        // Values of one map have one type, so only a limit refuses, and then both sides keep theirs.
        self.merge(other).is_ok_and(|merged| merged.changed)
    }
}

/// A map of values of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrMap {
    pub(crate) values: ValueType,
    pub(crate) map: Dotted<Element, Data>,
}

/// What operations changed in an [`OrMap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrMapDelta {
    pub(crate) values: ValueType,
    pub(crate) map: DottedDelta<Element, Data>,
}

fn joined(live: &[Live<Data>]) -> Option<Cow<'_, Data>> {
    let (first, rest) = live.split_first()?;
    let mut value = Cow::Borrowed(&first.payload);
    for live in rest {
        value.to_mut().join(&live.payload);
    }
    Some(value)
}

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

    /// The value of a key. Copies it only where several nodes wrote without seeing each other.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Cow<'_, Data>> {
        joined(self.map.entries.get(key)?.as_slice())
    }

    /// Keys and values in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Element, Cow<'_, Data>)> {
        let entries = self.map.entries.iter();
        entries.filter_map(|(key, live)| joined(live.as_slice()).map(|value| (key, value)))
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

    pub(super) fn apply(
        &mut self,
        op: &OrMapOp,
        minting: &mut Minting,
    ) -> Result<Option<OrMapDelta>, OpError> {
        let delta = match op {
            OrMapOp::Update { key, op } => self.update(key, op, minting)?,
            OrMapOp::Put { key, value } => self.put(key, value, minting)?,
            OrMapOp::Remove(key) => {
                let mut change = Change::of(&mut self.map);
                change.remove(key, |_, _| true);
                change.finish()
            }
            OrMapOp::Clear if self.is_empty() => None,
            OrMapOp::Clear => {
                let mut change = Change::of(&mut self.map);
                change.clear();
                change.finish()
            }
        };
        let values = self.values;
        Ok(delta.map(|map| OrMapDelta { values, map }))
    }

    fn update(
        &mut self,
        key: &Element,
        op: &Op,
        minting: &mut Minting,
    ) -> Result<Option<DottedDelta<Element, Data>>, OpError> {
        check_element(key)?;
        let values = self.values;
        let mut change = Change::adding(&mut self.map, minting)?;
        let mut value = joined(change.live(key)).map_or_else(|| Data::of_value(values), Cow::into_owned);
        value.apply(op, minting)?;
        change.replace(key, value, minting);
        Ok(change.finish())
    }

    fn put(
        &mut self,
        key: &Element,
        value: &Data,
        minting: &mut Minting,
    ) -> Result<Option<DottedDelta<Element, Data>>, OpError> {
        check_element(key)?;
        let (expected, found) = (self.values.into(), value.data_type());
        if expected != found {
            return Err(OpError::WrongValueType { expected, found });
        }
        let mut change = Change::adding(&mut self.map, minting)?;
        if self.values == ValueType::OrSet && !change.live(key).is_empty() {
            return Err(OpError::PutOverSet);
        }
        change.replace(key, value.clone(), minting);
        Ok(change.finish())
    }

    pub(super) fn merge(&mut self, other: &Self) -> Result<bool, MergeError> {
        self.check_values(other.values)?;
        self.map.merge(&other.map)
    }

    pub(super) fn merge_delta(&mut self, delta: &OrMapDelta) -> Result<bool, MergeError> {
        self.check_values(delta.values)?;
        self.map.merge_delta(&delta.map)
    }

    fn check_values(&self, found: ValueType) -> Result<(), MergeError> {
        if self.values == found {
            return Ok(());
        }
        Err(MergeError::TypeMismatch {
            held: DataType::OrMap(self.values),
            found: DataType::OrMap(found),
        })
    }

    pub(super) fn nodes(&self) -> BTreeSet<UniqueAddress> {
        let inner = self
            .map
            .entries
            .values()
            .flat_map(Few::iter)
            .flat_map(|live| live.payload.nodes());
        self.map.nodes().cloned().chain(inner).collect()
    }

    pub(super) fn mentions(&self, node: &UniqueAddress) -> bool {
        let mut inner = self.map.entries.values().flat_map(Few::iter);
        self.map.context.index(node).is_some() || inner.any(|live| live.payload.mentions(node))
    }

    /// Writes anew, as the minting node, every value that mentions the removed node.
    pub(super) fn prune(&mut self, removed: &UniqueAddress, minting: &mut Minting) -> Result<u64, OpError> {
        self.map.prune(
            removed,
            minting,
            |_| true,
            |context, live, minting| {
                let mentions = live
                    .iter()
                    .any(|live| context.node(live.dot.node) == removed || live.payload.mentions(removed));
                let Some(value) = joined(live).filter(|_| mentions) else {
                    return Ok(None);
                };
                let mut value = value.into_owned();
                value.prune(removed, minting)?;
                Ok(Some(value))
            },
        )
    }

    pub(super) fn clean(&mut self, removed: &UniqueAddress, folded: Option<u64>) -> bool {
        let mut changed = self.map.clean(removed, folded);
        // Dots of the removed node that are still there came late and are to be pruned again, values and all; only what it
        // counted has been folded already.
        let late = self
            .map
            .context
            .index(removed)
            .filter(|_| !self.values.is_counter());
        for live in self.map.entries.values_mut().flat_map(Few::as_mut_slice) {
            if Some(live.dot.node) != late && live.payload.mentions(removed) {
                changed |= live.payload.clean(removed, None);
            }
        }
        changed
    }
}

impl OrMapDelta {
    /// The greatest stamp of any value.
    pub(super) fn newest_stamp(&self) -> Option<i64> {
        newest_stamp(&self.map.part)
    }
}

impl OrMap {
    /// The greatest stamp of any value.
    pub(super) fn newest_stamp(&self) -> Option<i64> {
        newest_stamp(&self.map)
    }
}

fn newest_stamp(map: &Dotted<Element, Data>) -> Option<i64> {
    map.entries
        .values()
        .flat_map(Few::iter)
        .filter_map(|live| live.payload.newest_stamp())
        .max()
}
