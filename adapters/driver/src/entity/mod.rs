//! What users write: entities and their handlers. How one runs is `task`, where its messages wait is `mailbox`.
//! Spec: `README.md`.

mod gate;
mod holding;
mod mailbox;
mod task;

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use quorate_core::sharding::ids::{EntityId, ShardId};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use gate::Gate;
pub(crate) use mailbox::{Delivery, Mailbox, Refused};
pub(crate) use task::{Reports, Start, Starter, TypedStarter};

/// One of many things with an identity, which lives on exactly one node at a time and handles one message at a time.
///
/// Each entity is a task of its own on the caller's runtime, so a handler may wait for as long as it likes. It should not
/// block the thread: other entities wait then. Reading a file or computing for milliseconds belongs on the runtime's blocking
/// threads (tokio: `spawn_blocking`). A handler that holds a thread for a second is named in a warning (`thread_held`); the
/// node itself runs on a thread of its own and goes on. If a handler panics the entity is gone, its asks fail with
/// [`EntityStopped`](quorate_core::sharding::errors::AskFailure::EntityStopped), and the next message starts a new one.
///
/// State is in memory only: it is lost when the entity's shard moves to another node or its node dies.
pub trait Entity: Send + 'static {
    /// What it is told and asked.
    type Message: DeserializeOwned + Send;
    /// What it answers. The answer to a message that was told is dropped.
    type Reply: Serialize + Send;

    /// Handles one message.
    ///
    /// # Cancel safety
    /// Not needed in general: it is dropped in the middle only when the node stops at once or a shard does not stop in
    /// time.
    fn handle(
        &mut self,
        context: &EntityContext,
        message: Self::Message,
    ) -> impl Future<Output = Self::Reply> + Send;
}

/// Who an entity is. Cheap to clone.
#[derive(Clone)]
pub struct EntityContext {
    pub(crate) kind: Arc<str>,
    pub(crate) shard: ShardId,
    pub(crate) id: EntityId,
}

impl EntityContext {
    /// The name of its kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> &EntityId {
        &self.id
    }

    /// Its id as text; bytes that are no UTF-8 are replaced.
    #[must_use]
    pub fn id_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.id.as_bytes())
    }

    /// Its shard.
    #[must_use]
    pub const fn shard(&self) -> ShardId {
        self.shard
    }
}

impl fmt::Debug for EntityContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind.escape_debug(), self.shard.0, self.id)
    }
}
