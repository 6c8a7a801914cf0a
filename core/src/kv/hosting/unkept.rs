//! What a durable store has changed and the node's store does not have yet, and what may be said only when it
//! has. Everything that came up to one moment is kept together; what comes meanwhile waits for the next turn.
//! Spec: sharding 10.7, 10.10.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Listener;
use crate::ddata::state::key::Key;
use crate::journal::state::StoreId;
use crate::kv::layout;
use crate::kv::protocol::BucketBody;
use crate::kv::state::bucket::BucketName;
use crate::kv::state::table::RangeId;
use crate::ordered::OrderedSet;
use crate::store::Change;
use crate::store::limits::{CHANGES_PER_BATCH_MAX, ORDER_BYTES_MAX};

/// A newcomer has merged a part of an owner's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MergedPart {
    pub(super) range: RangeId,
    pub(super) epoch: u64,
    pub(super) owner: StoreId,
}

/// What has changed since the last turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Unkept {
    pub(super) heads: OrderedSet<RangeId>,
    /// Ranges of which everything was dropped, before what was changed of them since.
    pub(super) dropped: OrderedSet<RangeId>,
    pub(super) keys: OrderedSet<(RangeId, Key)>,
    pub(super) hints: OrderedSet<(StoreId, Key)>,
    pub(super) merged: Vec<MergedPart>,
    /// When the store was open.
    pub(super) seen_ms: Option<u64>,
}

impl Unkept {
    pub(super) fn is_empty(&self) -> bool {
        let is_none = self.heads.is_empty() && self.dropped.is_empty() && self.keys.is_empty();
        is_none && self.hints.is_empty() && self.merged.is_empty() && self.seen_ms.is_none()
    }
}

/// A turn: what is being kept, and what is said when all of it is.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptTurn {
    changes: VecDeque<Change>,
    /// How many of them the node's store was asked to keep.
    asked: usize,
    pub(super) said: Vec<(Listener, BucketBody)>,
    pub(super) merged: Vec<MergedPart>,
}

impl KeptTurn {
    /// What is to be kept of a bucket: what was dropped goes first, in front of the heads that say so.
    pub(super) fn new(
        bucket: &BucketName,
        unkept: Unkept,
        said: Vec<(Listener, BucketBody)>,
        stored: impl Fn(StoredThing<'_>) -> Option<Vec<u8>>,
    ) -> Self {
        let mut changes = VecDeque::new();
        for range in &unkept.dropped {
            let (from, to) = layout::entries(bucket, *range);
            changes.push_back(Change::DeleteRange { from, to: Some(to) });
        }
        let mut put = |key, value: Option<Vec<u8>>| {
            changes.push_back(match value {
                Some(value) => Change::Put {
                    key,
                    value: value.into(),
                },
                None => Change::Delete { key },
            });
        };
        if let Some(seen_ms) = unkept.seen_ms {
            put(layout::seen_key(bucket), Some(seen_ms.to_le_bytes().into()));
        }
        for range in &unkept.heads {
            put(
                layout::head_key(bucket, *range),
                stored(StoredThing::Head(*range)),
            );
        }
        for (range, key) in &unkept.keys {
            let value = stored(StoredThing::Entry(*range, key));
            put(layout::entry_key(bucket, *range, key), value);
        }
        for (owner, key) in &unkept.hints {
            let value = stored(StoredThing::Hint(*owner, key));
            put(layout::hint_key(bucket, *owner, key), value);
        }
        Self {
            changes,
            asked: 0,
            said,
            merged: unkept.merged,
        }
    }

    /// What the node's store is to keep next, as much as goes at once; the same again until it is kept.
    pub(super) fn batch(&mut self) -> Vec<Change> {
        let mut bytes = 0;
        let mut batch = Vec::new();
        for change in self.changes.iter().take(CHANGES_PER_BATCH_MAX) {
            let weight = match change {
                Change::Put { key, value } => key.len() + value.len(),
                Change::Delete { key } => key.len(),
                Change::DeleteRange { from, to } => from.len() + to.as_ref().map_or(0, |to| to.len()),
            };
            if bytes + weight > ORDER_BYTES_MAX && !batch.is_empty() {
                break;
            }
            bytes += weight;
            batch.push(change.clone());
        }
        self.asked = batch.len();
        batch
    }

    /// It is kept; whether that was all.
    pub(super) fn on_kept(&mut self) -> bool {
        self.changes.drain(..self.asked.min(self.changes.len()));
        self.asked = 0;
        self.changes.is_empty()
    }
}

/// What is kept under a key.
pub(super) enum StoredThing<'a> {
    Head(RangeId),
    Entry(RangeId, &'a Key),
    Hint(StoreId, &'a Key),
}
