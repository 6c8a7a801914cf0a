//! What a request changes in a replica's store, and what is found there. Pure. Spec: sharding 10.7.

use alloc::vec;
use alloc::vec::Vec;

use crate::journal::layout;
use crate::journal::protocol::{Ask, Request};
use crate::journal::state::{Head, Item, Place, Position, SnapshotHead};
use crate::store::{Bytes, Change, StoreAnswer, StoreError};

/// The entries of a request that no snapshot covers.
pub(super) fn accepted(request: &Request, snapshot: Option<SnapshotHead>) -> Vec<Change> {
    let Ask::Accept { entries } = &request.ask else {
        return Vec::new();
    };
    let covered = snapshot.map_or(0, |snapshot| snapshot.through);
    let entries = entries.iter().filter(|entry| entry.position > covered);
    entries
        .map(|entry| Change::Put {
            key: layout::item_key(&request.log, Place::Entry(entry.position)),
            value: layout::value(&Item::Entry {
                accepted: request.token,
                entry: entry.clone(),
            }),
        })
        .collect()
}

/// A snapshot in place of the earlier one and of every entry that it covers, in one commit.
pub(super) fn replaced(log: &str, head: Head, through: Position, parts: Vec<Bytes>) -> Vec<Change> {
    let mut changes = vec![
        Change::DeleteRange {
            from: layout::item_key(log, Place::START),
            to: Some(layout::item_key(log, Place::Entry(through).next())),
        },
        put_head(log, head),
    ];
    changes.extend((0..).zip(parts).map(|(index, value)| Change::Put {
        key: layout::item_key(log, Place::Part(index)),
        value,
    }));
    changes
}

pub(super) fn put_head(log: &str, head: Head) -> Change {
    Change::Put {
        key: layout::head_key(log),
        value: layout::value(&head),
    }
}

pub(super) fn loaded(answer: StoreAnswer) -> Result<Head, StoreError> {
    match answer {
        StoreAnswer::Value(None) => Ok(Head::default()),
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
