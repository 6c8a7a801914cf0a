//! A shard on this node: which entities it has and in which state each is, who is passivated, what is written
//! about them, and how the shard stops. Starts an entity with its first message, or because it is remembered;
//! stops all of them on hand-off. Never decides where a shard lives, nor keeps a message. Spec: sharding 1.4,
//! 1.5, 1.6.

mod remembering;
mod stopping;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Bound;

use crate::effect::{HostOrder, HostedInstance, PlacementToken};
use crate::ordered::OrderedMap;
use crate::sharding::Cx;
use crate::sharding::entity_state::{EntityState, RunningEntity, StateName, StopOrder, is_legal};
use crate::sharding::passivation::{Passivation, PassivationSettings};
use crate::sharding::pending_message::{PendingMessage, RegionContext};
pub(crate) use crate::sharding::shard::remembering::{RememberedEntities, RememberedStart};
use crate::sharding::slots::Tenant;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::ids::{EntityId, KindId, ShardId, Slot, Term};
use crate::time::Instant;

/// Whether a shard works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShardLifecycle {
    /// It is being read which entities it has; messages wait in the region's buffer.
    Loading,
    /// Messages are delivered.
    Running,
    /// The store failed. Its entities were told to stop, messages wait in the region's buffer, and after a
    /// pause it is loaded again.
    Failed,
    /// Its entities were told to stop; messages wait in the region's buffer.
    Stopping(ShardStop),
}

/// Who waits for the end of a shard that stops, and what follows it. By default nobody and nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardStop {
    /// The coordinator that waits for `ShardStopped`, if one does.
    pub(crate) tell: Option<Term>,
    /// The coordinator that wants the shard here again. The next incarnation starts when nothing of this one
    /// runs any more, never before.
    pub(crate) again: Option<Term>,
    /// The coordinator that wants it here and was heard in a pause of the process: after that it counts.
    wanted: Option<Term>,
    /// Others run it as well: who does not stop in time is killed, although a coordinator waits.
    pub(crate) by_force: bool,
}

impl ShardStop {
    /// It is to go on elsewhere.
    pub(crate) fn for_hand_off(term: Term) -> Self {
        Self {
            tell: Some(term),
            ..Self::default()
        }
    }

    /// Nothing of it may go on, and this coordinator wants it here again, if one does.
    pub(crate) fn by_force(again: Option<Term>) -> Self {
        Self {
            again,
            by_force: true,
            ..Self::default()
        }
    }

    /// It is to begin here anew.
    pub(crate) fn to_begin_again(term: Term) -> Self {
        Self {
            again: Some(term),
            ..Self::default()
        }
    }
}

/// What became of a message that was to be given to its entity.
#[derive(Debug)]
pub(crate) enum DeliveryOutcome {
    /// The entity has it.
    Done,
    /// The entity cannot take it yet: it is being passivated, or the store has to know it first.
    Waits(PendingMessage),
    /// No slot is left.
    NoSlot(PendingMessage),
}

/// What becomes of an entity that has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterStop {
    /// It is gone until its next message comes, or being forgotten by the store.
    Gone,
    /// It is remembered and stopped without having been told to.
    Restarts,
}

/// A shard on this node.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) id: ShardId,
    pub(crate) lifecycle: ShardLifecycle,
    /// With which it was placed here: what its entities write is fenced by it.
    pub(crate) token: PlacementToken,
    entities: OrderedMap<EntityId, EntityState>,
    /// How many of them have a slot.
    running: usize,
    /// Who is passivated and when; `None` if nobody ever is.
    passivation: Option<Box<Passivation<EntityId>>>,
    /// Its entities were ordered to end at once. An order is given once: a second would name slots in which
    /// nothing runs.
    killed: bool,
    /// What the store knows of it; `None` if nothing is remembered.
    remembered: Option<Box<RememberedEntities>>,
    /// An entity was to take a step that the rules do not know.
    pub(crate) is_broken: bool,
}

impl Shard {
    /// A shard without entities. If it remembers its entities it has to be loaded first.
    pub(crate) fn new(
        id: ShardId,
        passivation: &PassivationSettings,
        remembered: Option<RememberedEntities>,
    ) -> Self {
        let is_off = *passivation == PassivationSettings::off();
        let lifecycle = if remembered.is_some() {
            ShardLifecycle::Loading
        } else {
            ShardLifecycle::Running
        };
        Self {
            id,
            lifecycle,
            token: PlacementToken::default(),
            entities: OrderedMap::new(),
            running: 0,
            passivation: (!is_off).then(|| Box::new(Passivation::new(passivation))),
            killed: false,
            remembered: remembered.map(Box::new),
            is_broken: false,
        }
    }

    /// Hands a message to its entity, which is started if it does not run, and then passivates who has to go
    /// for it. Yields the message if that cannot be.
    pub(crate) fn deliver(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        kind: KindId,
        pending: PendingMessage,
    ) -> DeliveryOutcome {
        assert!(self.is_running(), "messages are delivered to running shards only");
        let now = shared.cx.mono();
        let mut passivated = Vec::new();
        let entity = &pending.envelope.entity;
        let slot = match self.entities.get(entity) {
            Some(state) if state.holds_back() => return DeliveryOutcome::Waits(pending),
            Some(EntityState::Active(running)) => {
                if let (Some(passivation), Some(place)) = (&mut self.passivation, running.place) {
                    passivation.touch(now, place);
                }
                running.slot
            }
            None if self.remembered.is_some() => {
                self.remember(shared.cx, entity.clone());
                return DeliveryOutcome::Waits(pending);
            }
            Some(
                EntityState::RememberedButNotCreated
                | EntityState::WaitingForRestart
                | EntityState::RememberingStart
                | EntityState::RememberingStop
                | EntityState::Passivating(_),
            )
            | None => match self.start(shared, kind, entity, &mut passivated) {
                Some(slot) => slot,
                None => return DeliveryOutcome::NoSlot(pending),
            },
        };
        if let Some(id) = pending.own_ask(shared.cx) {
            shared.asks.sent(id, shared.cx.me());
        }
        let deadline = pending.deadline;
        let (reply_to, chain) = match pending.envelope.ask {
            Some(ticket) => (Some(ticket.ask), ticket.chain),
            None => (None, AskChain::default()),
        };
        shared.cx.counters().entity_messages_delivered += 1;
        shared.cx.order(HostOrder::Deliver {
            slot,
            payload: pending.envelope.payload,
            reply_to,
            deadline,
            chain,
        });
        self.passivate_all(shared.cx, &passivated);
        DeliveryOutcome::Done
    }

    /// Starts an entity that does not run; `None` if no slot is left.
    fn start(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        kind: KindId,
        entity: &EntityId,
        passivated: &mut Vec<EntityId>,
    ) -> Option<Slot> {
        let tenant = Tenant {
            kind,
            shard: self.id,
            entity: entity.clone(),
        };
        let slot = shared.slots.take(tenant)?;
        let now = shared.cx.mono();
        let strategy = self.passivation.as_mut();
        let place = strategy.and_then(|strategy| strategy.insert(now, entity.clone(), passivated));
        let running = RunningEntity {
            slot,
            place,
            told: StopOrder::Nothing,
        };
        self.enter(shared.cx, entity, EntityState::Active(running));
        self.running += 1;
        let instance = HostedInstance::Entity {
            kind,
            shard: self.id,
            entity: entity.clone(),
            token: self.token,
        };
        shared.cx.order(HostOrder::Start { slot, instance });
        Some(slot)
    }

    /// An entity goes to another state. A step that the rules do not know is a bug of this crate.
    fn enter(&mut self, cx: &mut Cx<'_>, entity: &EntityId, to: EntityState) {
        let before = self.entities.insert(entity.clone(), to);
        let from = before.as_ref().map_or(StateName::Absent, EntityState::name);
        self.check_step(cx, from, to.name());
    }

    fn leave(&mut self, cx: &mut Cx<'_>, entity: &EntityId) {
        if let Some(before) = self.entities.remove(entity) {
            self.check_step(cx, before.name(), StateName::Absent);
        }
    }

    fn check_step(&mut self, cx: &mut Cx<'_>, from: StateName, to: StateName) {
        if !is_legal(self.remembered.is_some(), from, to) {
            cx.counters().entity_transitions_invalid += 1;
            self.is_broken |= cx.config().sharding.fail_on_invalid_entity_state_transition;
        }
    }

    /// An entity wants to be passivated; `false` if there is nothing to do, because it stops already or does
    /// not run any more.
    pub(crate) fn passivate(&mut self, cx: &mut Cx<'_>, entity: &EntityId, slot: Slot) -> bool {
        if self.holds_back(entity) || !self.unplace(entity, slot) {
            return false;
        }
        self.passivate_all(cx, core::slice::from_ref(entity));
        true
    }

    /// An entity ends and is to be forgotten: it is not started again without a message. Nothing happens
    /// unless the shard remembers.
    pub(crate) fn on_forgotten(&mut self, cx: &mut Cx<'_>, entity: &EntityId, slot: Slot) {
        if self.remembered.is_some()
            && self.unplace(entity, slot)
            && let Some(EntityState::Active(running)) = self.entities.get(entity).copied()
        {
            self.enter(cx, entity, EntityState::Passivating(running));
        }
    }

    /// Takes an active entity out of the strategy; `false` if it is not active in this slot.
    fn unplace(&mut self, entity: &EntityId, slot: Slot) -> bool {
        let Some(EntityState::Active(running)) = self.entities.get_mut(entity) else {
            return false;
        };
        if running.slot != slot || running.told == StopOrder::Kill {
            return false;
        }
        if let (Some(passivation), Some(place)) = (&mut self.passivation, running.place.take()) {
            passivation.remove(place);
        }
        true
    }

    /// How many entities of the region may run, and how many shards share that. `true` if some of this
    /// shard's have to go.
    pub(crate) fn share_limit(&mut self, per_region: usize, shards: usize) -> bool {
        let Some(passivation) = &mut self.passivation else {
            return false;
        };
        passivation.share_among(shards);
        passivation.set_limit(per_region)
    }

    /// Passivates who is too many, after at most `steps` steps; how many steps are left. With none left there
    /// may be more.
    pub(crate) fn shrink(&mut self, cx: &mut Cx<'_>, steps: usize) -> usize {
        let Some(passivation) = self.running_strategy() else {
            return steps;
        };
        let mut passivated = Vec::new();
        let left = passivation.shrink(steps, &mut passivated);
        self.passivate_all(cx, &passivated);
        left
    }

    /// Passivates who has had no message for too long, at most `most`; how many those were.
    pub(crate) fn passivate_idle(&mut self, cx: &mut Cx<'_>, now: Instant, most: usize) -> usize {
        let Some(passivation) = self.running_strategy() else {
            return 0;
        };
        let mut passivated = Vec::new();
        passivation.pass_time(now, most, &mut passivated);
        self.passivate_all(cx, &passivated);
        passivated.len()
    }

    /// The strategy, unless everybody stops anyway.
    fn running_strategy(&mut self) -> Option<&mut Passivation<EntityId>> {
        let runs = self.is_running();
        self.passivation.as_deref_mut().filter(|_| runs)
    }

    /// Asks entities to stop that the strategy does not know any more.
    fn passivate_all(&mut self, cx: &mut Cx<'_>, entities: &[EntityId]) {
        for entity in entities {
            let Some(EntityState::Active(running)) = self.entities.get(entity).copied() else {
                debug_assert!(false, "the strategy knows running entities only");
                continue;
            };
            let slot = running.slot;
            let told = RunningEntity {
                place: None,
                ..running
            };
            self.enter(cx, entity, EntityState::Passivating(told));
            cx.counters().entities_passivated += 1;
            cx.order(HostOrder::Stop { slot });
        }
    }

    /// An entity runs no more.
    pub(crate) fn on_stopped(&mut self, cx: &mut Cx<'_>, entity: &EntityId) -> AfterStop {
        let Some(state) = self.entities.get(entity).copied() else {
            return AfterStop::Gone;
        };
        let Some(running) = state.running().copied() else {
            debug_assert!(false, "a slot belongs to an entity that runs");
            return AfterStop::Gone;
        };
        self.running -= 1;
        if let (Some(passivation), Some(place)) = (&mut self.passivation, running.place) {
            passivation.remove(place);
        }
        let has_failed = self.lifecycle == ShardLifecycle::Failed;
        if let (Some(remembered), true, EntityState::Active(_)) = (&mut self.remembered, has_failed, state) {
            remembered.kept.insert(entity.clone());
        }
        let (Some(remembered), false) = (&mut self.remembered, self.killed || has_failed) else {
            self.entities.remove(entity);
            return AfterStop::Gone;
        };
        match state {
            EntityState::Passivating(_) => {
                remembered.batches.stop(entity.clone());
                self.enter(cx, entity, EntityState::RememberingStop);
                AfterStop::Gone
            }
            // It goes on elsewhere.
            EntityState::Active(_) if !self.is_running() => {
                self.entities.remove(entity);
                AfterStop::Gone
            }
            EntityState::Active(_)
            | EntityState::RememberedButNotCreated
            | EntityState::RememberingStart
            | EntityState::RememberingStop
            | EntityState::WaitingForRestart => {
                self.enter(cx, entity, EntityState::WaitingForRestart);
                AfterStop::Restarts
            }
        }
    }

    /// Whether an entity takes no message at the moment.
    pub(crate) fn holds_back(&self, entity: &EntityId) -> bool {
        self.entities.get(entity).is_some_and(EntityState::holds_back)
    }

    /// Whether an entity runs, or is remembered and will: not one that has stopped and is being forgotten.
    pub(crate) fn runs_or_will(&self, entity: &EntityId) -> bool {
        let state = self.entities.get(entity);
        state.is_some_and(|state| *state != EntityState::RememberingStop)
    }

    /// How many run and take no message any more. Linear in the entities.
    pub(crate) fn passivating(&self) -> usize {
        let running = |state: &&EntityState| state.running().is_some() && state.holds_back();
        self.entities.values().filter(running).count()
    }

    /// Those that run, in the order of their ids, behind one of them.
    pub(crate) fn running_behind(&self, after: Option<&EntityId>) -> impl Iterator<Item = &EntityId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.entities.range::<EntityId, _>((from, Bound::Unbounded));
        let running = behind.filter(|(_, state)| state.running().is_some());
        running.map(|(entity, _)| entity)
    }

    /// Whether messages are delivered.
    pub(crate) fn is_running(&self) -> bool {
        self.lifecycle == ShardLifecycle::Running
    }

    /// Whether none of its entities runs.
    pub(crate) const fn runs_nothing(&self) -> bool {
        self.running == 0
    }

    /// How many entities run.
    pub(crate) const fn entities(&self) -> usize {
        self.running
    }

    /// Checks the shard's rules. Linear.
    pub(crate) fn is_consistent(&self) -> bool {
        let running = self.entities.values().filter_map(EntityState::running);
        running.count() == self.running
    }
}
