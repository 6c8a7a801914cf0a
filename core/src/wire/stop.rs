//! What regions and coordinators say about shards that are to stop, as bytes. Unstable as all of sharding. Spec: sharding 1.1, `docs/WIRE.md`
//! 4.2.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::sharding::{put_shards, read_shards};
use crate::bytes::{Reader, WireError};
use crate::sharding::protocol::stop::{STOP_SHARDS_MAX, StopMsg, StopRefusal};
use crate::sharding::state::ids::ShardId;

const STOP: u8 = 1;
const STOPPED: u8 = 2;
const REFUSED: u8 = 3;

const REMEMBERS: u8 = 1;
const SHUTTING_DOWN: u8 = 2;

pub(super) fn put(message: &StopMsg, out: &mut Vec<u8>) -> Result<(), WireError> {
    let (tag, shards) = match message {
        StopMsg::Stop { shards } => (STOP, shards),
        StopMsg::Stopped { shards } => (STOPPED, shards),
        StopMsg::Refused { why } => {
            let why = match why {
                StopRefusal::Remembers => REMEMBERS,
                StopRefusal::ShuttingDown => SHUTTING_DOWN,
            };
            out.extend_from_slice(&[REFUSED, why]);
            return Ok(());
        }
    };
    if !(1..=STOP_SHARDS_MAX).contains(&shards.len()) {
        return Err(WireError::Unencodable { what: "shards" });
    }
    out.push(tag);
    put_shards(shards, out)
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<StopMsg, WireError> {
    match reader.u8()? {
        STOP => Ok(StopMsg::Stop {
            shards: read_some(reader)?,
        }),
        STOPPED => Ok(StopMsg::Stopped {
            shards: read_some(reader)?,
        }),
        REFUSED => {
            let why = match reader.u8()? {
                REMEMBERS => StopRefusal::Remembers,
                SHUTTING_DOWN => StopRefusal::ShuttingDown,
                _ => return Err(WireError::Malformed { what: "refusal" }),
            };
            Ok(StopMsg::Refused { why })
        }
        _ => Err(WireError::Malformed { what: "stop" }),
    }
}

fn read_some(reader: &mut Reader<'_>) -> Result<Vec<ShardId>, WireError> {
    let shards = read_shards(reader)?;
    if shards.is_empty() {
        return Err(WireError::Malformed { what: "shards" });
    }
    if shards.len() > STOP_SHARDS_MAX {
        return Err(WireError::LimitExceeded { what: "shards" });
    }
    Ok(shards)
}
