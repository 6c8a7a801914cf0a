//! The entities that run on this node: kinds, slots, mailboxes. Does what the core orders and reports what cannot be done;
//! decides nothing about shards. Spec: sharding 1.4, 10.5.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use quorate_core::effect::EntityOrder;
use quorate_core::event::{DetectorEvent, Event};
use quorate_core::input::EntityReport;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{EntityId, KindId, ShardId, Slot};

use super::action::EntityTask;
use crate::entity::{Delivery, Mailbox, Refused, Reports, Start, Starter};

struct Registered {
    name: Arc<str>,
    starter: Option<Arc<dyn Starter>>,
}

struct Live {
    generation: u32,
    kind: KindId,
    id: EntityId,
    mailbox: Arc<Mailbox>,
}

/// The table of a node's entities.
pub(crate) struct Entities {
    kinds: BTreeMap<KindId, Registered>,
    /// By slot index: the core uses small indexes again, so the table is as long as the most entities there ever were.
    slots: Vec<Option<Live>>,
    live: u64,
    reports: Arc<Reports>,
}

impl Entities {
    pub(crate) const fn new(reports: Arc<Reports>) -> Self {
        Self {
            kinds: BTreeMap::new(),
            slots: Vec::new(),
            live: 0,
            reports,
        }
    }

    /// Notes how entities of a kind are started; says whether the kind is new. A kind that can be started stays so when
    /// it is registered again as a proxy.
    pub(crate) fn register(&mut self, name: &Arc<str>, starter: Option<Arc<dyn Starter>>) -> Option<KindId> {
        let kind = KindId::of(name);
        if let Some(known) = self.kinds.get_mut(&kind) {
            if known.name == *name && known.starter.is_none() {
                known.starter = starter;
            }
            return None;
        }
        let name = Arc::clone(name);
        self.kinds.insert(kind, Registered { name, starter });
        Some(kind)
    }

    pub(crate) fn forget(&mut self, kind: KindId) {
        self.kinds.remove(&kind);
    }

    /// How many run.
    pub(crate) const fn live(&self) -> u64 {
        self.live
    }

    /// Whether all mailboxes together have room for more from the user links.
    pub(crate) fn has_room(&self) -> bool {
        self.reports.budget.has_room()
    }

    /// The loop runs, and the node knows the time.
    pub(crate) fn beat(&self) {
        self.reports.gate.beat();
    }

    /// After a pause of the process no entity begins with a message until the node knows that it is still a member.
    pub(crate) fn heed(&self, event: &Event) {
        match event {
            Event::Detector(DetectorEvent::Paused { .. }) => self.reports.gate.hold(),
            Event::Detector(DetectorEvent::StillMember) => self.reports.gate.release(),
            Event::Detector(_)
            | Event::Membership(_)
            | Event::Downing(_)
            | Event::Sharding { .. }
            | Event::Ddata(_)
            | Event::Singleton { .. }
            | Event::Rejected { .. } => {}
            // What a later version of the core says.
            _ => {}
        }
    }

    /// Whether entities may not begin at the moment.
    pub(crate) fn are_held_back(&self) -> bool {
        self.reports.gate.is_held()
    }

    /// Those whose handlers have held a thread for so many looks, `kind/id`; `None` for one that is gone meanwhile.
    pub(crate) fn holders(&self, looks: u64) -> Vec<Option<String>> {
        let name = |slot| {
            let live = self.find(slot)?;
            let kind = self.kinds.get(&live.kind).map_or("", |kind| &kind.name);
            Some(format!("{}/{}", kind.escape_debug(), live.id))
        };
        self.reports.holding.look(looks).into_iter().map(name).collect()
    }

    /// Moves what entities reported to an empty `into`.
    pub(crate) fn take_reports(&self, into: &mut VecDeque<EntityReport>) {
        self.reports.take(into);
    }

    /// Does what the core orders. What cannot be done is said at once.
    pub(crate) fn order(&mut self, order: EntityOrder) -> Result<Option<EntityTask>, EntityReport> {
        match order {
            EntityOrder::Start {
                slot,
                kind,
                shard,
                entity,
            } => self.start(slot, kind, shard, entity).map(Some),
            EntityOrder::Deliver {
                slot,
                payload,
                reply_to,
            } => self.deliver(slot, Delivery { payload, reply_to }).map(|()| None),
            EntityOrder::Stop { slot } => self.end(slot, Mailbox::drain).map(|()| None),
            EntityOrder::Kill { slot } => self.end(slot, Mailbox::kill).map(|()| None),
        }
    }

    /// Forgets an entity whose end was reported.
    pub(crate) fn stopped(&mut self, slot: Slot) {
        let Some(place) = self.slots.get_mut(slot.index as usize) else {
            return;
        };
        if place
            .as_ref()
            .is_some_and(|live| live.generation == slot.generation)
        {
            *place = None;
            self.live = self.live.saturating_sub(1);
        }
    }

    /// Stops all of them now. What to say of the asks that they have not begun with.
    pub(crate) fn kill_all(&self) -> Vec<EntityReport> {
        let mut left = Vec::new();
        for live in self.slots.iter().flatten() {
            live.mailbox.kill();
            left.extend(live.mailbox.take_all(&self.reports.budget));
        }
        let unhandled = |delivery: Delivery| {
            let result = Err(AskFailure::EntityStoppedUnhandled);
            delivery
                .reply_to
                .map(|ask| EntityReport::Answered { ask, result })
        };
        left.into_iter().filter_map(unhandled).collect()
    }

    fn start(
        &mut self,
        slot: Slot,
        kind: KindId,
        shard: ShardId,
        id: EntityId,
    ) -> Result<EntityTask, EntityReport> {
        let registered = self.kinds.get(&kind);
        let Some((name, starter)) = registered.and_then(|r| Some((&r.name, r.starter.as_ref()?))) else {
            return Err(EntityReport::Stopped { slot });
        };
        let mailbox = Arc::new(Mailbox::default());
        let named = id.clone();
        let task = starter.start(Start {
            kind: Arc::clone(name),
            shard,
            id,
            slot,
            mailbox: Arc::clone(&mailbox),
            reports: Arc::clone(&self.reports),
        });
        let index = slot.index as usize;
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        self.slots[index] = Some(Live {
            generation: slot.generation,
            kind,
            id: named,
            mailbox,
        });
        self.live += 1;
        Ok(task)
    }

    fn find(&self, slot: Slot) -> Option<&Live> {
        let live = self.slots.get(slot.index as usize)?.as_ref()?;
        (live.generation == slot.generation).then_some(live)
    }

    fn deliver(&self, slot: Slot, delivery: Delivery) -> Result<(), EntityReport> {
        let refused = |delivery: Delivery, reason| EntityReport::Refused {
            slot,
            ask: delivery.reply_to,
            reason,
        };
        let Some(live) = self.find(slot) else {
            return Err(refused(delivery, AskFailure::EntityStoppedUnhandled));
        };
        match live.mailbox.push(delivery, &self.reports.budget) {
            Ok(()) => Ok(()),
            Err(Refused::Full(delivery)) => Err(refused(delivery, AskFailure::MailboxFull)),
            Err(Refused::Gone(delivery)) => Err(refused(delivery, AskFailure::EntityStoppedUnhandled)),
        }
    }

    fn end(&self, slot: Slot, how: fn(&Mailbox)) -> Result<(), EntityReport> {
        // An entity that ended by itself has reported it, or is about to: only an unknown slot is said again.
        let live = self.find(slot).ok_or(EntityReport::Stopped { slot })?;
        how(&live.mailbox);
        Ok(())
    }
}

impl std::fmt::Debug for Entities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entities")
            .field("kinds", &self.kinds.len())
            .field("live", &self.live)
            .finish_non_exhaustive()
    }
}
