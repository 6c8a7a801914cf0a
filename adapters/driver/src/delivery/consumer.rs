//! What users write to be delivered to reliably, and what they confirm. Decides nothing.

use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::de::DeserializeOwned;

use super::message::Origin;
use crate::entity::EntityContext;
use crate::sync::lock;

/// An entity that consumes reliable delivery: its messages come from [`Producer`](super::Producer)s, those of
/// one producer in order and one at a time, the next when the one before is confirmed. Registered with
/// [`EntitiesBuilder::start_consumer`](crate::EntitiesBuilder::start_consumer).
///
/// A message is confirmed when what it asks for is done, not before: what an incarnation has not confirmed
/// when it ends (its node dies, its shard moves, its handler panics) is delivered to the next one, so that a
/// message may be handled twice, by two incarnations. [`Delivery::producer`] and [`Delivery::seq`] tell a
/// repetition apart for as long as its producer lives.
///
/// ```
/// use quorate_driver::EntityContext;
/// use quorate_driver::delivery::{Consumer, Delivery};
///
/// struct Basket {
///     items: Vec<u64>,
/// }
///
/// impl Consumer for Basket {
///     type Message = u64;
///
///     async fn handle(&mut self, _: &EntityContext, delivery: Delivery<u64>) {
///         self.items.push(*delivery.message());
///         delivery.confirm();
///     }
/// }
/// ```
pub trait Consumer: Send + 'static {
    /// The messages that it receives.
    type Message: DeserializeOwned + Send + 'static;

    /// Runs once, before the first message. Nothing by default.
    ///
    /// # Cancel safety
    /// As for [`Entity::handle`](crate::Entity::handle).
    fn on_start(&mut self, context: &EntityContext) -> impl Future<Output = ()> + Send {
        let _ = context;
        ready(())
    }

    /// Handles one message. It is confirmed here, or later by whoever the delivery was given to: a task for
    /// instance.
    ///
    /// # Cancel safety
    /// As for [`Entity::handle`](crate::Entity::handle); what was not confirmed is delivered again.
    fn handle(
        &mut self,
        context: &EntityContext,
        delivery: Delivery<Self::Message>,
    ) -> impl Future<Output = ()> + Send;

    /// Runs once, after the last message, when the entity stops in good order. Nothing by default.
    ///
    /// # Cancel safety
    /// As for [`Entity::handle`](crate::Entity::handle).
    fn on_stop(&mut self, context: &EntityContext) -> impl Future<Output = ()> + Send {
        let _ = context;
        ready(())
    }
}

/// A message, and the right to confirm it. If it is dropped unconfirmed, the same message is handed out again
/// after [`ConsumerSettings::resend_min`](super::ConsumerSettings::resend_min); the producer's next ones wait
/// meanwhile.
#[must_use = "what is dropped unconfirmed is delivered again"]
pub struct Delivery<M> {
    message: M,
    confirm: Confirm,
}

impl<M> Delivery<M> {
    pub(super) const fn new(message: M, confirm: Confirm) -> Self {
        Self { message, confirm }
    }

    /// The message.
    pub const fn message(&self) -> &M {
        &self.message
    }

    /// The producer's name.
    pub fn producer(&self) -> &str {
        &self.confirm.from.name
    }

    /// The message's number among those of this producer to this entity, from 1 on; of one in parts the last
    /// part's. A message that is delivered again has the same, for as long as its producer was not started
    /// again.
    pub const fn seq(&self) -> u64 {
        self.confirm.seq
    }

    /// Confirms the message: the producer does not send it again. Returns at once.
    pub fn confirm(self) {
        self.confirm.confirm();
    }

    /// Splits the delivery into its message and the right to confirm it.
    pub fn into_parts(self) -> (M, Confirm) {
        (self.message, self.confirm)
    }
}

impl<M: fmt::Debug> fmt::Debug for Delivery<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("message", &self.message)
            .field("producer", &self.producer())
            .field("seq", &self.seq())
            .finish()
    }
}

/// The right to confirm one message. May be moved to a task.
#[must_use = "what is dropped unconfirmed is delivered again"]
pub struct Confirm {
    from: Arc<Origin>,
    seq: u64,
    desk: Arc<Desk>,
    is_confirmed: bool,
}

impl Confirm {
    pub(super) const fn new(from: Arc<Origin>, seq: u64, desk: Arc<Desk>) -> Self {
        Self {
            from,
            seq,
            desk,
            is_confirmed: false,
        }
    }

    /// See [`Delivery::confirm`].
    pub fn confirm(mut self) {
        self.is_confirmed = true;
    }
}

impl Drop for Confirm {
    fn drop(&mut self) {
        self.desk.put(Outcome {
            from: Arc::clone(&self.from),
            seq: self.seq,
            is_confirmed: self.is_confirmed,
        });
    }
}

impl fmt::Debug for Confirm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Confirm")
            .field("producer", &self.from.name)
            .field("seq", &self.seq)
            .finish_non_exhaustive()
    }
}

/// What became of a delivery.
pub(super) struct Outcome {
    pub(super) from: Arc<Origin>,
    pub(super) seq: u64,
    pub(super) is_confirmed: bool,
}

/// Where outcomes are put. As long as deliveries are out: one for each producer of the entity.
pub(super) struct Desk {
    outcomes: Mutex<Vec<Outcome>>,
    /// The entity looks here anyway when its handler is done.
    is_handling: AtomicBool,
    /// Has the entity look.
    nudge: Box<dyn Fn() + Send + Sync>,
}

impl Desk {
    pub(super) fn new(nudge: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            outcomes: Mutex::default(),
            is_handling: AtomicBool::new(false),
            nudge: Box::new(nudge),
        }
    }

    fn put(&self, outcome: Outcome) {
        lock(&self.outcomes).push(outcome);
        if !self.is_handling.load(Ordering::SeqCst) {
            (self.nudge)();
        }
    }

    pub(super) fn take(&self) -> Vec<Outcome> {
        std::mem::take(&mut *lock(&self.outcomes))
    }

    /// A handler runs until what this gives is dropped.
    pub(super) fn handling(self: &Arc<Self>) -> Handling {
        self.is_handling.store(true, Ordering::SeqCst);
        Handling(Arc::clone(self))
    }
}

/// See [`Desk::handling`].
pub(super) struct Handling(Arc<Desk>);

impl Drop for Handling {
    fn drop(&mut self) {
        self.0.is_handling.store(false, Ordering::SeqCst);
        // One that was given up in the middle looks at nothing.
        if !lock(&self.0.outcomes).is_empty() {
            (self.0.nudge)();
        }
    }
}
