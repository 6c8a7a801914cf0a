//! One hosted shard: which entity runs in which slot, and how the shard stops. Starts an entity with its first message,
//! stops all of them on hand-off. Never decides where a shard lives. Spec: sharding 1.4.

use alloc::collections::BTreeMap;

use crate::effect::EntityOrder;
use crate::sharding::Cx;
use crate::sharding::pending_message::{PendingMessage, Shared};
use crate::sharding::slots::Tenant;
use crate::sharding::state::ids::{AskRef, EntityId, KindId, ShardId, Slot, Term};

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

/// A shard on this node.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) id: ShardId,
    pub(crate) lifecycle: ShardLifecycle,
    entities: BTreeMap<EntityId, Slot>,
    /// Its entities were ordered to end at once. An order is given once: a second would name slots in which nothing runs.
    killed: bool,
}

impl Shard {
    /// A shard without entities.
    pub(crate) const fn new(id: ShardId) -> Self {
        Self {
            id,
            lifecycle: ShardLifecycle::Running,
            entities: BTreeMap::new(),
            killed: false,
        }
    }

    /// Hands a message to its entity, which is started if it does not run. Yields the message if no slot is left.
    pub(crate) fn deliver(
        &mut self,
        shared: &mut Shared<'_, '_>,
        kind: KindId,
        pending: PendingMessage,
    ) -> Option<PendingMessage> {
        assert!(self.is_running(), "messages are delivered to running shards only");
        let entity = &pending.envelope.entity;
        let slot = match self.entities.get(entity) {
            Some(slot) => *slot,
            None => {
                let tenant = Tenant {
                    kind,
                    shard: self.id,
                    entity: entity.clone(),
                };
                let Some(slot) = shared.slots.take(tenant) else {
                    return Some(pending);
                };
                self.entities.insert(entity.clone(), slot);
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
        let reply_to: Option<AskRef> = pending.envelope.ask.map(|ticket| ticket.ask);
        shared.cx.counters().entity_messages_delivered += 1;
        shared.cx.order(EntityOrder::Deliver {
            slot,
            payload: pending.envelope.payload,
            reply_to,
        });
        None
    }

    /// Asks every entity to stop. Nothing happens if they were asked before.
    pub(crate) fn stop(&mut self, cx: &mut Cx<'_>, tell: Option<Term>) {
        if !self.is_running() {
            return;
        }
        self.lifecycle = ShardLifecycle::Stopping { tell, rehost: None };
        for slot in self.entities.values() {
            cx.order(EntityOrder::Stop { slot: *slot });
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
        for slot in self.entities.values() {
            cx.order(EntityOrder::Kill { slot: *slot });
        }
    }

    /// An entity runs no more.
    pub(crate) fn on_stopped(&mut self, entity: &EntityId) {
        self.entities.remove(entity);
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
