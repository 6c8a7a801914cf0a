//! What an entity knows of itself and its surroundings. Decides nothing.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use quorate_core::ident::UniqueAddress;
use quorate_core::sharding::ids::{EntityId, KindId, ShardId};

use super::task::Start;
use super::{Entity, Mailbox};
use crate::error::RegionError;
use crate::region::{EntityRef, Region};
use crate::shared::Shared;

/// Who an entity is, and the way from it to others. Cheap to clone; a clone may be moved to a task and outlive the entity.
#[derive(Clone)]
pub struct EntityContext {
    inside: Arc<Inside>,
}

struct Inside {
    kind: Arc<str>,
    shard: ShardId,
    id: EntityId,
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
}

impl EntityContext {
    pub(super) fn new(start: &Start, shared: Arc<Shared>) -> Self {
        let inside = Inside {
            kind: Arc::clone(&start.kind),
            shard: start.shard,
            id: start.id.clone(),
            shared,
            mailbox: Arc::clone(&start.mailbox),
        };
        Self {
            inside: Arc::new(inside),
        }
    }

    /// The name of its kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.inside.kind
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &EntityId {
        &self.inside.id
    }

    /// Its id as text; bytes that are no UTF-8 are replaced.
    #[must_use]
    pub fn id_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.inside.id.as_bytes())
    }

    /// Its shard.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.inside.shard
    }

    /// The node it lives on.
    #[must_use]
    pub fn node(&self) -> &UniqueAddress {
        &self.inside.shared.me
    }

    /// The way to all entities of a kind that this node has registered, to host it or as a proxy. Costs one lock and a look-up.
    ///
    /// # Errors
    /// [`RegionError`] if the kind is not registered here, or with other types.
    pub fn region<M: 'static, R: 'static>(&self, kind: &str) -> Result<Region<M, R>, RegionError> {
        self.inside.shared.region(kind)
    }

    /// The way to itself, to tell itself something or to be passed on: `context.myself::<Self>()?.tell(&message).await`. It
    /// leads to whoever has this id, so to its successor after the entity has moved. To *ask* itself is refused
    /// ([`AskError::OwnEntity`](crate::AskError::OwnEntity)).
    ///
    /// # Errors
    /// [`RegionError::OtherTypes`] if `E` is not the type of this entity's kind.
    pub fn myself<E: Entity>(&self) -> Result<EntityRef<E::Message, E::Reply>, RegionError> {
        let region = self.region::<E::Message, E::Reply>(self.kind())?;
        Ok(region.entity(self.id().as_bytes()))
    }

    /// Ends the entity after the message that it handles: [`Entity::on_stop`] runs, and its state is gone. The next message
    /// makes a new one. Messages that wait for it already are not handled: their asks fail with
    /// [`EntityStoppedUnhandled`](crate::core::AskFailure::EntityStoppedUnhandled), so that they can be asked again.
    pub fn stop(&self) {
        self.inside.mailbox.stop();
    }

    pub(super) fn kind_id(&self) -> KindId {
        KindId::of(&self.inside.kind)
    }

    pub(super) fn is_of(&self, node: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.inside.shared, node)
    }
}

impl fmt::Debug for EntityContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inside { kind, shard, id, .. } = &*self.inside;
        write!(f, "{}/{}/{id}", kind.escape_debug(), shard.0)
    }
}
