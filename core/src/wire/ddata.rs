//! What replicators say, as bytes. Unstable: these layouts may change with any version until they are declared stable.
//! Checks form and canonical order; whether a value is wanted is the replicator's to say. Spec: sharding 2.3, `docs/WIRE.md`
//! 4.6.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::values::{DataLimits, decode_data, decode_delta, encode_data, encode_delta, put_type, read_type};
use crate::bytes::{Reader, WireError, count_u16, put_node, put_text};
use crate::ddata::crdt::{CustomTypes, Data, Delta};
use crate::ddata::protocol::{
    Body, Carried, DELTAS_PER_ENTRY_MAX, DeltaEntry, Digested, MESSAGE_BYTES, Msg, Nack,
};
use crate::ddata::state::key::Key;
use crate::ddata::state::{Digest, Envelope, Pruning};
use crate::ident::UniqueAddress;

const READ: u8 = 1;
const READ_RESULT: u8 = 2;
const WRITE: u8 = 3;
const WRITE_ACK: u8 = 4;
const WRITE_NACK: u8 = 5;
const REPAIR: u8 = 6;
const STATUS: u8 = 7;
const REQUEST: u8 = 8;
const GOSSIP: u8 = 9;
const DELTAS: u8 = 10;

const INITIALIZED: u8 = 1;
const PERFORMED: u8 = 2;

const LENGTH_BYTES: usize = 4;

/// A value may be as large as its frame: the replicator refuses what is more than it holds, and a count of its own would let
/// a value grow that no other node can read.
const LIMITS: DataLimits = DataLimits {
    bytes_max: 16 << 20,
    elements_max: u32::MAX,
    nodes_max: 10_000,
    cloud_max: 1 << 12,
};

/// Bytes of a message with several values or changes: four times what a sender gathers, whose estimate may be short. Many
/// small values take up to thirty times their bytes in memory, each with trees of its own; so much is a few megabytes.
const SEVERAL_BYTES_MAX: usize = 4 * MESSAGE_BYTES;

/// The version of what is written into stores.
const STORED_VERSION: u8 = 2;

pub(super) fn put(msg: &Msg, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.extend_from_slice(&msg.to_uid.to_le_bytes());
    match &msg.body {
        Body::Read { operation, key } => {
            put_operation(READ, *operation, out);
            put_key(key, out)
        }
        Body::ReadResult { operation, envelope } => {
            put_operation(READ_RESULT, *operation, out);
            put_option(envelope.as_ref(), out, put_envelope)
        }
        Body::Write {
            operation,
            key,
            envelope,
        } => {
            put_operation(WRITE, *operation, out);
            put_key(key, out)?;
            put_envelope(envelope, out)
        }
        Body::WriteAck { operation } => {
            put_operation(WRITE_ACK, *operation, out);
            Ok(())
        }
        Body::WriteNack { operation, reason } => {
            put_operation(WRITE_NACK, *operation, out);
            put_nack(*reason, out);
            Ok(())
        }
        Body::Repair { key, envelope } => {
            out.push(REPAIR);
            put_key(key, out)?;
            put_envelope(envelope, out)
        }
        Body::Status {
            chunk,
            total,
            digests,
        } => {
            out.push(STATUS);
            out.extend_from_slice(&chunk.to_le_bytes());
            out.extend_from_slice(&total.to_le_bytes());
            put_list(digests, out, put_digested)
        }
        Body::Request { keys } => {
            out.push(REQUEST);
            put_list(keys, out, put_key)
        }
        Body::Gossip { send_back, entries } => {
            out.push(GOSSIP);
            out.push(u8::from(*send_back));
            put_list(entries, out, put_carried)
        }
        Body::Deltas { operation, entries } => {
            out.push(DELTAS);
            put_option(operation.as_ref(), out, |id, out| {
                out.extend_from_slice(&id.to_le_bytes());
                Ok(())
            })?;
            put_list(entries, out, put_delta_entry)
        }
    }
}

pub(super) fn read(reader: &mut Reader<'_>, types: &CustomTypes) -> Result<Msg, WireError> {
    let weight = reader.rest().len();
    let to_uid = reader.u64()?;
    let body = match reader.u8()? {
        READ => Body::Read {
            operation: reader.u64()?,
            key: read_key(reader)?,
        },
        READ_RESULT => Body::ReadResult {
            operation: reader.u64()?,
            envelope: read_option(reader, |reader| read_envelope(reader, types))?,
        },
        WRITE => Body::Write {
            operation: reader.u64()?,
            key: read_key(reader)?,
            envelope: read_envelope(reader, types)?,
        },
        WRITE_ACK => Body::WriteAck {
            operation: reader.u64()?,
        },
        WRITE_NACK => Body::WriteNack {
            operation: reader.u64()?,
            reason: read_nack(reader)?,
        },
        REPAIR => Body::Repair {
            key: read_key(reader)?,
            envelope: read_envelope(reader, types)?,
        },
        STATUS => Body::Status {
            chunk: reader.u32()?,
            total: reader.u32()?,
            digests: read_list(reader, read_digested)?,
        },
        REQUEST => Body::Request {
            keys: read_list(reader, read_key)?,
        },
        GOSSIP => Body::Gossip {
            send_back: reader.bool("send back")?,
            entries: read_several(reader, |reader| read_carried(reader, types))?,
        },
        DELTAS => Body::Deltas {
            operation: read_option(reader, |reader| reader.u64())?,
            entries: read_several(reader, |reader| read_delta_entry(reader, types))?,
        },
        _ => {
            return Err(WireError::Malformed {
                what: "replicator message",
            });
        }
    };
    Ok(Msg { to_uid, body, weight })
}

/// A key and its value as the store keeps them.
pub(crate) fn encode_stored(key: &Key, envelope: &Envelope) -> Result<Vec<u8>, WireError> {
    let mut out = alloc::vec![STORED_VERSION];
    put_key(key, &mut out)?;
    put_envelope(envelope, &mut out)?;
    Ok(out)
}

/// What [`encode_stored`] wrote.
pub(crate) fn decode_stored(bytes: &[u8], types: &CustomTypes) -> Result<(Key, Envelope), WireError> {
    let mut reader = Reader::new(bytes);
    if reader.u8()? != STORED_VERSION {
        return Err(WireError::Malformed {
            what: "stored version",
        });
    }
    let key = read_key(&mut reader)?;
    let envelope = read_envelope(&mut reader, types)?;
    reader.finish()?;
    Ok((key, envelope))
}

fn put_operation(tag: u8, operation: u64, out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(&operation.to_le_bytes());
}

fn put_key(key: &Key, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_text(out, key.as_str(), "key")
}

fn read_key(reader: &mut Reader<'_>) -> Result<Key, WireError> {
    Key::new(reader.text("key")?).map_err(|_| WireError::Malformed { what: "key" })
}

fn put_option<T>(
    value: Option<&T>,
    out: &mut Vec<u8>,
    put: impl FnOnce(&T, &mut Vec<u8>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    out.push(u8::from(value.is_some()));
    value.map_or(Ok(()), |value| put(value, out))
}

fn read_option<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, WireError>,
) -> Result<Option<T>, WireError> {
    if reader.bool("presence")? {
        read(reader).map(Some)
    } else {
        Ok(None)
    }
}

fn put_list<T>(
    list: &[T],
    out: &mut Vec<u8>,
    put: impl Fn(&T, &mut Vec<u8>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    let count = count_u16(list.len(), "list")?;
    out.extend_from_slice(&count.to_le_bytes());
    list.iter().try_for_each(|item| put(item, out))
}

/// One value or change of any size, or several that are small.
fn read_several<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnMut(&mut Reader<'a>) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let is_large = reader.rest().len() > SEVERAL_BYTES_MAX;
    let count_max = if is_large { 1 } else { usize::from(u16::MAX) };
    read_list_up_to(reader, count_max, read)
}

fn read_list<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnMut(&mut Reader<'a>) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    read_list_up_to(reader, usize::from(u16::MAX), read)
}

/// Grows with what was read, never by what was claimed.
fn read_list_up_to<'a, T>(
    reader: &mut Reader<'a>,
    count_max: usize,
    mut read: impl FnMut(&mut Reader<'a>) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let count = reader.u16()?;
    if usize::from(count) > count_max {
        return Err(WireError::LimitExceeded { what: "list" });
    }
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(read(reader)?);
    }
    Ok(list)
}

fn put_idle(idle_ms: Option<u64>, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_option(idle_ms.as_ref(), out, |idle, out| {
        out.extend_from_slice(&idle.to_le_bytes());
        Ok(())
    })
}

fn read_idle(reader: &mut Reader<'_>) -> Result<Option<u64>, WireError> {
    read_option(reader, |reader| reader.u64())
}

fn put_digested(digested: &Digested, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_key(&digested.key, out)?;
    out.extend_from_slice(&digested.digest.0.to_le_bytes());
    put_idle(digested.idle_ms, out)
}

fn read_digested(reader: &mut Reader<'_>) -> Result<Digested, WireError> {
    Ok(Digested {
        key: read_key(reader)?,
        digest: Digest(u128::from_le_bytes(reader.array()?)),
        idle_ms: read_idle(reader)?,
    })
}

fn put_carried(carried: &Carried, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_key(&carried.key, out)?;
    put_idle(carried.idle_ms, out)?;
    put_envelope(&carried.envelope, out)
}

fn read_carried(reader: &mut Reader<'_>, types: &CustomTypes) -> Result<Carried, WireError> {
    Ok(Carried {
        key: read_key(reader)?,
        idle_ms: read_idle(reader)?,
        envelope: read_envelope(reader, types)?,
    })
}

fn put_delta_entry(entry: &DeltaEntry, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_key(&entry.key, out)?;
    out.extend_from_slice(&entry.after.to_le_bytes());
    out.extend_from_slice(&entry.upto.to_le_bytes());
    out.extend_from_slice(&entry.settled_ms.to_le_bytes());
    put_list(&entry.deltas, out, put_delta)
}

fn read_delta_entry(reader: &mut Reader<'_>, types: &CustomTypes) -> Result<DeltaEntry, WireError> {
    Ok(DeltaEntry {
        key: read_key(reader)?,
        after: reader.u64()?,
        upto: reader.u64()?,
        settled_ms: reader.u64()?,
        deltas: read_list_up_to(reader, DELTAS_PER_ENTRY_MAX, |reader| read_delta(reader, types))?,
    })
}

fn put_envelope(envelope: &Envelope, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_option(envelope.data.as_ref(), out, |data, out| put_data(data, out))?;
    let count = count_u16(envelope.pruning.len(), "markers")?;
    out.extend_from_slice(&count.to_le_bytes());
    for (node, marker) in &envelope.pruning {
        put_node(out, node)?;
        put_marker(marker, out)?;
    }
    out.extend_from_slice(&envelope.settled_ms.to_le_bytes());
    let count = count_u16(envelope.deltas.len(), "delta versions")?;
    out.extend_from_slice(&count.to_le_bytes());
    for (node, upto) in &envelope.deltas {
        put_node(out, node)?;
        out.extend_from_slice(&upto.to_le_bytes());
    }
    Ok(())
}

fn read_envelope(reader: &mut Reader<'_>, types: &CustomTypes) -> Result<Envelope, WireError> {
    let data = read_option(reader, |reader| read_data(reader, types))?.map(Arc::new);
    let pruning = read_map(reader, "markers", read_marker)?;
    let settled_ms = reader.u64()?;
    let deltas = read_map(reader, "delta versions", |reader| reader.u64())?;
    if data.is_none() && !(pruning.is_empty() && settled_ms == 0 && deltas.is_empty()) {
        return Err(WireError::NonCanonical { what: "tombstone" });
    }
    Ok(Envelope {
        data,
        pruning,
        settled_ms,
        deltas,
    })
}

/// By node, ascending, each once.
fn read_map<'a, T>(
    reader: &mut Reader<'a>,
    what: &'static str,
    read: impl Fn(&mut Reader<'a>) -> Result<T, WireError>,
) -> Result<BTreeMap<UniqueAddress, T>, WireError> {
    let count = reader.u16()?;
    let mut map = BTreeMap::new();
    for _ in 0..count {
        let node = reader.node()?;
        if map.last_key_value().is_some_and(|(last, _)| *last >= node) {
            return Err(WireError::NonCanonical { what });
        }
        let value = read(reader)?;
        map.insert(node, value);
    }
    Ok(map)
}

fn put_marker(marker: &Pruning, out: &mut Vec<u8>) -> Result<(), WireError> {
    match marker {
        Pruning::Initialized { owner, seen } => {
            out.push(INITIALIZED);
            put_node(out, owner)?;
            let count = count_u16(seen.len(), "seen")?;
            out.extend_from_slice(&count.to_le_bytes());
            seen.iter().try_for_each(|node| put_node(out, node))
        }
        Pruning::Performed { obsolete_at_ms } => {
            out.push(PERFORMED);
            out.extend_from_slice(&obsolete_at_ms.to_le_bytes());
            Ok(())
        }
    }
}

fn read_marker(reader: &mut Reader<'_>) -> Result<Pruning, WireError> {
    match reader.u8()? {
        INITIALIZED => {
            let owner = reader.node()?;
            let count = reader.u16()?;
            let mut seen = BTreeSet::new();
            for _ in 0..count {
                let node = reader.node()?;
                if seen.last().is_some_and(|last| *last >= node) {
                    return Err(WireError::NonCanonical { what: "seen" });
                }
                seen.insert(node);
            }
            Ok(Pruning::Initialized { owner, seen })
        }
        PERFORMED => Ok(Pruning::Performed {
            obsolete_at_ms: reader.u64()?,
        }),
        _ => Err(WireError::Malformed { what: "marker" }),
    }
}

fn put_data(data: &Data, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_sized(out, |out| encode_data(data, out))
}

fn read_data(reader: &mut Reader<'_>, types: &CustomTypes) -> Result<Data, WireError> {
    decode_data(read_sized(reader)?, &LIMITS, types)
}

fn put_delta(delta: &Delta, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_sized(out, |out| encode_delta(delta, out))
}

fn read_delta(reader: &mut Reader<'_>, types: &CustomTypes) -> Result<Delta, WireError> {
    decode_delta(read_sized(reader)?, &LIMITS, types)
}

/// Puts the length of what is written in front of it.
fn put_sized(
    out: &mut Vec<u8>,
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

fn read_sized<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], WireError> {
    let length = usize::try_from(reader.u32()?).map_err(|_| WireError::Incomplete)?;
    reader.take(length)
}

fn put_nack(reason: Nack, out: &mut Vec<u8>) {
    out.push(match reason {
        Nack::Gap => 1,
        Nack::WrongType { .. } => 2,
        Nack::Store => 3,
        Nack::Limit => 4,
        Nack::NotServing => 5,
    });
    if let Nack::WrongType { held } = reason {
        put_type(held, out);
    }
}

fn read_nack(reader: &mut Reader<'_>) -> Result<Nack, WireError> {
    Ok(match reader.u8()? {
        1 => Nack::Gap,
        2 => Nack::WrongType {
            held: read_type(reader)?,
        },
        3 => Nack::Store,
        4 => Nack::Limit,
        5 => Nack::NotServing,
        _ => return Err(WireError::Malformed { what: "reason" }),
    })
}
