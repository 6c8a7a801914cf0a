//! The consumer's side of reliable delivery: takes a producer's messages in order and without a gap, hands
//! them out one at a time, and asks for more as there is room. What it holds is bounded by its window. Spec:
//! sharding 1.14, S-237 to S-240, S-250.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use super::{BadSetting, ensure, grown};
use crate::sharding::state::ids::Payload;
use crate::time::Instant;

/// How much longer each wait for a repeated request is. As in Akka.
const RETRY_FACTOR: f64 = 1.5;

/// Settings of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerSettings {
    /// Messages, or parts of messages, that may be on their way (default 50, 1 to 10,000). Mirrors
    /// `flow-control-window`.
    pub window: u64,
    /// Whether lost messages stay lost: gaps are accepted, and nothing is sent again (default no). Mirrors
    /// `only-flow-control`.
    pub only_flow_control: bool,
    /// A request that nothing follows is repeated after this (default 2 s, > 0). Mirrors
    /// `resend-interval-min`.
    pub resend_min: Duration,
    /// Longest wait for a repetition; each is half as long again (default 30 s). Mirrors
    /// `resend-interval-max`.
    pub resend_max: Duration,
    /// Largest message that is put together of parts, in bytes (default 64 MiB, >= 1).
    pub message_bytes_max: usize,
}

impl Default for ConsumerSettings {
    fn default() -> Self {
        Self {
            window: 50,
            only_flow_control: false,
            resend_min: Duration::from_secs(2),
            resend_max: Duration::from_secs(30),
            message_bytes_max: 64 << 20,
        }
    }
}

impl ConsumerSettings {
    /// Largest window: what a consumer holds at most while its user is busy.
    pub const WINDOW_MAX: u64 = 10_000;

    /// Whether the numbers are in their ranges.
    ///
    /// # Errors
    /// [`BadSetting`] names the first that is not.
    pub fn check(&self) -> Result<(), BadSetting> {
        ensure(
            (1..=Self::WINDOW_MAX).contains(&self.window),
            "the window",
            "1 to 10,000",
        )?;
        ensure(!self.resend_min.is_zero(), "the shortest wait", "above zero")?;
        ensure(
            self.resend_max >= self.resend_min,
            "the longest wait",
            "at least the shortest",
        )?;
        ensure(
            self.message_bytes_max >= 1,
            "the largest message",
            "at least 1 byte",
        )
    }
}

/// Which part of a message this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePart {
    /// It begins the message.
    pub first: bool,
    /// It ends the message.
    pub last: bool,
}

impl MessagePart {
    /// A message in one piece.
    pub const WHOLE: Self = Self {
        first: true,
        last: true,
    };
}

/// A numbered message, or a part of one, on its way from a producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequencedMessage<P> {
    /// Whose numbers they are.
    pub producer: P,
    /// Its number, from 1 on.
    pub seq: u64,
    /// It is the first that this consumer gets of the producer: what was before is none of its business.
    pub first: bool,
    /// Which part of a message.
    pub part: MessagePart,
    /// The bytes.
    pub payload: Payload,
}

/// What a consumer wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsumerOutput<P> {
    /// Give the user this message. The next one follows when it has confirmed this number.
    Deliver {
        /// Whose.
        producer: P,
        /// Its number; of several parts the last one's.
        seq: u64,
        /// The bytes.
        payload: Payload,
    },
    /// A message was left out: it is too large, or parts of it were lost and are not sent again.
    Dropped {
        /// Whose.
        producer: P,
        /// Its number.
        seq: u64,
    },
    /// Tell the producer how far the user is, and how far it may go.
    Request {
        /// To whom.
        to: P,
        /// Everything up to here is confirmed; 0: nothing.
        confirmed: u64,
        /// It may send up to here.
        up_to: u64,
        /// Whether it should keep what is not confirmed, to send it again.
        support_resend: bool,
        /// Nothing came for a while.
        via_timeout: bool,
    },
    /// Have the producer send again from here on; 0: from the first that is not confirmed.
    Resend {
        /// To whom.
        to: P,
        /// From here.
        from: u64,
    },
    /// Tell the producer how far the user is; no more is wanted.
    Ack {
        /// To whom.
        to: P,
        /// Everything up to here is confirmed.
        confirmed: u64,
    },
}

/// A message that waits for the user.
#[derive(Clone, Debug)]
struct ReadyMessage {
    seq: u64,
    /// `None` for one that could not be put together.
    payload: Option<Payload>,
}

/// What is known of the producer whose messages are taken.
#[derive(Clone, Debug)]
struct ConsumerSource<P> {
    producer: P,
    /// The number that comes next.
    expected: u64,
    /// The first number, until the user has confirmed it.
    unconfirmed_first: Option<u64>,
    confirmed: u64,
    requested: u64,
    /// Something is missing, and was asked for.
    is_resending: bool,
    /// The number that the user has and has not confirmed.
    delivered: Option<u64>,
    ready: VecDeque<ReadyMessage>,
    /// Parts of a message that is not complete.
    parts: Vec<u8>,
    /// Whether `parts` has a beginning.
    is_collecting: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ConsumerController<P> {
    settings: ConsumerSettings,
    source: Option<ConsumerSource<P>>,
    retry_at: Option<Instant>,
    wait: Duration,
}

impl<P: Clone + PartialEq> ConsumerController<P> {
    /// A consumer that has heard of no producer.
    ///
    /// # Errors
    /// [`BadSetting`] for settings out of range.
    pub fn new(settings: ConsumerSettings) -> Result<Self, BadSetting> {
        settings.check()?;
        let wait = settings.resend_min;
        Ok(Self {
            settings,
            source: None,
            retry_at: None,
            wait,
        })
    }

    /// A message has come.
    pub fn on_message(
        &mut self,
        now: Instant,
        message: SequencedMessage<P>,
        out: &mut Vec<ConsumerOutput<P>>,
    ) {
        let known = self
            .source
            .as_ref()
            .is_some_and(|s| s.producer == message.producer);
        if !known && !message.first {
            if self.source.is_none() {
                let to = message.producer;
                out.push(ConsumerOutput::Resend { to, from: 0 });
            }
            return;
        }
        if !known {
            self.begin(&message);
        }
        let Some(source) = &mut self.source else { return };
        if message.seq < source.expected {
            if message.first {
                // The request may have been lost. Nothing else is missing, so nothing else is to be sent
                // again.
                self.keep_parts(out);
                self.request(out, false);
            }
            return;
        }
        if message.seq > source.requested {
            // More than was asked for: it will be sent again when there is room.
            return;
        }
        if message.seq > source.expected && !self.settings.only_flow_control {
            if !core::mem::replace(&mut source.is_resending, true) {
                let (to, from) = (source.producer.clone(), source.expected);
                out.push(ConsumerOutput::Resend { to, from });
                self.arm(now);
            }
            return;
        }
        source.is_resending = false;
        let has_gap = message.seq > source.expected;
        source.expected = message.seq.saturating_add(1);
        let (seq, was_first) = (message.seq, !known);
        source.collect(message, has_gap, self.settings.message_bytes_max);
        self.deliver_next(now, out);
        if self.widen_for_parts(seq) || was_first {
            self.request(out, false);
        }
        self.wait = self.settings.resend_min;
        self.arm(now);
    }

    /// The user is done with the message that it has; `false` if that is another one.
    pub fn on_confirmed(&mut self, now: Instant, seq: u64, out: &mut Vec<ConsumerOutput<P>>) -> bool {
        let Some(source) = self
            .source
            .as_mut()
            .filter(|source| source.delivered == Some(seq))
        else {
            return false;
        };
        source.delivered = None;
        self.confirm(now, seq, out);
        self.deliver_next(now, out);
        // Parts of the next message may have used up the window while this one was with the user.
        let received = self.source.as_ref().map_or(0, |source| source.expected - 1);
        if self.widen_for_parts(received) {
            self.request(out, false);
        }
        // Nothing was waited for while the user was busy.
        self.arm(now);
        true
    }

    fn confirm(&mut self, now: Instant, seq: u64, out: &mut Vec<ConsumerOutput<P>>) {
        let Some(source) = &mut self.source else { return };
        source.confirmed = seq;
        let was_first = source.unconfirmed_first.take().is_some();
        let left = source.requested.saturating_sub(seq);
        if left == 0 || (!was_first && left <= self.settings.window / 2) {
            source.requested = seq.saturating_add(self.settings.window);
            self.request(out, false);
            self.arm(now);
        } else if was_first {
            self.request(out, false);
            self.arm(now);
        }
    }

    /// When [`Self::on_retry`] should be called, if ever.
    #[must_use]
    pub const fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Nothing has come for a while: asks again, and waits longer for the next time.
    pub fn on_retry(&mut self, now: Instant, out: &mut Vec<ConsumerOutput<P>>) {
        if self.retry_at.is_none_or(|at| at > now) {
            return;
        }
        match &self.source {
            Some(source) if source.is_resending => {
                let (to, from) = (source.producer.clone(), source.expected);
                out.push(ConsumerOutput::Resend { to, from });
            }
            Some(source) if source.is_collecting => {
                self.keep_parts(out);
                self.request(out, false);
            }
            Some(_) => self.request(out, true),
            None => {}
        }
        self.wait = grown(self.wait, RETRY_FACTOR, self.settings.resend_max);
        self.arm(now);
    }

    /// The user wants no more.
    pub fn on_stop(&mut self, out: &mut Vec<ConsumerOutput<P>>) {
        if let Some(source) = self.source.take()
            && source.confirmed > 0
        {
            out.push(ConsumerOutput::Ack {
                to: source.producer,
                confirmed: source.confirmed,
            });
        }
        self.retry_at = None;
    }

    /// Begins with a producer; what another one sent is forgotten, which sends it again.
    fn begin(&mut self, first: &SequencedMessage<P>) {
        self.source = Some(ConsumerSource {
            producer: first.producer.clone(),
            expected: first.seq,
            unconfirmed_first: Some(first.seq),
            confirmed: 0,
            requested: first.seq.saturating_sub(1).saturating_add(self.settings.window),
            is_resending: false,
            delivered: None,
            ready: VecDeque::new(),
            parts: Vec::new(),
            is_collecting: false,
        });
    }

    fn deliver_next(&mut self, now: Instant, out: &mut Vec<ConsumerOutput<P>>) {
        while let Some(source) = self.source.as_mut().filter(|source| source.delivered.is_none())
            && let Some(ReadyMessage { seq, payload }) = source.ready.pop_front()
        {
            let producer = source.producer.clone();
            if let Some(payload) = payload {
                source.delivered = Some(seq);
                return out.push(ConsumerOutput::Deliver {
                    producer,
                    seq,
                    payload,
                });
            }
            out.push(ConsumerOutput::Dropped { producer, seq });
            self.confirm(now, seq, out);
        }
    }

    /// Parts are confirmed with the last one, so a message of more parts than the window needs requests
    /// before. `true` if there is something new to request.
    fn widen_for_parts(&mut self, seq: u64) -> bool {
        let half = self.settings.window / 2;
        let Some(source) = self.source.as_mut().filter(|source| source.is_collecting) else {
            return false;
        };
        let is_idle = source.delivered.is_none() && source.ready.is_empty();
        let widens = is_idle && source.requested.saturating_sub(seq) <= half;
        if widens {
            source.requested = seq.saturating_add(self.settings.window);
        }
        widens
    }

    /// Parts are confirmed with the last one: so that those which are here do not come again with every
    /// repetition, says what is missing.
    fn keep_parts(&self, out: &mut Vec<ConsumerOutput<P>>) {
        if let Some(source) = self.source.as_ref().filter(|source| source.is_collecting) {
            let (to, from) = (source.producer.clone(), source.expected);
            out.push(ConsumerOutput::Resend { to, from });
        }
    }

    fn request(&self, out: &mut Vec<ConsumerOutput<P>>, via_timeout: bool) {
        if let Some(source) = &self.source {
            out.push(ConsumerOutput::Request {
                to: source.producer.clone(),
                confirmed: source.confirmed,
                up_to: source.requested,
                support_resend: !self.settings.only_flow_control,
                via_timeout,
            });
        }
    }

    fn arm(&mut self, now: Instant) {
        self.retry_at = Some(now + self.wait);
    }
}

impl<P> ConsumerSource<P> {
    /// Puts a message together of its parts. One that is too large, or whose beginning is lost, is left out.
    fn collect(&mut self, message: SequencedMessage<P>, has_gap: bool, bytes_max: usize) {
        let MessagePart { first, last } = message.part;
        if first {
            self.parts = Vec::new();
            self.is_collecting = true;
        } else if has_gap {
            self.is_collecting = false;
        }
        let seq = message.seq;
        let fits = self.parts.len().saturating_add(message.payload.len()) <= bytes_max;
        self.is_collecting &= fits;
        if !last {
            if self.is_collecting {
                self.parts.extend_from_slice(&message.payload);
            } else {
                self.parts = Vec::new();
            }
            return;
        }
        let is_complete = core::mem::replace(&mut self.is_collecting, false);
        let mut parts = core::mem::take(&mut self.parts);
        let payload = is_complete.then(|| {
            if first {
                return message.payload;
            }
            parts.extend_from_slice(&message.payload);
            parts.into()
        });
        self.ready.push_back(ReadyMessage { seq, payload });
    }
}

#[cfg(test)]
mod tests;
