//! What is said about watched entities, as bytes. Unstable as all of sharding. Spec: sharding 1.17, `docs/WIRE.md` 4.12.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::entity::{put_id, read_id};
use crate::bytes::{Reader, WireError};
use crate::config::Limits;
use crate::sharding::protocol::watch::{EntityEnd, STATEMENTS_MAX, WatchMsg, WatchStatement};
use crate::sharding::state::ids::KindId;

const SAY: u8 = 1;
const HEARD: u8 = 2;

const WATCH: u8 = 1;
const UNWATCH: u8 = 2;
const WATCHING: u8 = 3;
const MOVED: u8 = 4;
const ENDED: u8 = 5;
const FULL: u8 = 6;

const STOPPED: u8 = 1;
const FAILED: u8 = 2;
const NOT_RUNNING: u8 = 3;

/// The shortest statement: its tag and its watch.
const STATEMENT_BYTES_MIN: usize = 9;

pub(super) fn put(message: &WatchMsg, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
    match message {
        WatchMsg::Say { first, statements } => {
            let count = u8::try_from(statements.len()).unwrap_or(u8::MAX);
            if *first == 0 || count == 0 || usize::from(count) > STATEMENTS_MAX {
                return Err(WireError::Unencodable { what: "statements" });
            }
            out.push(SAY);
            out.extend_from_slice(&first.to_le_bytes());
            out.push(count);
            statements
                .iter()
                .try_for_each(|statement| put_statement(statement, limits, out))
        }
        WatchMsg::Heard { up_to } => {
            out.push(HEARD);
            out.extend_from_slice(&up_to.to_le_bytes());
            Ok(())
        }
    }
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<WatchMsg, WireError> {
    match reader.u8()? {
        SAY => {
            let first = reader.u64()?;
            let count = usize::from(reader.u8()?);
            if first == 0 || count == 0 {
                return Err(WireError::Malformed { what: "statements" });
            }
            if count > STATEMENTS_MAX || count > reader.rest().len() / STATEMENT_BYTES_MIN {
                return Err(WireError::LimitExceeded { what: "statements" });
            }
            let mut statements = Vec::with_capacity(count);
            for _ in 0..count {
                statements.push(read_statement(reader)?);
            }
            Ok(WatchMsg::Say { first, statements })
        }
        HEARD => Ok(WatchMsg::Heard { up_to: reader.u64()? }),
        _ => Err(WireError::Malformed { what: "watch" }),
    }
}

fn put_statement(statement: &WatchStatement, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
    let (tag, id) = match statement {
        WatchStatement::Watch { id, .. } => (WATCH, id),
        WatchStatement::Unwatch { id } => (UNWATCH, id),
        WatchStatement::Watching { id } => (WATCHING, id),
        WatchStatement::Moved { id } => (MOVED, id),
        WatchStatement::Ended { id, .. } => (ENDED, id),
        WatchStatement::Full { id } => (FULL, id),
    };
    out.push(tag);
    out.extend_from_slice(&id.to_le_bytes());
    match statement {
        WatchStatement::Watch {
            kind, entity, known, ..
        } => {
            out.extend_from_slice(&kind.raw().to_le_bytes());
            out.push(u8::from(*known));
            put_id(entity, limits, out)?;
        }
        WatchStatement::Ended { why, .. } => out.push(match why {
            EntityEnd::Stopped => STOPPED,
            EntityEnd::Failed => FAILED,
            EntityEnd::NotRunning => NOT_RUNNING,
        }),
        WatchStatement::Unwatch { .. }
        | WatchStatement::Watching { .. }
        | WatchStatement::Moved { .. }
        | WatchStatement::Full { .. } => {}
    }
    Ok(())
}

fn read_statement(reader: &mut Reader<'_>) -> Result<WatchStatement, WireError> {
    let tag = reader.u8()?;
    let id = reader.u64()?;
    match tag {
        WATCH => {
            let kind = KindId::from_raw(reader.u64()?);
            let known = reader.bool("watch flags")?;
            Ok(WatchStatement::Watch {
                id,
                kind,
                entity: read_id(reader)?,
                known,
            })
        }
        UNWATCH => Ok(WatchStatement::Unwatch { id }),
        WATCHING => Ok(WatchStatement::Watching { id }),
        MOVED => Ok(WatchStatement::Moved { id }),
        ENDED => {
            let why = match reader.u8()? {
                STOPPED => EntityEnd::Stopped,
                FAILED => EntityEnd::Failed,
                NOT_RUNNING => EntityEnd::NotRunning,
                _ => return Err(WireError::Malformed { what: "end" }),
            };
            Ok(WatchStatement::Ended { id, why })
        }
        FULL => Ok(WatchStatement::Full { id }),
        _ => Err(WireError::Malformed { what: "statement" }),
    }
}
