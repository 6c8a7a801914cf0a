//! The rules of logs: who may append, what a repetition is, what is read back. Spec: sharding 10.7.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::super::layout::{self, DamagedBytes, LogHead};
use super::super::{Bytes, LogState, OwnedLog, Record, Sequence, Snapshot, Space, StoreAnswer, StoreError};
use super::{
    AnswerRoom, ReadTransaction, RuleStop, Ruled, WriteTransaction, admits_opening, get, put, refuse,
};
use crate::token::Token;

fn head<T: ReadTransaction>(tx: &T, space: Space, log: &str) -> Ruled<Option<LogHead>, T::Error> {
    let bytes = get(tx, &layout::head_key(space, log))?;
    Ok(bytes.map(|bytes| LogHead::parse(&bytes)).transpose()?)
}

fn set_head<T: WriteTransaction>(tx: &mut T, space: Space, log: &str, head: LogHead) -> Ruled<(), T::Error> {
    put(tx, &layout::head_key(space, log), &[&head.to_bytes()])
}

/// The log's head, if `token` is the one that owns it.
fn owned<T: ReadTransaction>(tx: &T, space: Space, log: &str, token: Token) -> Ruled<LogHead, T::Error> {
    match head(tx, space, log)? {
        Some(head) if head.token == token => Ok(head),
        Some(head) => refuse(StoreError::Fenced { held: head.token }),
        None => refuse(StoreError::Fenced { held: Token::NONE }),
    }
}

pub(super) fn open<T: WriteTransaction>(
    tx: &mut T,
    space: Space,
    log: &str,
    token: Token,
    opener: u64,
) -> Ruled<StoreAnswer, T::Error> {
    let head = head(tx, space, log)?.unwrap_or(LogHead {
        first: 1,
        ..LogHead::default()
    });
    admits_opening(head.token, head.opener, token, opener).map_err(RuleStop::Order)?;
    set_head(
        tx,
        space,
        log,
        LogHead {
            token,
            opener,
            ..head
        },
    )?;
    Ok(StoreAnswer::Opened(LogState {
        first: head.first,
        last: head.last,
        snapshot: head.snapshot,
    }))
}

pub(super) fn append<T: WriteTransaction>(
    tx: &mut T,
    of: OwnedLog<'_>,
    expected: Sequence,
    records: &[Bytes],
) -> Ruled<StoreAnswer, T::Error> {
    let OwnedLog { space, log, token } = of;
    let head = owned(tx, space, log, token)?;
    let last = expected.saturating_add(records.len() as u64);
    if head.last != expected {
        return if last <= head.last && is_repetition(tx, of, expected, records)? {
            Ok(StoreAnswer::Appended { last: head.last })
        } else {
            refuse(StoreError::SequenceConflict { last: head.last })
        };
    }
    for (sequence, record) in (expected.saturating_add(1)..).zip(records) {
        let key = layout::record_key(space, log, sequence);
        put(tx, &key, &[&layout::token_bytes(token), record])?;
    }
    set_head(tx, space, log, LogHead { last, ..head })?;
    Ok(StoreAnswer::Appended { last })
}

/// Whether exactly these records stand behind `expected`, appended with this token.
fn is_repetition<T: ReadTransaction>(
    tx: &T,
    OwnedLog { space, log, token }: OwnedLog<'_>,
    expected: Sequence,
    records: &[Bytes],
) -> Ruled<bool, T::Error> {
    for (sequence, record) in (expected.saturating_add(1)..).zip(records) {
        let Some(bytes) = get(tx, &layout::record_key(space, log, sequence))? else {
            return Ok(false);
        };
        let (appended_with, bytes) = layout::take_token(&bytes)?;
        if appended_with != token || *bytes != **record {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn keep<T: WriteTransaction>(
    tx: &mut T,
    OwnedLog { space, log, token }: OwnedLog<'_>,
    through: Sequence,
    state: &Bytes,
) -> Ruled<StoreAnswer, T::Error> {
    let head = owned(tx, space, log, token)?;
    if through > head.last || head.snapshot.is_some_and(|covered| through < covered) {
        return refuse(StoreError::SequenceConflict { last: head.last });
    }
    let parts: [&[u8]; 3] = [&through.to_be_bytes(), &layout::token_bytes(token), state];
    put(tx, &layout::snapshot_key(space, log), &parts)?;
    let snapshot = Some(through);
    set_head(tx, space, log, LogHead { snapshot, ..head })?;
    Ok(StoreAnswer::Kept)
}

pub(super) fn read_snapshot<T: ReadTransaction>(
    tx: &T,
    space: Space,
    log: &str,
) -> Ruled<StoreAnswer, T::Error> {
    let Some(bytes) = get(tx, &layout::snapshot_key(space, log))? else {
        return Ok(StoreAnswer::Snapshot(None));
    };
    let (through, rest) = layout::take_number(&bytes)?;
    let (token, state) = layout::take_token(rest)?;
    let state = Bytes::from(state);
    Ok(StoreAnswer::Snapshot(Some(Snapshot {
        through,
        token,
        state,
    })))
}

pub(super) fn forget<T: WriteTransaction>(
    tx: &mut T,
    space: Space,
    log: &str,
    token: Token,
    through: Sequence,
) -> Ruled<StoreAnswer, T::Error> {
    let head = owned(tx, space, log, token)?;
    let first = through.min(head.last).saturating_add(1).max(head.first);
    if first > head.first {
        let from = layout::record_key(space, log, head.first);
        let to = layout::record_key(space, log, first);
        tx.delete_range(&from, &to).map_err(RuleStop::Engine)?;
        set_head(tx, space, log, LogHead { first, ..head })?;
    }
    Ok(StoreAnswer::Deleted)
}

pub(super) fn read_log<T: ReadTransaction>(
    tx: &T,
    space: Space,
    log: &str,
    from: Sequence,
    bytes_max: usize,
) -> Ruled<StoreAnswer, T::Error> {
    let mut records: Vec<Record> = Vec::new();
    let Some(head) = head(tx, space, log)? else {
        return Ok(StoreAnswer::Records { records, more: false });
    };
    let from = from.max(head.first);
    if from > head.last {
        return Ok(StoreAnswer::Records { records, more: false });
    }
    let (begin, end) = (
        layout::record_key(space, log, from),
        // A log that ends at the last number there is has nothing behind it.
        layout::record_key(space, log, head.last.saturating_add(1)),
    );
    let mut room = AnswerRoom::new(bytes_max);
    let mut next = from;
    tx.range(&begin, &end, &mut |key, sealed| {
        let record = if key == layout::record_key(space, log, next) {
            layout::unseal(key, sealed).and_then(layout::take_token)
        } else {
            Err(DamagedBytes)
        };
        room.take(record.map(|(_, bytes)| bytes.len()))?;
        if let Ok((token, bytes)) = record {
            let bytes = Bytes::from(bytes);
            records.push(Record {
                sequence: next,
                token,
                bytes,
            });
        }
        next = next.saturating_add(1);
        ControlFlow::Continue(())
    })
    .map_err(RuleStop::Engine)?;
    let more = room.close()?;
    if !more && next != head.last.saturating_add(1) {
        // A record is missing: what came before is good, the next question finds the gap.
        return if records.is_empty() {
            refuse(StoreError::Corrupt)
        } else {
            Ok(StoreAnswer::Records { records, more: true })
        };
    }
    Ok(StoreAnswer::Records { records, more })
}
