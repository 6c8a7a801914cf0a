//! The instances of singletons that run on this node. Does what the core orders and reports what cannot be done; decides nothing
//! about who may have one. Spec: sharding 1.10.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use quorate_core::effect::SingletonOrder;
use quorate_core::input::EntityReport;
use quorate_core::sharding::ids::Slot;
use quorate_core::singleton::state::SingletonId;
use quorate_core::token::Token;

use super::slots::Slots;
use crate::counters::FailureCounters;
use crate::mailbox::{Delivery, Mailbox, Occasion, Reports, Start, Starter, Who};
use crate::sync::Task;

struct Registered {
    name: Arc<str>,
    starter: Option<Arc<dyn Starter>>,
}

/// What a registration has to take back if the core refuses it.
pub(crate) struct Undo {
    singleton: SingletonId,
    /// What there was before; nothing if it is new.
    before: Option<Registered>,
}

/// The table of a node's instances, and of those that it only reaches.
pub(crate) struct Instances {
    known: BTreeMap<SingletonId, Registered>,
    slots: Slots<SingletonId>,
}

impl Instances {
    /// A table of its own, beside that of the entities: it shares their room, their gate and their thread watch.
    pub(crate) fn beside(entities: &Reports) -> Self {
        Self {
            known: BTreeMap::new(),
            slots: Slots::new(Arc::new(entities.beside())),
        }
    }

    /// Notes how instances are made: by the newest registration that can. One that only reaches it takes nothing away.
    pub(crate) fn register(&mut self, name: &Arc<str>, starter: Option<Arc<dyn Starter>>) -> Option<Undo> {
        let singleton = SingletonId::of(name);
        let known = self.known.get(&singleton);
        // Another name with the same hash is the core's to refuse.
        if known.is_some_and(|known| known.name != *name || starter.is_none()) {
            return None;
        }
        let name = Arc::clone(name);
        let before = self.known.insert(singleton, Registered { name, starter });
        Some(Undo { singleton, before })
    }

    /// The core has refused it.
    pub(crate) fn undo(&mut self, Undo { singleton, before }: Undo) {
        match before {
            Some(before) => self.known.insert(singleton, before),
            None => self.known.remove(&singleton),
        };
    }

    /// A singleton's name, or its number where this node does not know it.
    pub(crate) fn name(&self, singleton: SingletonId) -> Cow<'_, str> {
        match self.known.get(&singleton) {
            Some(known) => Cow::Borrowed(&known.name),
            None => Cow::Owned(format!("{singleton:?}")),
        }
    }

    /// How many run.
    pub(crate) const fn live(&self) -> u64 {
        self.slots.live()
    }

    /// Those whose handlers have held a thread for so many looks; `None` for one that is gone meanwhile.
    pub(crate) fn holders(&self, looks: u64) -> Vec<Option<String>> {
        let name = |singleton: &SingletonId| format!("singleton/{}", self.name(*singleton).escape_debug());
        let holders = self.slots.holders(looks);
        holders.into_iter().map(|who| who.map(name)).collect()
    }

    /// How often instances failed.
    pub(crate) fn failures(&self) -> &FailureCounters {
        &self.slots.reports().failures
    }

    /// Moves what instances reported to an empty `into`.
    pub(crate) fn take_reports(&self, into: &mut VecDeque<EntityReport>) {
        self.slots.take_reports(into);
    }

    /// Does what the core orders. What cannot be done is said at once.
    pub(crate) fn order(&mut self, order: SingletonOrder) -> Result<Option<Task>, EntityReport> {
        match order {
            SingletonOrder::Start {
                slot,
                singleton,
                token,
            } => self.start(slot, singleton, token).map(Some),
            SingletonOrder::Deliver {
                slot,
                payload,
                reply_to,
                deadline,
                chain,
            } => {
                let occasion = Occasion::of(reply_to, deadline, chain);
                let delivery = Delivery { payload, occasion };
                self.slots.deliver(slot, delivery).map(|()| None)
            }
            SingletonOrder::Stop { slot } => self.slots.end(slot, Mailbox::drain).map(|()| None),
            SingletonOrder::Kill { slot } => self.slots.end(slot, Mailbox::kill).map(|()| None),
        }
    }

    /// Forgets an instance whose end was reported.
    pub(crate) fn stopped(&mut self, slot: Slot) {
        self.slots.stopped(slot);
    }

    /// Stops all of them now. What to say of the asks that they have not begun with.
    pub(crate) fn kill_all(&self) -> Vec<EntityReport> {
        self.slots.kill_all()
    }

    fn start(&mut self, slot: Slot, singleton: SingletonId, token: Token) -> Result<Task, EntityReport> {
        let registered = self.known.get(&singleton);
        let Some((name, starter)) = registered.and_then(|r| Some((&r.name, r.starter.as_ref()?))) else {
            return Err(EntityReport::Stopped { slot });
        };
        let mailbox = Arc::new(Mailbox::default());
        let task = starter.start(Start {
            who: Who::singleton(Arc::clone(name), token),
            slot,
            mailbox: Arc::clone(&mailbox),
            reports: Arc::clone(self.slots.reports()),
        });
        self.slots.put(slot, singleton, mailbox);
        Ok(task)
    }
}

impl std::fmt::Debug for Instances {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instances")
            .field("known", &self.known.len())
            .field("live", &self.live())
            .finish_non_exhaustive()
    }
}
