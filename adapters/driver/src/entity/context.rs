//! What an entity knows of itself and its surroundings. Decides nothing.

use std::borrow::{Borrow, Cow};
use std::error::Error;
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use quorate_core::ident::UniqueAddress;
use quorate_core::paths::state::below;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{AskRef, EntityId, Payload, ShardId, Slot};
use quorate_core::time::Instant;
use quorate_core::token::Token;
use serde::Serialize;

use super::timers::{Message, TIMER_INTERVAL_MIN, TimerSource, Timers};
use super::upcoming::Upcoming;
use super::{Entity, ReplyTo};
use crate::asking::Asker;
use crate::codec;
use crate::error::{ClusterError, LookupError, OtherTypes, PassivateError, ReplyLaterError, TimerError};
use crate::kinds::Types;
use crate::mailbox::{EntityStart, Mailbox, Occasion, Reports, Who};
use crate::paths::Path;
use crate::region::{EntityRef, Region};
use crate::shared::Shared;
use crate::singleton::Singleton;
use crate::sync::{Rarely, lock};
use quorate_core::input::Recipient;

/// An entity's identity and its access to others. Cheap to clone; a clone may be moved to a task and outlive
/// the entity.
#[derive(Clone)]
pub struct EntityContext {
    inside: Arc<ContextInner>,
}

struct ContextInner {
    who: Who,
    slot: Slot,
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    reports: Arc<Reports>,
    occasion: Mutex<Option<Box<Occasion>>>,
    timers: Timers,
    /// Its own word that it has failed.
    failure: Rarely<Box<dyn Error + Send + Sync>>,
    /// Of its messages and answers, once it has been made.
    types: OnceLock<fn() -> Types>,
    /// Those of a durable entity that has some, or had.
    reminders: OnceLock<Box<Mutex<Vec<Upcoming>>>>,
}

impl EntityContext {
    pub(super) fn new(start: EntityStart, shared: Arc<Shared>) -> Self {
        let inside = ContextInner {
            who: start.who,
            slot: start.slot,
            shared,
            mailbox: start.mailbox,
            reports: start.reports,
            occasion: Mutex::default(),
            timers: Timers::default(),
            failure: Rarely::default(),
            types: OnceLock::new(),
            reminders: OnceLock::new(),
        };
        Self {
            inside: Arc::new(inside),
        }
    }

    /// The name of its kind; a singleton's own name; an instance's path.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.inside.who.name()
    }

    /// Its id; that of a singleton is its name, that of an instance of a path `path#slot`.
    #[must_use]
    pub fn id(&self) -> &EntityId {
        self.inside.who.id()
    }

    /// Its id as text; bytes that are no UTF-8 are replaced.
    #[must_use]
    pub fn id_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.id().as_bytes())
    }

    /// Its path, if it is an instance of one ([`Cluster::instances`](crate::Cluster::instances)).
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.inside.who.path_slot().map(|_| self.inside.who.name())
    }

    /// Which of the instances of its path it is, from 0; `None` if it is none.
    #[must_use]
    pub fn path_slot(&self) -> Option<u16> {
        self.inside.who.path_slot()
    }

    /// For what below its path the message that is being handled is: `x/y` of `top/x/y`, where `top` is its
    /// path and the top of a subtree ([`InstancesBuilder::subtree`](crate::InstancesBuilder::subtree)).
    /// `None` if it is for the path itself.
    #[must_use]
    pub fn below(&self) -> Option<Arc<str>> {
        self.inside.who.below()
    }

    /// Its shard. A singleton and an instance of a path have none: 0.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.inside.who.shard()
    }

    /// The fencing token of the instance of a singleton or a path, or of the placement of an entity's shard
    /// on this node: above that of every earlier one, so that who has seen a higher one refuses a lower. What
    /// the entity writes by itself in the node's store is fenced by it.
    ///
    /// The tokens of a kind whose homes are stored ([`Kind::store_mode`](crate::Kind::store_mode)) rise for
    /// good. Those of one whose homes are in memory begin anew when all nodes were stopped: fence nothing by
    /// them that outlives the cluster.
    #[must_use]
    pub fn token(&self) -> Token {
        self.inside.who.token()
    }

    /// The user's part of a message: behind what it is for below a path, where it is one to a path. Nothing
    /// if there is none.
    pub(super) fn opened_message<'a>(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        if self.path_slot().is_none() {
            return Some(payload);
        }
        let (below, message) = below::take(payload).ok()?;
        self.inside.who.set_below(below);
        Some(message)
    }

    /// The placement's token, if durable writes may be fenced by it.
    pub(crate) fn placement(&self) -> Option<Token> {
        self.inside.who.placement()
    }

    /// The node it lives on.
    #[must_use]
    pub fn node(&self) -> &UniqueAddress {
        &self.inside.shared.me
    }

    /// A handle to all entities of a kind that this node has registered, as a host or a proxy. Costs one lock
    /// and a look-up.
    ///
    /// # Errors
    /// [`LookupError`] if the kind is not registered here, or with other types.
    pub fn region<M: 'static, R: 'static>(&self, kind: &str) -> Result<Region<M, R>, LookupError> {
        Region::known(&self.inside.shared, kind)
    }

    /// A handle to a singleton that this node has registered, as a host or a proxy. Costs one lock and a
    /// look-up.
    ///
    /// # Errors
    /// [`LookupError`] if the singleton is not registered here, or with other types.
    pub fn singleton_ref<M: 'static, R: 'static>(&self, name: &str) -> Result<Singleton<M, R>, LookupError> {
        Singleton::known(&self.inside.shared, name)
    }

    /// The way to a path, as [`Cluster::path`](crate::Cluster::path). An instance that asks its own slot is
    /// refused ([`AskError::OwnEntity`](crate::AskError::OwnEntity)).
    ///
    /// # Errors
    /// Those of [`Cluster::path`](crate::Cluster::path).
    pub fn path_ref<M: 'static, R: 'static>(&self, name: &str) -> Result<Path<M, R>, ClusterError> {
        Path::known(&self.inside.shared, name)
    }

    /// A reference to this entity, to tell itself something or to pass on:
    /// `context.self_ref::<Self>()?.tell(message).await`. It leads to whoever has this id, so to its
    /// successor after the entity has moved. To *ask* itself is refused
    /// ([`AskError::OwnEntity`](crate::AskError::OwnEntity)). A singleton's instance asks
    /// [`Self::singleton_ref`] for its own name.
    ///
    /// # Errors
    /// [`LookupError::OtherTypes`] if `E` is not the type of this entity's kind,
    /// [`LookupError::NotRegistered`] if this is a singleton's instance.
    pub fn self_ref<E: Entity>(&self) -> Result<EntityRef<E::Message, E::Reply>, LookupError> {
        if !self.inside.who.is_entity() {
            let name = self.kind().to_owned();
            return Err(LookupError::NotRegistered { what: "kind", name });
        }
        let region = self.region::<E::Message, E::Reply>(self.kind())?;
        Ok(region.entity(self.id().as_bytes()))
    }

    /// How long the asker still waits for the answer to the message being handled; after that the answer is
    /// dropped. `None` if the message was told, or before the first one. Zero once the time is over. It does
    /// not count the way back; for asks from other nodes it is exact to a millisecond and the time that the
    /// message was under way.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let deadline = lock(&self.inside.occasion).as_ref()?.deadline?;
        Some(deadline.since(self.inside.reports.gate.now()))
    }

    /// Defers the answer to the ask being handled: what the handler returns is dropped, and the ask is
    /// answered with [`ReplyTo::send`], by another handler, a timer or a task, also after the entity has
    /// ended. The entity handles its next messages meanwhile: `context.reply_later::<Self>()?`.
    ///
    /// # Errors
    /// [`ReplyLaterError::NotAsked`] if the message was told or its answer has been taken before, or outside
    /// of a handler; [`ReplyLaterError::OtherTypes`] if `E` is not this entity's type.
    pub fn reply_later<E: Entity>(&self) -> Result<ReplyTo<E::Reply>, ReplyLaterError> {
        self.is_typed::<E>().map_err(ReplyLaterError::OtherTypes)?;
        let mut occasion = lock(&self.inside.occasion);
        let occasion = occasion.as_mut().ok_or(ReplyLaterError::NotAsked)?;
        let ask = occasion.ask.take().ok_or(ReplyLaterError::NotAsked)?;
        Ok(ReplyTo::new(
            Arc::clone(&self.inside.reports),
            ask,
            occasion.deadline,
        ))
    }

    /// Sends the entity a message after `delay`; its answer is dropped. A running timer with this key is
    /// replaced. Timers end with the entity: when it stops, is passivated, moves or is restarted after a
    /// failure; and they do not keep it in memory.
    /// `context.start_timer::<Self>("retry", delay, Order::Retry)?`.
    ///
    /// # Errors
    /// [`TimerError::OtherTypes`] if `E` is not this entity's type, [`TimerError::TooMany`] with
    /// [`TIMERS_MAX`](crate::sharding::TIMERS_MAX).
    pub fn start_timer<E: Entity>(
        &self,
        key: impl Into<Cow<'static, str>>,
        delay: Duration,
        message: E::Message,
    ) -> Result<(), TimerError> {
        self.is_typed::<E>().map_err(TimerError::OtherTypes)?;
        self.arm(key.into(), delay, TimerSource::Once(Box::new(message)))
    }

    /// Like [`Self::start_timer`], repeatedly: first after `interval`, then each time an interval after the
    /// last one was due to be handled. What a busy or paused entity missed is not made up for.
    ///
    /// # Errors
    /// Those of `start_timer`; [`TimerError::TooShort`] below
    /// [`TIMER_INTERVAL_MIN`](crate::sharding::TIMER_INTERVAL_MIN).
    pub fn start_timer_every<E: Entity>(
        &self,
        key: impl Into<Cow<'static, str>>,
        interval: Duration,
        message: E::Message,
    ) -> Result<(), TimerError>
    where
        E::Message: Clone,
    {
        self.is_typed::<E>().map_err(TimerError::OtherTypes)?;
        if interval < TIMER_INTERVAL_MIN {
            return Err(TimerError::TooShort);
        }
        let make = Box::new(move || -> Message { Box::new(message.clone()) });
        self.arm(key.into(), interval, TimerSource::Each(interval, make))
    }

    /// Cancels a timer; returns whether it was active. A message that was due is no longer handled, unless
    /// its handler has begun.
    pub fn cancel_timer(&self, key: &str) -> bool {
        self.inside.timers.cancel(key)
    }

    /// Whether a timer with this key is active.
    #[must_use]
    pub fn is_timer_active(&self, key: &str) -> bool {
        self.inside.timers.is_active(key)
    }

    /// Has [`Entity::on_receive_timeout`] run whenever no message, a timer's own included, was handled for so
    /// long; `None`: no more (the default). Below a millisecond counts as one. It does not keep the entity in
    /// memory: passivation ends it ([`Kind::passivation`](crate::Kind::passivation)). Mirrors
    /// `setReceiveTimeout`.
    pub fn set_receive_timeout(&self, after: Option<Duration>) {
        let after = after.map(|after| after.max(TIMER_INTERVAL_MIN));
        self.inside
            .timers
            .watch_idle(after, self.inside.reports.gate.now());
        self.inside.mailbox.nudge();
    }

    /// Fails the entity at the message being handled; its kind's supervision decides what happens next
    /// ([`Kind::supervision`](crate::Kind::supervision)); the asker gets
    /// [`EntityStopped`](crate::AskFailure::EntityStopped). Never completes, so that it stands wherever
    /// a value is needed; the handler is dropped where it awaits it. In a task of the entity it fails what
    /// the entity does then.
    ///
    /// ```
    /// # use quorate_driver::EntityContext;
    /// async fn parsed(context: &EntityContext, text: &str) -> u64 {
    ///     match text.parse() {
    ///         Ok(number) => number,
    ///         Err(error) => context.fail(error).await,
    ///     }
    /// }
    /// ```
    pub async fn fail<T>(&self, error: impl Into<Box<dyn Error + Send + Sync>>) -> T {
        self.inside.failure.put(error.into());
        self.inside.mailbox.nudge();
        pending().await
    }

    /// Ends the entity after the message that it handles: [`Entity::on_stop`] runs, and its state is gone.
    /// The next message makes a new one. Messages that wait for it already are not handled: their asks fail
    /// with [`EntityStoppedUnhandled`](crate::AskFailure::EntityStoppedUnhandled), so that they can be
    /// asked again.
    ///
    /// A kind that remembers its entities ([`Kind::remember_entities`](crate::Kind::remember_entities))
    /// starts it again after `sharding.entity_restart_backoff` (10 s), or with its next message, whichever
    /// comes first: [`Self::forget`] ends it for good.
    pub fn stop(&self) {
        self.end(false);
    }

    /// Ends the entity as [`Self::stop`] does, and has a kind that remembers its entities forget it: it is
    /// not started again without a message, and that one is a first one. What comes after this call has been
    /// heard waits until the store has forgotten it. In a kind that remembers nobody it is `stop`.
    pub fn forget(&self) {
        self.end(true);
    }

    /// Says so before the task can have ended, whose last report is that it has stopped.
    fn end(&self, forget: bool) {
        self.inside.reports.ending(self.inside.slot, forget);
        self.inside.mailbox.stop();
    }

    /// Takes the entity out of memory without losing a message: what has been delivered is still handled,
    /// then [`Entity::on_stop`] runs and its state is gone. What comes after this call has been heard waits
    /// and reaches the next incarnation, in order. Returns at once; may be called from a task.
    ///
    /// A kind that remembers its entities forgets it: it is not started again without a message.
    ///
    /// Nothing happens if this is a singleton's instance, if the entity stops already, or if more messages
    /// wait for it than could be delivered when it began: it goes on with those, and may call this again.
    pub fn passivate(&self) {
        self.ask_to_be_passivated(None);
    }

    /// As [`Self::passivate`], and the entity handles `message` last, before [`Entity::on_stop`]: the place
    /// to store what it has. Its answer is dropped. If the entity is being stopped for another reason,
    /// because its shard moves for instance, it gets the message then; of several the newest. Not after a
    /// panic, nor if it is stopped at once or stops itself: `context.passivate_with::<Self>(Order::Save)?`.
    ///
    /// # Errors
    /// [`PassivateError`] if `E` is not the type of this entity's kind, if this is a singleton's instance, or
    /// if the message cannot be encoded.
    pub fn passivate_with<E: Entity>(&self, message: impl Borrow<E::Message>) -> Result<(), PassivateError>
    where
        E::Message: Serialize,
    {
        self.self_ref::<E>()?;
        let payload = codec::encode(message.borrow()).ok_or(PassivateError::Encode)?;
        self.ask_to_be_passivated(Some(payload));
        Ok(())
    }

    fn ask_to_be_passivated(&self, last: Option<Payload>) {
        if self.inside.who.is_entity() && self.inside.mailbox.passivate(last) {
            self.inside.reports.passivate(self.inside.slot);
        }
    }

    /// The reminders of a durable entity ([`Persist::remind`](crate::durable::Persist::remind)) by name, as
    /// its log has them: none of other entities.
    #[must_use]
    pub fn reminders(&self) -> Vec<Upcoming> {
        let reminders = self.inside.reminders.get();
        reminders.map_or_else(Vec::new, |reminders| lock(reminders).clone())
    }

    /// These are its reminders now. Costs nothing while it never had one.
    pub(crate) fn show_reminders(&self, all: impl FnOnce() -> Vec<Upcoming>) {
        let all = all();
        if all.is_empty() && self.inside.reminders.get().is_none() {
            return;
        }
        *lock(self.inside.reminders.get_or_init(Box::default)) = all;
    }

    /// The time of the users' runtime.
    pub(crate) fn now(&self) -> Instant {
        self.inside.reports.gate.now()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inside.shared
    }

    fn arm(&self, key: Cow<'static, str>, delay: Duration, source: TimerSource) -> Result<(), TimerError> {
        let at = self.inside.reports.gate.now() + delay;
        let has_room = self.inside.timers.start(key, at, source);
        self.inside.mailbox.nudge();
        has_room.then_some(()).ok_or(TimerError::TooMany)
    }

    fn is_typed<E: Entity>(&self) -> Result<(), OtherTypes> {
        let (own, wanted) = (self.inside.types.get(), Types::of::<E::Message, E::Reply>());
        match own {
            Some(own) if own().is(wanted) => Ok(()),
            Some(_) | None => Err(OtherTypes {
                wanted: wanted.name(),
            }),
        }
    }

    /// It has been made, with messages and answers of these types.
    pub(crate) fn made_of(&self, types: fn() -> Types) {
        let _ = self.inside.types.set(types);
    }

    pub(super) fn slot(&self) -> Slot {
        self.inside.slot
    }

    pub(super) fn mailbox(&self) -> &Mailbox {
        &self.inside.mailbox
    }

    pub(super) fn reports(&self) -> &Arc<Reports> {
        &self.inside.reports
    }

    pub(crate) fn timers(&self) -> &Timers {
        &self.inside.timers
    }

    /// What it failed with by its own word.
    pub(super) fn take_failure(&self) -> Option<Box<dyn Error + Send + Sync>> {
        self.inside.failure.take()
    }

    /// The ask that is being handled, if its answer is still the handler's. Nothing is known of it from then
    /// on.
    pub(super) fn take_ask(&self) -> Option<AskRef> {
        lock(&self.inside.occasion).take()?.ask
    }

    pub(super) fn is_asked(&self) -> bool {
        let occasion = lock(&self.inside.occasion);
        occasion.as_ref().is_some_and(|occasion| occasion.ask.is_some())
    }

    /// A message is about to be handled.
    pub(super) fn begin(&self, occasion: Option<Box<Occasion>>) {
        *lock(&self.inside.occasion) = occasion;
    }

    pub(super) fn asker(&self) -> Arc<dyn Asker> {
        Arc::<ContextInner>::clone(&self.inside)
    }
}

impl Asker for ContextInner {
    fn is(&self, node: &Arc<Shared>, recipient: &Recipient) -> bool {
        Arc::ptr_eq(&self.shared, node) && self.who.is(recipient)
    }

    fn chain_to(&self, recipient: &Recipient) -> Option<AskChain> {
        let name = self.who.chain_name();
        let chain = match &*lock(&self.occasion) {
            Some(occasion) => occasion.chain.and(name),
            None => AskChain::default().and(name),
        };
        let asked = recipient.chain_name();
        (!chain.names().contains(&asked)).then_some(chain)
    }
}

impl fmt::Debug for EntityContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inside.who, f)
    }
}
