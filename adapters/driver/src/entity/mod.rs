//! What users write: entities and their handlers. How one runs is `incarnation`.
//! Spec: `README.md`.

mod context;
mod failure;
mod incarnation;
mod reply;
mod stateful;
mod task;
mod timers;
mod upcoming;

use std::future::{Future, ready};

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use context::EntityContext;
pub(crate) use failure::{Failure, note};
pub(crate) use incarnation::{End, TypedStarter, attempt, made};
pub use reply::ReplyTo;
pub use stateful::Stateful;
pub(crate) use stateful::StatefulStarter;
pub(crate) use task::{Beside, Life, MESSAGES_PER_TURN};
pub(crate) use timers::Due;
pub use timers::{TIMER_INTERVAL_MIN, TIMERS_MAX};
pub use upcoming::Upcoming;

/// One of many things with an identity, which lives on exactly one node at a time and handles one message at
/// a time: an entity of a kind ([`EntitiesBuilder::start`](crate::EntitiesBuilder::start)), or the instance
/// of a singleton ([`Cluster::singleton`](crate::Cluster::singleton)).
///
/// Each entity is a task of its own on the caller's runtime, so a handler may wait for as long as it likes.
/// It should not block the thread: other entities wait then. Reading a file or computing for milliseconds
/// belongs on the runtime's blocking threads (tokio: `spawn_blocking`). A handler that holds a thread for a
/// second is named in a warning (`thread_held`); the node itself runs on a thread of its own and goes on. If
/// a handler panics, or gives up with [`EntityContext::fail`], the ask that it handles fails with
/// [`EntityStopped`](quorate_core::sharding::errors::AskFailure::EntityStopped) and the kind decides what
/// becomes of the entity ([`Kind::supervision`](crate::Kind::supervision)): by default it is restarted, and
/// what waits for it is handled by the new one.
///
/// State is in memory only: it is lost when the entity's shard moves to another node or its node dies. For
/// entities that keep what they did see [`durable`](crate::durable).
pub trait Entity: Send + 'static {
    /// What it is told and asked.
    type Message: DeserializeOwned + Send + 'static;
    /// What it answers. The answer to a message that was told is dropped.
    type Reply: Serialize + Send + 'static;

    /// Runs once, before the first message; what it awaits holds the messages up. Nothing by default.
    ///
    /// # Cancel safety
    /// As for [`Self::handle`].
    fn on_start(&mut self, context: &EntityContext) -> impl Future<Output = ()> + Send {
        let _ = context;
        ready(())
    }

    /// Handles one message.
    ///
    /// # Cancel safety
    /// Not needed in general: it is dropped in the middle only when the node stops at once or a shard does
    /// not stop in time.
    fn handle(
        &mut self,
        context: &EntityContext,
        message: Self::Message,
    ) -> impl Future<Output = Self::Reply> + Send;

    /// Runs when no message was handled for as long as [`EntityContext::set_receive_timeout`] says, and again
    /// whenever as much time has passed. Nothing by default.
    ///
    /// # Cancel safety
    /// As for [`Self::handle`].
    fn on_receive_timeout(&mut self, context: &EntityContext) -> impl Future<Output = ()> + Send {
        let _ = context;
        ready(())
    }

    /// Runs once, after the last message, when the entity stops in good order: its shard moves, its node
    /// leaves, or it asked for it ([`EntityContext::stop`]). A shard moves only when its entities are done
    /// with this, within `sharding.handoff_timeout`, a singleton within `singleton.stop_timeout`. It does not
    /// run after a failure, nor when the node dies or stops at once. Nothing by default.
    ///
    /// # Cancel safety
    /// As for [`Self::handle`].
    fn on_stop(&mut self, context: &EntityContext) -> impl Future<Output = ()> + Send {
        let _ = context;
        ready(())
    }
}
