//! The kinds of replicated values and what each can do: typed elements to bytes (postcard) and operations of
//! the core. Spec: sharding 1.13.

use std::borrow::Borrow;
use std::marker::PhantomData;

use quorate_core::ddata::crdt::{
    DataOp, Element, Flag as CoreFlag, FlagOp, GCounter, GCounterOp, GSet, GSetOp, LwwClock, LwwMap,
    LwwMapOp, LwwRegister, LwwRegisterOp, OrMultiMap, OrMultiMapOp, OrSet, OrSetOp, PnCounter, PnCounterMap,
    PnCounterMapOp, PnCounterOp,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::handle::Replicated;
use super::kind::{CoreData, DataKind};
use super::level::Write;
use crate::codec;
use crate::error::{DataReadError, DataWriteError};
use crate::request::Request;

/// See [`super::Data::counter`].
pub type Counter = Replicated<CounterKind>;
/// See [`super::Data::up_down_counter`].
pub type UpDownCounter = Replicated<UpDownCounterKind>;
/// See [`super::Data::set`].
pub type Set<E> = Replicated<ObservedSet<E>>;
/// See [`super::Data::grow_set`].
pub type GrowSet<E> = Replicated<GrowSetKind<E>>;
/// See [`super::Data::flag`].
pub type Flag = Replicated<FlagKind>;
/// See [`super::Data::register`].
pub type Register<V> = Replicated<RegisterKind<V>>;
/// See [`super::Data::register_map`].
pub type RegisterMap<K, V> = Replicated<RegisterMapKind<K, V>>;
/// See [`super::Data::counter_map`].
pub type CounterMap<K> = Replicated<CounterMapKind<K>>;
/// See [`super::Data::multi_map`].
pub type MultiMap<K, V> = Replicated<MultiMapKind<K, V>>;

/// A counter that only grows; its value is `u128`.
#[derive(Debug)]
pub struct CounterKind;
/// A counter that goes both ways; its value is `i128`.
#[derive(Debug)]
pub struct UpDownCounterKind;
/// A set with removal; its value is a list in the order of the elements' encoded bytes, which puts a short
/// text before every longer one: sort it where the order matters.
#[derive(Debug)]
pub struct ObservedSet<E>(PhantomData<fn() -> E>);
/// A set without removal; its value is a list in the order of the elements' encoded bytes.
#[derive(Debug)]
pub struct GrowSetKind<E>(PhantomData<fn() -> E>);
/// A flag; its value is `bool`.
#[derive(Debug)]
pub struct FlagKind;
/// A register; its value is `None` before the first write.
#[derive(Debug)]
pub struct RegisterKind<V>(PhantomData<fn() -> V>);
/// A map of registers; its value is a list of keys and values in the order of the keys' bytes.
#[derive(Debug)]
pub struct RegisterMapKind<K, V>(PhantomData<fn() -> (K, V)>);
/// A map of counters; its value is a list of keys and counts in the order of the keys' bytes.
#[derive(Debug)]
pub struct CounterMapKind<K>(PhantomData<fn() -> K>);
/// A map of sets; its value is a list of keys and values, a key once per value, in the order of their bytes.
#[derive(Debug)]
pub struct MultiMapKind<K, V>(PhantomData<fn() -> (K, V)>);

pub(super) fn decode<E: DeserializeOwned>(element: &Element) -> Result<E, DataReadError> {
    codec::decode(element).ok_or(DataReadError::Decode)
}

pub(super) fn encode<E: Serialize + ?Sized>(element: &E) -> Option<Element> {
    codec::encode(element).map(Element::from)
}

/// Implements [`DataKind`]: the empty value, and how the core's value of one variant is read.
macro_rules! kind {
    ([$($generics:tt)*] $kind:ty, $value:ty, $variant:ident($held:ident: $core:ident) => $read:expr) => {
        impl<$($generics)*> DataKind for $kind {
            type Value = $value;

            fn empty() -> CoreData {
                CoreData::$variant($core::new())
            }

            fn value(data: &CoreData) -> Result<Self::Value, DataReadError> {
                match data {
                    CoreData::$variant($held) => $read,
                    _ => Err(DataReadError::WrongType),
                }
            }
        }
    };
}

kind!([] CounterKind, u128, GCounter(held: GCounter) => Ok(held.value()));
kind!([] UpDownCounterKind, i128, PnCounter(held: PnCounter) => Ok(held.value()));
kind!([E: DeserializeOwned] ObservedSet<E>, Vec<E>, OrSet(held: OrSet) => held.iter().map(decode).collect());
kind!([E: DeserializeOwned] GrowSetKind<E>, Vec<E>, GSet(held: GSet) => held.iter().map(decode).collect());
kind!([] FlagKind, bool, Flag(held: CoreFlag) => Ok(held.is_on()));
kind!([V: DeserializeOwned] RegisterKind<V>, Option<V>, LwwRegister(held: LwwRegister) => {
    held.get().map(|written| decode(&written.value)).transpose()
});
kind!([K: DeserializeOwned, V: DeserializeOwned] RegisterMapKind<K, V>, Vec<(K, V)>, LwwMap(held: LwwMap) => {
    held.iter().map(|(key, value)| Ok((decode(key)?, decode(value)?))).collect()
});
kind!([K: DeserializeOwned] CounterMapKind<K>, Vec<(K, i128)>, PnCounterMap(held: PnCounterMap) => {
    held.iter().map(|(key, count)| Ok((decode(key)?, count))).collect()
});
kind!([K: DeserializeOwned, V: DeserializeOwned] MultiMapKind<K, V>, Vec<(K, V)>, OrMultiMap(held: OrMultiMap) => {
    held.iter().map(|binding| Ok((decode(&binding.key)?, decode(&binding.value)?))).collect()
});

/// Writes the methods of a kind: each makes an operation and hands it to [`Replicated::update_with`].
macro_rules! writes {
    ($($(#[$docs:meta])* $name:ident($($arg:ident: $type:ty),*) => $op:expr;)*) => {
        $(
            $(#[$docs])*
            ///
            /// # Errors
            /// [`DataWriteError`]; [`DataWriteError::may_have_been_handled`] says whether it took place.
            ///
            /// # Cancel safety
            /// Dropping it before it was polled changes nothing; afterwards the write may have taken place.
            pub fn $name(&self, $($arg: $type,)* level: Write) -> Request<Result<(), DataWriteError>> {
                self.update_with($op, level)
            }
        )*
    };
}

pub(super) use writes;

impl Counter {
    writes! {
        /// Adds to the counter.
        increment(by: u64) => Some(DataOp::GCounter(GCounterOp::Increment(by)));
    }
}

impl UpDownCounter {
    writes! {
        /// Adds to the counter.
        increment(by: u64) => Some(DataOp::PnCounter(PnCounterOp::Increment(by)));
        /// Takes away from the counter; it may fall below zero.
        decrement(by: u64) => Some(DataOp::PnCounter(PnCounterOp::Decrement(by)));
    }
}

impl<E: Serialize + DeserializeOwned> Set<E> {
    writes! {
        /// Adds an element; one that somebody removes at the same time stays.
        add(element: impl Borrow<E>) => encode(element.borrow()).map(|element| DataOp::OrSet(OrSetOp::Add(element)));
        /// Removes an element as far as this node knows of it.
        remove(element: impl Borrow<E>) => encode(element.borrow()).map(|element| DataOp::OrSet(OrSetOp::Remove(element)));
        /// Removes every element that this node knows of.
        clear() => Some(DataOp::OrSet(OrSetOp::Clear));
    }
}

impl<E: Serialize + DeserializeOwned> GrowSet<E> {
    writes! {
        /// Adds an element, for good.
        add(element: impl Borrow<E>) => encode(element.borrow()).map(|element| DataOp::GSet(GSetOp::Add(element)));
    }
}

impl Flag {
    writes! {
        /// Switches the flag on, for good.
        switch_on() => Some(DataOp::Flag(FlagOp::SwitchOn));
    }
}

impl<V: Serialize + DeserializeOwned> Register<V> {
    writes! {
        /// Writes the value; the last write wins, by the clocks of the nodes.
        set(value: impl Borrow<V>) => encode(value.borrow()).map(|value| DataOp::LwwRegister(LwwRegisterOp::Set { value, clock: LwwClock::Forward }));
        /// Writes the value unless an earlier write is known anywhere: the first write wins, by the clocks of
        /// the nodes. All writers of a key must use this or [`Self::set`], not both.
        set_first(value: impl Borrow<V>) => encode(value.borrow()).map(|value| DataOp::LwwRegister(LwwRegisterOp::Set { value, clock: LwwClock::Reverse }));
    }
}

fn put<K: Serialize, V: Serialize>(key: &K, value: &V) -> Option<DataOp> {
    let (key, value) = (encode(key)?, encode(value)?);
    let clock = LwwClock::Forward;
    Some(DataOp::LwwMap(LwwMapOp::Put { key, value, clock }))
}

impl<K: Serialize + DeserializeOwned, V: Serialize + DeserializeOwned> RegisterMap<K, V> {
    writes! {
        /// Writes the value of a key; the last write wins, by the clocks of the nodes.
        put(key: impl Borrow<K>, value: impl Borrow<V>) => put(key.borrow(), value.borrow());
        /// Removes what this node knows of under a key; a write at the same time stays.
        remove(key: impl Borrow<K>) => encode(key.borrow()).map(|key| DataOp::LwwMap(LwwMapOp::Remove(key)));
        /// Removes everything that this node knows of.
        clear() => Some(DataOp::LwwMap(LwwMapOp::Clear));
    }
}

impl<K: Serialize + DeserializeOwned> CounterMap<K> {
    writes! {
        /// Adds to the counter of a key.
        increment(key: impl Borrow<K>, by: u64) => encode(key.borrow()).map(|key| DataOp::PnCounterMap(PnCounterMapOp::Increment { key, by }));
        /// Takes away from the counter of a key.
        decrement(key: impl Borrow<K>, by: u64) => encode(key.borrow()).map(|key| DataOp::PnCounterMap(PnCounterMapOp::Decrement { key, by }));
        /// Removes what this node knows of a counter.
        remove(key: impl Borrow<K>) => encode(key.borrow()).map(|key| DataOp::PnCounterMap(PnCounterMapOp::Remove(key)));
        /// Removes every counter as far as this node knows of it.
        clear() => Some(DataOp::PnCounterMap(PnCounterMapOp::Clear));
    }
}

/// A key and a value as bytes.
fn pair<K: Serialize, V: Serialize>(key: &K, value: &V) -> Option<(Element, Element)> {
    Some((encode(key)?, encode(value)?))
}

fn replace<K: Serialize, V: Serialize>(key: &K, old: &V, new: &V) -> Option<OrMultiMapOp> {
    let (key, old) = pair(key, old)?;
    let new = encode(new)?;
    Some(OrMultiMapOp::ReplaceBinding { key, old, new })
}

fn put_all<K: Serialize, V: Serialize>(key: &K, values: &[V]) -> Option<OrMultiMapOp> {
    let key = encode(key)?;
    let values = values.iter().map(encode).collect::<Option<Vec<Element>>>()?;
    Some(OrMultiMapOp::Put { key, values })
}

impl<K: Serialize + DeserializeOwned, V: Serialize + DeserializeOwned> MultiMap<K, V> {
    writes! {
        /// Adds a value under a key.
        add(key: impl Borrow<K>, value: impl Borrow<V>) => {
            pair(key.borrow(), value.borrow()).map(|(key, value)| DataOp::OrMultiMap(OrMultiMapOp::AddBinding { key, value }))
        };
        /// Removes a value under a key as far as this node knows of it.
        remove(key: impl Borrow<K>, value: impl Borrow<V>) => {
            pair(key.borrow(), value.borrow()).map(|(key, value)| DataOp::OrMultiMap(OrMultiMapOp::RemoveBinding { key, value }))
        };
        /// Removes one value under a key and adds another.
        replace(key: impl Borrow<K>, old: impl Borrow<V>, new: impl Borrow<V>) => replace(key.borrow(), old.borrow(), new.borrow()).map(DataOp::OrMultiMap);
        /// Makes these the values of a key; none removes it.
        put(key: impl Borrow<K>, values: &[V]) => put_all(key.borrow(), values).map(DataOp::OrMultiMap);
        /// Removes every value under a key that this node knows of.
        remove_key(key: impl Borrow<K>) => encode(key.borrow()).map(|key| DataOp::OrMultiMap(OrMultiMapOp::Remove(key)));
        /// Removes everything that this node knows of.
        clear() => Some(DataOp::OrMultiMap(OrMultiMapOp::Clear));
    }
}
