//! Messages that cannot go on yet, in order: of shards whose home is not known, and of entities here that are being passivated.
//! Bounded by number and by bytes over all of them; past either bound the newest is refused. Never sends. Spec: sharding 1.3, 1.4,
//! reliability I-45.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use crate::buffered::Buffered;
use crate::config::ShardingConfig;
use crate::sharding::pending_message::PendingMessage;
use crate::sharding::state::ids::{EntityId, ShardId};

/// The buffer of one region.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffers {
    by_shard: BTreeMap<ShardId, Queue>,
    /// What waits for the next incarnation of an entity of a shard that runs here. It is older than what waits for the shard.
    by_entity: BTreeMap<(ShardId, EntityId), Queue>,
    messages: usize,
    bytes: usize,
    overflow_told: bool,
}

/// What waits for one shard or entity.
#[derive(Clone, Debug, Default)]
struct Queue {
    messages: VecDeque<PendingMessage>,
    /// So many at the front had been sent and were handed back: they are older than the rest.
    handed_back: usize,
}

impl Queue {
    fn insert_handed_back(&mut self, pending: PendingMessage) {
        self.messages.insert(self.handed_back, pending);
        self.handed_back += 1;
    }

    fn pop(&mut self) -> Option<PendingMessage> {
        self.handed_back = self.handed_back.saturating_sub(1);
        self.messages.pop_front()
    }

    fn remove_first(&mut self, is_it: impl Fn(&PendingMessage) -> bool) -> Option<PendingMessage> {
        let at = self.messages.iter().position(is_it)?;
        if at < self.handed_back {
            self.handed_back -= 1;
        }
        self.messages.remove(at)
    }
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
        let envelope = &pending.envelope;
        let of_entity = self.by_entity.get_mut(&(envelope.shard, envelope.entity.clone()));
        let queue = match of_entity {
            Some(queue) => queue,
            None => self.by_shard.entry(envelope.shard).or_default(),
        };
        queue.insert_handed_back(pending);
        None
    }

    /// Appends a message to its entity's queue; what did not fit.
    pub(super) fn push_for_entity(
        &mut self,
        limits: &ShardingConfig,
        pending: PendingMessage,
    ) -> Option<Overflow> {
        if !self.count_in(limits, &pending) {
            return Some(self.overflow(pending));
        }
        let key = (pending.envelope.shard, pending.envelope.entity.clone());
        let queue = self.by_entity.entry(key).or_default();
        queue.messages.push_back(pending);
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

    /// Takes the oldest message of an entity.
    pub(super) fn pop_for_entity(&mut self, shard: ShardId, entity: &EntityId) -> Option<PendingMessage> {
        let key = (shard, entity.clone());
        let queue = self.by_entity.get_mut(&key)?;
        let pending = queue.pop();
        if queue.messages.is_empty() {
            self.by_entity.remove(&key);
        }
        self.took(pending.iter());
        pending
    }

    /// Puts what waits for entities of a shard before what waits for the shard: it is older, and the shard stops.
    pub(super) fn gather(&mut self, shard: ShardId) {
        let entities: Vec<EntityId> = self.entities_of(shard).cloned().collect();
        for entity in entities.into_iter().rev() {
            let Some(mut older) = self.by_entity.remove(&(shard, entity)) else {
                continue;
            };
            let queue = self.by_shard.entry(shard).or_default();
            // What came back was sent before everything else that waits, of whatever entity.
            let newer = older.messages.split_off(older.handed_back);
            let came_back = queue.messages.drain(..queue.handed_back);
            let mut all = older.messages;
            all.extend(came_back);
            let handed_back = all.len();
            all.extend(newer);
            all.append(&mut queue.messages);
            *queue = Queue {
                messages: all,
                handed_back,
            };
        }
    }

    /// The same for all shards.
    pub(super) fn gather_all(&mut self) {
        while let Some((shard, _)) = self.by_entity.keys().next() {
            self.gather(*shard);
        }
    }

    /// Entities of a shard for which messages wait.
    fn entities_of(&self, shard: ShardId) -> impl Iterator<Item = &EntityId> {
        // The empty name is before all others, and no entity has it.
        let from = (shard, EntityId::new(&[]));
        let here = self.by_entity.range(from..);
        here.take_while(move |((of, _), _)| *of == shard)
            .map(|((_, entity), _)| entity)
    }

    /// Takes the oldest message of a shard.
    pub(super) fn pop(&mut self, shard: ShardId) -> Option<PendingMessage> {
        let queue = self.by_shard.get_mut(&shard)?;
        let pending = queue.pop();
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
        let pending = match self.remove_from_shard(shard, &is_it) {
            Some(pending) => Some(pending),
            None => self.remove_from_entities(shard, &is_it),
        };
        self.took(pending.iter());
        pending
    }

    fn remove_from_shard(
        &mut self,
        shard: ShardId,
        is_it: impl Fn(&PendingMessage) -> bool,
    ) -> Option<PendingMessage> {
        let queue = self.by_shard.get_mut(&shard)?;
        let pending = queue.remove_first(is_it);
        if queue.messages.is_empty() {
            self.by_shard.remove(&shard);
        }
        pending
    }

    fn remove_from_entities(
        &mut self,
        shard: ShardId,
        is_it: impl Fn(&PendingMessage) -> bool,
    ) -> Option<PendingMessage> {
        let holds = |entity: &&EntityId| {
            let queue = self.by_entity.get(&(shard, (*entity).clone()));
            queue.is_some_and(|queue| queue.messages.iter().any(&is_it))
        };
        let key = (shard, self.entities_of(shard).find(holds)?.clone());
        let queue = self.by_entity.get_mut(&key)?;
        let pending = queue.remove_first(is_it);
        if queue.messages.is_empty() {
            self.by_entity.remove(&key);
        }
        pending
    }

    /// Whether messages of an entity wait for its next incarnation.
    pub(super) fn has_for_entity(&self, shard: ShardId, entity: &EntityId) -> bool {
        // Nearly always nobody is being passivated: that costs nothing.
        !self.by_entity.is_empty() && self.by_entity.contains_key(&(shard, entity.clone()))
    }

    /// Entities for which messages wait.
    pub(super) fn waiting_entities(&self) -> impl Iterator<Item = &(ShardId, EntityId)> {
        self.by_entity.keys()
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
        let queues = self.by_entity.values().chain(self.by_shard.values());
        queues.flat_map(|queue| &queue.messages)
    }

    /// What must hold between the calls.
    pub(super) fn check_invariants(&self) -> Result<(), String> {
        let queues = || self.by_shard.values().chain(self.by_entity.values());
        let messages: usize = queues().map(|queue| queue.messages.len()).sum();
        let bytes: usize = self.iter().map(PendingMessage::bytes).sum();
        if (messages, bytes) != (self.messages, self.bytes) {
            return Err(String::from("buffers: the sums do not match the content"));
        }
        if queues().any(|queue| queue.messages.is_empty()) {
            return Err(String::from("buffers: an empty queue is kept"));
        }
        let handed_back = |queue: &Queue| {
            let mut first = queue.messages.iter().take(queue.handed_back);
            queue.handed_back <= queue.messages.len() && !first.any(PendingMessage::is_foreign)
        };
        if !queues().all(handed_back) {
            return Err(String::from("buffers: others' messages count as handed back"));
        }
        let misplaced = |(shard, queue): (&ShardId, &Queue)| {
            let mut shards = queue.messages.iter().map(|pending| pending.envelope.shard);
            shards.any(|of| of != *shard)
        };
        if self.by_shard.iter().any(misplaced) {
            return Err(String::from("buffers: a message waits for another shard"));
        }
        let strays = |(key, queue): (&(ShardId, EntityId), &Queue)| {
            let mut envelopes = queue.messages.iter().map(|pending| &pending.envelope);
            envelopes.any(|of| of.shard != key.0 || of.entity != key.1)
        };
        if self.by_entity.iter().any(strays) {
            return Err(String::from("buffers: a message waits for another entity"));
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
