//! Messages whose entity's home is not known yet, per shard and in order. Bounded by number and by bytes over all shards
//! of the region; past either bound the newest is refused. Never sends. Spec: sharding 1.3, reliability I-45.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use crate::config::ShardingConfig;
use crate::sharding::pending_message::PendingMessage;
use crate::sharding::state::ids::ShardId;

/// The buffer of one region.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffers {
    by_shard: BTreeMap<ShardId, VecDeque<PendingMessage>>,
    messages: usize,
    bytes: usize,
    overflow_told: bool,
}

/// A message that did not fit.
pub(super) struct Overflow {
    pub(super) pending: PendingMessage,
    /// The first since the buffer was flushed: worth a warning.
    pub(super) first: bool,
}

impl Buffers {
    /// Appends a message to its shard's queue.
    pub(super) fn push(&mut self, limits: &ShardingConfig, pending: PendingMessage) -> Result<(), Overflow> {
        let bytes = self.bytes.saturating_add(pending.bytes());
        if self.messages >= limits.buffer_messages_max || bytes > limits.buffer_bytes_max {
            let first = !core::mem::replace(&mut self.overflow_told, true);
            return Err(Overflow { pending, first });
        }
        self.messages += 1;
        self.bytes = bytes;
        self.by_shard
            .entry(pending.envelope.shard)
            .or_default()
            .push_back(pending);
        Ok(())
    }

    /// Takes the oldest message of a shard.
    pub(super) fn pop(&mut self, shard: ShardId) -> Option<PendingMessage> {
        let queue = self.by_shard.get_mut(&shard)?;
        let pending = queue.pop_front();
        if queue.is_empty() {
            self.by_shard.remove(&shard);
        }
        self.took(pending.iter());
        pending
    }

    /// Takes everything of a shard, oldest first.
    pub(super) fn take(&mut self, shard: ShardId) -> VecDeque<PendingMessage> {
        let queue = self.by_shard.remove(&shard).unwrap_or_default();
        self.took(queue.iter());
        queue
    }

    /// Takes out the message of an ask of `me` (its number), which expired. Asks expire about in the order in which they
    /// came, so the search from the front is short.
    pub(super) fn remove_ask(
        &mut self,
        shard: ShardId,
        is_it: impl Fn(&PendingMessage) -> bool,
    ) -> Option<PendingMessage> {
        let queue = self.by_shard.get_mut(&shard)?;
        let at = queue.iter().position(is_it)?;
        let pending = queue.remove(at);
        if queue.is_empty() {
            self.by_shard.remove(&shard);
        }
        self.took(pending.iter());
        pending
    }

    /// Whether messages of a shard are waiting.
    pub(super) fn has(&self, shard: ShardId) -> bool {
        self.by_shard.contains_key(&shard)
    }

    /// Shards with waiting messages.
    pub(super) fn shards(&self) -> Vec<ShardId> {
        self.by_shard.keys().copied().collect()
    }

    /// Whether less than three quarters of either bound are taken. What is on its way when the host stops reading still
    /// fits into the rest.
    pub(super) const fn has_room(&self, limits: &ShardingConfig) -> bool {
        self.messages < limits.buffer_messages_max - limits.buffer_messages_max / 4
            && self.bytes < limits.buffer_bytes_max - limits.buffer_bytes_max / 4
    }

    /// Messages waiting.
    pub(super) const fn len(&self) -> usize {
        self.messages
    }

    /// Whether nothing waits.
    pub(super) const fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// All waiting messages.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PendingMessage> {
        self.by_shard.values().flatten()
    }

    /// What must hold between the calls.
    pub(super) fn check_invariants(&self) -> Result<(), String> {
        let messages: usize = self.by_shard.values().map(VecDeque::len).sum();
        let bytes: usize = self.iter().map(PendingMessage::bytes).sum();
        if (messages, bytes) != (self.messages, self.bytes) {
            return Err(String::from("buffers: the sums do not match the content"));
        }
        if self.by_shard.values().any(VecDeque::is_empty) {
            return Err(String::from("buffers: an empty queue is kept"));
        }
        let misplaced = |(shard, queue): (&ShardId, &VecDeque<PendingMessage>)| {
            queue.iter().any(|pending| pending.envelope.shard != *shard)
        };
        if self.by_shard.iter().any(misplaced) {
            return Err(String::from("buffers: a message waits for another shard"));
        }
        Ok(())
    }

    fn took<'p>(&mut self, messages: impl Iterator<Item = &'p PendingMessage>) {
        for pending in messages {
            self.messages -= 1;
            self.bytes -= pending.bytes();
            self.overflow_told = false;
        }
    }
}
