//! Which entities have ended since their shard began here, for watches that come from the shard's earlier
//! home and arrive after that. Forgets the oldest ends past a bound, and knows of which shards. Decides
//! nothing about watches. Spec: sharding 1.17.

use crate::ordered::OrderedMap;
use crate::sharding::protocol::watch::EntityEnd;
use crate::sharding::state::ids::{EntityId, KindId, ShardId};

/// Ends of all shards together that one node remembers: some three megabytes with usual ids. A watch is at
/// the new home a fraction of a second after the shard is, or some seconds if links are bad; so many end in
/// that time at thousands per second.
pub(super) const ENDS_MAX: usize = 16_384;

/// What is remembered of one shard.
#[derive(Clone, Debug, Default)]
struct OfShard {
    /// How each entity ended first, and its place among all ends.
    ended: OrderedMap<EntityId, (u64, EntityEnd)>,
    /// There were more.
    is_partial: bool,
}

/// What a shard remembers of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndMemory {
    /// It has ended since the shard began here.
    Ended(EntityEnd),
    /// It has not.
    Nothing,
    /// There were too many ends to say.
    Unknown,
}

/// The table.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedEntities {
    shards: OrderedMap<(KindId, ShardId), OfShard>,
    /// All ends, oldest first.
    order: OrderedMap<u64, (KindId, ShardId, EntityId)>,
    last: u64,
}

impl EndedEntities {
    /// An entity has ended. If it had before, who watched it then is told of that.
    pub(super) fn add(&mut self, (kind, shard, entity): (KindId, ShardId, &EntityId), why: EntityEnd) {
        let of = self.shards.entry((kind, shard)).or_default();
        if of.ended.contains_key(entity) {
            return;
        }
        self.last += 1;
        of.ended.insert(entity.clone(), (self.last, why));
        self.order.insert(self.last, (kind, shard, entity.clone()));
        if self.order.len() > ENDS_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((_, (kind, shard, entity))) = self.order.pop_first() else {
            return;
        };
        if let Some(of) = self.shards.get_mut(&(kind, shard)) {
            of.ended.remove(&entity);
            of.is_partial = true;
        }
    }

    /// The shard is not here any more. Who watches one of its entities from now on, its next incarnation here
    /// included, is not concerned.
    pub(super) fn end(&mut self, kind: KindId, shard: ShardId) {
        let of = self.shards.remove(&(kind, shard)).unwrap_or_default();
        for (number, _) in of.ended.values() {
            self.order.remove(number);
        }
    }

    /// What became of an entity since its shard began here.
    pub(super) fn of(&self, kind: KindId, shard: ShardId, entity: &EntityId) -> EndMemory {
        let Some(of) = self.shards.get(&(kind, shard)) else {
            return EndMemory::Nothing;
        };
        match of.ended.get(entity) {
            Some((_, why)) => EndMemory::Ended(*why),
            None if of.is_partial => EndMemory::Unknown,
            None => EndMemory::Nothing,
        }
    }

    /// What must hold between the calls.
    pub(super) fn is_sound(&self) -> bool {
        let remembered: usize = self.shards.values().map(|of| of.ended.len()).sum();
        let is_kept = |of: &OfShard| !of.ended.is_empty() || of.is_partial;
        remembered == self.order.len() && remembered <= ENDS_MAX && self.shards.values().all(is_kept)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    const HERE: ShardId = ShardId(1);
    const THERE: ShardId = ShardId(2);

    fn kind() -> KindId {
        KindId::of("files")
    }

    fn id(number: usize) -> EntityId {
        EntityId::from(number.to_string().as_str())
    }

    #[test]
    fn past_the_bound_the_oldest_ends_are_forgotten_and_their_shard_knows_it() {
        let mut ends = EndedEntities::default();
        ends.add((kind(), HERE, &id(0)), EntityEnd::Failed);
        ends.add((kind(), HERE, &id(0)), EntityEnd::Stopped);
        ends.add((kind(), HERE, &id(1)), EntityEnd::Stopped);
        for number in 0..ENDS_MAX - 2 {
            ends.add((kind(), THERE, &id(number)), EntityEnd::Stopped);
        }
        assert_eq!(
            ends.of(kind(), HERE, &id(0)),
            EndMemory::Ended(EntityEnd::Failed),
            "the first end"
        );
        assert_eq!(ends.of(kind(), HERE, &id(7)), EndMemory::Nothing);
        ends.add((kind(), THERE, &id(ENDS_MAX)), EntityEnd::Stopped);
        assert!(ends.is_sound());
        assert_eq!(ends.of(kind(), HERE, &id(0)), EndMemory::Unknown);
        assert_eq!(
            ends.of(kind(), HERE, &id(7)),
            EndMemory::Unknown,
            "it may be one of them"
        );
        assert_eq!(
            ends.of(kind(), HERE, &id(1)),
            EndMemory::Ended(EntityEnd::Stopped)
        );
        assert_eq!(ends.of(kind(), THERE, &id(ENDS_MAX + 1)), EndMemory::Nothing);
        for number in 0..ENDS_MAX {
            ends.add((kind(), THERE, &id(2 * ENDS_MAX + number)), EntityEnd::Stopped);
        }
        assert!(
            ends.is_sound(),
            "nothing of a shard is left but that there was more"
        );
        assert_eq!(ends.of(kind(), HERE, &id(1)), EndMemory::Unknown);
        ends.end(kind(), HERE);
        ends.end(kind(), THERE);
        assert!(ends.is_sound());
        assert_eq!(ends.of(kind(), HERE, &id(1)), EndMemory::Nothing);
    }

    #[test]
    fn what_ended_in_one_incarnation_of_a_shard_means_nothing_to_the_next() {
        let mut ends = EndedEntities::default();
        ends.add((kind(), HERE, &id(0)), EntityEnd::Failed);
        ends.add((kind(), THERE, &id(0)), EntityEnd::Stopped);
        ends.end(kind(), HERE);
        assert_eq!(ends.of(kind(), HERE, &id(0)), EndMemory::Nothing);
        assert_eq!(
            ends.of(kind(), THERE, &id(0)),
            EndMemory::Ended(EntityEnd::Stopped)
        );
        assert!(ends.is_sound());
        ends.end(kind(), THERE);
        assert!(ends.is_sound() && ends.order.is_empty() && ends.shards.is_empty());
    }
}
