//! A clock: keeps when entities are to be woken, in a log of its own, and says so once it is durable. Decides
//! nothing: the core does. These bytes are on disks: they never change.

use std::sync::Arc;

use async_channel::{Receiver, Sender};
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_core::wakeups::{Change, Full, WakeUp, WakeUps};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ringing::{Alarm, Ringing};
use super::{Order, Said};
use crate::codec::Bytes;
use crate::durable::{Decision, EventSourced, Recovery, Retention, Versioned};
use crate::entity::EntityContext;

/// Changes between two snapshots: a snapshot may have thousands of entities, a change has one.
const SNAPSHOT_EVERY: u64 = 4_096;

/// Bytes of changes between two snapshots: a third of the largest one.
const SNAPSHOT_BYTES: usize = 1 << 20;

/// See the module.
pub(in crate::durable) struct Clock {
    /// The kind whose entities it wakes.
    kind: KindId,
    alarm: Arc<Alarm>,
    news: Receiver<()>,
    /// Closed when this incarnation has ended.
    alive: Option<Sender<()>>,
}

impl Clock {
    /// A clock of this kind's entities.
    pub(in crate::durable) fn new(kind: KindId) -> Self {
        let (alarm, news) = Alarm::new();
        Self {
            kind,
            alarm: Arc::new(alarm),
            news,
            alive: None,
        }
    }

    /// Keeps a change, then wakes by it and says what is kept. With nobody left it leaves memory.
    fn keep(&self, kept: &Kept, change: Change) -> Decision<Self> {
        let (alarm, entity) = (Arc::clone(&self.alarm), change.entity.clone());
        let is_last = change.at_ms.is_none() && kept.0.len() <= 1;
        let decision = Decision::persist(Changed::from(change)).then_reply(move |kept: &Kept| {
            let wake_up = kept.0.get(&entity);
            alarm.put(&entity, wake_up);
            match wake_up {
                Some(WakeUp { at_ms, version }) => Said::Kept { version, at_ms },
                None => Said::Nothing,
            }
        });
        if is_last {
            decision.and_passivate()
        } else {
            decision
        }
    }
}

impl EventSourced for Clock {
    type Command = Order;
    type Reply = Said;
    type Event = Changed;
    type State = Kept;

    async fn handle(&mut self, _: &EntityContext, kept: &Kept, order: Order) -> Decision<Self> {
        match order {
            Order::Look => {
                let seen = Decision::reply(Said::Nothing);
                if kept.0.is_empty() {
                    seen.and_passivate()
                } else {
                    seen
                }
            }
            Order::Wake { entity, at_ms } => match kept.0.wanted(EntityId::new(&entity.0), at_ms) {
                Ok(change) => self.keep(kept, change),
                Err(Full) => Decision::reply(Said::Full),
            },
            Order::Handled {
                entity,
                version,
                next_ms,
            } => match kept.0.handled(EntityId::new(&entity.0), version, next_ms) {
                Some(change) => self.keep(kept, change),
                None => Decision::reply(Said::Outdated),
            },
        }
    }

    fn apply(kept: &mut Kept, event: Changed) {
        kept.0.apply(event.into());
    }

    fn retention(&self) -> Retention {
        Retention::snapshot_every(SNAPSHOT_EVERY)
            .or_bytes(SNAPSHOT_BYTES)
            .delete_covered_events()
    }

    async fn on_recovered(&mut self, context: &EntityContext, kept: &Kept, _: &Recovery) {
        let (alive, gone) = async_channel::bounded(1);
        self.alive = Some(alive);
        self.alarm.begin(&kept.0);
        let ringing = Ringing::new(context, self.kind, Arc::clone(&self.alarm));
        let news = self.news.clone();
        context
            .shared()
            .background
            .spawn(async move { ringing.run(&news, &gone).await });
    }
}

/// What has become of an entity's time.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::durable) struct Changed {
    entity: Bytes,
    at_ms: Option<u64>,
}

impl Versioned for Changed {}

impl From<Change> for Changed {
    fn from(Change { entity, at_ms }: Change) -> Self {
        Self {
            entity: Bytes(entity.as_bytes().into()),
            at_ms,
        }
    }
}

impl From<Changed> for Change {
    fn from(Changed { entity, at_ms }: Changed) -> Self {
        Self {
            entity: EntityId::new(&entity.0),
            at_ms,
        }
    }
}

/// What a clock keeps, as it is kept.
#[derive(Debug, Default)]
pub(in crate::durable) struct Kept(WakeUps);

impl Versioned for Kept {}

/// The last version, then entities with time and version.
type Written = (u64, Vec<(Bytes, u64, u64)>);

impl Serialize for Kept {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = self.0.iter().map(|(entity, WakeUp { at_ms, version })| {
            let entity = Bytes(entity.as_bytes().into());
            (entity, at_ms, version)
        });
        let written: Written = (self.0.version(), all.collect());
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Kept {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (version, all) = Written::deserialize(deserializer)?;
        let all = all.into_iter().map(|(entity, at_ms, version)| {
            let entity = EntityId::new(&entity.0);
            (entity, WakeUp { at_ms, version })
        });
        Ok(Self(WakeUps::restored(version, all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;

    #[test]
    fn the_bytes_of_what_a_clock_keeps_never_change() {
        let mut kept = Kept::default();
        let change = |name: &str, at_ms| Change {
            entity: EntityId::from(name),
            at_ms,
        };
        for change in [change("b", Some(300)), change("a", Some(1)), change("c", None)] {
            let bytes = codec::encode(&Changed::from(change.clone())).unwrap();
            let read: Changed = codec::decode(&bytes).unwrap();
            assert_eq!(Change::from(read), change);
            Clock::apply(&mut kept, change.into());
        }
        let bytes = codec::encode(&Changed::from(change("b", Some(300)))).unwrap();
        assert_eq!(bytes[..], [1, b'b', 1, 0xac, 2]);
        let bytes = codec::encode(&Changed::from(change("b", None))).unwrap();
        assert_eq!(bytes[..], [1, b'b', 0]);
        let bytes = codec::encode(&kept).unwrap();
        assert_eq!(bytes[..], [3, 2, 1, b'a', 1, 2, 1, b'b', 0xac, 2, 1]);
        let read: Kept = codec::decode(&bytes).unwrap();
        assert_eq!(read.0, kept.0);
    }

    #[test]
    fn what_is_said_to_a_clock_never_changes() {
        let entity = || Bytes((*b"b").into());
        let bytes = |order: Order| codec::encode(&order).unwrap().to_vec();
        assert_eq!(bytes(Order::Look), [0]);
        let wake = Order::Wake {
            entity: entity(),
            at_ms: 300,
        };
        assert_eq!(bytes(wake), [1, 1, b'b', 0xac, 2]);
        let handled = Order::Handled {
            entity: entity(),
            version: 5,
            next_ms: Some(1),
        };
        assert_eq!(bytes(handled), [2, 1, b'b', 5, 1, 1]);
        let said = [
            Said::Kept { version: 5, at_ms: 1 },
            Said::Nothing,
            Said::Outdated,
            Said::Full,
        ];
        let said = said.map(|said| codec::encode(&said).unwrap().to_vec());
        assert_eq!(said, [vec![0, 5, 1], vec![1], vec![2], vec![3]]);
    }
}
