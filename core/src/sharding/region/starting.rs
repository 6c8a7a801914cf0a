//! Entities that are remembered by a shard to which they do not belong any more. This region tells the home
//! of the right one to start them, and does so again until it hears that they are remembered there; as such a
//! home it has them stored, and then says so. Never writes what another shard remembers. Spec: sharding 1.5
//! (starter).

use alloc::vec::Vec;

use super::{STEP, ShardRegion};
use crate::ident::UniqueAddress;
use crate::message::ShardingMsg;
use crate::ordered::OrderedMap;
use crate::reject::{Rejection, ShardingRejection};
use crate::sharding::Cx;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::protocol::EntityStarts;
use crate::sharding::shard::{RememberedStart, ShardLifecycle};
use crate::sharding::state::ids::{EntityId, ShardId};
use crate::timer::RegionTimer;

/// Entities of others that wait for being stored here: what does not fit is said again.
const WAITING_MAX: usize = 16_384;

/// Bytes of a frame around the ids.
const AROUND_IDS_BYTES: usize = 64;

/// Who hears that an entity is remembered, and by which shard it was.
type Asker = (UniqueAddress, ShardId);

/// Entities that are to be stored and started here, because somebody else says so.
#[derive(Clone, Debug, Default)]
pub(super) struct StoredStarts {
    waiting: OrderedMap<ShardId, OrderedMap<EntityId, Asker>>,
    len: usize,
}

impl StoredStarts {
    fn add(&mut self, shard: ShardId, entity: EntityId, asker: Asker) {
        if self.len < WAITING_MAX
            && self
                .waiting
                .entry(shard)
                .or_default()
                .insert(entity, asker)
                .is_none()
        {
            self.len += 1;
        }
    }

    /// Whether an entity is to be started.
    pub(super) fn has(&self, shard: ShardId, entity: &EntityId) -> bool {
        let of = self.waiting.get(&shard);
        of.is_some_and(|waiting| waiting.contains_key(entity))
    }

    fn take(&mut self, shard: ShardId, entity: &EntityId) -> Option<Asker> {
        let waiting = self.waiting.get_mut(&shard)?;
        let asker = waiting.remove(entity)?;
        if waiting.is_empty() {
            self.waiting.remove(&shard);
        }
        self.len -= 1;
        Some(asker)
    }

    /// Everything that waits for a shard; of one that has ended it is said again to its next home.
    pub(super) fn take_all(&mut self, shard: ShardId) -> OrderedMap<EntityId, (UniqueAddress, ShardId)> {
        let all = self.waiting.remove(&shard).unwrap_or_default();
        self.len -= all.len();
        all
    }
}

impl ShardRegion {
    /// Tells the home of a shard to start its entities that others remember, if it is known.
    pub(super) fn send_starts(&self, cx: &mut Cx<'_>, to: ShardId) {
        let Some(home) = self.shards.home(to) else { return };
        let room = cx.config().limits.control_frame_bytes_max;
        let room = room.saturating_sub(AROUND_IDS_BYTES);
        for (from, entities) in self.remembering.moves.batches(to, room) {
            let starts = EntityStarts {
                kind: self.kind.id,
                from,
                shard: to,
                entities,
            };
            cx.counters().entity_starts_sent += 1;
            cx.send(home, ShardingMsg::Start(starts));
        }
    }

    /// Goes on telling, soon.
    pub(super) fn begin_moves(&self, cx: &mut Cx<'_>) {
        if !self.remembering.moves.is_empty() {
            self.wake(cx, RegionTimer::Moves, STEP);
        }
    }

    /// Tells all homes again that have not answered; those that are not known are asked for.
    pub(super) fn on_moves(&mut self, cx: &mut Cx<'_>) {
        let (turn, is_end) = self.remembering.moves.turn();
        for to in turn {
            if self.shards.has_home(to) {
                self.send_starts(cx, to);
            } else {
                self.ask_home(cx, to);
            }
        }
        if !self.remembering.moves.is_empty() {
            let again = if is_end {
                self.kind.config.retry_interval
            } else {
                STEP
            };
            self.wake(cx, RegionTimer::Moves, again);
        }
    }

    /// Shards that have to run because entities belong to them, and whose home is not known.
    pub(super) fn wanted_shards(&self) -> impl Iterator<Item = ShardId> {
        self.remembering
            .moves
            .targets()
            .filter(|to| !self.shards.has_home(*to))
    }

    /// Another region (or this one) remembers entities that belong to a shard here. What this one cannot say
    /// now it is asked again.
    pub(crate) fn on_start(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        starts: EntityStarts,
    ) {
        let EntityStarts { shard, .. } = starts;
        if let Err(rejection) = self.check_starts(shared.cx, &starts) {
            return shared.cx.reject(from, rejection);
        }
        let Some(here) = self.shards.hosted(shard).filter(|_| !self.paused) else {
            return;
        };
        let is_running = match here.lifecycle {
            ShardLifecycle::Running => true,
            ShardLifecycle::Loading => false,
            ShardLifecycle::Failed | ShardLifecycle::Stopping(_) => return,
        };
        let asker = (from.clone(), starts.from);
        for entity in starts.entities {
            self.remembering.starts.add(shard, entity, asker.clone());
        }
        if is_running {
            self.start_waiting(shared, shard);
        }
        self.flush(shared);
    }

    /// Has those stored that others want to be started here, and says of which that is so already.
    pub(super) fn start_waiting(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        let Some(here) = self.shards.running_mut(shard) else {
            return;
        };
        let mut stored = Vec::new();
        for (entity, asker) in self.remembering.starts.take_all(shard) {
            match here.start_for_another(shared.cx, &entity) {
                RememberedStart::IsStored => stored.push((entity, asker)),
                RememberedStart::Waits => self.remembering.starts.add(shard, entity, asker),
            }
        }
        self.say_started(shared.cx, shard, stored);
        self.tend(shared, shard);
    }

    /// These are stored here: who wanted them to be started hears so.
    pub(super) fn on_stored<'a>(
        &mut self,
        cx: &mut Cx<'_>,
        shard: ShardId,
        entities: impl Iterator<Item = &'a EntityId>,
    ) {
        let stored = entities
            .filter_map(|entity| Some((entity.clone(), self.remembering.starts.take(shard, entity)?)));
        let stored = stored.collect();
        self.say_started(cx, shard, stored);
    }

    fn say_started(&self, cx: &mut Cx<'_>, shard: ShardId, stored: Vec<(EntityId, Asker)>) {
        let mut answers: OrderedMap<Asker, Vec<EntityId>> = OrderedMap::new();
        for (entity, asker) in stored {
            answers.entry(asker).or_default().push(entity);
        }
        for ((node, from), entities) in answers {
            let kind = self.kind.id;
            let starts = EntityStarts {
                kind,
                from,
                shard,
                entities,
            };
            cx.send(&node, ShardingMsg::Started(starts));
        }
    }

    /// The home of a shard remembers entities of it that one of this node's did: that one forgets them, and
    /// goes on with the next.
    pub(crate) fn on_started(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        starts: EntityStarts,
    ) {
        if let Err(rejection) = self.check_starts(shared.cx, &starts) {
            return shared.cx.reject(from, rejection);
        }
        let (at, to) = (starts.from, starts.shard);
        let Some(here) = self.shards.running_mut(at) else {
            return;
        };
        let moved = self.remembering.moves.confirm(at, to, starts.entities);
        if moved.is_empty() {
            return;
        }
        for entity in moved {
            here.has_moved(shared.cx, entity);
        }
        self.tend(shared, at);
        self.send_starts(shared.cx, to);
        self.flush(shared);
    }

    fn check_starts(&self, cx: &Cx<'_>, starts: &EntityStarts) -> Result<(), Rejection> {
        if self.kind.settings.remember_entities.is_none() {
            let what = "start of an entity of a kind that remembers none";
            return Err(Rejection::Unexpected { what });
        }
        let most = cx.config().limits.entity_id_bytes_max;
        let mut ids = starts.entities.iter();
        if ids.any(|entity| !(1..=most).contains(&entity.as_bytes().len())) {
            let what = "length of an entity id";
            return Err(ShardingRejection::OutOfRange { what }.into());
        }
        let mut ids = starts.entities.iter();
        if !self.kind.has(starts.from) || ids.any(|entity| self.kind.shard_of(entity) != starts.shard) {
            return Err(ShardingRejection::NO_SHARD.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::node;

    #[test]
    fn as_many_may_wait_to_be_started_however_many_have_been() {
        let mut starts = StoredStarts::default();
        let asker = (node("a", 1), ShardId(2));
        let entity = |number: usize| EntityId::new(&number.to_be_bytes());
        for number in 0..=WAITING_MAX {
            starts.add(ShardId(1), entity(number), asker.clone());
            assert_eq!(starts.take(ShardId(1), &entity(number)), Some(asker.clone()));
        }
        for number in 0..=WAITING_MAX {
            starts.add(ShardId(1), entity(number), asker.clone());
        }
        assert_eq!(starts.take_all(ShardId(1)).len(), WAITING_MAX);
    }
}
