//! What the handler of a durable-state entity has decided: the new state, what is sent and what it is
//! reminded of because of that, and what is answered then. Values only.

use std::fmt;
use std::time::Duration;

use quorate_core::durable::ReminderWish;
use serde::Serialize;

use super::DurableState;
use super::decision::{Then, remind};
use super::letter::{DeliveryId, Draft};
use crate::region::EntityRef;

/// What a [`DurableState`] entity has decided on a command.
#[must_use = "a change does nothing unless the handler returns it"]
pub struct Change<D: DurableState> {
    pub(super) to: ChangeTo<D>,
    pub(super) reply: D::Reply,
    pub(super) then: Then,
}

impl<D: DurableState> Change<D> {
    /// Replaces the state. Add the answer next: [`ChangeTo::reply`].
    pub const fn to(state: D::State) -> ChangeTo<D> {
        ChangeTo::of(Some(Some(state)))
    }

    /// Deletes the state; the entity's reminders and messages stay. Add the answer next.
    pub const fn delete() -> ChangeTo<D> {
        ChangeTo::of(Some(None))
    }

    /// Keeps the state, for messages and reminders alone. Add the answer next.
    pub const fn nothing() -> ChangeTo<D> {
        ChangeTo::of(None)
    }

    /// The state stays as it is; this is the answer.
    pub fn reply(reply: D::Reply) -> Self {
        Self::nothing().reply(reply)
    }

    /// The entity stops afterwards, as by [`EntityContext::stop`](crate::EntityContext::stop).
    pub fn and_stop(mut self) -> Self {
        self.then = Then::Stop;
        self
    }

    /// The entity stops afterwards and is remembered no more, as by
    /// [`EntityContext::forget`](crate::EntityContext::forget). Its state, reminders and messages stay.
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

impl<D: DurableState> fmt::Debug for Change<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("to", &self.to)
            .field("then", &self.then)
            .finish_non_exhaustive()
    }
}

/// A new state, messages that are sent because of it and reminders, before it is said what is answered.
#[must_use = "say what is answered"]
pub struct ChangeTo<D: DurableState> {
    /// `None`: it stays as it is. `Some(None)`: nothing is kept any more.
    pub(super) state: Option<Option<D::State>>,
    pub(super) deliveries: Vec<Draft>,
    pub(super) wishes: Vec<ReminderWish>,
}

impl<D: DurableState> ChangeTo<D> {
    const fn of(state: Option<Option<D::State>>) -> Self {
        Self {
            state,
            deliveries: Vec::new(),
            wishes: Vec::new(),
        }
    }

    /// Sends a message to an entity until it has answered it, exactly as
    /// [`Persist::deliver`](super::Persist::deliver) does. The message becomes durable with the state, in one
    /// write, and is written again with every state until it is confirmed: [`DurableState::on_confirmed`]
    /// hears that.
    pub fn deliver<M: Serialize, R>(
        mut self,
        to: &EntityRef<M, R>,
        message: impl FnOnce(DeliveryId) -> M + Send + 'static,
    ) -> Self {
        self.deliveries.push(Draft::new(to, message));
        self
    }

    /// Has the entity handle a command of its own after so long, exactly as
    /// [`Persist::remind`](super::Persist::remind) does. Reminders are written again with every state.
    pub fn remind(mut self, name: impl Into<String>, after: Duration, command: &D::Command) -> Self
    where
        D::Command: Serialize,
    {
        self.wishes.push(remind(name.into(), (after, None), command));
        self
    }

    /// As [`Self::remind`], again and again, exactly as
    /// [`Persist::remind_every`](super::Persist::remind_every) does.
    pub fn remind_every(mut self, name: impl Into<String>, every: Duration, command: &D::Command) -> Self
    where
        D::Command: Serialize,
    {
        self.wishes
            .push(remind(name.into(), (every, Some(every)), command));
        self
    }

    /// Forgets a reminder, if there is one of this name.
    pub fn forget_reminder(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.wishes.push(ReminderWish::Forget { name });
        self
    }

    /// This is answered once the state is durable.
    pub const fn reply(self, reply: D::Reply) -> Change<D> {
        Change {
            to: self,
            reply,
            then: Then::GoOn,
        }
    }
}

impl<D: DurableState> fmt::Debug for ChangeTo<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeTo")
            .field("changes", &self.state.is_some())
            .field("deletes", &self.state.as_ref().is_some_and(Option::is_none))
            .field("deliveries", &self.deliveries.len())
            .field("reminders", &self.wishes.len())
            .finish()
    }
}
