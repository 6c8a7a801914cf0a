//! What users write: entities that decide, and whose decisions are kept.

use std::future::{Future, ready};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{
    AtLeastOnceSettings, Change, ChangeTo, Confirmed, Decision, Overdue, Persist, Recovery, Retention,
    Versioned,
};
use crate::entity::EntityContext;

/// An entity whose state is the sum of the events that it has decided on. Registered with
/// [`EntitiesBuilder::start_event_sourced`](crate::EntitiesBuilder::start_event_sourced); reached like every
/// other entity.
///
/// A command is *handled* (it sees the state, and may refuse), its events become durable, then they are
/// *applied* to the state, and only then its answer goes out. The next command waits until then. The state
/// changes by [`EventSourced::apply`] alone, so what an entity knows is always what its log says. After a
/// move, a crash or passivation the first command finds the state recovered from the newest snapshot and the
/// events behind it.
///
/// What is in `self` is not durable: connections, other regions, caches.
///
/// ```
/// use quorate_driver::EntityContext;
/// use quorate_driver::durable::{Decision, EventSourced, Versioned};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// enum Event { Added(u64) }
/// impl Versioned for Event {}
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Count { value: u64 }
/// impl Versioned for Count {}
///
/// struct Counter;
///
/// impl EventSourced for Counter {
///     type Command = u64;
///     type Reply = u64;
///     type Event = Event;
///     type State = Count;
///
///     async fn handle(&mut self, _: &EntityContext, count: &Count, add: u64) -> Decision<Self> {
///         if count.value.checked_add(add).is_none() {
///             return Decision::reply(count.value); // nothing to keep
///         }
///         Decision::persist(Event::Added(add)).then_reply(|count: &Count| count.value)
///     }
///
///     fn apply(count: &mut Count, event: Event) {
///         match event {
///             Event::Added(number) => count.value = count.value.saturating_add(number),
///         }
///     }
/// }
/// ```
pub trait EventSourced: Send + Sized + 'static {
    /// The messages that it handles.
    type Command: DeserializeOwned + Send + 'static;
    /// Its answers. The answer to a command that was told is dropped.
    type Reply: Serialize + Send + 'static;
    /// Its events, named in the past tense. They are kept for ever, so their versions matter ([`Versioned`]).
    type Event: Versioned;
    /// What all events so far amount to; `Default` is the state of an entity that has no events yet. Kept in
    /// snapshots.
    type State: Versioned + Default + Sync;

    /// Decides on one command: which events to store, and what to answer once they are durable. A handler
    /// that panics stores nothing.
    ///
    /// Whoever asks again after an unknown outcome sends the same command twice: put a number into commands
    /// that must not count twice, and keep the newest number of each sender in the state.
    ///
    /// # Cancel safety
    /// As for [`Entity::handle`](crate::Entity::handle): dropped in the middle only when the node stops at
    /// once or a shard does not stop in time.
    fn handle(
        &mut self,
        context: &EntityContext,
        state: &Self::State,
        command: Self::Command,
    ) -> impl Future<Output = Decision<Self>> + Send;

    /// What an event makes of the state: after it became durable, and again in every recovery, so it must not
    /// do, ask or read anything else and must not fail. If it panics the entity cannot recover until the
    /// program is fixed.
    fn apply(state: &mut Self::State, event: Self::Event);

    /// When a snapshot of the state is kept, and what becomes of the events that it covers (default: every
    /// 100 events or 256 KiB of them, and they stay).
    fn retention(&self) -> Retention {
        Retention::default()
    }

    /// When messages of [`Persist::deliver`] are sent again and how many there may be (default: after 5 s,
    /// then each time half as long again, at most 60 s; 100,000). Asked once for each recovery. Values that
    /// are out of range fail every command with [`BadSetting`](super::DurableFailure::BadSetting).
    fn redelivery(&self) -> AtLeastOnceSettings {
        AtLeastOnceSettings::default()
    }

    /// A message of [`Persist::deliver`] was answered, and is not sent again once what this decides is
    /// durable: events, if something has happened by it, and further messages. Until then it may be called
    /// again for the same message. Nothing by default.
    ///
    /// # Cancel safety
    /// As for [`Self::handle`].
    fn on_confirmed(
        &mut self,
        context: &EntityContext,
        state: &Self::State,
        confirmed: Confirmed,
    ) -> impl Future<Output = Persist<Self>> + Send {
        let _ = (context, state, confirmed);
        ready(Persist::nothing())
    }

    /// These messages were sent as often as [`warn_after`](AtLeastOnceSettings::warn_after) says, and are not
    /// confirmed. They are sent on; each is said once for each recovery. Nothing by default.
    fn on_overdue(&mut self, context: &EntityContext, state: &Self::State, messages: &[Overdue]) {
        let _ = (context, state, messages);
    }

    /// Called after each part of the log that a recovery has read. Nothing by default.
    fn on_recovering(&mut self, context: &EntityContext, so_far: &Recovery) {
        let _ = (context, so_far);
    }

    /// Runs once, after the recovery and before the first command. Nothing by default.
    ///
    /// # Cancel safety
    /// As for [`Self::handle`].
    fn on_recovered(
        &mut self,
        context: &EntityContext,
        state: &Self::State,
        recovery: &Recovery,
    ) -> impl Future<Output = ()> + Send {
        let _ = (context, state, recovery);
        ready(())
    }

    /// Runs once, after the last command, when the entity stops in good order. What has to survive is durable
    /// by then. Nothing by default.
    ///
    /// # Cancel safety
    /// As for [`Self::handle`].
    fn on_stop(&mut self, context: &EntityContext, state: &Self::State) -> impl Future<Output = ()> + Send {
        let _ = (context, state);
        ready(())
    }
}

/// An entity that stores its newest state and no history. Registered with
/// [`EntitiesBuilder::start_durable_state`](crate::EntitiesBuilder::start_durable_state). Choose it where
/// nobody asks how it came to that; each change writes the whole state.
///
/// ```
/// use quorate_driver::EntityContext;
/// use quorate_driver::durable::{Change, DurableState, Versioned};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Default, Serialize, Deserialize)]
/// struct Profile { name: String, logins: u64 }
/// impl Versioned for Profile {}
///
/// struct User;
///
/// impl DurableState for User {
///     type Command = String;
///     type Reply = u64;
///     type State = Profile;
///
///     async fn handle(&mut self, _: &EntityContext, profile: &Profile, name: String) -> Change<Self> {
///         let logins = profile.logins + 1;
///         Change::to(Profile { name, logins }).reply(logins)
///     }
/// }
/// ```
pub trait DurableState: Send + Sized + 'static {
    /// The messages that it handles.
    type Command: DeserializeOwned + Send + 'static;
    /// Its answers. The answer to a command that was told is dropped.
    type Reply: Serialize + Send + 'static;
    /// Its stored state; `Default` is the state of an entity that was never changed, or was deleted.
    type State: Versioned + Default + Sync;

    /// Decides on one command: the new state, if there is one, and what is answered once it is durable.
    ///
    /// # Cancel safety
    /// As for [`EventSourced::handle`].
    fn handle(
        &mut self,
        context: &EntityContext,
        state: &Self::State,
        command: Self::Command,
    ) -> impl Future<Output = Change<Self>> + Send;

    /// When messages of [`ChangeTo::deliver`] are sent again and how many there may be. As
    /// [`EventSourced::redelivery`].
    fn redelivery(&self) -> AtLeastOnceSettings {
        AtLeastOnceSettings::default()
    }

    /// A message of [`ChangeTo::deliver`] was answered, and is not sent again once what this decides is
    /// durable. As [`EventSourced::on_confirmed`]. Nothing by default.
    ///
    /// # Cancel safety
    /// As for [`EventSourced::handle`].
    fn on_confirmed(
        &mut self,
        context: &EntityContext,
        state: &Self::State,
        confirmed: Confirmed,
    ) -> impl Future<Output = ChangeTo<Self>> + Send {
        let _ = (context, state, confirmed);
        ready(Change::nothing())
    }

    /// These messages were sent often, and are not confirmed. As [`EventSourced::on_overdue`]. Nothing by
    /// default.
    fn on_overdue(&mut self, context: &EntityContext, state: &Self::State, messages: &[Overdue]) {
        let _ = (context, state, messages);
    }

    /// Runs once, after the state was read and before the first command. Nothing by default.
    ///
    /// # Cancel safety
    /// As for [`Self::handle`].
    fn on_recovered(
        &mut self,
        context: &EntityContext,
        state: &Self::State,
        recovery: &Recovery,
    ) -> impl Future<Output = ()> + Send {
        let _ = (context, state, recovery);
        ready(())
    }

    /// Runs once, after the last command, when the entity stops in good order. Nothing by default.
    ///
    /// # Cancel safety
    /// As for [`Self::handle`].
    fn on_stop(&mut self, context: &EntityContext, state: &Self::State) -> impl Future<Output = ()> + Send {
        let _ = (context, state);
        ready(())
    }
}
