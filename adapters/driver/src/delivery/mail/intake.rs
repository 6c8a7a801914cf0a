//! What a durable mailbox takes in, and what it hands to its instance: all that waits is appended as one,
//! with the confirmation of what was handled last; then the senders hear that it is kept, and the next is
//! handed out. Never hands one out before the one before it is confirmed in the store. Spec: seed document
//! 004.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_channel::{Receiver, Sender};
use quorate_core::durable::DurableFailure;
use quorate_core::input::HostReport;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::Payload;
use quorate_core::store::StoreError;

use super::HandedOut;
use crate::codec;
use crate::codec::Bytes;
use crate::delivery::length::{BATCH_MAX, bytes_of};
use crate::delivery::{DurableQueue, Entry};
use crate::entity::{Life, ReplyTo};
use crate::journal::AppendPurpose;

/// The pause before a store that has no room even for a confirmation is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// A message that was taken out of the instance's mailbox in memory, and who waits until it is kept.
struct Taken {
    payload: Payload,
    ask: Option<ReplyTo<()>>,
}

/// How far the message is that is next in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadStage {
    /// The instance has none.
    Waits,
    HandedOut,
    /// It was handled, which the store does not know.
    Handled(u64),
}

/// See the module.
pub(super) struct Intake<'a> {
    life: &'a Life,
    queue: DurableQueue,
    /// Whether the instance can read a message.
    reads: fn(&[u8]) -> bool,
    to_handle: Sender<HandedOut>,
    handled: Receiver<u64>,
    next: HeadStage,
    /// The first that was in the log: whoever had it before may have begun with it.
    doubtful: Option<u64>,
    /// What did not fit into the last append.
    ahead: Option<Taken>,
    /// No more messages come, and none is handed out any more.
    has_ended: bool,
}

impl<'a> Intake<'a> {
    pub(super) fn new(
        life: &'a Life,
        queue: DurableQueue,
        reads: fn(&[u8]) -> bool,
        (to_handle, handled): (Sender<HandedOut>, Receiver<u64>),
    ) -> Self {
        Self {
            life,
            doubtful: queue.oldest().map(|(number, _)| number),
            queue,
            reads,
            to_handle,
            handled,
            next: HeadStage::Waits,
            ahead: None,
            has_ended: false,
        }
    }

    /// Takes in and hands out until the instance has to stop, what waited in memory is kept, and what the
    /// instance was at is confirmed.
    ///
    /// # Errors
    /// The log is somebody else's, or the store has failed. Who is told nothing may have been kept.
    pub(super) async fn run(mut self) -> Result<(), StoreError> {
        loop {
            self.hand_out();
            if self.has_ended && self.next == HeadStage::Waits && self.ahead.is_none() {
                return Ok(());
            }
            let batch = self.take_in().await;
            self.keep(batch).await?;
        }
    }

    fn hand_out(&mut self) {
        if self.next != HeadStage::Waits || self.has_ended {
            return;
        }
        let Some((number, payload)) = self.queue.oldest() else {
            return;
        };
        self.next = HeadStage::HandedOut;
        // There is room: it has none, and it ends with this.
        let _ = self.to_handle.try_send(HandedOut {
            number,
            is_repeated: self.doubtful == Some(number),
            payload,
        });
    }

    /// Waits until there is something to write, or nothing more to wait for: all that waits, as far as it may
    /// be written as one.
    async fn take_in(&mut self) -> Vec<Taken> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let handled = self.handled.clone();
        let mut handled = pin!(handled.recv());
        poll_fn(|cx| {
            if self.next == HeadStage::HandedOut
                && let Poll::Ready(Ok(number)) = handled.as_mut().poll(cx)
            {
                self.next = HeadStage::Handled(number);
            }
            self.fill(cx, &mut batch, &mut bytes);
            let is_due = match self.next {
                HeadStage::Waits => self.has_ended,
                HeadStage::HandedOut => false,
                HeadStage::Handled(_) => true,
            };
            if is_due || !batch.is_empty() {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
        batch
    }

    /// Adds what waits to what is written next, and refuses what cannot be kept.
    fn fill(&mut self, cx: &Context<'_>, batch: &mut Vec<Taken>, bytes: &mut usize) {
        let bytes_max = self.life.context().shared().queue_bounds.batch_bytes();
        // One record is the confirmation.
        while batch.len() + 1 < BATCH_MAX {
            let Some(taken) = self.ahead.take().or_else(|| self.take(cx)) else {
                return;
            };
            if let Some(refusal) = self.refusal(&taken, *bytes) {
                self.refuse(taken, refusal);
                continue;
            }
            let size = bytes_of(0, taken.payload.len());
            if !batch.is_empty() && bytes.saturating_add(size) > bytes_max {
                self.ahead = Some(taken);
                return;
            }
            *bytes = bytes.saturating_add(size);
            batch.push(taken);
        }
    }

    /// The next out of the mailbox in memory, if there is one.
    fn take(&mut self, cx: &Context<'_>) -> Option<Taken> {
        let reports = self.life.reports();
        let Poll::Ready(next) = self.life.mailbox().poll_next(cx, &reports.budget) else {
            return None;
        };
        let Some((delivery, made_room)) = next else {
            self.has_ended = true;
            return None;
        };
        if made_room {
            reports.wake.notify();
        }
        let ask = delivery.occasion.and_then(|occasion| {
            let ask = occasion.ask?;
            Some(ReplyTo::new(reports.clone(), ask, occasion.deadline))
        });
        let payload = delivery.payload;
        Some(Taken { payload, ask })
    }

    /// Why a message cannot be kept beside so much that is about to be.
    fn refusal(&self, taken: &Taken, beside: usize) -> Option<Result<Payload, AskFailure>> {
        let length = taken.payload.len();
        if !(self.reads)(&taken.payload) {
            return Some(Ok(codec::undecodable()));
        }
        if length > self.life.context().shared().queue_bounds.message_bytes_max() {
            return Some(Ok(codec::not_durable(DurableFailure::TooLarge)));
        }
        let has_room = self.queue.has_room(beside.saturating_add(length));
        (!has_room).then_some(Err(AskFailure::MailboxFull))
    }

    /// A message is not kept, and whoever sent it hears why; one that was told is a dead letter.
    fn refuse(&self, taken: Taken, result: Result<Payload, AskFailure>) {
        self.life.counters().not_durable();
        let Some(ask) = taken.ask else {
            return self.life.reports().push(HostReport::Refused {
                slot: self.life.slot(),
                ask: None,
                reason: result.err().unwrap_or(AskFailure::EntityStoppedUnhandled),
            });
        };
        ask.settle(result);
    }

    /// Writes, and says so.
    async fn keep(&mut self, batch: Vec<Taken>) -> Result<(), StoreError> {
        let background = self.life.context().shared().background.clone();
        let sent = (self.queue.next_number()..).zip(&batch);
        let sent = sent.map(|(seq, taken)| Entry::Sent {
            seq,
            entity: Vec::new(),
            payload: Bytes(taken.payload.clone()),
        });
        let mut entries: Vec<Entry> = sent.collect();
        if let HeadStage::Handled(seq) = self.next {
            entries.push(Entry::Confirmed { seq });
        }
        if entries.is_empty() {
            return Ok(());
        }
        let purpose = if batch.is_empty() {
            AppendPurpose::Upkeep
        } else {
            AppendPurpose::Keep
        };
        let failure = match self.queue.append(entries, purpose, &background).await {
            Ok(()) => None,
            Err(StoreError::Full) => Some(DurableFailure::Full),
            Err(StoreError::TooLarge) if !batch.is_empty() => Some(DurableFailure::TooLarge),
            Err(error) => return Err(error),
        };
        if let Some(failure) = failure {
            // What was handled is confirmed without them.
            if batch.is_empty() {
                background.sleeper()(PAUSE).await;
            }
            for taken in batch {
                self.refuse(taken, Ok(codec::not_durable(failure)));
            }
            return Ok(());
        }
        if let HeadStage::Handled(_) = self.next {
            self.next = HeadStage::Waits;
        }
        for ask in batch.into_iter().filter_map(|taken| taken.ask) {
            ask.send(&());
        }
        match self.queue.shorten(&background).await {
            // It is shortened when there is room.
            Ok(()) | Err(StoreError::Full) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
