//! What a handler has decided: what is to be kept, and what is answered then. Values only.

use std::borrow::Borrow;
use std::fmt;
use std::time::Duration;

use quorate_core::durable::ReminderWish;
use serde::Serialize;

use super::EventSourced;
use super::letter::{DeliveryId, Draft};
use crate::codec;
use crate::region::EntityRef;

/// To be reminded by this command.
pub(super) fn remind<M: Serialize>(
    name: String,
    (after, every): (Duration, Option<Duration>),
    command: &M,
) -> ReminderWish {
    ReminderWish::Remind {
        name,
        after,
        every,
        message: codec::encode(command),
    }
}

/// What is answered once everything is durable.
pub(super) enum Answer<S, R> {
    Now(R),
    Later(Box<dyn FnOnce(&S) -> R + Send>),
}

/// What the entity does afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Then {
    #[default]
    GoOn,
    Stop,
    Forget,
    Passivate,
}

/// What an [`EventSourced`] entity has decided on a command.
#[must_use = "a decision does nothing unless the handler returns it"]
pub struct Decision<E: EventSourced> {
    pub(super) persist: Persist<E>,
    pub(super) answer: Answer<E::State, E::Reply>,
    pub(super) then: Then,
}

impl<E: EventSourced> Decision<E> {
    /// This event has happened. Say next what is answered: [`Persist::reply`] or [`Persist::then_reply`].
    pub fn persist(event: E::Event) -> Persist<E> {
        Self::persist_all([event])
    }

    /// These events have happened, in this order: all of them become durable, or none. At most
    /// [`EVENTS_PER_COMMAND_MAX`](super::limits::EVENTS_PER_COMMAND_MAX).
    pub fn persist_all(events: impl IntoIterator<Item = E::Event>) -> Persist<E> {
        Persist {
            events: events.into_iter().collect(),
            deliveries: Vec::new(),
            wishes: Vec::new(),
        }
    }

    /// Nothing has happened; this is the answer.
    pub fn reply(reply: E::Reply) -> Self {
        Persist::nothing().reply(reply)
    }

    /// The entity stops afterwards, as by [`EntityContext::stop`](crate::EntityContext::stop).
    pub fn and_stop(mut self) -> Self {
        self.then = Then::Stop;
        self
    }

    /// The entity stops afterwards and is remembered no more, as by
    /// [`EntityContext::forget`](crate::EntityContext::forget). Its events, reminders and messages stay.
    pub fn and_forget(mut self) -> Self {
        self.then = Then::Forget;
        self
    }

    /// The entity leaves memory afterwards, as by
    /// [`EntityContext::passivate`](crate::EntityContext::passivate).
    pub fn and_passivate(mut self) -> Self {
        self.then = Then::Passivate;
        self
    }
}

impl<E: EventSourced> fmt::Debug for Decision<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("persist", &self.persist)
            .field("then", &self.then)
            .finish_non_exhaustive()
    }
}

/// Events that have happened, messages that are sent because of them and reminders, before it is said what is
/// answered.
#[must_use = "say what is answered"]
pub struct Persist<E: EventSourced> {
    pub(super) events: Vec<E::Event>,
    pub(super) deliveries: Vec<Draft>,
    pub(super) wishes: Vec<ReminderWish>,
}

impl<E: EventSourced> Persist<E> {
    /// Nothing has happened.
    pub fn nothing() -> Self {
        Decision::persist_all([])
    }

    /// Sends a message to an entity until it has answered it: again after
    /// [`redeliver_interval`](super::AtLeastOnceSettings::redeliver_interval) and then at intervals that
    /// grow, across passivation, moves and crashes of either side. The message becomes durable with the
    /// events, in one write: both are kept, or neither; and it is sent after that. The **answer is the
    /// confirmation**: [`EventSourced::on_confirmed`] hears it.
    ///
    /// It arrives at least once and in any order. `message` puts the [`DeliveryId`] into it, by which the
    /// recipient knows it again ([`Received`](super::Received)). Events, messages and their bytes together
    /// are bounded as the events of one command are; the command fails with
    /// [`TooManyUnconfirmed`](super::DurableFailure::TooManyUnconfirmed) past
    /// [`unconfirmed_max`](super::AtLeastOnceSettings::unconfirmed_max).
    pub fn deliver<M: Serialize, R>(
        mut self,
        to: &EntityRef<M, R>,
        message: impl FnOnce(DeliveryId) -> M + Send + 'static,
    ) -> Self {
        self.deliveries.push(Draft::new(to, message));
        self
    }

    /// Has the entity handle a command of its own after so long (milliseconds count, by the wall clock):
    /// [`EventSourced::handle`], whose answer is dropped. The reminder becomes durable with the events and
    /// outlives passivation, moves, crashes and a stop of all nodes; one of the same name is replaced. What
    /// its handler decides and that it was handled are one write, so however often it is begun with it counts
    /// once. An entity that does not run when it is due is woken for it.
    ///
    /// At most [`REMINDERS_MAX`](super::limits::REMINDERS_MAX) for an entity: past it the command fails with
    /// [`TooManyReminders`](super::DurableFailure::TooManyReminders). See
    /// [`EntityContext::reminders`](crate::EntityContext::reminders).
    pub fn remind(
        mut self,
        name: impl Into<String>,
        after: Duration,
        command: impl Borrow<E::Command>,
    ) -> Self
    where
        E::Command: Serialize,
    {
        self.wishes
            .push(remind(name.into(), (after, None), command.borrow()));
        self
    }

    /// As [`Self::remind`], again and again: first after `every` (at least 10 ms), then in step with that.
    /// What was missed, because the entity did not run, is handled once.
    pub fn remind_every(
        mut self,
        name: impl Into<String>,
        every: Duration,
        command: impl Borrow<E::Command>,
    ) -> Self
    where
        E::Command: Serialize,
    {
        self.wishes
            .push(remind(name.into(), (every, Some(every)), command.borrow()));
        self
    }

    /// Forgets a reminder, if there is one of this name.
    pub fn forget_reminder(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.wishes.push(ReminderWish::Forget { name });
        self
    }

    /// This is answered once the events are durable.
    pub fn reply(self, reply: E::Reply) -> Decision<E> {
        self.answered(Answer::Now(reply))
    }

    /// The answer is made of the state that the events have led to, once they are durable.
    pub fn then_reply(self, reply: impl FnOnce(&E::State) -> E::Reply + Send + 'static) -> Decision<E> {
        self.answered(Answer::Later(Box::new(reply)))
    }

    fn answered(self, answer: Answer<E::State, E::Reply>) -> Decision<E> {
        Decision {
            persist: self,
            answer,
            then: Then::GoOn,
        }
    }
}

impl<E: EventSourced> fmt::Debug for Persist<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Persist")
            .field("events", &self.events.len())
            .field("deliveries", &self.deliveries.len())
            .field("reminders", &self.wishes.len())
            .finish()
    }
}
