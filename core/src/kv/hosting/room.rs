//! How much a store holds in memory, and what it takes once that is as much as it may: nothing new, but
//! whatever makes it hold less, and what other owners hold already, so that no copy is lost. Spec: sharding
//! 5.6, 10.19.

use super::{BucketStore, HostedRange};
use crate::kv::protocol::Event;
use crate::kv::state::exchange::{KvAnswer, KvRefusal};
use crate::kv::state::siblings::PutError;
use crate::kv::state::table::RangeId;

/// What a store holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldBytes {
    bytes: usize,
    /// Questions that were refused since that was asked.
    refused: u64,
    /// It was said that it is full, and it has been since.
    is_told: bool,
}

impl HeldBytes {
    pub(super) const fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(super) const fn forget(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl BucketStore {
    /// About how many bytes of keys and values it holds.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.held.bytes
    }

    /// Does something with a range that may change how much is held.
    pub(super) fn with_range<T>(
        &mut self,
        range: RangeId,
        act: impl FnOnce(&mut HostedRange) -> T,
    ) -> Option<T> {
        let is_full = self.held.bytes >= self.settings.bytes_max;
        let range = self.ranges.get_mut(&range)?;
        let before = range.bytes();
        range.replica.set_full(is_full);
        let done = act(range);
        self.held.bytes = self
            .held
            .bytes
            .saturating_sub(before)
            .saturating_add(range.bytes());
        self.held.is_told &= is_full;
        Some(done)
    }

    /// Somebody was answered.
    pub(super) fn note_refusal(&mut self, answer: &KvAnswer) {
        if *answer != KvAnswer::Refused(KvRefusal::Put(PutError::Full)) {
            return;
        }
        self.held.refused += 1;
        if !self.held.is_told {
            self.held.is_told = true;
            let bytes = self.held.bytes;
            self.news.push(Event::StoreFull { bytes });
        }
    }

    /// How many questions were refused for want of room since the last call.
    pub(in crate::kv) fn take_refused(&mut self) -> u64 {
        core::mem::take(&mut self.held.refused)
    }
}
