//! What replicators say, as bytes. Unstable: these layouts may change with any version until they are
//! declared stable. Checks form and canonical order; whether a value is wanted is the replicator's to say.
//! Spec: sharding 2.3, `docs/WIRE.md` 4.6.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

#[cfg(test)]
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::marker::PhantomData;

#[cfg(test)]
use super::declare::message_row;
use super::declare::{
    ANY, FieldSink, FieldSource, Form, List, Maybe, Rising, Shape, by_hand, choice, number_as, read_whole,
    record, text_as, written,
};
use super::values::{DataLimits, decode_data, decode_delta, encode_data, encode_delta, put_type, read_type};
use crate::bytes::WireError;
use crate::ddata::crdt::{CustomTypes, DataDelta, DataType, DataValue};
use crate::ddata::protocol::{
    CarriedValue, DELTAS_PER_ENTRY_MAX, DdataBody, DeltaEntry, KeyDigest, MESSAGE_BYTES, Msg, Nack,
};
use crate::ddata::state::key::Key;
use crate::ddata::state::{DataEnvelope, Digest, Pruning};
use crate::ident::UniqueAddress;

const LENGTH_BYTES: usize = 4;

/// A value may be as large as its frame: the replicator refuses what is more than it holds, and a count of
/// its own would let a value grow that no other node can read.
const LIMITS: DataLimits = DataLimits {
    bytes_max: 16 << 20,
    elements_max: u32::MAX,
    nodes_max: 10_000,
    cloud_max: 1 << 12,
};

/// Bytes of a message with several values or changes: four times what a sender gathers, whose estimate may be
/// short. Many small values take up to thirty times their bytes in memory, each with trees of its own; so
/// much is a few megabytes.
const SEVERAL_BYTES_MAX: usize = 4 * MESSAGE_BYTES;

/// The version of what is written into stores.
const STORED_VERSION: u8 = 2;

/// One value or change of any size, or several that are small.
struct ValueBatch<F>(PhantomData<F>);

/// By node, each once.
type ByNode<F> = Rising<List<u16, (UniqueAddress, F), ANY>>;
type Nodes = Rising<List<u16, UniqueAddress, ANY>>;

choice! {
    DdataBody as "replicator message" {
        1 Read { operation: u64, key: Key },
        2 ReadResult { operation: u64, envelope: Maybe<DataEnvelope> },
        3 Write { operation: u64, key: Key, envelope: DataEnvelope },
        4 WriteAck { operation: u64 },
        5 WriteNack { operation: u64, reason: Nack },
        6 Repair { key: Key, envelope: DataEnvelope },
        7 Status { chunk: u32, total: u32, digests: List<u16, KeyDigest, ANY> },
        8 Request { keys: List<u16, Key, ANY> },
        9 Gossip { send_back: bool, entries: ValueBatch<CarriedValue> },
        10 Deltas { operation: Maybe<u64>, entries: ValueBatch<DeltaEntry> },
    }
}

choice! {
    Nack as "reason" {
        1 Gap,
        2 WrongType { held: DataType },
        3 Store,
        4 Limit,
        5 NotServing,
    }
}

record! { KeyDigest as "digested" { key: Key, digest: Digest, idle_ms: Maybe<u64> } }
record! { CarriedValue as "carried" { key: Key, idle_ms: Maybe<u64>, envelope: DataEnvelope } }
record! {
    DeltaEntry as "changes" {
        key: Key,
        after: u64,
        upto: u64,
        settled_ms: u64,
        deltas: List<u16, DataDelta, DELTAS_PER_ENTRY_MAX>,
    }
}

// A deleted key has nothing else.
record! {
    DataEnvelope as "envelope" {
        data: Maybe<Arc<DataValue>>,
        pruning: ByNode<Pruning>,
        settled_ms: u64,
        deltas: ByNode<u64>,
    } if |it| it.data.is_some() || (it.pruning.is_empty() && it.settled_ms == 0 && it.deltas.is_empty())
}

choice! {
    Pruning as "marker" {
        1 Initialized { owner: UniqueAddress, seen: Nodes },
        2 Performed { obsolete_at_ms: u64 },
    }
}

number_as! {
    Digest: u128, "u128", |digest: Digest| digest.0, Digest;
}

text_as! {
    Key: Key, "text", Key::as_str, |text| Key::new(text).ok();
}

by_hand! {
    DataType: DataType, "type", 1, |held, _, out| {
        put_type(*held, out);
        Ok(())
    }, |reader, _| read_type(reader);
    Arc<DataValue>: Arc<DataValue>, "value", LENGTH_BYTES, |data, _, out| put_sized(out, |out| encode_data(data, out)), |reader, _| {
        decode_data(read_sized(reader)?, &LIMITS, reader.types).map(Arc::new)
    };
    DataDelta: DataDelta, "delta", LENGTH_BYTES, |delta, _, out| put_sized(out, |out| encode_delta(delta, out)), |reader, _| {
        decode_delta(read_sized(reader)?, &LIMITS, reader.types)
    };
}

impl<F: Shape> Shape for ValueBatch<F> {
    const BYTES_MIN: usize = 2;

    #[cfg(test)]
    fn text(field: &str) -> String {
        List::<u16, F, ANY>::text(field)
    }
}

impl<T, F: Form<T>> Form<Vec<T>> for ValueBatch<F> {
    fn put(value: &Vec<T>, what: &'static str, out: &mut FieldSink<'_>) -> Result<(), WireError> {
        List::<u16, F, ANY>::put(value, what, out)
    }

    fn read(reader: &mut FieldSource<'_>, what: &'static str) -> Result<Vec<T>, WireError> {
        match reader.rest().len() {
            ..=SEVERAL_BYTES_MAX => List::<u16, F, ANY>::read(reader, what),
            _ => List::<u16, F, 1>::read(reader, what),
        }
    }
}

pub(super) fn put(msg: &Msg, out: &mut FieldSink<'_>) -> Result<(), WireError> {
    u64::put(&msg.to_uid, "to uid", out)?;
    DdataBody::put(&msg.body, "", out)
}

pub(super) fn read(reader: &mut FieldSource<'_>) -> Result<Msg, WireError> {
    let weight = reader.rest().len();
    let to_uid = reader.u64()?;
    let body = DdataBody::read(reader, "")?;
    Ok(Msg { to_uid, body, weight })
}

#[cfg(test)]
pub(super) fn rows() -> Vec<String> {
    alloc::vec![message_row(Msg::DDATA, "Ddata")]
}

/// A key and its value as the store keeps them.
pub(crate) fn encode_stored(key: &Key, envelope: &DataEnvelope) -> Result<Vec<u8>, WireError> {
    written(|out| {
        out.push(STORED_VERSION);
        Key::put(key, "key", out)?;
        DataEnvelope::put(envelope, "", out)
    })
}

/// What [`encode_stored`] wrote.
pub(crate) fn decode_stored(bytes: &[u8], types: &CustomTypes) -> Result<(Key, DataEnvelope), WireError> {
    read_whole(bytes, types, |reader| {
        if reader.u8()? != STORED_VERSION {
            let what = "stored version";
            return Err(WireError::Malformed { what });
        }
        Ok((Key::read(reader, "key")?, DataEnvelope::read(reader, "")?))
    })
}

/// Puts the length of what is written in front of it.
fn put_sized(
    out: &mut FieldSink<'_>,
    put: impl FnOnce(&mut Vec<u8>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    put(out)?;
    let length = out.len() - start - LENGTH_BYTES;
    let length = u32::try_from(length).map_err(|_| WireError::LimitExceeded { what: "value" })?;
    if let Some(place) = out.get_mut(start..start + LENGTH_BYTES) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    Ok(())
}

fn read_sized<'a>(reader: &mut FieldSource<'a>) -> Result<&'a [u8], WireError> {
    let length = usize::try_from(reader.u32()?).map_err(|_| WireError::Incomplete)?;
    reader.take(length)
}
