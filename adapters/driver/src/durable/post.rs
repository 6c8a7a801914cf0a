//! Sends what a durable entity has to deliver, each message as an ask whose answer confirms it, and says when
//! something is due. What is due, and when, the outbox knows. Spec: sharding 1.15.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_channel::{Receiver, Sender};
use quorate_core::durable::LetterOutbox;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{EntityId, Payload};
use serde::de::DeserializeOwned;

use crate::background::Sleep;
use crate::codec;
use crate::commands::UserCommand;
use crate::entity::Life;
use crate::sync;
use quorate_core::input::Recipient;

/// How long an ask waits at least and at most; between them as long as until the message is sent again.
const ASK_TIMEOUT_MIN: Duration = Duration::from_millis(50);
const ASK_TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// A message of a durable entity that its recipient has answered.
#[derive(Clone, Debug)]
pub struct Confirmed {
    number: u64,
    to: EntityId,
    answer: Payload,
}

impl Confirmed {
    /// The message's number, as in its [`DeliveryId`](super::DeliveryId).
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Who answered.
    #[must_use]
    pub const fn entity(&self) -> &EntityId {
        &self.to
    }

    /// What it answered; `None` if that is not the answer type of its kind.
    #[must_use]
    pub fn reply<R: DeserializeOwned>(&self) -> Option<R> {
        codec::decode(codec::answer_bytes(&self.answer)?)
    }
}

/// A message that was sent as often as [`warn_after`](super::AtLeastOnceSettings::warn_after) says and is not
/// confirmed. It is sent on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overdue {
    /// Its number, as in its [`DeliveryId`](super::DeliveryId).
    pub number: u64,
    /// To whom.
    pub entity: EntityId,
    /// How often it was sent.
    pub attempts: u32,
}

/// What is due.
pub(super) enum Due {
    Answer(Confirmed),
    /// It is time to look what has to be sent again.
    Look,
    /// A reminder may be due.
    Reminder,
}

/// See the module.
pub(super) struct Post {
    pub(super) outbox: LetterOutbox,
    /// Answers, once something was sent: at most one for each message that is unconfirmed and each time it
    /// was sent.
    answers: Option<(Sender<Confirmed>, Receiver<Confirmed>)>,
    look: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Post {
    pub(super) const fn new(outbox: LetterOutbox) -> Self {
        Self {
            outbox,
            answers: None,
            look: None,
        }
    }

    /// Sends what the recovered entity has not heard of.
    pub(super) fn begin(&mut self, life: &Life) -> Vec<Overdue> {
        let due = self.outbox.begin(life.context().now());
        self.send(life, &due.send, true);
        self.overdue(&due.warn)
    }

    /// Sends again what is due; what has been sent too often.
    pub(super) fn redeliver(&mut self, life: &Life) -> Vec<Overdue> {
        let due = self.outbox.redeliver(life.context().now());
        self.send(life, &due.send, true);
        self.overdue(&due.warn)
    }

    fn overdue(&self, numbers: &[u64]) -> Vec<Overdue> {
        let overdue = |number: &u64| {
            let sent = self.outbox.rules().get(*number)?;
            Some(Overdue {
                number: *number,
                entity: sent.message.to.id.clone(),
                attempts: sent.attempts,
            })
        };
        numbers.iter().filter_map(overdue).collect()
    }

    /// Asks the recipients of these messages, in this order unless the node's queue is full.
    pub(super) fn send(&mut self, life: &Life, numbers: &[u64], is_again: bool) {
        life.counters().posted(numbers.len(), is_again);
        for number in numbers {
            self.send_one(life, *number);
        }
    }

    fn send_one(&mut self, life: &Life, number: u64) {
        let Some(sent) = self.outbox.rules().get(number) else {
            return;
        };
        let letter = &sent.message;
        let (reply, answer) = sync::oneshot();
        let command = UserCommand::Ask {
            to: Recipient::Entity(letter.to.kind, letter.to.id.clone()),
            payload: letter.payload.clone(),
            timeout: sent.wait().clamp(ASK_TIMEOUT_MIN, ASK_TIMEOUT_MAX),
            // No handler waits for the answer.
            chain: AskChain::default(),
            reply,
        };
        let shared = Arc::clone(life.context().shared());
        let late = match shared.try_user(command) {
            Ok(()) => None,
            Err((_, Some(command))) => Some(command),
            // The node has ended, and its entities are about to.
            Err((_, None)) => return,
        };
        let (answers, _) = self.answers.get_or_insert_with(async_channel::unbounded);
        let (answers, to) = (answers.clone(), letter.to.id.clone());
        let node = Arc::clone(&shared);
        node.background.spawn(async move {
            if let Some(command) = late
                && shared.user(command).await.is_err()
            {
                return;
            }
            // Whatever else became of it, it is sent again.
            if let Some(Ok(answer)) = answer.await
                && codec::answer_bytes(&answer).is_some()
            {
                // The entity may have ended.
                let _ = answers.try_send(Confirmed { number, to, answer });
            }
        });
    }

    /// Whether nothing is due, and nothing will be.
    pub(super) fn is_idle(&self) -> bool {
        self.outbox.rules().is_all_confirmed()
    }

    /// A confirmation is durable.
    pub(super) fn confirm(&mut self, number: u64) {
        self.outbox.confirm(number);
        if self.is_idle() {
            self.look = None;
        }
    }

    /// What is due next, a reminder after so long. Nothing is lost if it is dropped.
    pub(super) async fn next(&mut self, sleep: &Sleep, reminder_in: Option<Duration>) -> Due {
        let tick = (!self.is_idle()).then(|| self.outbox.rules().tick());
        let mut reminder = reminder_in.map(|time| sleep(time));
        let Self { answers, look, .. } = self;
        let (_, answers) = answers.get_or_insert_with(async_channel::unbounded);
        let mut answer = Box::pin(answers.recv());
        poll_fn(|cx| {
            if let Poll::Ready(Ok(answer)) = answer.as_mut().poll(cx) {
                return Poll::Ready(Due::Answer(answer));
            }
            if let Some(reminder) = &mut reminder
                && reminder.as_mut().poll(cx).is_ready()
            {
                return Poll::Ready(Due::Reminder);
            }
            if let Some(tick) = tick
                && look
                    .get_or_insert_with(|| sleep(tick))
                    .as_mut()
                    .poll(cx)
                    .is_ready()
            {
                *look = None;
                return Poll::Ready(Due::Look);
            }
            Poll::Pending
        })
        .await
    }
}
