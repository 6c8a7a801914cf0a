//! I-48: messages that arrive while an entity is being passivated reach its next incarnation in the order in
//! which they came. Only those without an asker are looked at: an ask may be given up by its time in between.
//! Where the shard begins to move or anew, or messages are given up, nothing is said of what waited until
//! then: what waited for the entity waits for the shard then, with what others sent before what this node's
//! users did; and so where a process is sure again after a pause of its own. One that was handed back for
//! want of room, and comes again, has its place where it comes the second time.

use std::collections::BTreeMap;

use quorate_core::effect::HostOrder;
use quorate_core::effect::HostedInstance;
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
            stopping.waiting.retain(|waits| *waits != at);
            stopping.later.retain(|waits| *waits != at);
            let list = if stopping.runs_again {
                &mut stopping.later
            } else {
                &mut stopping.waiting
            };
            list.push(at);
        }
    }

    /// A shard begins to move or anew, or something of it was given up.
    pub(crate) fn forget(&mut self, process: ProcessId, shard: Option<ShardId>) {
        let is_of = |entity: &EntityId| shard.is_none_or(|shard| ShardId::of(entity, SHARDS) == shard);
        self.stopping
            .retain(|(of, entity), _| *of != process || !is_of(entity));
    }

    /// A node orders something of its entities.
    pub(crate) fn on_order(
        &mut self,
        process: ProcessId,
        order: &HostOrder,
        history: &History,
    ) -> Result<(), String> {
        match order {
            HostOrder::Start {
                slot,
                instance: HostedInstance::Entity { entity, .. },
            } => {
                self.entities.insert((process, *slot), entity.clone());
                if let Some(stopping) = self.stopping.get_mut(&(process, entity.clone())) {
                    stopping.runs_again = true;
                }
                Ok(())
            }
            HostOrder::Start {
                instance: HostedInstance::Singleton { .. } | HostedInstance::Path { .. },
                ..
            } => Ok(()),
            HostOrder::Stop { slot } | HostOrder::StopWithState { slot } => {
                if let Some(entity) = self.entities.get(&(process, *slot)) {
                    let name = (process, entity.clone());
                    self.stopping.insert(name, Stopping::default());
                }
                Ok(())
            }
            HostOrder::Kill { slot } => {
                if let Some(entity) = self.entities.get(&(process, *slot)) {
                    self.stopping.remove(&(process, entity.clone()));
                }
                Ok(())
            }
            HostOrder::Deliver { slot, payload, .. } => {
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

#[cfg(test)]
mod tests {
    use quorate_core::effect::PlacementToken;
    use quorate_core::sharding::chain::AskChain;
    use quorate_core::sharding::ids::KindId;

    use super::*;
    use crate::sim::{KIND, MessageRecord};

    const HERE: ProcessId = 0;

    fn entity() -> EntityId {
        EntityId::from("e1")
    }

    /// Two messages that are at a node, not handled.
    fn history() -> History {
        let message = MessageRecord {
            sender: 1,
            entity: entity(),
            ask: false,
            sent_at: 0,
            timeout: None,
            left_at: 0,
            in_transit: 0,
            whereabouts: Whereabouts::At(HERE),
            handled: 0,
            outcome: None,
        };
        let mut history = History::default();
        history.messages.extend([message.clone(), message]);
        history
    }

    /// The entity stops, messages come in this order, and it begins anew and is given the second one first.
    fn second_first(arrivals: &[usize], fails_between: bool) -> Result<(), String> {
        let (mut checker, history) = (KeptInOrder::default(), history());
        let slots = [0, 1].map(|generation| Slot { index: 0, generation });
        let start = |slot| HostOrder::Start {
            slot,
            instance: HostedInstance::Entity {
                kind: KindId::of(KIND),
                shard: ShardId::of(&entity(), SHARDS),
                entity: entity(),
                token: PlacementToken::default(),
            },
        };
        checker.on_order(HERE, &start(slots[0]), &history)?;
        checker.on_order(HERE, &HostOrder::Stop { slot: slots[0] }, &history)?;
        for at in arrivals {
            checker.on_arrival(HERE, &entity(), *at, true);
        }
        if fails_between {
            checker.forget(HERE, Some(ShardId::of(&entity(), SHARDS)));
        }
        checker.on_order(HERE, &start(slots[1]), &history)?;
        let deliver = HostOrder::Deliver {
            slot: slots[1],
            payload: 1_u64.to_le_bytes().to_vec().into(),
            reply_to: None,
            deadline: None,
            chain: AskChain::default(),
        };
        checker.on_order(HERE, &deliver, &history)
    }

    #[test]
    fn i_48_what_waited_first_is_given_first_unless_it_went_and_came_again() {
        assert!(second_first(&[0, 1], false).is_err());
        assert_eq!(second_first(&[1, 0], false), Ok(()));
        assert_eq!(second_first(&[0, 1, 0], false), Ok(()), "it was handed back");
        assert_eq!(second_first(&[0, 1], true), Ok(()), "its shard begins anew");
    }
}
