//! How a replica keeps logs in the node's store: its keys. Part of every file that a node wrote, so it only
//! ever grows. Spec: sharding 10.7.
//!
//! | first byte | key | value |
//! |---|---|---|
//! | 0 | nothing | the voters |
//! | 1 | log | the head |
//! | 2 | log, 0, part (4) | that part of the snapshot, as it is |
//! | 2 | log, 1, position (8) | the entry |
//!
//! A log is the length of its name (2) and its name. Numbers in keys are big-endian, so that they rise; what
//! values are made of, `wire` says (`docs/WIRE.md` 4.14).

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::protocol::POSITION_END;
use super::state::{LogItem, LogPlace, Position};
use crate::store::Bytes;
use crate::store::layout::DamagedBytes;
use crate::wire::StoredForm;

const VOTERS: u8 = 0;
const HEAD: u8 = 1;
const ITEM: u8 = 2;
const PART: u8 = 0;
const ENTRY: u8 = 1;

fn key(first: u8, log: &str, room: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(3 + log.len() + room);
    out.push(first);
    // Names are checked before they come here.
    out.extend_from_slice(&u16::try_from(log.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(log.as_bytes());
    out
}

pub(super) fn head_key(log: &str) -> Bytes {
    Arc::from(key(HEAD, log, 0))
}

pub(super) fn item_key(log: &str, place: LogPlace) -> Bytes {
    let mut out = key(ITEM, log, 9);
    match place {
        LogPlace::Part(index) => {
            out.push(PART);
            out.extend_from_slice(&index.to_be_bytes());
        }
        LogPlace::Entry(position) => {
            out.push(ENTRY);
            out.extend_from_slice(&position.to_be_bytes());
        }
    }
    Arc::from(out)
}

/// Before this key lies everything of the log.
pub(super) fn end_key(log: &str) -> Bytes {
    item_key(log, LogPlace::Entry(POSITION_END))
}

/// What lies at the end of an item's key.
fn parse_place(log: &str, key: &[u8]) -> Result<LogPlace, DamagedBytes> {
    let rest = key.get(3 + log.len()..).ok_or(DamagedBytes)?;
    let (kind, rest) = rest.split_first().ok_or(DamagedBytes)?;
    match *kind {
        PART => <[u8; 4]>::try_from(rest)
            .map(|index| LogPlace::Part(u32::from_be_bytes(index)))
            .map_err(|_| DamagedBytes),
        ENTRY => <[u8; 8]>::try_from(rest)
            .map(|position| LogPlace::Entry(Position::from_be_bytes(position)))
            .map_err(|_| DamagedBytes),
        _ => Err(DamagedBytes),
    }
}

pub(super) fn parse_item(log: &str, key: &[u8], value: &Bytes) -> Result<LogItem, DamagedBytes> {
    let place = parse_place(log, key)?;
    match place {
        LogPlace::Part(index) => Ok(LogItem::Part {
            index,
            bytes: Bytes::clone(value),
        }),
        LogPlace::Entry(_) => parse(value).and_then(|item: LogItem| match item.place() == place {
            true => Ok(item),
            false => Err(DamagedBytes),
        }),
    }
}

/// A value that was checked when it came or was made.
pub(super) fn value(of: &impl StoredForm) -> Bytes {
    of.to_bytes().expect("invariant: within its bounds")
}

pub(super) fn parse<T: StoredForm>(value: &[u8]) -> Result<T, DamagedBytes> {
    T::from_bytes(value).map_err(|_| DamagedBytes)
}

/// Where the store keeps which voters it has agreed to.
pub(super) fn voters_key() -> Bytes {
    Arc::from([VOTERS].as_slice())
}
