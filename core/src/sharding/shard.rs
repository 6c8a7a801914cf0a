//! One hosted shard: which entity runs in which slot, which of them are being passivated, and how the shard stops. Starts an
//! entity with its first message, stops all of them on hand-off. Never decides where a shard lives, nor keeps a message. Spec:
//! sharding 1.4, 1.6.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::effect::EntityOrder;
use crate::sharding::Cx;
use crate::sharding::passivation::{Passivation, PassivationSettings, Place};
use crate::sharding::pending_message::{PendingMessage, Shared};
use crate::sharding::slots::Tenant;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::ids::{EntityId, KindId, ShardId, Slot, Term};
use crate::time::Instant;

/// Whether a shard works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShardLifecycle {
    /// Messages are delivered.
    Running,
    /// Its entities were told to stop; messages wait in the region's buffer.
    Stopping {
        /// The coordinator that waits for `ShardStopped`, if one does.
        tell: Option<Term>,
        /// The coordinator that wants the shard here again. The next incarnation starts when nothing of this one runs
        /// any more, never before.
        rehost: Option<Term>,
    },
}

/// A running entity.
#[derive(Clone, Copy, Debug)]
struct Running {
    slot: Slot,
    /// Where the strategy has it; `None` without one, and once it is being passivated.
    place: Option<Place>,
    /// It was told to stop, and what comes for it waits for its next incarnation.
    is_passivating: bool,
    /// It has been told to stop at once.
    is_killed: bool,
}

/// What became of a message that was to be given to its entity.
#[derive(Debug)]
pub(crate) enum Delivered {
    /// The entity has it.
    Done,
    /// The entity is being passivated: the message is for its next incarnation.
    Passivating(PendingMessage),
    /// No slot is left.
    NoSlot(PendingMessage),
}

/// A shard on this node.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) id: ShardId,
    pub(crate) lifecycle: ShardLifecycle,
    entities: BTreeMap<EntityId, Running>,
    /// Who is passivated and when; `None` if nobody ever is.
    passivation: Option<Box<Passivation<EntityId>>>,
    /// Its entities were ordered to end at once. An order is given once: a second would name slots in which nothing runs.
    killed: bool,
}

impl Shard {
    /// A shard without entities.
    pub(crate) fn new(id: ShardId, passivation: &PassivationSettings) -> Self {
        let is_off = *passivation == PassivationSettings::off();
        Self {
            id,
            lifecycle: ShardLifecycle::Running,
            entities: BTreeMap::new(),
            passivation: (!is_off).then(|| Box::new(Passivation::new(passivation))),
            killed: false,
        }
    }

    /// Hands a message to its entity, which is started if it does not run, and then passivates who has to go for it. Yields the
    /// message if that cannot be.
    pub(crate) fn deliver(
        &mut self,
        shared: &mut Shared<'_, '_>,
        kind: KindId,
        pending: PendingMessage,
    ) -> Delivered {
        assert!(self.is_running(), "messages are delivered to running shards only");
        let now = shared.cx.mono();
        let mut passivated = Vec::new();
        let entity = &pending.envelope.entity;
        let slot = match self.entities.get(entity) {
            Some(running) if running.is_passivating => return Delivered::Passivating(pending),
            Some(running) => {
                if let (Some(passivation), Some(place)) = (&mut self.passivation, running.place) {
                    passivation.touch(now, place);
                }
                running.slot
            }
            None => {
                let tenant = Tenant {
                    kind,
                    shard: self.id,
                    entity: entity.clone(),
                };
                let Some(slot) = shared.slots.take(tenant) else {
                    return Delivered::NoSlot(pending);
                };
                let strategy = self.passivation.as_mut();
                let place =
                    strategy.and_then(|strategy| strategy.insert(now, entity.clone(), &mut passivated));
                let running = Running {
                    slot,
                    place,
                    is_passivating: false,
                    is_killed: false,
                };
                self.entities.insert(entity.clone(), running);
                shared.cx.order(EntityOrder::Start {
                    slot,
                    kind,
                    shard: self.id,
                    entity: entity.clone(),
                });
                slot
            }
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
        shared.cx.order(EntityOrder::Deliver {
            slot,
            payload: pending.envelope.payload,
            reply_to,
            deadline,
            chain,
        });
        self.passivate_all(shared.cx, &passivated);
        Delivered::Done
    }

    /// An entity wants to be passivated; `false` if there is nothing to do, because it stops already or does not run any more.
    pub(crate) fn passivate(&mut self, cx: &mut Cx<'_>, entity: &EntityId, slot: Slot) -> bool {
        let Some(running) = self
            .entities
            .get_mut(entity)
            .filter(|running| running.slot == slot)
        else {
            return false;
        };
        if running.is_passivating {
            return false;
        }
        if let (Some(passivation), Some(place)) = (&mut self.passivation, running.place) {
            passivation.remove(place);
        }
        self.passivate_all(cx, core::slice::from_ref(entity));
        true
    }

    /// How many entities of the region may run, and how many shards share that. `true` if some of this shard's have to go.
    pub(crate) fn share_limit(&mut self, per_region: usize, shards: usize) -> bool {
        let Some(passivation) = &mut self.passivation else {
            return false;
        };
        passivation.share_among(shards);
        passivation.set_limit(per_region)
    }

    /// Passivates who is too many, after at most `steps` steps; how many steps are left. With none left there may be more.
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
            let Some(running) = self.entities.get_mut(entity) else {
                debug_assert!(false, "the strategy knows running entities only");
                continue;
            };
            running.place = None;
            running.is_passivating = true;
            cx.counters().entities_passivated += 1;
            cx.order(EntityOrder::Stop { slot: running.slot });
        }
    }

    /// Asks every entity to stop. Nothing happens if they were asked before.
    pub(crate) fn stop(&mut self, cx: &mut Cx<'_>, tell: Option<Term>) {
        if !self.is_running() {
            return;
        }
        self.lifecycle = ShardLifecycle::Stopping { tell, rehost: None };
        // Who is being passivated was told before.
        for running in self.entities.values().filter(|running| !running.is_passivating) {
            cx.order(EntityOrder::Stop { slot: running.slot });
        }
    }

    /// Has every entity stopped at once. The shard stays until the host has reported each of them. Nothing happens if that was
    /// ordered before.
    pub(crate) fn kill(&mut self, cx: &mut Cx<'_>) {
        if core::mem::replace(&mut self.killed, true) {
            return;
        }
        if self.is_running() {
            self.lifecycle = ShardLifecycle::Stopping {
                tell: None,
                rehost: None,
            };
        }
        for running in self.entities.values().filter(|running| !running.is_killed) {
            cx.order(EntityOrder::Kill { slot: running.slot });
        }
    }

    /// Has every entity stopped at once, and goes on: their next messages start new ones. Who is being passivated is stopped at once
    /// as well; the one in this slot, over which it failed, ends by itself.
    pub(crate) fn fail(&mut self, cx: &mut Cx<'_>, over: Slot) {
        cx.counters().shards_failed += 1;
        for running in self.entities.values_mut() {
            let place = running.place.take();
            if let (Some(passivation), Some(place)) = (&mut self.passivation, place) {
                passivation.remove(place);
            }
            running.is_passivating = true;
            let was_killed = core::mem::replace(&mut running.is_killed, true);
            if !was_killed && running.slot != over {
                cx.order(EntityOrder::Kill { slot: running.slot });
            }
        }
    }

    /// An entity runs no more.
    pub(crate) fn on_stopped(&mut self, entity: &EntityId) {
        if let Some(running) = self.entities.remove(entity)
            && let (Some(passivation), Some(place)) = (&mut self.passivation, running.place)
        {
            passivation.remove(place);
        }
    }

    /// Whether an entity is being passivated: it takes no message.
    pub(crate) fn is_passivating(&self, entity: &EntityId) -> bool {
        self.entities
            .get(entity)
            .is_some_and(|running| running.is_passivating)
    }

    /// How many are being passivated. Linear in the entities.
    pub(crate) fn passivating(&self) -> usize {
        self.entities
            .values()
            .filter(|running| running.is_passivating)
            .count()
    }

    /// Whether messages are delivered.
    pub(crate) fn is_running(&self) -> bool {
        self.lifecycle == ShardLifecycle::Running
    }

    /// Whether the shard was told to stop and nothing of it runs.
    pub(crate) fn has_stopped(&self) -> bool {
        !self.is_running() && self.entities.is_empty()
    }

    /// How many entities run.
    pub(crate) fn entities(&self) -> usize {
        self.entities.len()
    }
}
