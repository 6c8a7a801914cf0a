//! Messages whose entity's home is not known yet, per shard and in order. Bounded by number and by bytes over all shards
//! of the region; past either bound the newest is refused. Never sends. Spec: sharding 1.3, reliability I-45.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use crate::buffered::Buffered;
use crate::config::ShardingConfig;
use crate::sharding::pending_message::PendingMessage;
use crate::sharding::state::ids::ShardId;

/// The buffer of one region.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffers {
    by_shard: BTreeMap<ShardId, Queue>,
    messages: usize,
    bytes: usize,
    overflow_told: bool,
}

/// What waits for one shard.
#[derive(Clone, Debug, Default)]
struct Queue {
    messages: VecDeque<PendingMessage>,
    /// So many at the front had been sent and were handed back: they are older than the rest.
    handed_back: usize,
}

/// A message that did not fit.
pub(super) struct Overflow {
    pub(super) pending: PendingMessage,
    /// The first since the buffer was flushed: worth a warning.
    pub(super) first: bool,
}

impl Buffers {
    /// Appends a message to its shard's queue; what did not fit.
    pub(super) fn push(&mut self, limits: &ShardingConfig, pending: PendingMessage) -> Option<Overflow> {
        if !self.count_in(limits, &pending) {
            return Some(self.overflow(pending));
        }
        let queue = self.by_shard.entry(pending.envelope.shard).or_default();
        queue.messages.push_back(pending);
        None
    }

    /// Puts a message that was handed back before those that have not been sent yet, and behind those that were handed back
    /// before it; what did not fit.
    pub(super) fn push_handed_back(
        &mut self,
        limits: &ShardingConfig,
        pending: PendingMessage,
    ) -> Option<Overflow> {
        if !self.count_in(limits, &pending) {
            return Some(self.overflow(pending));
        }
        let queue = self.by_shard.entry(pending.envelope.shard).or_default();
        queue.messages.insert(queue.handed_back, pending);
        queue.handed_back += 1;
        None
    }

    /// Counts a message in, if there is room for it.
    fn count_in(&mut self, limits: &ShardingConfig, pending: &PendingMessage) -> bool {
        let bytes = self.bytes.saturating_add(pending.bytes());
        let fits = self.messages < limits.buffer_messages_max && bytes <= limits.buffer_bytes_max;
        if fits {
            self.messages += 1;
            self.bytes = bytes;
        }
        fits
    }

    fn overflow(&mut self, pending: PendingMessage) -> Overflow {
        let first = !core::mem::replace(&mut self.overflow_told, true);
        Overflow { pending, first }
    }

    /// Takes the oldest message of a shard.
    pub(super) fn pop(&mut self, shard: ShardId) -> Option<PendingMessage> {
        let queue = self.by_shard.get_mut(&shard)?;
        let pending = queue.messages.pop_front();
        queue.handed_back = queue.handed_back.saturating_sub(1);
        if queue.messages.is_empty() {
            self.by_shard.remove(&shard);
        }
        self.took(pending.iter());
        pending
    }

    /// Takes everything of a shard, oldest first.
    pub(super) fn take(&mut self, shard: ShardId) -> VecDeque<PendingMessage> {
        let queue = self.by_shard.remove(&shard).unwrap_or_default();
        self.took(queue.messages.iter());
        queue.messages
    }

    /// Takes what other nodes sent for a shard, oldest first, and leaves what this node's users did.
    pub(super) fn take_foreign(&mut self, shard: ShardId) -> VecDeque<PendingMessage> {
        let Some(queue) = self.by_shard.remove(&shard) else {
            return VecDeque::new();
        };
        // What was handed back is of this node's users, so the count of it stays right.
        let (foreign, own): (VecDeque<_>, VecDeque<_>) =
            queue.messages.into_iter().partition(PendingMessage::is_foreign);
        self.took(foreign.iter());
        if !own.is_empty() {
            let handed_back = queue.handed_back;
            let messages = own;
            self.by_shard.insert(
                shard,
                Queue {
                    messages,
                    handed_back,
                },
            );
        }
        foreign
    }

    /// Takes out the message of an ask of `me` (its number), which expired. Asks expire about in the order in which they
    /// came, so the search from the front is short.
    pub(super) fn remove_ask(
        &mut self,
        shard: ShardId,
        is_it: impl Fn(&PendingMessage) -> bool,
    ) -> Option<PendingMessage> {
        let queue = self.by_shard.get_mut(&shard)?;
        let at = queue.messages.iter().position(is_it)?;
        let pending = queue.messages.remove(at);
        if at < queue.handed_back {
            queue.handed_back -= 1;
        }
        if queue.messages.is_empty() {
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

    /// What waits here.
    pub(super) const fn buffered(&self) -> Buffered {
        Buffered {
            messages: self.messages,
            bytes: self.bytes,
        }
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
        self.by_shard.values().flat_map(|queue| &queue.messages)
    }

    /// What must hold between the calls.
    pub(super) fn check_invariants(&self) -> Result<(), String> {
        let messages: usize = self.by_shard.values().map(|queue| queue.messages.len()).sum();
        let bytes: usize = self.iter().map(PendingMessage::bytes).sum();
        if (messages, bytes) != (self.messages, self.bytes) {
            return Err(String::from("buffers: the sums do not match the content"));
        }
        if self.by_shard.values().any(|queue| queue.messages.is_empty()) {
            return Err(String::from("buffers: an empty queue is kept"));
        }
        let handed_back = |queue: &Queue| {
            let mut first = queue.messages.iter().take(queue.handed_back);
            queue.handed_back <= queue.messages.len() && !first.any(PendingMessage::is_foreign)
        };
        if !self.by_shard.values().all(handed_back) {
            return Err(String::from("buffers: others' messages count as handed back"));
        }
        let misplaced = |(shard, queue): (&ShardId, &Queue)| {
            let mut shards = queue.messages.iter().map(|pending| pending.envelope.shard);
            shards.any(|of| of != *shard)
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
