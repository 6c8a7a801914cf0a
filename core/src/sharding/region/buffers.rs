//! Messages that cannot go on yet, in order: of shards whose home is not known, and of entities here that are
//! being passivated. Bounded by number and by bytes over all of them; past either bound the newest is
//! refused. Never sends. Spec: sharding 1.3, 1.4, reliability I-45.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use crate::buffered::BufferedLoad;
use crate::config::ShardingConfig;
use crate::ident::UniqueAddress;
use crate::ordered::OrderedMap;
use crate::sharding::pending_message::PendingMessage;
use crate::sharding::state::ids::{EntityId, ShardId};

/// The buffer of one region.
#[derive(Clone, Debug, Default)]
pub(super) struct RegionBuffers {
    by_shard: BufferQueues<ShardId>,
    /// What waits for the next incarnation of an entity of a shard that runs here. It is older than what
    /// waits for the shard.
    by_entity: BufferQueues<(ShardId, EntityId)>,
    /// What others sent for shards that are here and do not take it yet, or for a while. All else of theirs
    /// waits for entities.
    arrived: BufferQueues<ShardId>,
    messages: usize,
    bytes: usize,
}

/// What a message waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BufferedFor {
    /// Its shard's home to be known, and to have room.
    Home,
    /// Its shard, which is here, to begin, or a pause to end: a message of another node.
    Shard,
    /// The next incarnation of its entity.
    Entity,
}

/// Messages by what they wait for. No queue is empty.
#[derive(Clone, Debug)]
struct BufferQueues<K>(OrderedMap<K, BufferQueue>);

impl<K> Default for BufferQueues<K> {
    fn default() -> Self {
        Self(OrderedMap::new())
    }
}

impl<K: Ord> BufferQueues<K> {
    fn queue(&mut self, key: K) -> &mut BufferQueue {
        self.0.entry(key).or_default()
    }

    /// Has a queue changed, if there is one.
    fn change<T>(&mut self, key: &K, change: impl FnOnce(&mut BufferQueue) -> Option<T>) -> Option<T> {
        let queue = self.0.get_mut(key)?;
        let changed = change(queue);
        if queue.messages.is_empty() {
            self.0.remove(key);
        }
        changed
    }

    fn take(&mut self, key: &K) -> VecDeque<PendingMessage> {
        self.0.remove(key).unwrap_or_default().messages
    }
}

/// What waits for one shard or entity.
#[derive(Clone, Debug, Default)]
struct BufferQueue {
    messages: VecDeque<PendingMessage>,
    /// So many at the front were handed back since the last mark was acknowledged: they are older than the
    /// rest.
    handed_back: usize,
    /// So many behind those had been offered to a link that had no room.
    refused: usize,
}

impl BufferQueue {
    fn insert_handed_back(&mut self, pending: PendingMessage) {
        self.messages.insert(self.handed_back, pending);
        self.handed_back += 1;
    }

    fn pop(&mut self) -> Option<PendingMessage> {
        self.handed_back = self.handed_back.saturating_sub(1);
        // Nothing is taken before everything has come back that found no room.
        self.refused = 0;
        self.messages.pop_front()
    }

    fn insert_refused(&mut self, pending: PendingMessage) {
        self.messages.insert(self.handed_back + self.refused, pending);
        self.refused += 1;
    }

    fn remove_first(&mut self, is_it: impl Fn(&PendingMessage) -> bool) -> Option<PendingMessage> {
        let at = self.messages.iter().position(is_it)?;
        if at < self.handed_back {
            self.handed_back -= 1;
        } else if at < self.handed_back + self.refused {
            self.refused -= 1;
        }
        self.messages.remove(at)
    }
}

impl RegionBuffers {
    /// Appends a message to those that wait for the same; what did not fit.
    pub(super) fn push(
        &mut self,
        limits: &ShardingConfig,
        mut pending: PendingMessage,
        waits_for: BufferedFor,
    ) -> Option<PendingMessage> {
        if !self.count_in(limits, &mut pending) {
            return Some(pending);
        }
        let shard = pending.envelope.shard;
        let queue = match waits_for {
            BufferedFor::Home => self.by_shard.queue(shard),
            BufferedFor::Shard => self.arrived.queue(shard),
            BufferedFor::Entity => self.by_entity.queue((shard, pending.envelope.entity.clone())),
        };
        queue.messages.push_back(pending);
        None
    }

    /// Puts a message that was handed back before those that have not been sent yet, and behind those that
    /// were handed back before it. It has been admitted once and is kept in any case: how many come back is
    /// bounded by what the links held.
    pub(super) fn push_handed_back(&mut self, mut pending: PendingMessage) {
        pending.is_admitted = true;
        self.messages += 1;
        self.bytes = self.bytes.saturating_add(pending.bytes());
        self.by_shard
            .queue(pending.envelope.shard)
            .insert_handed_back(pending);
    }

    /// Puts a message that a link had no room for before those that have not been offered yet, and behind
    /// those that came back before it. It has been admitted once and is kept in any case: one step offers a
    /// bounded number.
    pub(super) fn push_refused(&mut self, pending: PendingMessage) {
        self.messages += 1;
        self.bytes = self.bytes.saturating_add(pending.bytes());
        self.by_shard
            .queue(pending.envelope.shard)
            .insert_refused(pending);
    }

    /// Nothing more comes back of what was sent for a shard so far: what comes back from here on is older
    /// than all of it.
    pub(super) fn nothing_comes_back(&mut self, shard: ShardId) {
        if let Some(queue) = self.by_shard.0.get_mut(&shard) {
            (queue.handed_back, queue.refused) = (0, 0);
        }
    }

    /// How often the oldest message of a shard has gone from one node to another.
    pub(super) fn first_hops(&self, shard: ShardId) -> u8 {
        let first = self
            .by_shard
            .0
            .get(&shard)
            .and_then(|queue| queue.messages.front());
        first.map_or(0, |pending| pending.envelope.hops)
    }

    /// Whether messages of other nodes wait for a shard that runs here.
    pub(super) fn has_arrived(&self, shard: ShardId) -> bool {
        !self.arrived.0.is_empty() && self.arrived.0.contains_key(&shard)
    }

    /// Shards for which others' messages wait.
    pub(super) fn arrived(&self) -> Vec<ShardId> {
        self.arrived.0.keys().copied().collect()
    }

    /// Takes the oldest message of other nodes for a shard.
    pub(super) fn pop_arrived(&mut self, shard: ShardId) -> Option<PendingMessage> {
        let pending = self.arrived.change(&shard, BufferQueue::pop);
        self.took(pending.iter());
        pending
    }

    /// Takes what one other node sent for a shard and for its entities, or for one of them, for each oldest
    /// first. Linear in what waits for them.
    pub(super) fn take_from(
        &mut self,
        shard: ShardId,
        from: &UniqueAddress,
        only: Option<&EntityId>,
    ) -> VecDeque<PendingMessage> {
        let mut taken = VecDeque::new();
        if self.by_entity.0.is_empty() && self.arrived.0.is_empty() {
            return taken;
        }
        let is_of = |pending: &PendingMessage| {
            let for_it = only.is_none_or(|entity| pending.envelope.entity == *entity);
            for_it && pending.from.as_ref() == Some(from)
        };
        let entities: Vec<EntityId> = match only {
            Some(entity) => Vec::from([entity.clone()]),
            None => self.entities_of(shard).cloned().collect(),
        };
        let mut take = |queue: &mut BufferQueue| {
            take_if(&mut queue.messages, is_of, &mut taken);
            None::<()>
        };
        for entity in entities {
            self.by_entity.change(&(shard, entity), &mut take);
        }
        self.arrived.change(&shard, &mut take);
        self.took(taken.iter());
        taken
    }

    /// Shards for which messages of other nodes wait, and such for whose entities any do.
    pub(super) fn shards_with_foreign(&self) -> Vec<ShardId> {
        let mut shards: Vec<ShardId> = self.by_entity.0.keys().map(|(shard, _)| *shard).collect();
        shards.extend(self.arrived.0.keys());
        shards.sort_unstable();
        shards.dedup();
        shards
    }

    /// Whether there is room for a message.
    pub(super) fn fits(&self, limits: &ShardingConfig, pending: &PendingMessage) -> bool {
        let bytes = self.bytes.saturating_add(pending.bytes());
        self.messages < limits.buffer_messages_max && bytes <= limits.buffer_bytes_max
    }

    /// Counts a message in, if there is room for it, or it was admitted before and only waits elsewhere from
    /// now on: what was handed back may have taken its place.
    fn count_in(&mut self, limits: &ShardingConfig, pending: &mut PendingMessage) -> bool {
        if self.fits(limits, pending) || pending.is_admitted {
            pending.is_admitted = true;
            self.messages += 1;
            self.bytes = self.bytes.saturating_add(pending.bytes());
        }
        pending.is_admitted
    }

    /// Takes the oldest message of an entity.
    pub(super) fn pop_for_entity(&mut self, shard: ShardId, entity: &EntityId) -> Option<PendingMessage> {
        let pending = self.by_entity.change(&(shard, entity.clone()), BufferQueue::pop);
        self.took(pending.iter());
        pending
    }

    /// Puts what waits for entities of a shard before what waits for the shard: it is older, and the shard
    /// stops.
    pub(super) fn gather(&mut self, shard: ShardId) {
        let entities: Vec<EntityId> = self.entities_of(shard).cloned().collect();
        for entity in entities.into_iter().rev() {
            let older = self.by_entity.take(&(shard, entity)).into_iter();
            let (foreign, own): (VecDeque<_>, VecDeque<_>) = older.partition(PendingMessage::is_foreign);
            if !foreign.is_empty() {
                prepend(&mut self.arrived.queue(shard).messages, foreign);
            }
            if !own.is_empty() {
                // Nothing of this node's comes back while its messages are delivered here, so all of it is
                // newer than what did.
                let queue = self.by_shard.queue(shard);
                let mut newer = queue.messages.split_off(queue.handed_back + queue.refused);
                prepend(&mut newer, own);
                queue.messages.append(&mut newer);
            }
        }
    }

    /// The same for all shards.
    pub(super) fn gather_all(&mut self) {
        while let Some((shard, _)) = self.by_entity.0.keys().next() {
            self.gather(*shard);
        }
    }

    /// Entities of a shard for which messages wait.
    fn entities_of(&self, shard: ShardId) -> impl Iterator<Item = &EntityId> {
        // The empty name is before all others, and no entity has it.
        let from = (shard, EntityId::new(&[]));
        let here = self.by_entity.0.range(from..);
        here.take_while(move |((of, _), _)| *of == shard)
            .map(|((_, entity), _)| entity)
    }

    /// Takes the oldest message of a shard.
    pub(super) fn pop(&mut self, shard: ShardId) -> Option<PendingMessage> {
        let pending = self.by_shard.change(&shard, BufferQueue::pop);
        self.took(pending.iter());
        pending
    }

    /// Takes everything of a shard, oldest first.
    pub(super) fn take(&mut self, shard: ShardId) -> VecDeque<PendingMessage> {
        let taken = self.by_shard.take(&shard);
        self.took(taken.iter());
        taken
    }

    /// Takes what other nodes sent for a shard, oldest first, once it has been gathered.
    pub(super) fn take_foreign(&mut self, shard: ShardId) -> VecDeque<PendingMessage> {
        let foreign = self.arrived.take(&shard);
        self.took(foreign.iter());
        foreign
    }

    /// Takes out the message of an ask of `me` (its number), which expired. Asks expire about in the order in
    /// which they came, so the search from the front is short.
    pub(super) fn remove_ask(
        &mut self,
        shard: ShardId,
        is_it: impl Fn(&PendingMessage) -> bool,
    ) -> Option<PendingMessage> {
        let remove = |queue: &mut BufferQueue| queue.remove_first(&is_it);
        let mut pending = self.by_shard.change(&shard, remove);
        if pending.is_none() {
            let entities: Vec<EntityId> = self.entities_of(shard).cloned().collect();
            let mut keys = entities.into_iter().map(|entity| (shard, entity));
            pending = keys.find_map(|key| self.by_entity.change(&key, remove));
        }
        self.took(pending.iter());
        pending
    }

    /// Whether messages of an entity wait for its next incarnation.
    pub(super) fn has_for_entity(&self, shard: ShardId, entity: &EntityId) -> bool {
        // Nearly always nobody is being passivated: that costs nothing.
        !self.by_entity.0.is_empty() && self.by_entity.0.contains_key(&(shard, entity.clone()))
    }

    /// Entities for which messages wait.
    pub(super) fn waiting_entities(&self) -> impl Iterator<Item = &(ShardId, EntityId)> {
        self.by_entity.0.keys()
    }

    /// Whether messages of a shard are waiting.
    pub(super) fn has(&self, shard: ShardId) -> bool {
        self.by_shard.0.contains_key(&shard)
    }

    /// Shards with waiting messages.
    pub(super) fn shards(&self) -> Vec<ShardId> {
        self.by_shard.0.keys().copied().collect()
    }

    /// What waits here.
    pub(super) const fn buffered(&self) -> BufferedLoad {
        BufferedLoad {
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
        self.queues().flat_map(|queue| &queue.messages)
    }

    fn queues(&self) -> impl Iterator<Item = &BufferQueue> {
        let for_entities = self.by_entity.0.values();
        for_entities
            .chain(self.by_shard.0.values())
            .chain(self.arrived.0.values())
    }

    /// What must hold between the calls.
    pub(super) fn check_invariants(&self) -> Result<(), String> {
        let messages = self.iter().count();
        let bytes: usize = self.iter().map(PendingMessage::bytes).sum();
        if (messages, bytes) != (self.messages, self.bytes) {
            return Err(String::from("buffers: the sums do not match the content"));
        }
        if self.queues().any(|queue| queue.messages.is_empty()) {
            return Err(String::from("buffers: an empty queue is kept"));
        }
        let handed_back = |queue: &BufferQueue| {
            let came_back = queue.handed_back + queue.refused;
            let mut first = queue.messages.iter().take(came_back);
            came_back <= queue.messages.len() && !first.any(PendingMessage::is_foreign)
        };
        if !self.queues().all(handed_back) {
            return Err(String::from("buffers: others' messages count as handed back"));
        }
        let mut own = self.by_shard.0.values().flat_map(|queue| &queue.messages);
        if own.any(PendingMessage::is_foreign) {
            return Err(String::from(
                "buffers: others' messages wait among those of this node",
            ));
        }
        let misplaced = |(shard, queue): (&ShardId, &BufferQueue)| {
            let mut shards = queue.messages.iter().map(|pending| pending.envelope.shard);
            shards.any(|of| of != *shard)
        };
        if self.by_shard.0.iter().any(misplaced) {
            return Err(String::from("buffers: a message waits for another shard"));
        }
        let strays = |(key, queue): (&(ShardId, EntityId), &BufferQueue)| {
            let mut envelopes = queue.messages.iter().map(|pending| &pending.envelope);
            envelopes.any(|of| of.shard != key.0 || of.entity != key.1)
        };
        if self.by_entity.0.iter().any(strays) {
            return Err(String::from("buffers: a message waits for another entity"));
        }
        Ok(())
    }

    fn took<'p>(&mut self, messages: impl Iterator<Item = &'p PendingMessage>) {
        for pending in messages {
            self.messages -= 1;
            self.bytes -= pending.bytes();
        }
    }
}

/// Moves some of the messages to the end of others.
fn take_if(
    queue: &mut VecDeque<PendingMessage>,
    is_it: impl Fn(&PendingMessage) -> bool,
    to: &mut VecDeque<PendingMessage>,
) {
    if queue.iter().any(&is_it) {
        let (taken, left): (VecDeque<_>, VecDeque<_>) = core::mem::take(queue).into_iter().partition(is_it);
        *queue = left;
        to.extend(taken);
    }
}

/// Puts messages before others.
fn prepend(queue: &mut VecDeque<PendingMessage>, mut older: VecDeque<PendingMessage>) {
    older.append(queue);
    *queue = older;
}
