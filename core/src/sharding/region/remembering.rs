//! Entities that are remembered: a shard that begins reads which it has, each is started without a message,
//! and one that is new is stored before it handles anything. A store that fails stops the shard, which begins
//! again after a pause. Never starts an entity in a shard that it does not belong to. Spec: sharding 1.4,
//! 1.5.

use alloc::vec::Vec;
use core::time::Duration;

use super::starting::StoredStarts;
use super::{STEP, ShardRegion, timers_of};
use crate::ddata::crdt::Element;
use crate::effect::Answer;
use crate::event::ShardingEvent;
use crate::input::StoreAsk;
use crate::journal::state::TokenClaim;
use crate::ordered::OrderedSet;
use crate::sharding::Cx;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::protocol::StoreUser;
use crate::sharding::remembered::{
    EntitiesToStart, EntityMoves, NameStore, QuestionOutcome, READ_ATTEMPTS, StoredLog, StoredSet, by_hash,
    shard_keys, shard_log,
};
use crate::sharding::shard::{RememberedEntities, Shard, ShardLifecycle};
use crate::sharding::state::ids::{EntityId, ShardId, Slot};
use crate::sharding::state::remember::RememberStore;
use crate::timer::RegionTimer;

/// Shards whose entities are read at once: each is a handful of questions to every replica of a majority.
const LOADS_AT_ONCE: usize = 64;

/// Shards that one step may look at: each is five questions to this node.
const LOOKS_PER_STEP: usize = 64;

/// How often a shard looks for entities that it has not heard of: as often as the balance is looked at, by
/// default.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// What a region waits for of its remembered entities.
#[derive(Clone, Debug, Default)]
pub(super) struct RegionRemembering {
    /// Those that are to be started.
    recovery: EntitiesToStart,
    /// Shards whose entities are being read, and those that wait for their turn.
    loading: OrderedSet<ShardId>,
    to_load: OrderedSet<ShardId>,
    /// Entities of shards here that belong to other shards.
    pub(super) moves: EntityMoves,
    /// Entities of shards here that others remember.
    pub(super) starts: StoredStarts,
    /// Where the present look for entities that were not heard of goes on.
    look_from: Option<ShardId>,
    /// Counts questions to the store.
    requests: u64,
    /// What the store said during a pause.
    answers_after_pause: Vec<(StoreAsk, Answer)>,
}

impl RegionRemembering {
    /// A shard goes on elsewhere, or begins anew: its entities are started, and moved, from there.
    pub(super) fn forget(&mut self, shard: ShardId) {
        self.recovery.forget(shard);
        self.moves.forget(shard);
    }

    /// The node is finished: nothing moves any more.
    pub(super) fn forget_moves(&mut self) {
        (self.moves, self.starts) = (EntityMoves::default(), StoredStarts::default());
    }
}

impl ShardRegion {
    /// What a shard remembers, if the kind does.
    pub(super) fn remembered(&self, shard: ShardId) -> Option<RememberedEntities> {
        let (kind, name) = (&self.kind, &self.kind.settings.name);
        match self.kind.settings.remember_entities? {
            RememberStore::Data => {
                let keys = shard_keys(name, shard)?;
                let set = |user| StoredSet::new(kind, user, keys.clone(), by_hash);
                let store = NameStore::Data(set(StoreUser::Shard(shard)));
                Some(RememberedEntities::new(store, Some(set(StoreUser::Look(shard)))))
            }
            RememberStore::Events => {
                let log = shard_log(name, shard);
                let log = StoredLog::new(kind, StoreUser::Shard(shard), log, TokenClaim::Count);
                Some(RememberedEntities::new(NameStore::Log(log), None))
            }
        }
    }

    /// Reads which entities a shard has, at once or when others have been read, and not before it has its
    /// lease.
    pub(super) fn load(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        let is_loading = |here: &Shard| here.lifecycle == ShardLifecycle::Loading;
        if !self.shards.hosted(shard).is_some_and(is_loading) || self.awaits_lease(shared.cx, shard) {
            return;
        }
        if let (None, Some(here)) = (
            self.kind.settings.remember_entities,
            self.shards.hosted_mut(shard),
        ) {
            here.on_loaded();
            if self.buffers.has(shard) && self.shards.has_home(shard) {
                self.flushing.insert(shard);
            }
            return;
        }
        self.remembering.to_load.insert(shard);
        self.load_some(shared);
    }

    fn load_some(&mut self, shared: &mut RegionContext<'_, '_>) {
        while self.remembering.loading.len() < LOADS_AT_ONCE
            && let Some(shard) = self.remembering.to_load.pop_first()
        {
            let Some(here) = self.shards.hosted_mut(shard) else {
                continue;
            };
            self.remembering.requests += 1;
            here.load(shared.cx, self.remembering.requests);
            self.remembering.loading.insert(shard);
            let limit = self.kind.config.waiting_for_state_timeout;
            let after = limit.saturating_mul(READ_ATTEMPTS);
            self.wake(shared.cx, RegionTimer::Store(shard), after);
        }
    }

    /// The store answers about a shard. During a pause nothing begins, so that waits.
    pub(crate) fn on_store_answer(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        ask: StoreAsk,
        answer: Answer,
    ) {
        if self.paused {
            self.remembering.answers_after_pause.push((ask, answer));
            return;
        }
        match ask.user {
            StoreUser::Shard(shard) => self.on_own_answer(shared, shard, ask, answer),
            StoreUser::Look(shard) => self.on_looked(shared, shard, ask, answer),
            StoreUser::Coordinator | StoreUser::CoordinatorLog => {}
        }
        self.flush(shared);
    }

    fn on_own_answer(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        shard: ShardId,
        ask: StoreAsk,
        answer: Answer,
    ) {
        let Some(here) = self.shards.hosted_mut(shard) else {
            return;
        };
        match here.on_store_answer(shared.cx, ask, answer) {
            None => {}
            Some(QuestionOutcome::Failed) => self.fail_shard(shared, shard),
            Some(QuestionOutcome::Damaged) => {
                self.notify(shared.cx, ShardingEvent::RememberedDamaged { shard: Some(shard) });
                self.fail_shard(shared, shard);
            }
            Some(QuestionOutcome::Read(ids)) => self.on_loaded(shared, shard, ids),
            Some(QuestionOutcome::Written) => self.on_written(shared, shard),
        }
    }

    /// The pause did no harm: what the store said meanwhile counts, and who is due starts.
    pub(super) fn recover_after_pause(&mut self, shared: &mut RegionContext<'_, '_>) {
        for (ask, answer) in core::mem::take(&mut self.remembering.answers_after_pause) {
            self.on_store_answer(shared, ask, answer);
        }
        self.await_recovery(shared);
    }

    fn on_loaded(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId, names: OrderedSet<Element>) {
        self.has_loaded(shared, shard);
        let Some(here) = self.shards.hosted_mut(shard) else {
            return;
        };
        here.on_loaded();
        self.recall(shared, shard, names);
        if let Some(here) = self.shards.hosted_mut(shard) {
            here.restore(shared.cx);
        }
        self.start_waiting(shared, shard);
        if !self.is_set(shared.cx, RegionTimer::Look) {
            self.wake(shared.cx, RegionTimer::Look, LOOK_INTERVAL);
        }
        if self.buffers.has(shard) && self.shards.has_home(shard) {
            self.flushing.insert(shard);
        }
    }

    /// These entities of a shard are remembered: those that it has not heard of are started, or moved to the
    /// shard that they belong to.
    fn recall(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId, names: OrderedSet<Element>) {
        let Some(here) = self.shards.hosted_mut(shard) else {
            return;
        };
        let ids = names.into_iter().map(EntityId::from).collect();
        let new = here.recall(shared.cx, ids);
        self.recover(shared, shard, new);
    }

    /// Has entities that are remembered started, or moved to the shard that they belong to.
    pub(super) fn recover(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        shard: ShardId,
        entities: Vec<EntityId>,
    ) {
        let mut own = Vec::new();
        for entity in entities {
            match self.kind.shard_of(&entity) {
                home if home == shard => own.push(entity),
                home => self.remembering.moves.add(shard, home, entity),
            }
        }
        self.remembering.recovery.add(shared.cx.mono(), shard, own);
        self.await_recovery(shared);
        self.begin_moves(shared.cx);
    }

    /// Looks for entities that shards here have not heard of: moved to them, or told late by replicas that
    /// were away.
    pub(super) fn on_look(&mut self, shared: &mut RegionContext<'_, '_>) {
        let from = self.remembering.look_from.take().unwrap_or(ShardId(0));
        let mut left = LOOKS_PER_STEP;
        for (id, shard) in self.shards.hosted_from_mut(from) {
            if left == 0 {
                self.remembering.look_from = Some(id);
                break;
            }
            if shard.is_running() {
                left -= 1;
                self.remembering.requests += 1;
                shard.look(shared.cx, self.remembering.requests);
            }
        }
        let again = if self.remembering.look_from.is_some() {
            STEP
        } else {
            LOOK_INTERVAL
        };
        if !self.runs_nothing() {
            self.wake(shared.cx, RegionTimer::Look, again);
        }
    }

    fn on_looked(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        shard: ShardId,
        ask: StoreAsk,
        answer: Answer,
    ) {
        let Some(here) = self.shards.running_mut(shard) else {
            return;
        };
        // What this node cannot say it says another time.
        if let Some(QuestionOutcome::Read(names)) = here.on_store_answer(shared.cx, ask, answer) {
            here.repair(&names);
            self.recall(shared, shard, names);
            self.tend(shared, shard);
        }
    }

    fn has_loaded(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        self.cancel(shared.cx, RegionTimer::Store(shard));
        self.remembering.to_load.remove(&shard);
        if self.remembering.loading.remove(&shard) {
            self.load_some(shared);
        }
    }

    /// What was written counts: new entities start, and those that are forgotten are gone, unless messages
    /// have come for them.
    fn on_written(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        shared.cx.counters().remember_writes += 1;
        self.cancel(shared.cx, RegionTimer::Store(shard));
        let Some(here) = self.shards.hosted_mut(shard) else {
            return;
        };
        let update = here.on_written(shared.cx);
        if here.is_running() {
            for entity in &update.stopped {
                if self.buffers.has_for_entity(shard, entity) || self.remembering.starts.has(shard, entity) {
                    here.remember(shared.cx, entity.clone());
                }
            }
            for entity in &update.started {
                here.start_remembered(shared, self.kind.id, entity);
                if self.buffers.has_for_entity(shard, entity) {
                    self.resuming.insert((shard, entity.clone()));
                }
            }
        }
        self.on_stored(shared.cx, shard, update.started.iter());
        self.tend(shared, shard);
        self.end_if_stopped(shared, shard);
    }

    /// Begins with the next write of a shard, if there is one. Called whenever one of its entities has
    /// changed its state.
    pub(super) fn tend(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        let Some(here) = self.shards.hosted_mut(shard) else {
            return;
        };
        if core::mem::take(&mut here.is_broken) {
            return self.fail_shard(shared, shard);
        }
        match here.lifecycle {
            ShardLifecycle::Running | ShardLifecycle::Stopping(_) => {}
            ShardLifecycle::Failed => return self.rest_if_empty(shared, shard),
            ShardLifecycle::Loading => return,
        }
        if here.write_next(shared.cx, self.remembering.requests + 1) {
            self.remembering.requests += 1;
            let limit = self.kind.config.updating_state_timeout;
            self.wake(shared.cx, RegionTimer::Store(shard), limit);
        }
    }

    /// The store has not answered in time.
    pub(super) fn on_store_timeout(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        self.fail_shard(shared, shard);
        self.flush(shared);
    }

    /// A shard cannot go on: its entities stop after what they have been given, and it begins again after a
    /// pause. One that stops anyway stops without what was to be written.
    fn fail_shard(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        self.has_loaded(shared, shard);
        let Some(here) = self.shards.hosted_mut(shard) else {
            return;
        };
        here.fail_over_store(shared.cx);
        self.buffers.gather(shard);
        self.remembering.forget(shard);
        self.remembering.starts.take_all(shard);
        let (is_stopping, runs_nothing) = (here.is_stopping(), here.runs_nothing());
        self.notify(shared.cx, ShardingEvent::ShardFailed { shard });
        if is_stopping {
            return self.end_if_stopped(shared, shard);
        }
        if !runs_nothing {
            self.limit_stop(shared, shard);
        }
        self.rest_if_empty(shared, shard);
    }

    fn rest_if_empty(&self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        if self.shards.hosted(shard).is_some_and(Shard::runs_nothing) {
            self.cancel(shared.cx, RegionTimer::ShardStop(shard));
            let pause = self.kind.config.shard_failure_backoff;
            self.wake(shared.cx, RegionTimer::RestartShard(shard), pause);
        }
    }

    /// The pause of a shard that failed is over.
    pub(super) fn on_restart_shard(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        let Some(here) = self.shards.hosted_mut(shard) else {
            return;
        };
        if here.lifecycle == ShardLifecycle::Failed {
            here.lifecycle = ShardLifecycle::Loading;
            self.load(shared, shard);
        }
    }

    /// An entity has stopped without having been told to, and is not forgotten: it starts again after a
    /// pause, or with its next message.
    pub(super) fn restart_later(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        shard: ShardId,
        entity: &EntityId,
    ) {
        let at = shared.cx.mono() + self.kind.config.entity_restart_backoff;
        self.remembering.recovery.restart_at(at, shard, entity.clone());
        self.await_recovery(shared);
    }

    /// Starts those whose time has come.
    pub(super) fn on_recover(&mut self, shared: &mut RegionContext<'_, '_>) {
        if self.paused {
            return;
        }
        let how = self.kind.config.entity_recovery;
        for (shard, entity) in self.remembering.recovery.take_due(shared.cx.mono(), how) {
            if let Some(here) = self.shards.hosted_mut(shard)
                && here.waits_to_start(&entity)
                && here.start_remembered(shared, self.kind.id, &entity)
            {
                shared.cx.counters().entities_recovered += 1;
            }
        }
        self.await_recovery(shared);
    }

    fn await_recovery(&self, shared: &mut RegionContext<'_, '_>) {
        if let Some(at) = self.remembering.recovery.next_due() {
            shared.cx.wake(self.timer(RegionTimer::Recover), at);
        }
    }

    /// An entity ends because it wants to, and is to be forgotten.
    pub(crate) fn on_forgotten(&mut self, cx: &mut Cx<'_>, shard: ShardId, entity: &EntityId, slot: Slot) {
        if let Some(here) = self.shards.hosted_mut(shard) {
            here.on_forgotten(cx, entity, slot);
        }
    }

    /// Nothing of a shard is waited for any more.
    pub(super) fn cancel_timers_of(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        for timer in timers_of(shard) {
            self.cancel(shared.cx, timer);
        }
        self.has_loaded(shared, shard);
    }
}
