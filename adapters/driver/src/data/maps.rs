//! Maps whose values are replicated values themselves: what users call, as operations of the core. Spec:
//! sharding 1.13.

use std::borrow::Borrow;
use std::marker::PhantomData;

use quorate_core::ddata::crdt::{
    DataOp, FlagOp, GCounterOp, GSetOp, LwwClock, LwwRegisterOp, OrMap, OrMapOp, OrSetOp, PnCounterOp,
    ValueType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::handle::Replicated;
use super::kind::{CoreData, DataKind};
use super::kinds::{
    CounterKind, FlagKind, GrowSetKind, ObservedSet, RegisterKind, UpDownCounterKind, decode, encode, writes,
};
use super::level::Write;
use crate::error::{DataReadError, DataWriteError};
use crate::request::Request;

/// What a [`MergeMap`] can hold: counters, sets, registers and flags, no maps.
pub trait MapValue: DataKind {
    /// What the core calls it.
    const VALUES: ValueType;
}

impl MapValue for CounterKind {
    const VALUES: ValueType = ValueType::GCounter;
}
impl MapValue for UpDownCounterKind {
    const VALUES: ValueType = ValueType::PnCounter;
}
impl<E: DeserializeOwned> MapValue for GrowSetKind<E> {
    const VALUES: ValueType = ValueType::GSet;
}
impl<E: DeserializeOwned> MapValue for ObservedSet<E> {
    const VALUES: ValueType = ValueType::OrSet;
}
impl<V: DeserializeOwned> MapValue for RegisterKind<V> {
    const VALUES: ValueType = ValueType::LwwRegister;
}
impl MapValue for FlagKind {
    const VALUES: ValueType = ValueType::Flag;
}

/// See [`super::Data::map`].
pub type MergeMap<K, T> = Replicated<MergeMapKind<K, T>>;

/// A map of replicated values; its value is a list of keys and what they hold, in the order of the keys'
/// bytes.
#[derive(Debug)]
pub struct MergeMapKind<K, T>(PhantomData<fn() -> (K, T)>);

impl<K: DeserializeOwned, T: MapValue> DataKind for MergeMapKind<K, T> {
    type Value = Vec<(K, T::Value)>;

    fn empty() -> CoreData {
        CoreData::OrMap(OrMap::new(T::VALUES))
    }

    fn value(data: &CoreData) -> Result<Self::Value, DataReadError> {
        let CoreData::OrMap(held) = data else {
            return Err(DataReadError::WrongType);
        };
        if held.value_type() != T::VALUES {
            return Err(DataReadError::WrongType);
        }
        let values = held.iter();
        values
            .map(|(key, value)| Ok((decode(key)?, T::value(value)?)))
            .collect()
    }
}

/// Changes the value of a key; nothing if the key cannot be serialised.
fn at<K: Serialize>(key: &K, op: DataOp) -> Option<DataOp> {
    let (key, op) = (encode(key)?, Box::new(op));
    Some(DataOp::OrMap(OrMapOp::Update { key, op }))
}

impl<K: Serialize + DeserializeOwned, T: MapValue> MergeMap<K, T> {
    writes! {
        /// Changes the value of a key, an empty one if there is none, by an operation of the core's own
        /// vocabulary.
        update_at(key: impl Borrow<K>, op: DataOp) => at(key.borrow(), op);
        /// Removes what this node knows of under a key; a change of its value at the same time stays.
        remove(key: impl Borrow<K>) => encode(key.borrow()).map(|key| DataOp::OrMap(OrMapOp::Remove(key)));
        /// Removes everything that this node knows of.
        clear() => Some(DataOp::OrMap(OrMapOp::Clear));
    }
}

impl<K: Serialize + DeserializeOwned> MergeMap<K, CounterKind> {
    writes! {
        /// Adds to the counter of a key.
        increment(key: impl Borrow<K>, by: u64) => at(key.borrow(), DataOp::GCounter(GCounterOp::Increment(by)));
    }
}

impl<K: Serialize + DeserializeOwned> MergeMap<K, UpDownCounterKind> {
    writes! {
        /// Adds to the counter of a key.
        increment(key: impl Borrow<K>, by: u64) => at(key.borrow(), DataOp::PnCounter(PnCounterOp::Increment(by)));
        /// Takes away from the counter of a key.
        decrement(key: impl Borrow<K>, by: u64) => at(key.borrow(), DataOp::PnCounter(PnCounterOp::Decrement(by)));
    }
}

impl<K, E> MergeMap<K, GrowSetKind<E>>
where
    K: Serialize + DeserializeOwned,
    E: Serialize + DeserializeOwned,
{
    writes! {
        /// Adds an element to the set of a key, for as long as the key is there.
        add(key: impl Borrow<K>, element: impl Borrow<E>) => encode(element.borrow()).and_then(|element| at(key.borrow(), DataOp::GSet(GSetOp::Add(element))));
    }
}

impl<K, E> MergeMap<K, ObservedSet<E>>
where
    K: Serialize + DeserializeOwned,
    E: Serialize + DeserializeOwned,
{
    writes! {
        /// Adds an element to the set of a key.
        add(key: impl Borrow<K>, element: impl Borrow<E>) => encode(element.borrow()).and_then(|element| at(key.borrow(), DataOp::OrSet(OrSetOp::Add(element))));
        /// Removes an element from the set of a key as far as this node knows of it.
        remove_element(key: impl Borrow<K>, element: impl Borrow<E>) => {
            encode(element.borrow()).and_then(|element| at(key.borrow(), DataOp::OrSet(OrSetOp::Remove(element))))
        };
    }
}

impl<K, V> MergeMap<K, RegisterKind<V>>
where
    K: Serialize + DeserializeOwned,
    V: Serialize + DeserializeOwned,
{
    writes! {
        /// Writes the register of a key; the last write wins, by the clocks of the nodes.
        set(key: impl Borrow<K>, value: impl Borrow<V>) => encode(value.borrow()).and_then(|value| {
            at(key.borrow(), DataOp::LwwRegister(LwwRegisterOp::Set { value, clock: LwwClock::Forward }))
        });
    }
}

impl<K: Serialize + DeserializeOwned> MergeMap<K, FlagKind> {
    writes! {
        /// Switches the flag of a key on.
        switch_on(key: impl Borrow<K>) => at(key.borrow(), DataOp::Flag(FlagOp::SwitchOn));
    }
}
