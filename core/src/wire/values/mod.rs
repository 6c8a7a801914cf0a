//! Values of distributed data and their deltas, as bytes: equal values are equal bytes, whatever the order in
//! which they came about, so that a digest over them tells whether replicas agree. Every length is bounded
//! before it is believed, every other written form is refused. Never merges. Spec: sharding 1.12, 10.21,
//! reliability I-60; `docs/WIRE.md` 4.5.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod dotted;
mod plain;
#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::bytes::BodyReader;
use crate::bytes::WireError;
use crate::ddata::crdt::{
    Custom, CustomDelta, CustomTypes, DataDelta, DataType, DataValue, LwwMap, LwwMapDelta, NODES_MAX, OrMap,
    OrMapDelta, OrMultiMap, OrMultiMapDelta, OrSet, OrSetDelta, PnCounterMap, PnCounterMapDelta, ValueType,
};

const GCOUNTER: u8 = 1;
const PNCOUNTER: u8 = 2;
const GSET: u8 = 3;
const ORSET: u8 = 4;
const ORMAP: u8 = 5;
const ORMULTIMAP: u8 = 6;
const PNCOUNTERMAP: u8 = 7;
const LWWREGISTER: u8 = 8;
const LWWMAP: u8 = 9;
const FLAG: u8 = 10;
const CUSTOM: u8 = 11;

/// What a value from a peer may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataLimits {
    /// Bytes of one value or delta. Default 1 MiB: what is larger belongs into several keys, because every
    /// gossip of a changed value carries all of it.
    pub bytes_max: usize,
    /// Elements, keys or bindings of one value. Default 65,536: with 16 bytes for the shortest, the most that
    /// fit.
    pub elements_max: u32,
    /// Nodes that one value names. Default and most [`NODES_MAX`].
    pub nodes_max: u16,
    /// Ranges of dots above gaps. Default 4,096: four replicas whose clouds are full, merged.
    pub cloud_max: u32,
}

/// [`NODES_MAX`] as it is counted on the wire.
const NODES: u16 = 10_000;
const _: () = assert!(NODES as usize == NODES_MAX);

impl Default for DataLimits {
    fn default() -> Self {
        Self {
            bytes_max: 1 << 20,
            elements_max: 1 << 16,
            nodes_max: NODES,
            cloud_max: 1 << 12,
        }
    }
}

/// Appends the one written form of a value.
///
/// # Errors
/// [`WireError::Unencodable`] if a part is longer than its length field can say; no value that was read or
/// changed by operations is.
pub fn encode_data(data: &DataValue, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_type(data.data_type(), out);
    put_body(data, out)
}

/// Appends a type; of a map also that of its values.
pub(super) fn put_type(data_type: DataType, out: &mut Vec<u8>) {
    out.push(tag(data_type));
    if let DataType::OrMap(values) = data_type {
        out.push(tag(values.into()));
    }
}

fn put_body(data: &DataValue, out: &mut Vec<u8>) -> Result<(), WireError> {
    match data {
        DataValue::GCounter(held) => plain::put_gcounter(held, out),
        DataValue::PnCounter(held) => plain::put_pncounter(held, out),
        DataValue::GSet(held) => plain::put_gset(held, out),
        DataValue::OrSet(held) => dotted::put(&held.0, out),
        DataValue::OrMap(held) => dotted::put(&held.map, out),
        DataValue::OrMultiMap(held) => dotted::put(&held.0, out),
        DataValue::PnCounterMap(held) => dotted::put(&held.0, out),
        DataValue::LwwRegister(held) => plain::put_register(held, out),
        DataValue::LwwMap(held) => dotted::put(&held.0, out),
        DataValue::Flag(held) => {
            out.push(u8::from(held.is_on()));
            Ok(())
        }
        DataValue::Custom(held) => plain::put_custom(held.name(), held.state(), out),
    }
}

/// Reads a value, which must fill all of `bytes`.
///
/// # Errors
/// [`WireError`] says what is wrong with it. A user's type that `types` does not know is
/// [`WireError::Malformed`].
pub fn decode_data(bytes: &[u8], limits: &DataLimits, types: &CustomTypes) -> Result<DataValue, WireError> {
    let mut reader = bounded(bytes, limits)?;
    let data_type = read_type(&mut reader)?;
    let data = match data_type {
        DataType::OrMap(values) => DataValue::OrMap(OrMap {
            values,
            map: dotted::read(&mut reader, limits, Some(values))?,
        }),
        DataType::OrMultiMap => DataValue::OrMultiMap(OrMultiMap(dotted::read(&mut reader, limits, None)?)),
        DataType::PnCounterMap => {
            DataValue::PnCounterMap(PnCounterMap(dotted::read(&mut reader, limits, None)?))
        }
        DataType::LwwMap => DataValue::LwwMap(LwwMap(dotted::read(&mut reader, limits, None)?)),
        DataType::Custom => read_custom(&mut reader, types)?,
        DataType::GCounter => read_value(ValueType::GCounter, &mut reader, limits)?,
        DataType::PnCounter => read_value(ValueType::PnCounter, &mut reader, limits)?,
        DataType::GSet => read_value(ValueType::GSet, &mut reader, limits)?,
        DataType::OrSet => read_value(ValueType::OrSet, &mut reader, limits)?,
        DataType::LwwRegister => read_value(ValueType::LwwRegister, &mut reader, limits)?,
        DataType::Flag => read_value(ValueType::Flag, &mut reader, limits)?,
    };
    reader.finish()?;
    Ok(data)
}

/// The body of a value that a map can hold.
fn read_value(
    values: ValueType,
    reader: &mut BodyReader<'_>,
    limits: &DataLimits,
) -> Result<DataValue, WireError> {
    Ok(match values {
        ValueType::GCounter => DataValue::GCounter(plain::read_gcounter(reader, limits)?),
        ValueType::PnCounter => DataValue::PnCounter(plain::read_pncounter(reader, limits)?),
        ValueType::GSet => DataValue::GSet(plain::read_gset(reader, limits)?),
        ValueType::OrSet => DataValue::OrSet(OrSet(dotted::read(reader, limits, None)?)),
        ValueType::LwwRegister => DataValue::LwwRegister(plain::read_register(reader)?),
        ValueType::Flag => DataValue::Flag(plain::read_flag(reader)?),
    })
}

/// Appends the one written form of a delta.
///
/// # Errors
/// As [`encode_data`].
pub fn encode_delta(delta: &DataDelta, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.push(tag(delta.data_type()));
    match delta {
        DataDelta::GCounter(delta) => plain::put_gcounter(delta, out),
        DataDelta::PnCounter(delta) => plain::put_pncounter(delta, out),
        DataDelta::GSet(delta) => plain::put_gset(delta, out),
        DataDelta::OrSet(delta) => dotted::put_delta(&delta.0, out),
        DataDelta::OrMap(delta) => {
            out.push(tag(delta.values.into()));
            dotted::put_delta(&delta.map, out)
        }
        DataDelta::OrMultiMap(delta) => dotted::put_delta(&delta.0, out),
        DataDelta::PnCounterMap(delta) => dotted::put_delta(&delta.0, out),
        DataDelta::LwwRegister(delta) => plain::put_register(delta, out),
        DataDelta::LwwMap(delta) => dotted::put_delta(&delta.0, out),
        DataDelta::Flag(delta) => {
            out.push(u8::from(delta.is_on()));
            Ok(())
        }
        DataDelta::Custom(delta) => plain::put_custom(delta.name(), &delta.delta, out),
    }
}

/// Reads a delta, which must fill all of `bytes`.
///
/// # Errors
/// As [`decode_data`].
pub fn decode_delta(bytes: &[u8], limits: &DataLimits, types: &CustomTypes) -> Result<DataDelta, WireError> {
    let mut reader = bounded(bytes, limits)?;
    let reading = &mut reader;
    let delta = match read_type(reading)? {
        DataType::GCounter => DataDelta::GCounter(plain::read_gcounter(reading, limits)?),
        DataType::PnCounter => DataDelta::PnCounter(plain::read_pncounter(reading, limits)?),
        DataType::GSet => DataDelta::GSet(plain::read_gset(reading, limits)?),
        DataType::OrSet => DataDelta::OrSet(OrSetDelta(dotted::read_delta(reading, limits, None)?)),
        DataType::OrMap(values) => DataDelta::OrMap(OrMapDelta {
            values,
            map: dotted::read_delta(reading, limits, Some(values))?,
        }),
        DataType::OrMultiMap => {
            DataDelta::OrMultiMap(OrMultiMapDelta(dotted::read_delta(reading, limits, None)?))
        }
        DataType::PnCounterMap => {
            DataDelta::PnCounterMap(PnCounterMapDelta(dotted::read_delta(reading, limits, None)?))
        }
        DataType::LwwRegister => DataDelta::LwwRegister(plain::read_register(reading)?),
        DataType::LwwMap => DataDelta::LwwMap(LwwMapDelta(dotted::read_delta(reading, limits, None)?)),
        DataType::Flag => DataDelta::Flag(plain::read_flag(reading)?),
        DataType::Custom => read_custom_delta(reading, types)?,
    };
    reader.finish()?;
    Ok(delta)
}

fn bounded<'a>(bytes: &'a [u8], limits: &DataLimits) -> Result<BodyReader<'a>, WireError> {
    if bytes.len() > limits.bytes_max {
        let count = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        return Err(WireError::TooLarge {
            bytes: count(bytes.len()),
            max: count(limits.bytes_max),
        });
    }
    Ok(BodyReader::new(bytes))
}

const fn tag(data_type: DataType) -> u8 {
    match data_type {
        DataType::GCounter => GCOUNTER,
        DataType::PnCounter => PNCOUNTER,
        DataType::GSet => GSET,
        DataType::OrSet => ORSET,
        DataType::OrMap(_) => ORMAP,
        DataType::OrMultiMap => ORMULTIMAP,
        DataType::PnCounterMap => PNCOUNTERMAP,
        DataType::LwwRegister => LWWREGISTER,
        DataType::LwwMap => LWWMAP,
        DataType::Flag => FLAG,
        DataType::Custom => CUSTOM,
    }
}

pub(super) fn read_type(reader: &mut BodyReader<'_>) -> Result<DataType, WireError> {
    Ok(match reader.u8()? {
        GCOUNTER => DataType::GCounter,
        PNCOUNTER => DataType::PnCounter,
        GSET => DataType::GSet,
        ORSET => DataType::OrSet,
        ORMAP => DataType::OrMap(read_value_type(reader)?),
        ORMULTIMAP => DataType::OrMultiMap,
        PNCOUNTERMAP => DataType::PnCounterMap,
        LWWREGISTER => DataType::LwwRegister,
        LWWMAP => DataType::LwwMap,
        FLAG => DataType::Flag,
        CUSTOM => DataType::Custom,
        _ => return Err(WireError::Malformed { what: "data type" }),
    })
}

fn read_value_type(reader: &mut BodyReader<'_>) -> Result<ValueType, WireError> {
    let found = reader.u8()?;
    let value = ValueType::ALL
        .into_iter()
        .find(|value| tag((*value).into()) == found);
    value.ok_or(WireError::Malformed { what: "value type" })
}

fn read_custom(reader: &mut BodyReader<'_>, types: &CustomTypes) -> Result<DataValue, WireError> {
    let (kind, state) = plain::read_custom(reader, types)?;
    let what = "user's value";
    kind.check(state).map_err(|_| WireError::Malformed { what })?;
    Ok(DataValue::Custom(Custom {
        kind,
        state: Arc::from(state),
    }))
}

fn read_custom_delta(reader: &mut BodyReader<'_>, types: &CustomTypes) -> Result<DataDelta, WireError> {
    let (kind, delta) = plain::read_custom(reader, types)?;
    let what = "user's delta";
    kind.check_delta(delta)
        .map_err(|_| WireError::Malformed { what })?;
    Ok(DataDelta::Custom(CustomDelta {
        kind,
        delta: Arc::from(delta),
    }))
}
