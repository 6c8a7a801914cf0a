//! Entities that are remembered by a shard and belong to another one by now, because the number of shards or
//! the extractor was changed while all nodes were stopped. The home of that one is told to start them, again
//! and again until it says that it remembers them; only then are they forgotten where they were. Pure: it
//! sends nothing. Spec: sharding 1.5 (starter).

use alloc::vec::Vec;

use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::protocol::STARTS_MAX;
use crate::sharding::state::ids::{EntityId, ShardId};

/// Shards whose homes are told in one step; the next goes on behind them.
const SHARDS_PER_STEP: usize = 256;

/// Bytes of an id's length in a message.
const LENGTH_BYTES: usize = 2;

/// Entities on their way, by where they belong and where they are remembered so far. As long as what is
/// remembered.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntityMoves {
    unconfirmed: OrderedMap<ShardId, OrderedMap<ShardId, OrderedSet<EntityId>>>,
    /// Where the present round goes on; `None` between two of them.
    next: Option<ShardId>,
}

impl EntityMoves {
    /// An entity that is remembered by `from` belongs to `to`.
    pub(crate) fn add(&mut self, from: ShardId, to: ShardId, entity: EntityId) {
        let of = self.unconfirmed.entry(to).or_default();
        of.entry(from).or_default().insert(entity);
    }

    /// A shard runs here no more: whoever has it next finds the same.
    pub(crate) fn forget(&mut self, from: ShardId) {
        self.unconfirmed.retain(|_, of| {
            of.remove(&from);
            !of.is_empty()
        });
    }

    /// These are remembered where they belong. Gives those that were on their way.
    pub(crate) fn confirm(&mut self, from: ShardId, to: ShardId, entities: Vec<EntityId>) -> Vec<EntityId> {
        let Some(of) = self.unconfirmed.get_mut(&to) else {
            return Vec::new();
        };
        let Some(unconfirmed) = of.get_mut(&from) else {
            return Vec::new();
        };
        let mut moved = entities;
        moved.retain(|entity| unconfirmed.remove(entity));
        if unconfirmed.is_empty() {
            of.remove(&from);
        }
        if of.is_empty() {
            self.unconfirmed.remove(&to);
        }
        moved
    }

    /// Shards to which some belong, ascending.
    pub(crate) fn targets(&self) -> impl Iterator<Item = ShardId> {
        self.unconfirmed.keys().copied()
    }

    /// The next shards whose homes are to be told, and whether that was the end of a round.
    pub(crate) fn turn(&mut self) -> (Vec<ShardId>, bool) {
        let from = self.next.take().unwrap_or(ShardId(0));
        let mut rest = self.unconfirmed.range(from..).map(|(to, _)| *to);
        let turn = rest.by_ref().take(SHARDS_PER_STEP).collect();
        let next = rest.next();
        self.next = next;
        (turn, next.is_none())
    }

    /// What the home of a shard is told: of each that remembers some of its entities as many as one message
    /// of so many bytes has.
    pub(crate) fn batches(&self, to: ShardId, bytes_max: usize) -> Vec<(ShardId, Vec<EntityId>)> {
        let of = self.unconfirmed.get(&to).into_iter().flatten();
        of.map(|(from, entities)| (*from, batch(entities, bytes_max)))
            .collect()
    }

    /// Whether none is on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.unconfirmed.is_empty()
    }
}

/// At least one.
fn batch(entities: &OrderedSet<EntityId>, bytes_max: usize) -> Vec<EntityId> {
    let mut room = bytes_max;
    let mut batch = Vec::new();
    for entity in entities.iter().take(STARTS_MAX) {
        let bytes = LENGTH_BYTES + entity.as_bytes().len();
        if bytes > room && !batch.is_empty() {
            break;
        }
        room = room.saturating_sub(bytes);
        batch.push(entity.clone());
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: ShardId = ShardId(3);
    const THERE: ShardId = ShardId(5);

    fn ids(numbers: core::ops::Range<u32>) -> Vec<EntityId> {
        let ids = numbers.map(|number| EntityId::new(&number.to_be_bytes()));
        ids.collect()
    }

    fn moves(entities: &[EntityId]) -> EntityMoves {
        let mut moves = EntityMoves::default();
        for entity in entities {
            moves.add(HERE, THERE, entity.clone());
        }
        moves
    }

    #[test]
    fn s_137_who_is_not_confirmed_is_told_again_and_nobody_else() {
        let all = ids(0..5);
        let mut moves = moves(&all);
        assert_eq!(moves.batches(THERE, 1_000), [(HERE, all.clone())]);
        assert_eq!(moves.confirm(HERE, THERE, all[1..].to_vec()), all[1..]);
        assert_eq!(moves.batches(THERE, 1_000), [(HERE, all[..1].to_vec())]);
        assert_eq!(moves.confirm(HERE, THERE, all[1..].to_vec()), [], "said again");
        assert_eq!(moves.confirm(THERE, HERE, all.clone()), [], "about others");
        assert_eq!(moves.confirm(HERE, THERE, all.clone()), all[..1]);
        assert!(moves.is_empty());
    }

    #[test]
    fn a_message_is_bounded_in_number_and_bytes_and_never_empty() {
        let moves = moves(&ids(0..2_000));
        let sizes = [1_000_000, 60, 1].map(|bytes| moves.batches(THERE, bytes)[0].1.len());
        assert_eq!(sizes, [STARTS_MAX, 10, 1]);
    }

    #[test]
    fn a_round_tells_every_shard_once_a_bounded_number_per_step() {
        let mut moves = EntityMoves::default();
        for number in 0..600 {
            for from in [1, 2] {
                moves.add(ShardId(from), ShardId(number), EntityId::from("e"));
            }
        }
        let mut told = Vec::new();
        let mut ends = Vec::new();
        for _ in 0..4 {
            let (turn, is_end) = moves.turn();
            ends.push((turn.len(), is_end));
            told.extend(turn);
        }
        assert_eq!(ends, [(256, false), (256, false), (88, true), (256, false)]);
        assert_eq!(told[..600], (0..600).map(ShardId).collect::<Vec<_>>());
        moves.forget(ShardId(1));
        assert_eq!(moves.batches(ShardId(7), 100).len(), 1);
        moves.forget(ShardId(2));
        assert!(moves.is_empty());
    }
}
