//! I-48: messages that arrive while an entity is being passivated reach its next incarnation in the order in which they came. Only
//! those without an asker are looked at: an ask may be given up by its time in between. Where the shard begins to move, or messages are
//! given up, nothing is said of what waited until then.

use std::collections::BTreeMap;

use quorate_core::effect::EntityOrder;
use quorate_core::sharding::ids::{EntityId, ShardId, Slot};

use crate::sim::{History, ProcessId, SHARDS, Whereabouts, message_number};

/// An entity of a process, from the moment in which it is told to stop.
#[derive(Debug, Default)]
struct Stopping {
    /// What has arrived since, in order.
    waiting: Vec<usize>,
    /// It has begun anew.
    runs_again: bool,
    /// What has arrived since that, while some of the others still waited.
    later: Vec<usize>,
}

/// What waits for which entity.
#[derive(Debug, Default)]
pub(crate) struct KeptInOrder {
    entities: BTreeMap<(ProcessId, Slot), EntityId>,
    stopping: BTreeMap<(ProcessId, EntityId), Stopping>,
    /// Messages that another incarnation was given although they had waited.
    pub(crate) kept: u64,
}

impl KeptInOrder {
    /// Whether messages for this entity are looked at just now.
    pub(crate) fn looks_at(&self, process: ProcessId, entity: &EntityId) -> bool {
        let stopping = self.stopping.get(&(process, entity.clone()));
        stopping.is_some_and(|stopping| !stopping.runs_again || !stopping.waiting.is_empty())
    }

    /// A message comes to the node of a process, from another one or a user of its own.
    pub(crate) fn on_arrival(&mut self, process: ProcessId, entity: &EntityId, at: usize, is_tell: bool) {
        if let Some(stopping) = self.stopping.get_mut(&(process, entity.clone()))
            && is_tell
        {
            let list = if stopping.runs_again {
                &mut stopping.later
            } else {
                &mut stopping.waiting
            };
            list.push(at);
        }
    }

    /// A shard begins to move, or something of it was given up.
    pub(crate) fn forget(&mut self, process: ProcessId, shard: Option<ShardId>) {
        let is_of = |entity: &EntityId| shard.is_none_or(|shard| ShardId::of(entity, SHARDS) == shard);
        self.stopping
            .retain(|(of, entity), _| *of != process || !is_of(entity));
    }

    /// A node orders something of its entities.
    pub(crate) fn on_order(
        &mut self,
        process: ProcessId,
        order: &EntityOrder,
        history: &History,
    ) -> Result<(), String> {
        match order {
            EntityOrder::Start { slot, entity, .. } => {
                self.entities.insert((process, *slot), entity.clone());
                if let Some(stopping) = self.stopping.get_mut(&(process, entity.clone())) {
                    stopping.runs_again = true;
                }
                Ok(())
            }
            EntityOrder::Stop { slot } => {
                if let Some(entity) = self.entities.get(&(process, *slot)) {
                    let name = (process, entity.clone());
                    self.stopping.insert(name, Stopping::default());
                }
                Ok(())
            }
            EntityOrder::Kill { slot } => {
                if let Some(entity) = self.entities.get(&(process, *slot)) {
                    self.stopping.remove(&(process, entity.clone()));
                }
                Ok(())
            }
            EntityOrder::Deliver { slot, payload, .. } => {
                let Some(entity) = self.entities.get(&(process, *slot)).cloned() else {
                    return Ok(());
                };
                match message_number(payload) {
                    Some(at) => self.on_delivered((process, entity), at, history),
                    None => Ok(()),
                }
            }
        }
    }

    fn on_delivered(
        &mut self,
        name: (ProcessId, EntityId),
        at: usize,
        history: &History,
    ) -> Result<(), String> {
        let Some(stopping) = self.stopping.get_mut(&name).filter(|it| it.runs_again) else {
            return Ok(());
        };
        let still_here = |waits: &usize| history.messages[*waits].whereabouts == Whereabouts::At(name.0);
        let (place, is_first) = match stopping.waiting.iter().position(|waits| *waits == at) {
            Some(place) => (
                place,
                stopping.waiting[..place].iter().all(|waits| !still_here(waits)),
            ),
            // It came before the entity was told to stop, or is an ask.
            None if !stopping.later.contains(&at) => return Ok(()),
            None => (0, stopping.waiting.iter().all(|waits| !still_here(waits))),
        };
        if !is_first {
            let waiting = &stopping.waiting;
            let entity = &name.1;
            return Err(format!(
                "{entity} is given message {at} before what waited for it: {waiting:?}"
            ));
        }
        if stopping.waiting.get(place) == Some(&at) {
            stopping.waiting.drain(..=place);
            self.kept += 1;
        }
        Ok(())
    }
}
