//! A clock: keeps when entities are to be woken, in a log of its own, and says so once it is durable. Decides
//! nothing: the core does. These bytes are on disks: they never change.

use std::sync::Arc;

use async_channel::{Receiver, Sender};
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_core::wakeups::{ClockFull, WakeUp, WakeUps, WakeupChange};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ringing::{ClockAlarm, ClockRinging};
use super::{ClockAnswer, ClockRequest};
use crate::codec::Bytes;
use crate::durable::{Decision, EventSourced, Recovery, Retention, Versioned};
use crate::entity::EntityContext;

/// Changes between two snapshots: a snapshot may have thousands of entities, a change has one.
const SNAPSHOT_EVERY: u64 = 4_096;

/// Bytes of changes between two snapshots: a third of the largest one.
const SNAPSHOT_BYTES: usize = 1 << 20;

/// See the module.
pub(in crate::durable) struct ClockEntity {
    /// The kind whose entities it wakes.
    kind: KindId,
    alarm: Arc<ClockAlarm>,
    news: Receiver<()>,
    /// Closed when this incarnation has ended.
    alive: Option<Sender<()>>,
}

impl ClockEntity {
    /// A clock of this kind's entities.
    pub(in crate::durable) fn new(kind: KindId) -> Self {
        let (alarm, news) = ClockAlarm::new();
        Self {
            kind,
            alarm: Arc::new(alarm),
            news,
            alive: None,
        }
    }

    /// Keeps a change, then wakes by it and says what is kept. With nobody left it leaves memory.
    fn keep(&self, kept: &KeptWakeups, change: WakeupChange) -> Decision<Self> {
        let (alarm, entity) = (Arc::clone(&self.alarm), change.entity.clone());
        let is_last = change.at_ms.is_none() && kept.0.len() <= 1;
        let decision = Decision::persist(TimeChange::from(change)).then_reply(move |kept: &KeptWakeups| {
            let wake_up = kept.0.get(&entity);
            alarm.put(&entity, wake_up);
            match wake_up {
                Some(WakeUp { at_ms, version }) => ClockAnswer::Kept { version, at_ms },
                None => ClockAnswer::Nothing,
            }
        });
        if is_last {
            decision.and_passivate()
        } else {
            decision
        }
    }
}

impl EventSourced for ClockEntity {
    type Command = ClockRequest;
    type Reply = ClockAnswer;
    type Event = TimeChange;
    type State = KeptWakeups;

    async fn handle(&mut self, _: &EntityContext, kept: &KeptWakeups, order: ClockRequest) -> Decision<Self> {
        match order {
            ClockRequest::Look => {
                let seen = Decision::reply(ClockAnswer::Nothing);
                if kept.0.is_empty() {
                    seen.and_passivate()
                } else {
                    seen
                }
            }
            ClockRequest::Wake { entity, at_ms } => match kept.0.wanted(EntityId::new(&entity.0), at_ms) {
                Ok(change) => self.keep(kept, change),
                Err(ClockFull) => Decision::reply(ClockAnswer::Full),
            },
            ClockRequest::Handled {
                entity,
                version,
                next_ms,
            } => match kept.0.handled(EntityId::new(&entity.0), version, next_ms) {
                Some(change) => self.keep(kept, change),
                None => Decision::reply(ClockAnswer::Outdated),
            },
        }
    }

    fn apply(kept: &mut KeptWakeups, event: TimeChange) {
        kept.0.apply(event.into());
    }

    fn retention(&self) -> Retention {
        Retention::snapshot_every(SNAPSHOT_EVERY)
            .or_bytes(SNAPSHOT_BYTES)
            .delete_covered_events()
    }

    async fn on_recovered(&mut self, context: &EntityContext, kept: &KeptWakeups, _: &Recovery) {
        let (alive, gone) = async_channel::bounded(1);
        self.alive = Some(alive);
        self.alarm.begin(&kept.0);
        let ringing = ClockRinging::new(context, self.kind, Arc::clone(&self.alarm));
        let news = self.news.clone();
        context
            .shared()
            .background
            .spawn(async move { ringing.run(&news, &gone).await });
    }
}

/// What has become of an entity's time.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::durable) struct TimeChange {
    entity: Bytes,
    at_ms: Option<u64>,
}

impl Versioned for TimeChange {}

impl From<WakeupChange> for TimeChange {
    fn from(WakeupChange { entity, at_ms }: WakeupChange) -> Self {
        Self {
            entity: Bytes(entity.as_bytes().into()),
            at_ms,
        }
    }
}

impl From<TimeChange> for WakeupChange {
    fn from(TimeChange { entity, at_ms }: TimeChange) -> Self {
        Self {
            entity: EntityId::new(&entity.0),
            at_ms,
        }
    }
}

/// What a clock keeps, as it is kept.
#[derive(Debug, Default)]
pub(in crate::durable) struct KeptWakeups(WakeUps);

impl Versioned for KeptWakeups {}

/// The last version, then entities with time and version.
type Written = (u64, Vec<(Bytes, u64, u64)>);

impl Serialize for KeptWakeups {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = self.0.iter().map(|(entity, WakeUp { at_ms, version })| {
            let entity = Bytes(entity.as_bytes().into());
            (entity, at_ms, version)
        });
        let written: Written = (self.0.version(), all.collect());
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for KeptWakeups {
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
        let mut kept = KeptWakeups::default();
        let change = |name: &str, at_ms| WakeupChange {
            entity: EntityId::from(name),
            at_ms,
        };
        for change in [change("b", Some(300)), change("a", Some(1)), change("c", None)] {
            let bytes = codec::encode(&TimeChange::from(change.clone())).unwrap();
            let read: TimeChange = codec::decode(&bytes).unwrap();
            assert_eq!(WakeupChange::from(read), change);
            ClockEntity::apply(&mut kept, change.into());
        }
        let bytes = codec::encode(&TimeChange::from(change("b", Some(300)))).unwrap();
        assert_eq!(bytes[..], [1, b'b', 1, 0xac, 2]);
        let bytes = codec::encode(&TimeChange::from(change("b", None))).unwrap();
        assert_eq!(bytes[..], [1, b'b', 0]);
        let bytes = codec::encode(&kept).unwrap();
        assert_eq!(bytes[..], [3, 2, 1, b'a', 1, 2, 1, b'b', 0xac, 2, 1]);
        let read: KeptWakeups = codec::decode(&bytes).unwrap();
        assert_eq!(read.0, kept.0);
    }

    #[test]
    fn what_is_said_to_a_clock_never_changes() {
        let entity = || Bytes((*b"b").into());
        let bytes = |order: ClockRequest| codec::encode(&order).unwrap().to_vec();
        assert_eq!(bytes(ClockRequest::Look), [0]);
        let wake = ClockRequest::Wake {
            entity: entity(),
            at_ms: 300,
        };
        assert_eq!(bytes(wake), [1, 1, b'b', 0xac, 2]);
        let handled = ClockRequest::Handled {
            entity: entity(),
            version: 5,
            next_ms: Some(1),
        };
        assert_eq!(bytes(handled), [2, 1, b'b', 5, 1, 1]);
        let said = [
            ClockAnswer::Kept { version: 5, at_ms: 1 },
            ClockAnswer::Nothing,
            ClockAnswer::Outdated,
            ClockAnswer::Full,
        ];
        let said = said.map(|said| codec::encode(&said).unwrap().to_vec());
        assert_eq!(said, [vec![0, 5, 1], vec![1], vec![2], vec![3]]);
    }
}
