//! The entities of one process, as a host would run them: a mailbox each, one message at a time, a stop that
//! lets the mailbox run empty. Decides only how long an entity takes; what it did goes into the history.
//! Spec: sharding 1.4.

use std::collections::{BTreeMap, VecDeque};

use quorate_core::effect::HostOrder;
use quorate_core::effect::HostedInstance;
use quorate_core::input::HostReport;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{AskRef, EntityId, KindId, Payload, Slot};

/// Messages one mailbox takes. Small, so that a slow entity really refuses some.
const MAILBOX_MAX: usize = 32;

/// One running entity.
#[derive(Debug)]
pub(crate) struct Entity {
    pub(crate) kind: KindId,
    pub(crate) id: EntityId,
    mailbox: VecDeque<Letter>,
    /// It was told to stop and takes nothing new.
    pub(crate) stopping: bool,
    /// It was told to stop at once, and its handler runs on.
    runs_on: bool,
    /// A turn is scheduled.
    busy: bool,
}

impl Entity {
    /// Whether something is in its mailbox.
    pub(crate) fn has_letters(&self) -> bool {
        !self.mailbox.is_empty()
    }
}

/// A message in a mailbox.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) payload: Payload,
    pub(crate) reply_to: Option<AskRef>,
    /// A clock asks.
    pub(crate) is_wake_up: bool,
}

/// What an order led to.
#[derive(Debug)]
pub(crate) enum Obeyed {
    /// An entity runs now.
    Started,
    /// The message is in the mailbox; a turn must be scheduled if `true`.
    Queued(bool),
    /// The message was refused.
    Refused(HostReport),
    /// It stops once its mailbox is empty; a turn must be scheduled if `true`.
    Stopping(bool),
    /// It is gone; this was in its mailbox.
    Killed(Vec<Letter>),
    /// The order makes no sense: a bug of the node.
    Nonsense(&'static str),
}

/// What an entity does in its turn.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It handles a message; another turn must be scheduled if `true`.
    Handles(Letter, bool),
    /// It has stopped.
    Stopped(Entity),
    /// Nothing: it was killed meanwhile.
    Nothing,
}

/// All entities of a process by slot.
#[derive(Debug, Default)]
pub(crate) struct Entities {
    running: BTreeMap<Slot, Entity>,
}

impl Entities {
    pub(crate) fn obey(&mut self, order: HostOrder) -> Obeyed {
        match order {
            HostOrder::Start {
                instance: HostedInstance::Singleton { .. } | HostedInstance::Path { .. },
                ..
            } => Obeyed::Nonsense("starts something else among entities"),
            HostOrder::Start {
                slot,
                instance: HostedInstance::Entity { kind, entity, .. },
            } => self.start(
                slot,
                Entity {
                    kind,
                    id: entity,
                    mailbox: VecDeque::new(),
                    stopping: false,
                    runs_on: false,
                    busy: false,
                },
            ),
            HostOrder::Deliver {
                slot,
                payload,
                reply_to,
                chain,
                ..
            } => {
                let is_wake_up = chain.is_of_a_clock();
                let letter = Letter {
                    payload,
                    reply_to,
                    is_wake_up,
                };
                self.deliver(slot, letter)
            }
            HostOrder::Stop { slot } | HostOrder::StopWithState { slot } => match self.running.get_mut(&slot)
            {
                None => Obeyed::Nonsense("Stop for a slot in which nothing runs"),
                Some(entity) if entity.stopping => Obeyed::Nonsense("Stop for an entity that stops already"),
                Some(entity) => {
                    entity.stopping = true;
                    Obeyed::Stopping(!core::mem::replace(&mut entity.busy, true))
                }
            },
            HostOrder::Kill { slot } => match self.running.remove(&slot) {
                None => Obeyed::Nonsense("Kill for a slot in which nothing runs"),
                Some(entity) => Obeyed::Killed(entity.mailbox.into()),
            },
        }
    }

    pub(crate) fn turn(&mut self, slot: Slot) -> Turn {
        let Some(entity) = self.running.get_mut(&slot) else {
            return Turn::Nothing;
        };
        if let Some(letter) = entity.mailbox.pop_front() {
            entity.busy = entity.stopping || !entity.mailbox.is_empty();
            return Turn::Handles(letter, entity.busy);
        }
        entity.busy = false;
        if !entity.stopping {
            return Turn::Nothing;
        }
        self.running.remove(&slot).map_or(Turn::Nothing, Turn::Stopped)
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Entity> {
        self.running.get(&slot)
    }

    /// Who runs, and where.
    pub(crate) fn all(&self) -> Vec<(Slot, (KindId, EntityId))> {
        let running = self.running.iter();
        running
            .map(|(slot, entity)| (*slot, (entity.kind, entity.id.clone())))
            .collect()
    }

    /// Whether the entity in a slot was told to stop.
    pub(crate) fn is_stopping(&self, slot: Slot) -> bool {
        self.get(slot).is_some_and(|entity| entity.stopping)
    }

    /// Entities that nobody has told to stop.
    pub(crate) fn unstopped(&self) -> usize {
        let was_told = |entity: &&Entity| entity.stopping || entity.runs_on;
        self.running.values().filter(|entity| !was_told(entity)).count()
    }

    /// An entity is told to stop at once, and its handler runs on.
    pub(crate) fn runs_on(&mut self, slot: Slot) {
        if let Some(entity) = self.running.get_mut(&slot) {
            entity.runs_on = true;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.running.clear();
    }

    fn start(&mut self, slot: Slot, entity: Entity) -> Obeyed {
        if self.running.contains_key(&slot) {
            return Obeyed::Nonsense("Start in a slot in which an entity runs");
        }
        self.running.insert(slot, entity);
        Obeyed::Started
    }

    fn deliver(&mut self, slot: Slot, letter: Letter) -> Obeyed {
        let Some(entity) = self.running.get_mut(&slot) else {
            return Obeyed::Nonsense("Deliver for a slot in which nothing runs");
        };
        if entity.stopping {
            return Obeyed::Nonsense("Deliver for an entity that was told to stop");
        }
        if entity.mailbox.len() >= MAILBOX_MAX {
            return Obeyed::Refused(HostReport::Refused {
                slot,
                ask: letter.reply_to,
                reason: AskFailure::MailboxFull,
            });
        }
        entity.mailbox.push_back(letter);
        Obeyed::Queued(!core::mem::replace(&mut entity.busy, true))
    }
}
