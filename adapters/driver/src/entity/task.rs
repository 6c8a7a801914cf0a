//! The life of one entity: made, handling one message after the other, stopped. Whatever ends it (an order, a
//! panic, a dropped runtime), every ask it had is answered and its end is reported, in that order. Spec:
//! sharding 1.4, I-44.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use quorate_core::input::HostReport;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{Payload, Slot};

use super::EntityContext;
use super::failure::{Failure, note};
use crate::asking;
use crate::codec;
use crate::counters::DurableCounters;
use crate::error::DurableFailure;
use crate::mailbox::{EntityStart, Mailbox, MailboxMessage, Reports};
use crate::shared::Shared;
use crate::supervision::Directive;
use crate::sync::yield_now;

/// After so many messages in a row an entity lets other tasks run: about a millisecond of the smallest
/// handlers.
pub(crate) const MESSAGES_PER_TURN: usize = 64;

/// What comes first beside something that runs.
pub(crate) enum Beside<T> {
    Done(T),
    Message(Payload),
    /// The entity has to stop.
    Stop,
}

/// How a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// Nobody waits for an answer.
    Told,
    Asked,
    /// A clock asks: its bytes are no user's.
    Woken,
}

impl Came {
    fn of(delivery: &MailboxMessage) -> Self {
        match &delivery.occasion {
            None => Self::Told,
            Some(occasion) if occasion.chain.is_of_a_clock() => Self::Woken,
            Some(_) => Self::Asked,
        }
    }
}

/// What has to be said when the entity ends, however it ends. Part of each entity's task, whose size counts:
/// what the context has as well stands only there.
pub(crate) struct Life {
    pub(super) context: EntityContext,
    /// Whether the handler of the present message has run.
    has_begun: bool,
    /// How the present message came.
    came: Came,
}

impl Life {
    pub(crate) fn new(start: EntityStart, shared: Arc<Shared>) -> Self {
        Self {
            context: EntityContext::new(start, shared),
            has_begun: false,
            came: Came::Told,
        }
    }

    pub(crate) const fn context(&self) -> &EntityContext {
        &self.context
    }

    pub(crate) fn counters(&self) -> &DurableCounters {
        &self.reports().durable
    }

    pub(crate) fn slot(&self) -> Slot {
        self.context.slot()
    }

    pub(crate) fn mailbox(&self) -> &Mailbox {
        self.context.mailbox()
    }

    pub(crate) fn reports(&self) -> &Arc<Reports> {
        self.context.reports()
    }

    /// Whether somebody waits for an answer to the present message.
    pub(crate) fn is_asked(&self) -> bool {
        self.came != Came::Told && self.context.is_asked()
    }

    /// Whether the present message is a clock's wake-up.
    pub(crate) fn is_woken(&self) -> bool {
        self.came == Came::Woken
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.mailbox().is_killed()
    }

    /// Completes when the entity has to stop at once.
    pub(crate) async fn killed(&self) {
        poll_fn(|cx| self.mailbox().poll_killed(cx)).await;
    }

    pub(crate) fn answer(&mut self, result: Result<Payload, AskFailure>) {
        if let Some(ask) = self.context.take_ask() {
            self.reports().answers(ask, result);
        }
    }

    /// Its first hook has returned.
    pub(crate) fn has_started(&self) {
        if self.context.path().is_some() {
            self.reports().running(self.slot());
        }
    }

    /// The user's part of a message; nothing if there is none.
    pub(crate) fn opened_message<'a>(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        self.context.opened_message(payload)
    }

    /// The present message is none that this entity can read.
    pub(crate) fn cannot_decode(&mut self) {
        tracing::debug!(target: "cluster::sharding", entity = ?self.context, event = "message_undecodable");
        self.answer(Ok(codec::undecodable()));
    }

    /// Says of every message that waits, and that comes, that nothing of it was made durable. Completes when
    /// the entity has to stop; the message that it may be at work on stays its own.
    pub(crate) async fn turn_away(&self, failure: DurableFailure) {
        let (mailbox, reports) = (self.mailbox(), self.reports());
        let mut told = 0_usize;
        while let Some((delivery, made_room)) = poll_fn(|cx| mailbox.poll_next(cx, &reports.budget)).await {
            if made_room {
                reports.wake.notify();
            }
            reports.durable.not_durable();
            reports.push(match delivery.into_ask() {
                Some(ask) => HostReport::Answered {
                    ask,
                    result: Ok(codec::not_durable(failure)),
                },
                None => HostReport::Refused {
                    slot: self.slot(),
                    ask: None,
                    reason: AskFailure::EntityStoppedUnhandled,
                },
            });
            told += 1;
            if told.is_multiple_of(MESSAGES_PER_TURN) {
                yield_now().await;
            }
        }
    }

    /// Waits until an entity may begin with something; `None` if it has to stop before.
    pub(crate) async fn may_begin(&self) -> Option<()> {
        let (mailbox, gate) = (self.mailbox(), &self.reports().gate);
        poll_fn(|cx| match gate.poll(cx) {
            Poll::Ready(()) => Poll::Ready(Some(())),
            Poll::Pending => mailbox.poll_killed(cx).map(|()| None),
        })
        .await
    }

    pub(crate) async fn next(&mut self) -> Option<Payload> {
        let payload = poll_fn(|cx| self.poll_next(cx)).await?;
        self.begun(payload).await
    }

    /// Takes the next message out of the mailbox; `None` once the entity has to stop.
    pub(super) fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Option<Payload>> {
        let next = self.mailbox().poll_next(cx, &self.reports().budget);
        next.map(|next| next.map(|taken| self.opened(taken)))
    }

    /// A message has been taken out of the mailbox: waits until the entity may begin with it.
    pub(super) async fn begun(&mut self, payload: Payload) -> Option<Payload> {
        self.may_begin().await?;
        self.has_begun = true;
        Some(payload)
    }

    /// What is known of a message is the context's, and its bytes are the handler's. Perhaps there is room
    /// again.
    pub(super) fn opened(&mut self, (delivery, made_room): (MailboxMessage, bool)) -> Payload {
        if made_room {
            self.reports().wake.notify();
        }
        self.has_begun = false;
        let before = std::mem::replace(&mut self.came, Came::of(&delivery));
        // A told message after a told one finds nothing to put away.
        if before != Came::Told || self.came != Came::Told {
            self.context.begin(delivery.occasion);
        }
        delivery.payload
    }

    /// Runs something until it is done, a message comes, or the entity has to stop. Nothing is lost between
    /// two calls.
    pub(crate) async fn next_beside<W: Future>(&mut self, mut work: Pin<&mut W>) -> Beside<W::Output> {
        let next = poll_fn(|cx| {
            if let Poll::Ready(done) = self.enter(|| work.as_mut().poll(cx)) {
                return Poll::Ready(Err(done));
            }
            self.poll_next(cx).map(Ok)
        });
        match next.await {
            Err(done) => Beside::Done(done),
            Ok(None) => Beside::Stop,
            Ok(Some(payload)) => self.begun(payload).await.map_or(Beside::Stop, Beside::Message),
        }
    }

    /// The same for what it does by itself: nobody waits for an answer.
    pub(crate) async fn begun_by_itself(&self) -> Option<()> {
        self.context.begin(None);
        self.may_begin().await
    }

    /// The next incarnation has nothing of this one's.
    pub(super) fn begin_anew(&mut self) {
        self.has_begun = false;
        self.context.timers().clear();
        drop(self.context.take_failure());
    }

    /// Runs users' code: notes that it holds the thread, and on whose behalf it runs.
    pub(crate) fn enter<T>(&self, code: impl FnOnce() -> T) -> T {
        let _held = self.reports().holding.begin(self.slot());
        let _current = asking::enter(self.context.asker());
        code()
    }

    /// Runs a handler or a hook of a durable entity; `None` if the entity has to stop before it is done, or
    /// gives up: it recovers from its log when the next message comes.
    pub(crate) async fn unless_killed<T>(&self, handler: impl Future<Output = T>) -> Option<T> {
        let mut handler = pin!(handler);
        poll_fn(|cx| {
            let polled = self.enter(|| handler.as_mut().poll(cx));
            if let Some(error) = self.context.take_failure() {
                note(&self.context, &Failure::Error(error), Directive::Stop);
                return Poll::Ready(None);
            }
            match polled {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending => self.mailbox().poll_killed(cx).map(|()| None),
            }
        })
        .await
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let (slot, mailbox, reports) = (self.slot(), self.mailbox(), self.reports());
        let answered = |ask, failure| HostReport::Answered {
            ask,
            result: Err(failure),
        };
        let unhandled = |delivery: MailboxMessage| match delivery.into_ask() {
            Some(ask) => answered(ask, AskFailure::EntityStoppedUnhandled),
            None => HostReport::Refused {
                slot,
                ask: None,
                reason: AskFailure::EntityStoppedUnhandled,
            },
        };
        let failed = mailbox.is_open().then_some(HostReport::Failed { slot });
        let (left, _) = mailbox.close(&reports.budget);
        let failure = if self.has_begun {
            AskFailure::EntityStopped
        } else {
            AskFailure::EntityStoppedUnhandled
        };
        let interrupted = self.context.take_ask().map(|ask| answered(ask, failure));
        let stopped = HostReport::Stopped { slot };
        // In one piece: whoever hears that its ask failed and asks again at once finds the slot free.
        reports.push_all(
            interrupted
                .into_iter()
                .chain(left.into_iter().map(unhandled))
                .chain(failed)
                .chain([stopped]),
        );
    }
}
