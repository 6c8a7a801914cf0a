//! The producer's side of reliable delivery: numbers its messages, sends as many as its consumer has asked
//! for, and keeps what nobody has confirmed to send it again. Large messages go in parts. A durable producer
//! has each message stored before it is sent. Spec: sharding 1.14, S-241 to S-244.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use super::{BadSetting, ConsumerSettings, MessagePart, SequencedMessage, ensure};
use crate::sharding::state::ids::Payload;
use crate::time::Instant;

/// Settings of a producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerSettings {
    /// The first message to a consumer is sent again after this until it is confirmed (default 1 s, > 0).
    /// Mirrors `resend-first-interval`.
    pub resend_first: Duration,
    /// A longer message goes in parts of so many bytes (default `None`: all go in one piece; at least 64).
    /// Mirrors `chunk-large-messages`.
    pub part_bytes: Option<usize>,
    /// Whether each message is stored before it is sent (default no).
    pub is_durable: bool,
    /// What is not stored after this is stored again (default 3 s, > 0). Mirrors
    /// `durable-queue.request-timeout`.
    pub store_timeout: Duration,
    /// So often, then the producer gives up (default 10, >= 1). Mirrors `durable-queue.retry-attempts`.
    pub store_attempts: u32,
}

impl Default for ProducerSettings {
    fn default() -> Self {
        Self {
            resend_first: Duration::from_secs(1),
            part_bytes: None,
            is_durable: false,
            store_timeout: Duration::from_secs(3),
            store_attempts: 10,
        }
    }
}

impl ProducerSettings {
    /// Smallest part: below this the numbers around it weigh more.
    const PART_BYTES_MIN: usize = 64;

    /// Whether the numbers are in their ranges.
    ///
    /// # Errors
    /// [`BadSetting`] names the first that is not.
    pub fn check(&self) -> Result<(), BadSetting> {
        ensure(
            !self.resend_first.is_zero(),
            "the interval of the first",
            "above zero",
        )?;
        let parts = self.part_bytes.is_none_or(|bytes| bytes >= Self::PART_BYTES_MIN);
        ensure(parts, "a part", "at least 64 bytes")?;
        ensure(!self.store_timeout.is_zero(), "the store's time", "above zero")?;
        ensure(self.store_attempts >= 1, "the store's attempts", "at least 1")
    }
}

/// What a producer wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProducerOutput<P> {
    /// Send this to the consumer.
    Send(SequencedMessage<P>),
    /// The user may give one message now.
    RequestNext {
        /// The number that it will have, or the first of its parts.
        seq: u64,
        /// Everything up to here is confirmed.
        confirmed: u64,
    },
    /// Everything up to here is confirmed.
    Confirmed {
        /// The number.
        seq: u64,
    },
    /// Store these, all or none, and say so with [`ProducerController::on_stored`]: they are not sent before.
    Store(Vec<StoredMessage>),
    /// Note that nothing up to here need be kept any more. Not waited for.
    StoreConfirmed {
        /// The number.
        seq: u64,
    },
    /// The store has not answered in time and will not be asked again: this producer is at its end.
    StoreFailed,
}

/// A message, or a part of one, as a durable producer keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its number.
    pub seq: u64,
    /// Which part of a message.
    pub part: MessagePart,
    /// The bytes.
    pub payload: Payload,
}

/// What a consumer asks its producer for: see [`ConsumerOutput::Request`](super::ConsumerOutput::Request).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerRequest {
    /// Everything up to here is confirmed; 0: nothing.
    pub confirmed: u64,
    /// The producer may send up to here.
    pub up_to: u64,
    /// Whether it should keep what is not confirmed, to send it again.
    pub support_resend: bool,
    /// Whether the consumer asks because it has waited for long.
    pub via_timeout: bool,
}

/// Nobody has asked for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the consumer has not asked for a message")]
pub struct NotRequested;

#[derive(Clone, Debug)]
struct UnconfirmedMessage {
    stored: StoredMessage,
    is_sent: bool,
}

/// See the module. `P` names the producer to its consumer.
#[derive(Clone, Debug)]
pub struct ProducerController<P> {
    settings: ProducerSettings,
    id: P,
    /// The next number.
    current: u64,
    confirmed: u64,
    /// The consumer takes up to here.
    requested: u64,
    /// Whether the consumer wants what is lost again.
    support_resend: bool,
    has_consumer: bool,
    /// The user was told that it may give a message.
    is_asked: bool,
    /// Whatever is sent next is the first for this consumer.
    next_is_first: bool,
    /// The first number for this consumer, until it is confirmed.
    first: Option<u64>,
    first_again_at: Option<Instant>,
    unconfirmed: VecDeque<UnconfirmedMessage>,
    /// Numbers that the store has not confirmed: from here on nothing is sent.
    storing: Option<StoringMessage>,
}

#[derive(Clone, Copy, Debug)]
struct StoringMessage {
    from: u64,
    again_at: Instant,
    attempts: u32,
}

impl<P: Clone> ProducerController<P> {
    /// A producer that has sent nothing and has no consumer.
    ///
    /// # Errors
    /// [`BadSetting`] for settings out of range.
    pub fn new(id: P, settings: ProducerSettings) -> Result<Self, BadSetting> {
        settings.check()?;
        Ok(Self {
            settings,
            id,
            current: 1,
            confirmed: 0,
            requested: 0,
            support_resend: true,
            has_consumer: false,
            is_asked: false,
            next_is_first: false,
            first: None,
            first_again_at: None,
            unconfirmed: VecDeque::new(),
            storing: None,
        })
    }

    /// A durable producer as it was stored: what is unconfirmed keeps its numbers. A message of which not all
    /// parts were stored is left out.
    ///
    /// # Errors
    /// [`BadSetting`] for settings out of range.
    pub fn recover(
        id: P,
        settings: ProducerSettings,
        confirmed: u64,
        stored: impl IntoIterator<Item = StoredMessage>,
    ) -> Result<Self, BadSetting> {
        let mut producer = Self::new(id, settings)?;
        producer.confirmed = confirmed;
        let unsent = |stored| UnconfirmedMessage {
            stored,
            is_sent: false,
        };
        let kept = stored
            .into_iter()
            .filter(|stored: &StoredMessage| stored.seq > confirmed);
        producer.unconfirmed = kept.map(unsent).collect();
        producer
            .unconfirmed
            .make_contiguous()
            .sort_by_key(|kept| kept.stored.seq);
        while producer
            .unconfirmed
            .back()
            .is_some_and(|kept| !kept.stored.part.last)
        {
            producer.unconfirmed.pop_back();
        }
        let last = producer
            .unconfirmed
            .back()
            .map_or(confirmed, |kept| kept.stored.seq);
        producer.current = last + 1;
        Ok(producer)
    }

    /// A consumer is there, the first one or another than before: it gets the first message that is not
    /// confirmed, and nothing else before it has asked.
    pub fn on_consumer(&mut self, now: Instant, out: &mut Vec<ProducerOutput<P>>) {
        self.has_consumer = true;
        for kept in &mut self.unconfirmed {
            kept.is_sent = false;
        }
        self.requested = self
            .unconfirmed
            .front()
            .map_or(self.current, |kept| kept.stored.seq);
        self.next_is_first = true;
        self.first = None;
        self.first_again_at = None;
        self.go_on(now, out);
    }

    /// The user's message, for which it was asked with [`ProducerOutput::RequestNext`]; the number with which
    /// it will be confirmed.
    ///
    /// # Errors
    /// [`NotRequested`]: not taken.
    pub fn on_message(
        &mut self,
        now: Instant,
        payload: Payload,
        out: &mut Vec<ProducerOutput<P>>,
    ) -> Result<u64, NotRequested> {
        if !core::mem::replace(&mut self.is_asked, false) {
            return Err(NotRequested);
        }
        let from = self.current;
        let parts = self.in_parts(payload);
        self.current += parts.len() as u64;
        if self.settings.is_durable {
            out.push(ProducerOutput::Store(parts.clone()));
            self.storing = Some(StoringMessage {
                from,
                again_at: now + self.settings.store_timeout,
                attempts: 1,
            });
        }
        let unsent = |stored| UnconfirmedMessage {
            stored,
            is_sent: false,
        };
        self.unconfirmed.extend(parts.into_iter().map(unsent));
        self.go_on(now, out);
        Ok(self.current - 1)
    }

    /// The store has kept what it was given last.
    pub fn on_stored(&mut self, now: Instant, out: &mut Vec<ProducerOutput<P>>) {
        if self.storing.take().is_some() {
            self.go_on(now, out);
        }
    }

    /// The consumer says how far it is, and how far this producer may go.
    pub fn on_request(&mut self, now: Instant, request: ConsumerRequest, out: &mut Vec<ProducerOutput<P>>) {
        let ConsumerRequest {
            confirmed,
            up_to,
            support_resend,
            via_timeout,
        } = request;
        if !self.has_consumer || confirmed >= self.current {
            return;
        }
        self.support_resend = support_resend;
        let was_first = self.first.is_some_and(|first| first <= confirmed);
        self.confirm(confirmed, out);
        // Whatever a consumer says, it is sent no more than the largest window.
        let most = self.confirmed.saturating_add(ConsumerSettings::WINDOW_MAX);
        self.requested = self.requested.max(up_to.min(most));
        if !support_resend {
            // What was lost stays lost: its numbers must not use up the window.
            let window = up_to.saturating_sub(confirmed);
            if self.requested < self.current {
                self.requested = (self.current - 1)
                    .saturating_add(window)
                    .min(most.max(self.current));
            }
        } else if via_timeout || was_first {
            self.unsend_from(0);
        }
        self.go_on(now, out);
    }

    /// The consumer misses something: everything from this number on is sent again, and nothing before it;
    /// from 0: everything, as to a new consumer.
    pub fn on_resend(&mut self, now: Instant, from: u64, out: &mut Vec<ProducerOutput<P>>) {
        self.next_is_first |= from == 0;
        for kept in self.unconfirmed.iter_mut().filter(|kept| kept.stored.seq < from) {
            kept.is_sent = true;
        }
        self.unsend_from(from);
        self.go_on(now, out);
    }

    /// The consumer says how far it is and wants no more.
    pub fn on_ack(&mut self, confirmed: u64, out: &mut Vec<ProducerOutput<P>>) {
        if confirmed < self.current {
            self.confirm(confirmed, out);
        }
    }

    /// When [`Self::on_timer`] should be called, if ever.
    #[must_use]
    pub fn timer_at(&self) -> Option<Instant> {
        let storing = self.storing.map(|storing| storing.again_at);
        match (self.first_again_at, storing) {
            (Some(first), Some(storing)) => Some(first.min(storing)),
            (first, storing) => first.or(storing),
        }
    }

    /// Time has passed: the first message or the order to the store is repeated.
    pub fn on_timer(&mut self, now: Instant, out: &mut Vec<ProducerOutput<P>>) {
        if self.storing.is_some_and(|storing| storing.again_at <= now) {
            self.store_again(now, out);
        }
        if self.first_again_at.is_some_and(|at| at <= now) {
            if let Some(first) = self.first {
                self.unconfirmed
                    .iter_mut()
                    .filter(|kept| kept.stored.seq == first)
                    .for_each(|kept| kept.is_sent = false);
            }
            self.go_on(now, out);
        }
    }

    /// Whether everything is confirmed.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.unconfirmed.is_empty()
    }

    /// Whether the user was told that it may give a message and has not given it.
    #[must_use]
    pub const fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Messages, or parts, that are not confirmed, by number.
    pub fn unconfirmed(&self) -> impl Iterator<Item = &StoredMessage> {
        self.unconfirmed.iter().map(|kept| &kept.stored)
    }

    fn store_again(&mut self, now: Instant, out: &mut Vec<ProducerOutput<P>>) {
        let Some(storing) = &mut self.storing else { return };
        if storing.attempts >= self.settings.store_attempts {
            self.storing = None;
            self.has_consumer = false;
            return out.push(ProducerOutput::StoreFailed);
        }
        storing.attempts += 1;
        storing.again_at = now + self.settings.store_timeout;
        let from = storing.from;
        let again = self.unconfirmed.iter().map(|kept| &kept.stored);
        out.push(ProducerOutput::Store(
            again.filter(|stored| stored.seq >= from).cloned().collect(),
        ));
    }

    fn in_parts(&self, payload: Payload) -> Vec<StoredMessage> {
        let size = self.settings.part_bytes.unwrap_or(usize::MAX);
        if payload.len() <= size {
            let (seq, part) = (self.current, MessagePart::WHOLE);
            return alloc::vec![StoredMessage { seq, part, payload }];
        }
        let last = payload.len().div_ceil(size) - 1;
        let part = |(at, bytes): (usize, &[u8])| StoredMessage {
            seq: self.current + at as u64,
            part: MessagePart {
                first: at == 0,
                last: at == last,
            },
            payload: bytes.into(),
        };
        payload.chunks(size).enumerate().map(part).collect()
    }

    fn confirm(&mut self, confirmed: u64, out: &mut Vec<ProducerOutput<P>>) {
        if confirmed <= self.confirmed {
            return;
        }
        self.confirmed = confirmed;
        while self
            .unconfirmed
            .front()
            .is_some_and(|kept| kept.stored.seq <= confirmed)
        {
            self.unconfirmed.pop_front();
        }
        if self.first.is_some_and(|first| first <= confirmed) {
            self.first = None;
            self.first_again_at = None;
        }
        out.push(ProducerOutput::Confirmed { seq: confirmed });
        if self.settings.is_durable {
            out.push(ProducerOutput::StoreConfirmed { seq: confirmed });
        }
    }

    fn unsend_from(&mut self, from: u64) {
        for kept in self.unconfirmed.iter_mut().filter(|kept| kept.stored.seq >= from) {
            kept.is_sent = false;
        }
    }

    /// Sends what may be sent, and asks for more if there is room.
    fn go_on(&mut self, now: Instant, out: &mut Vec<ProducerOutput<P>>) {
        if !self.has_consumer {
            return;
        }
        let until = self.storing.map_or(u64::MAX, |storing| storing.from);
        for kept in &mut self.unconfirmed {
            let seq = kept.stored.seq;
            if seq > self.requested || seq >= until {
                break;
            }
            if core::mem::replace(&mut kept.is_sent, true) {
                continue;
            }
            if core::mem::replace(&mut self.next_is_first, false) {
                self.first = Some(seq);
            }
            let first = self.first == Some(seq);
            if first {
                self.first_again_at = Some(now + self.settings.resend_first);
            }
            out.push(ProducerOutput::Send(SequencedMessage {
                producer: self.id.clone(),
                seq,
                first,
                part: kept.stored.part,
                payload: kept.stored.payload.clone(),
            }));
        }
        if !self.support_resend {
            let first = self.first;
            self.unconfirmed
                .retain(|kept| !kept.is_sent || first == Some(kept.stored.seq));
        }
        let waits = self.unconfirmed.back().is_some_and(|kept| !kept.is_sent);
        if !self.is_asked && !waits && self.storing.is_none() && self.current <= self.requested {
            self.is_asked = true;
            out.push(ProducerOutput::RequestNext {
                seq: self.current,
                confirmed: self.confirmed,
            });
        }
    }
}

#[cfg(test)]
mod tests;
