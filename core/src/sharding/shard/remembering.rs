//! A shard's part of what is remembered: which entities it has, and what is written about them, one write at
//! a time. Spec: sharding 1.4 (store batching), 1.5.

use alloc::vec::Vec;

use super::{Shard, ShardLifecycle};
use crate::ddata::crdt::Element;
use crate::effect::Answer;
use crate::input::StoreAsk;
use crate::journal::state::TokenClaim;
use crate::ordered::OrderedSet;
use crate::sharding::Cx;
use crate::sharding::entity_state::EntityState;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::protocol::StoreUser;
use crate::sharding::remembered::{NameBatches, NameStore, NameUpdate, QuestionOutcome, StoredSet};
use crate::sharding::state::ids::{EntityId, KindId};

/// A shard's part of what is remembered.
#[derive(Clone, Debug)]
pub(crate) struct RememberedEntities {
    store: NameStore,
    /// The same, as this node has it; `None` where nobody else writes it, so that there is nothing to look
    /// for.
    look: Option<StoredSet>,
    pub(super) batches: NameBatches,
    /// Who ran here, or was to run again, when the store failed, until it is known to be stored: an earlier
    /// home may have forgotten it.
    pub(super) kept: OrderedSet<EntityId>,
    /// Everything that is remembered is known here, running or not.
    is_loaded: bool,
}

/// Whether an entity is stored that somebody else wants to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RememberedStart {
    /// It is, and so it runs or soon will.
    IsStored,
    /// It is being stored, or forgotten and then stored anew.
    Waits,
}

impl RememberedEntities {
    /// What lies there; the second is for looking, so that a look never waits for a write.
    pub(crate) fn new(store: NameStore, look: Option<StoredSet>) -> Self {
        Self {
            store,
            look,
            batches: NameBatches::default(),
            kept: OrderedSet::new(),
            is_loaded: false,
        }
    }

    fn give_up(&mut self, cx: &mut Cx<'_>) {
        self.store.give_up(cx);
        if let Some(look) = &mut self.look {
            look.give_up();
        }
        self.batches = NameBatches::default();
        self.is_loaded = false;
    }

    /// Whether it is known which entities there are: they were read, and no write has failed since.
    pub(super) const fn is_loaded(&self) -> bool {
        self.is_loaded
    }
}

impl Shard {
    /// Begins to read which entities it has.
    pub(crate) fn load(&mut self, cx: &mut Cx<'_>, request: u64) {
        if let Some(remembered) = &mut self.remembered {
            self.lifecycle = ShardLifecycle::Loading;
            self.killed = false;
            self.entities.clear();
            remembered.give_up(cx);
            let claim = self.token.stored().map_or(TokenClaim::Count, TokenClaim::Placed);
            remembered.store.claim_with(claim);
            remembered.store.read(cx, request);
        }
    }

    /// It is read which entities it has: messages are delivered from now on.
    pub(crate) fn on_loaded(&mut self) {
        self.lifecycle = ShardLifecycle::Running;
        if let Some(remembered) = &mut self.remembered {
            remembered.is_loaded = true;
        }
    }

    /// Asks this node whether there are entities that it has not heard of.
    pub(crate) fn look(&mut self, cx: &mut Cx<'_>, request: u64) {
        if let Some(look) = self.remembered.as_mut().and_then(|it| it.look.as_mut()) {
            look.look(cx, request);
        }
    }

    /// These entities are remembered. Gives back those that it had not heard of.
    pub(crate) fn recall(&mut self, cx: &mut Cx<'_>, ids: OrderedSet<EntityId>) -> Vec<EntityId> {
        let mut new = Vec::new();
        for entity in ids {
            if !self.entities.contains_key(&entity) {
                self.enter(cx, &entity, EntityState::RememberedButNotCreated);
                new.push(entity);
            }
        }
        new
    }

    /// Writes again who runs and is not among these: an earlier home had begun to forget it, and that came to
    /// an end only now.
    pub(crate) fn repair(&mut self, ids: &OrderedSet<Element>) {
        let Some(remembered) = &mut self.remembered else {
            return;
        };
        for (entity, state) in &self.entities {
            if matches!(state, EntityState::Active(_)) && !ids.contains(entity.as_bytes()) {
                remembered.batches.start(entity.clone());
            }
        }
    }

    /// Begins anew after its store failed: writes again who ran here and is not remembered any more. Who that
    /// is starts once it is written.
    pub(crate) fn restore(&mut self, cx: &mut Cx<'_>) {
        let Some(remembered) = &mut self.remembered else {
            return;
        };
        let entities = &self.entities;
        remembered.kept.retain(|entity| !entities.contains_key(entity));
        for entity in remembered.kept.clone() {
            self.remember(cx, entity);
        }
    }

    /// Another shard remembers this entity by now: it is forgotten here.
    pub(crate) fn has_moved(&mut self, cx: &mut Cx<'_>, entity: EntityId) {
        if let Some(remembered) = &mut self.remembered
            && self.entities.get(&entity) == Some(&EntityState::RememberedButNotCreated)
        {
            remembered.batches.stop(entity.clone());
            self.enter(cx, &entity, EntityState::RememberingStop);
        }
    }

    /// Somebody else wants an entity of this shard to run: it is stored first, if it is not. One that
    /// passivates starts again afterwards.
    pub(crate) fn start_for_another(&mut self, cx: &mut Cx<'_>, entity: &EntityId) -> RememberedStart {
        match self.entities.get(entity) {
            None => {
                self.remember(cx, entity.clone());
                RememberedStart::Waits
            }
            Some(
                EntityState::RememberingStart | EntityState::RememberingStop | EntityState::Passivating(_),
            ) => RememberedStart::Waits,
            Some(
                EntityState::RememberedButNotCreated
                | EntityState::WaitingForRestart
                | EntityState::Active(_),
            ) => RememberedStart::IsStored,
        }
    }

    /// Has an entity remembered, which is started afterwards.
    pub(crate) fn remember(&mut self, cx: &mut Cx<'_>, entity: EntityId) {
        if let Some(remembered) = &mut self.remembered {
            remembered.batches.start(entity.clone());
            self.enter(cx, &entity, EntityState::RememberingStart);
        }
    }

    /// Begins with the next write, if there is something to write and nothing is being written. Whether it
    /// did.
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
    pub(crate) fn on_store_answer(
        &mut self,
        cx: &mut Cx<'_>,
        ask: StoreAsk,
        answer: Answer,
    ) -> Option<QuestionOutcome> {
        let remembered = self.remembered.as_mut()?;
        match ask.user {
            StoreUser::Look(_) => remembered.look.as_mut()?.on_answer(cx, ask, answer),
            StoreUser::Shard(_) | StoreUser::Coordinator | StoreUser::CoordinatorLog => {
                remembered.store.on_answer(cx, ask, answer)
            }
        }
    }

    /// A write is done: what starts now, as far as the shard goes on, and what is forgotten.
    pub(crate) fn on_written(&mut self, cx: &mut Cx<'_>) -> NameUpdate {
        let Some(remembered) = &mut self.remembered else {
            return NameUpdate::default();
        };
        let Some(update) = remembered.batches.finish() else {
            return NameUpdate::default();
        };
        remembered.kept.retain(|entity| !update.started.contains(entity));
        for entity in &update.stopped {
            self.leave(cx, entity);
        }
        if !self.is_running() {
            for entity in &update.started {
                self.drop_unstarted(entity);
            }
        }
        update
    }

    /// Whether an entity waits to be started without a message. One that is being written does not: it starts
    /// when it is.
    pub(crate) fn waits_to_start(&self, entity: &EntityId) -> bool {
        matches!(
            self.entities.get(entity),
            Some(EntityState::RememberedButNotCreated | EntityState::WaitingForRestart)
        )
    }

    /// Starts an entity that is remembered and does not run; `false` if it has another state by now, or no
    /// slot is left.
    pub(crate) fn start_remembered(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
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

    /// Entities that are remembered and have not been started, in a shard that goes on.
    pub(crate) fn unstarted(&self) -> Vec<EntityId> {
        let waiting = self.entities.keys().filter(|entity| self.waits_to_start(entity));
        waiting.cloned().collect()
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
        let unstarted = remembered.batches.drop_starts();
        for entity in unstarted {
            self.drop_unstarted(&entity);
        }
    }

    /// It has ended: what it remembers is its next home's.
    pub(crate) fn give_up_store(&mut self, cx: &mut Cx<'_>) {
        if let Some(remembered) = &mut self.remembered {
            remembered.store.give_up(cx);
        }
    }

    fn drop_unstarted(&mut self, entity: &EntityId) {
        if self.entities.get(entity) == Some(&EntityState::RememberingStart) {
            self.entities.remove(entity);
        }
    }

    pub(super) fn give_up_writing(&mut self, cx: &mut Cx<'_>) {
        let has_failed = self.lifecycle == ShardLifecycle::Failed;
        if let Some(remembered) = &mut self.remembered {
            remembered.give_up(cx);
            let waits = |state: &EntityState| has_failed && *state == EntityState::WaitingForRestart;
            let waiting = self.entities.iter().filter(|(_, state)| waits(state));
            remembered.kept.extend(waiting.map(|(entity, _)| entity.clone()));
        }
        self.entities.retain(|_, state| state.running().is_some());
    }
}
