//! What a request changes in a replica's store, and what is found there. Pure. Spec: sharding 10.7.

use alloc::vec;
use alloc::vec::Vec;

use crate::journal::layout;
use crate::journal::protocol::{ReplicaAsk, ReplicaPage, ReplicaRequest};
use crate::journal::state::{LogItem, LogPlace, Position, ReplicaHead, SnapshotHead};
use crate::store::layout::DamagedBytes;
use crate::store::{Bytes, Change, StoreAnswer, StoreError};

/// The entries of a request that no snapshot covers.
pub(super) fn accepted(request: &ReplicaRequest, snapshot: Option<SnapshotHead>) -> Vec<Change> {
    let ReplicaAsk::Accept { entries } = &request.ask else {
        return Vec::new();
    };
    let covered = snapshot.map_or(0, |snapshot| snapshot.through);
    let entries = entries.iter().filter(|entry| entry.position > covered);
    entries
        .map(|entry| Change::Put {
            key: layout::item_key(&request.log, LogPlace::Entry(entry.position)),
            value: layout::value(&LogItem::Entry {
                accepted: request.token,
                entry: entry.clone(),
            }),
        })
        .collect()
}

/// A snapshot in place of the earlier one and of every entry that it covers, in one commit.
pub(super) fn replaced(log: &str, head: ReplicaHead, through: Position, parts: Vec<Bytes>) -> Vec<Change> {
    let mut changes = vec![
        Change::DeleteRange {
            from: layout::item_key(log, LogPlace::START),
            to: Some(layout::item_key(log, LogPlace::Entry(through).next())),
        },
        put_head(log, head),
    ];
    changes.extend((0..).zip(parts).map(|(index, value)| Change::Put {
        key: layout::item_key(log, LogPlace::Part(index)),
        value,
    }));
    changes
}

pub(super) fn put_head(log: &str, head: ReplicaHead) -> Change {
    Change::Put {
        key: layout::head_key(log),
        value: layout::value(&head),
    }
}

pub(super) fn loaded(answer: StoreAnswer) -> Result<ReplicaHead, StoreError> {
    match answer {
        StoreAnswer::Value(None) => Ok(ReplicaHead::default()),
        StoreAnswer::Value(Some(value)) => layout::parse(&value).map_err(|_| StoreError::Corrupt),
        StoreAnswer::Identity(_)
        | StoreAnswer::Items { .. }
        | StoreAnswer::Written
        | StoreAnswer::Opened(_)
        | StoreAnswer::Appended { .. }
        | StoreAnswer::Records { .. }
        | StoreAnswer::Kept
        | StoreAnswer::Snapshot(_)
        | StoreAnswer::Deleted => Err(StoreError::Unavailable),
    }
}

/// A part of what a log holds, as the store answered it.
pub(super) fn page(
    log: &str,
    snapshot: Option<SnapshotHead>,
    answer: StoreAnswer,
) -> Result<ReplicaPage, StoreError> {
    let StoreAnswer::Items { items, more } = answer else {
        return Err(StoreError::Unavailable);
    };
    let items = items
        .iter()
        .map(|(key, value)| layout::parse_item(log, key, value));
    let items = items
        .collect::<Result<Vec<_>, DamagedBytes>>()
        .map_err(|_| StoreError::Corrupt)?;
    let next = items.last().filter(|_| more).map(|item| item.place().next());
    Ok(ReplicaPage {
        snapshot,
        items,
        next,
    })
}
