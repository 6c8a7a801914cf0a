//! Reliable delivery to many entities: a producer for each of them, and one bound for what waits for all. A
//! durable one stores each message before it is given to its entity's producer, under a number of its own:
//! after a restart the entity's numbers begin again, the stored ones do not. Spec: sharding 1.14, S-245.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use super::{
    BadSetting, ConsumerRequest, ProducerController, ProducerOutput, ProducerSettings, SequencedMessage,
    ensure,
};
use crate::ordered::OrderedMap;
use crate::sharding::state::ids::Payload;
use crate::time::Instant;

/// Settings of a producer to many entities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToEntitiesSettings {
    /// The producer of each entity; what it says of a durable store holds for all of them together.
    pub producer: ProducerSettings,
    /// Messages that may wait, for all entities together, because theirs has not asked or the store has not
    /// answered (default 1,000, >= 1). Mirrors `sharding.producer-controller.buffer-size`.
    pub waiting_max: usize,
    /// An entity's producer that has been idle for so long is forgotten (default 120 s, > 0). Mirrors
    /// `cleanup-unused-after`.
    pub forget_after: Duration,
    /// If an entity has confirmed nothing for so long, the first message that it has not is sent again as to
    /// a new one (default 10 s, > 0). Mirrors `resend-first-unconfirmed-idle-timeout`.
    pub resend_idle: Duration,
}

impl Default for ToEntitiesSettings {
    fn default() -> Self {
        Self {
            producer: ProducerSettings::default(),
            waiting_max: 1_000,
            forget_after: Duration::from_secs(120),
            resend_idle: Duration::from_secs(10),
        }
    }
}

impl ToEntitiesSettings {
    /// Whether the numbers are in their ranges.
    ///
    /// # Errors
    /// [`BadSetting`] names the first that is not.
    pub fn check(&self) -> Result<(), BadSetting> {
        self.producer.check()?;
        ensure(self.waiting_max >= 1, "the waiting messages", "at least 1")?;
        ensure(
            !self.forget_after.is_zero(),
            "the time until one is forgotten",
            "above zero",
        )?;
        ensure(!self.resend_idle.is_zero(), "the idle time", "above zero")
    }
}

/// What a producer to many entities wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToEntitiesOutput<P, K> {
    /// Send this to the entity.
    Send {
        /// To whom.
        entity: K,
        /// What; its producer is named after both.
        message: SequencedMessage<(P, K)>,
    },
    /// The entity has confirmed the message with this number.
    Confirmed {
        /// The number that [`ToEntities::on_message`] gave.
        seq: u64,
    },
    /// Store this and say so with [`ToEntities::on_stored`]; it is not sent before.
    Store {
        /// Its number.
        seq: u64,
        /// For whom.
        entity: K,
        /// The bytes.
        payload: Payload,
    },
    /// Note that this need not be kept any more. Not waited for.
    StoreConfirmed {
        /// Its number.
        seq: u64,
    },
}

/// As many messages wait as may. This one was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many messages wait for their entities")]
pub struct TooManyWaiting;

#[derive(Clone, Debug)]
struct WaitingMessage {
    seq: u64,
    payload: Payload,
}

#[derive(Clone, Debug)]
struct EntityLine<P, K> {
    producer: ProducerController<(P, K)>,
    waiting: VecDeque<WaitingMessage>,
    /// The entity's number of each message on its way, with the number under which the user knows it.
    on_the_way: VecDeque<(u64, u64)>,
    /// When it was given something or heard of last.
    used_at: Instant,
}

/// See the module. `P` names the producer, `K` an entity.
#[derive(Clone, Debug)]
pub struct ToEntities<P, K> {
    settings: ToEntitiesSettings,
    id: P,
    entities: OrderedMap<K, EntityLine<P, K>>,
    /// Messages that the store has not confirmed.
    storing: OrderedMap<u64, (K, Payload)>,
    waiting: usize,
    current: u64,
}

type Outputs<P, K> = Vec<ToEntitiesOutput<P, K>>;

impl<P: Clone, K: Clone + Ord> ToEntities<P, K> {
    /// A producer that has sent nothing.
    ///
    /// # Errors
    /// [`BadSetting`] for settings out of range.
    pub fn new(id: P, settings: ToEntitiesSettings) -> Result<Self, BadSetting> {
        settings.check()?;
        Ok(Self {
            settings,
            id,
            entities: OrderedMap::new(),
            storing: OrderedMap::new(),
            waiting: 0,
            current: 1,
        })
    }

    /// Gives back what was stored and not confirmed, in the order of its numbers: it is sent to its entities.
    /// For a producer that has sent nothing yet.
    pub fn recover(
        &mut self,
        now: Instant,
        stored: impl IntoIterator<Item = (u64, K, Payload)>,
        out: &mut Outputs<P, K>,
    ) {
        for (seq, entity, payload) in stored {
            self.current = self.current.max(seq + 1);
            self.waiting += 1;
            self.give(now, &entity, WaitingMessage { seq, payload }, out);
        }
    }

    /// The user's message; the number with which it will be confirmed.
    ///
    /// # Errors
    /// [`TooManyWaiting`]: not taken.
    pub fn on_message(
        &mut self,
        now: Instant,
        entity: K,
        payload: Payload,
        out: &mut Outputs<P, K>,
    ) -> Result<u64, TooManyWaiting> {
        if self.waiting >= self.settings.waiting_max {
            return Err(TooManyWaiting);
        }
        let seq = self.current;
        self.current += 1;
        self.waiting += 1;
        if self.settings.producer.is_durable {
            self.storing.insert(seq, (entity.clone(), payload.clone()));
            out.push(ToEntitiesOutput::Store { seq, entity, payload });
        } else {
            self.give(now, &entity, WaitingMessage { seq, payload }, out);
        }
        Ok(seq)
    }

    /// The store has kept a message. Messages to one entity go in the order in which they were stored.
    pub fn on_stored(&mut self, now: Instant, seq: u64, out: &mut Outputs<P, K>) {
        if let Some((entity, payload)) = self.storing.remove(&seq) {
            self.give(now, &entity, WaitingMessage { seq, payload }, out);
        }
    }

    /// An entity's consumer asks for more.
    pub fn on_request(
        &mut self,
        now: Instant,
        entity: &K,
        request: ConsumerRequest,
        out: &mut Outputs<P, K>,
    ) {
        self.with(now, entity, out, |one, said| {
            one.used_at = now;
            one.producer.on_request(now, request, said);
        });
    }

    /// An entity's consumer misses something.
    pub fn on_resend(&mut self, now: Instant, entity: &K, from: u64, out: &mut Outputs<P, K>) {
        self.with(now, entity, out, |one, said| {
            one.used_at = now;
            one.producer.on_resend(now, from, said);
        });
    }

    /// An entity's consumer says how far it is and wants no more.
    pub fn on_ack(&mut self, now: Instant, entity: &K, confirmed: u64, out: &mut Outputs<P, K>) {
        self.with(now, entity, out, |one, said| {
            one.used_at = now;
            one.producer.on_ack(confirmed, said);
        });
    }

    /// When [`Self::on_timer`] should be called, if ever. Linear in the entities.
    #[must_use]
    pub fn timer_at(&self) -> Option<Instant> {
        let due = |one: &EntityLine<P, K>| {
            let idle = if one.is_idle() {
                self.settings.forget_after
            } else {
                self.settings.resend_idle
            };
            let at = one.used_at + idle;
            one.producer.timer_at().map_or(at, |timer| timer.min(at))
        };
        self.entities.values().map(due).min()
    }

    /// Time has passed: what nobody has confirmed is sent again, what is not used is forgotten. Linear in the
    /// entities.
    pub fn on_timer(&mut self, now: Instant, out: &mut Outputs<P, K>) {
        let settings = &self.settings;
        let is_unused =
            |one: &EntityLine<P, K>| one.is_idle() && now.since(one.used_at) >= settings.forget_after;
        self.entities.retain(|_, one| !is_unused(one));
        let resend_idle = settings.resend_idle;
        let entities: Vec<K> = self.entities.keys().cloned().collect();
        for entity in &entities {
            self.with(now, entity, out, |one, said| {
                if !one.is_idle() && now.since(one.used_at) >= resend_idle {
                    one.used_at = now;
                    one.producer.on_consumer(now, said);
                } else {
                    one.producer.on_timer(now, said);
                }
            });
        }
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> &ToEntitiesSettings {
        &self.settings
    }

    /// Whether an entity has a producer: it was given something, and was not idle for long since.
    #[must_use]
    pub fn knows(&self, entity: &K) -> bool {
        self.entities.contains_key(entity)
    }

    /// Messages that wait, for an entity or for the store.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Entities that have asked for a message, and those for which messages wait, with their number. Linear
    /// in the entities.
    pub fn demand(&self) -> impl Iterator<Item = (&K, usize)> {
        let wants = |one: &EntityLine<P, K>| one.producer.is_asked() || !one.waiting.is_empty();
        let chosen = self.entities.iter().filter(move |(_, one)| wants(one));
        chosen.map(|(entity, one)| (entity, one.waiting.len()))
    }

    /// Hands a message to its entity's producer, or lets it wait until that may send one.
    fn give(&mut self, now: Instant, entity: &K, message: WaitingMessage, out: &mut Outputs<P, K>) {
        if !self.entities.contains_key(entity) {
            let settings = ProducerSettings {
                is_durable: false,
                ..self.settings.producer.clone()
            };
            let id = (self.id.clone(), entity.clone());
            let Ok(producer) = ProducerController::new(id, settings) else {
                return;
            };
            let one = EntityLine {
                producer,
                waiting: VecDeque::new(),
                on_the_way: VecDeque::new(),
                used_at: now,
            };
            self.entities.insert(entity.clone(), one);
            self.with(now, entity, out, |one, said| one.producer.on_consumer(now, said));
        }
        self.with(now, entity, out, |one, _| {
            one.used_at = now;
            one.waiting.push_back(message);
        });
    }

    /// Has an entity's producer do something, and passes on what it wants done; and then what waits, as long
    /// as it asks.
    fn with(
        &mut self,
        now: Instant,
        entity: &K,
        out: &mut Outputs<P, K>,
        call: impl FnOnce(&mut EntityLine<P, K>, &mut Vec<ProducerOutput<(P, K)>>),
    ) {
        let Some(one) = self.entities.get_mut(entity) else {
            return;
        };
        let mut said = Vec::new();
        call(one, &mut said);
        while one.producer.is_asked()
            && let Some(WaitingMessage { seq, payload }) = one.waiting.pop_front()
        {
            self.waiting -= 1;
            if let Ok(own) = one.producer.on_message(now, payload, &mut said) {
                one.on_the_way.push_back((own, seq));
            }
        }
        for output in said {
            match output {
                ProducerOutput::Send(message) => out.push(ToEntitiesOutput::Send {
                    entity: entity.clone(),
                    message,
                }),
                ProducerOutput::Confirmed { seq: confirmed } => {
                    while let Some((own, seq)) = one.on_the_way.front().copied()
                        && own <= confirmed
                    {
                        one.on_the_way.pop_front();
                        out.push(ToEntitiesOutput::Confirmed { seq });
                        if self.settings.producer.is_durable {
                            out.push(ToEntitiesOutput::StoreConfirmed { seq });
                        }
                    }
                }
                // The inner producers are not durable; whether they ask is looked up.
                ProducerOutput::RequestNext { .. }
                | ProducerOutput::Store(_)
                | ProducerOutput::StoreConfirmed { .. }
                | ProducerOutput::StoreFailed => {}
            }
        }
    }
}

impl<P: Clone, K: Clone> EntityLine<P, K> {
    /// Whether nothing is on its way and nothing waits.
    fn is_idle(&self) -> bool {
        self.producer.is_idle() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests;
