//! What the order of messages needs beside the homes: the numbers of this region's marks, and whose messages
//! go back until they mark. Decides nothing about homes. Spec: sharding 10.14 b and d.

use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;
use crate::sharding::pending_message::PendingMessage;
use crate::sharding::state::ids::{EntityId, ShardId};

/// Entities whose messages go back one by one; past that a shard's all do. Each came with a message for which
/// there was no room, and whose sender marks as soon as it hears of it.
const ENTITIES_MAX: usize = 1_024;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct SenderOrder {
    /// The number of this region's last mark.
    pub(super) last_mark: u64,
    /// Where the next repetition of marks goes on; `None` for the beginning.
    pub(super) repeat_from: Option<ShardId>,
    /// Senders whose messages for a shard go back to them, whatever runs here, until they mark.
    senders: OrderedSet<(ShardId, UniqueAddress)>,
    /// The same for single entities, of shards that run here: for those there was no room.
    entities: OrderedSet<(ShardId, UniqueAddress, EntityId)>,
}

impl SenderOrder {
    /// Whether an earlier message of this one's sender for the shard went back, and no mark has come since.
    pub(super) fn goes_back(&self, pending: &PendingMessage) -> bool {
        if self.senders.is_empty() && self.entities.is_empty() {
            return false;
        }
        let Some(from) = pending.from.clone() else {
            return false;
        };
        let key = (pending.envelope.shard, from);
        self.senders.contains(&key) || {
            let (shard, from) = key;
            self.entities
                .contains(&(shard, from, pending.envelope.entity.clone()))
        }
    }

    /// Whether what goes back of a sender may be that for one entity alone.
    pub(super) fn has_room_for_entity(&self) -> bool {
        self.entities.len() < ENTITIES_MAX
    }

    /// Everything of a sender for a shard goes back, or that for one entity alone.
    pub(super) fn gives_back(&mut self, shard: ShardId, from: UniqueAddress, only: Option<EntityId>) {
        match only {
            Some(entity) => self.entities.insert((shard, from, entity)),
            None => self.senders.insert((shard, from)),
        };
    }

    /// A sender has marked.
    pub(super) fn marked(&mut self, shard: ShardId, from: &UniqueAddress) {
        self.senders.remove(&(shard, from.clone()));
        if !self.entities.is_empty() {
            self.entities
                .retain(|(of, sender, _)| *of != shard || sender != from);
        }
    }

    /// Nothing comes from a node any more.
    pub(super) fn forget(&mut self, node: &UniqueAddress) {
        self.senders.retain(|(_, from)| from != node);
        self.entities.retain(|(_, from, _)| from != node);
    }

    /// Nothing comes from anybody any more.
    pub(super) fn forget_all(&mut self) {
        self.senders.clear();
        self.entities.clear();
    }
}
