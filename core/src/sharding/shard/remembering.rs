//! A shard's part of what is remembered: which entities it has, and what is written about them, one write at a time. Spec: sharding 1.4
//! (store batching), 1.5.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Shard, ShardLifecycle};
use crate::effect::Answer;
use crate::input::StoreAsk;
use crate::sharding::Cx;
use crate::sharding::entity_state::EntityState;
use crate::sharding::pending_message::Shared;
use crate::sharding::remembered::{Batches, Done, StoredSet, Update};
use crate::sharding::state::ids::{EntityId, KindId};

/// A shard's part of what is remembered.
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    pub(super) store: StoredSet,
    pub(super) batches: Batches,
}

impl Shard {
    /// Begins to read which entities it has.
    pub(crate) fn load(&mut self, cx: &mut Cx<'_>, request: u64) {
        if let Some(remembered) = &mut self.remembered {
            self.lifecycle = ShardLifecycle::Loading;
            self.killed = false;
            self.entities.clear();
            remembered.batches = Batches::default();
            remembered.store.read(cx, request);
        }
    }

    /// These entities are remembered: messages are delivered from now on.
    pub(crate) fn on_loaded(&mut self, cx: &mut Cx<'_>, ids: &BTreeSet<EntityId>) {
        self.lifecycle = ShardLifecycle::Running;
        for entity in ids {
            self.enter(cx, entity, EntityState::RememberedButNotCreated);
        }
    }

    /// Has an entity remembered, which is started afterwards.
    pub(crate) fn remember(&mut self, cx: &mut Cx<'_>, entity: EntityId) {
        if let Some(remembered) = &mut self.remembered {
            remembered.batches.start(entity.clone());
            self.enter(cx, &entity, EntityState::RememberingStart);
        }
    }

    /// Begins with the next write, if there is something to write and nothing is being written. Whether it did.
    pub(crate) fn write_next(&mut self, cx: &mut Cx<'_>, request: u64) -> bool {
        let Some(remembered) = &mut self.remembered else {
            return false;
        };
        let Some(update) = remembered.batches.begin() else {
            return false;
        };
        let started = update.started.iter().cloned().map(Into::into).collect();
        let stopped = update.stopped.iter().cloned().map(Into::into).collect();
        remembered.store.write(cx, request, started, stopped);
        true
    }

    /// The store answers.
    pub(crate) fn on_store_answer(&mut self, cx: &mut Cx<'_>, ask: StoreAsk, answer: Answer) -> Option<Done> {
        self.remembered.as_mut()?.store.on_answer(cx, ask, answer)
    }

    /// A write is done: what starts now, as far as the shard goes on, and what is forgotten.
    pub(crate) fn on_written(&mut self, cx: &mut Cx<'_>) -> Update {
        let Some(update) = self.remembered.as_mut().and_then(|it| it.batches.finish()) else {
            return Update::default();
        };
        for entity in &update.stopped {
            self.leave(cx, entity);
        }
        if !self.is_running() {
            for entity in &update.started {
                self.entities.remove(entity);
            }
        }
        update
    }

    /// Starts an entity that is remembered and does not run; `false` if it has another state by now, or no slot is left.
    pub(crate) fn start_remembered(
        &mut self,
        shared: &mut Shared<'_, '_>,
        kind: KindId,
        entity: &EntityId,
    ) -> bool {
        let startable = match self.entities.get(entity) {
            Some(
                EntityState::RememberedButNotCreated
                | EntityState::RememberingStart
                | EntityState::WaitingForRestart,
            ) => self.is_running(),
            Some(EntityState::Active(_) | EntityState::Passivating(_) | EntityState::RememberingStop)
            | None => false,
        };
        // Remembered entities are passivated by nobody but themselves.
        startable && self.start(shared, kind, entity, &mut Vec::new()).is_some()
    }

    /// Whether something is being written, or is to be.
    pub(crate) fn is_writing(&self) -> bool {
        let remembered = self.remembered.as_ref();
        remembered.is_some_and(|remembered| !remembered.batches.is_idle())
    }

    /// Who has not been written yet is not started here any more.
    pub(super) fn start_nobody(&mut self) {
        let Some(remembered) = &mut self.remembered else {
            return;
        };
        for entity in remembered.batches.drop_starts() {
            self.entities.remove(&entity);
        }
    }

    pub(super) fn give_up_writing(&mut self) {
        if let Some(remembered) = &mut self.remembered {
            remembered.store.give_up();
            remembered.batches = Batches::default();
        }
        self.entities.retain(|_, state| state.running().is_some());
    }
}
