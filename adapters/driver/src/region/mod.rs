//! How users reach entities: a region by kind, an entity by id, `tell` without and `ask` with an answer;
//! singletons are asked in the same way. Spec: `README.md`.

mod ask;
mod registering;
mod retiring;
mod surveys;

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use quorate_core::effect::RegionShutdown;
use quorate_core::input::{Command, ShardingCommand};
use quorate_core::sharding::ids::{EntityId, KindId, Payload};
use quorate_core::sharding::protocol::survey::{Explained, Survey};
use quorate_core::sharding::protocol::watch::WatchTarget;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use ask::Ask;

use crate::codec;
use crate::commands::UserCommand;
use crate::error::{ClusterError, TellError};
use crate::extract::{Extract, Unopened};
use crate::request::{Request, TIMEOUT_DEFAULT};
use crate::shared::Shared;
use crate::watch::Watch;
use quorate_core::input::Recipient;

/// A handle to all entities of a kind. Cheap to clone; does not keep the node alive.
pub struct Region<M, R> {
    shared: Arc<Shared>,
    kind: KindId,
    extract: Option<Extract>,
    types: PhantomData<fn(M) -> R>,
}

impl<M, R> Region<M, R> {
    pub(crate) const fn new(shared: Arc<Shared>, kind: KindId, extract: Option<Extract>) -> Self {
        Self {
            shared,
            kind,
            extract,
            types: PhantomData,
        }
    }

    pub(crate) const fn kind(&self) -> KindId {
        self.kind
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The entity with this id: 1 to 1,024 bytes, usually text. It need not exist: the first message makes
    /// it.
    #[must_use]
    pub fn entity(&self, id: impl AsRef<[u8]>) -> EntityRef<M, R> {
        EntityRef {
            shared: Arc::clone(&self.shared),
            kind: self.kind,
            id: EntityId::new(id.as_ref()),
            types: PhantomData,
        }
    }

    /// Shards of the kind and the number of entities in each, node by node, from any node. Asks every member
    /// that may host it and completes when all have answered, at the latest after its time limit (default
    /// [`TIMEOUT_DEFAULT`], 1 ms to 60 s, clamped); nodes that did not reply in time are listed. Costs a
    /// message to and from each of them, six bytes for a shard. Mirrors `GetClusterShardingStats`.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] with `TooManySurveys` if sixteen of this node are open already,
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub fn stats(&self) -> Request<Result<Survey, ClusterError>> {
        let (shared, kind) = (Arc::clone(&self.shared), self.kind);
        Request::new(TIMEOUT_DEFAULT, async move |timeout| {
            shared.survey(kind, timeout).await
        })
    }

    /// Whether this node's region of the kind has found its coordinator, so that messages can be routed. A
    /// start-up probe should wait for it in addition to [`Cluster::is_ready`](crate::Cluster::is_ready).
    /// Later it may be `false` while the cluster has no oldest member of the kind's role, which is no reason
    /// to take a node out of service: messages wait. Mirrors the health check of Akka.
    ///
    /// # Errors
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn is_registered(&self) -> Result<bool, ClusterError> {
        let kinds = self.shared.kinds().await?;
        let own = kinds.into_iter().find(|state| state.kind == self.kind);
        Ok(own.is_some_and(|state| state.region.registered.is_some()))
    }

    /// Changes how many entities of the kind *this node* may run: those that are too many are passivated, and
    /// each of its shards has its equal part. Until the node ends. Mirrors `SetActiveEntityLimit`.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] with `NoEntityLimit` if the kind's [passivation](crate::Kind::passivation)
    /// has no limit here, [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Dropping it before it completes may or may not have changed the limit.
    pub async fn set_entity_limit(&self, per_region: usize) -> Result<(), ClusterError> {
        let kind = self.kind;
        let command = ShardingCommand::SetEntityLimit { kind, per_region };
        self.shared.core(Command::Sharding(command)).await
    }

    /// Stops hosting the kind on *this node*, which stays a member: its shards move to other nodes, and this
    /// node reaches entities as a [proxy](crate::EntitiesBuilder::proxy). Completes when nothing of the kind
    /// runs here and every shard that did has a new home. Entities handle what is in their mailboxes and
    /// finish [`Entity::on_stop`](crate::Entity::on_stop); what has not stopped within the time limit
    /// (default `shutdown.cluster_sharding_shutdown_region_timeout`, 1 ms to 24 h, clamped; of several
    /// callers the shortest) is killed, and it completes within another second, with
    /// [`RegionShutdown::StillRuns`] if a handler blocks its thread. No message is lost in good order: later
    /// ones wait for the new home.
    ///
    /// Where nobody else hosts the kind its entities stop all the same, and messages wait for somebody who
    /// does ([`RegionShutdown::WithoutHome`]). Registering the kind again has this node host it again;
    /// others' shards come with the next look at the balance. A second call waits for the same end, one after
    /// the end completes at once. A node that leaves needs none of this: it hands over. Mirrors
    /// `GracefulShutdown` of Akka, whose region forwards nothing afterwards.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] with `ShutdownPending` if sixteen callers wait already;
    /// [`ClusterError::Stopped`], also if the node ends before.
    ///
    /// # Cancel safety
    /// Dropping it stops waiting; once asked, the node goes on handing over.
    pub fn shutdown(&self) -> Request<Result<RegionShutdown, ClusterError>> {
        let (shared, kind) = (Arc::clone(&self.shared), self.kind);
        Request::new(self.shared.region_shutdown_timeout, async move |limit| {
            shared.shut_down_region(kind, limit).await
        })
    }
}

impl<M: Serialize + 'static, R> Region<M, R> {
    fn opened<E: 'static>(&self, envelope: E) -> Result<(EntityRef<M, R>, M), Unopened> {
        let extract = self.extract.as_ref().ok_or(Unopened::OtherType)?;
        let (id, message) = extract.open::<E, M>(envelope).inspect_err(|unopened| {
            if *unopened == Unopened::NoMatch {
                self.shared.unmatched(self.kind);
            }
        })?;
        Ok((self.entity(id.as_bytes()), message))
    }

    /// Sends an envelope's message to the entity that the kind's function extracts from it
    /// ([`Kind::extract`](crate::Kind::extract)). Otherwise as [`EntityRef::tell`].
    ///
    /// # Errors
    /// [`TellError::NoEnvelope`] if this node's registration of the kind takes none of this type,
    /// [`TellError::NoMatch`] if the envelope is for no entity (a dead letter: event `EnvelopeUnmatched`,
    /// counted in `messages_unmatched`), and those of `EntityRef::tell`.
    ///
    /// # Cancel safety
    /// Dropping it before it completes sends nothing.
    pub async fn tell<E: 'static>(&self, envelope: E) -> Result<(), TellError> {
        let (entity, message) = self.opened(envelope)?;
        let payload = entity.tell_payload(&message)?;
        drop(message);
        entity.tell_payload_in_time(payload).await
    }
}

impl<M: Serialize + 'static, R: DeserializeOwned> Region<M, R> {
    /// Asks the entity that the kind's function extracts from an envelope
    /// ([`Kind::extract`](crate::Kind::extract)). Otherwise as [`EntityRef::ask`]:
    /// `region.ask(envelope)?.timeout(duration).await`.
    ///
    /// # Errors
    /// [`TellError::NoEnvelope`] and [`TellError::NoMatch`], as with [`Self::tell`]: nothing is asked then.
    pub fn ask<E: 'static>(&self, envelope: E) -> Result<Ask<R>, TellError> {
        let (entity, message) = self.opened(envelope)?;
        Ok(entity.ask(&message))
    }
}

impl<M, R> Clone for Region<M, R> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.shared), self.kind, self.extract.clone())
    }
}

impl<M, R> fmt::Debug for Region<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Region").field(&self.kind).finish()
    }
}

/// A handle to one entity, wherever it runs. Cheap to clone.
pub struct EntityRef<M, R> {
    shared: Arc<Shared>,
    kind: KindId,
    id: EntityId,
    types: PhantomData<fn(M) -> R>,
}

impl<M, R> EntityRef<M, R> {
    /// The entity's id.
    #[must_use]
    pub const fn id(&self) -> &EntityId {
        &self.id
    }

    pub(crate) const fn kind(&self) -> KindId {
        self.kind
    }

    /// Watches the entity: completes once, when it stops by
    /// [`EntityContext::stop`](crate::EntityContext::stop), when it fails and is not restarted, or when the
    /// node on which it runs has been removed ([`Termination`](crate::TerminationReason) says which). A move,
    /// a passivation and a restart by [`Supervision`](crate::Supervision) are no end: the watch goes on with
    /// the entity, wherever it begins again.
    ///
    /// If the entity does not run when its home hears of it, the watch completes at once with `NotRunning`:
    /// it may never have begun, have ended, been passivated, or moved without a message since. Ask it
    /// something first to be sure that it runs. A node that is unreachable or Down is waited for until it is
    /// removed.
    ///
    /// Starts nothing and keeps nothing in memory. Costs a message to the entity's home and one back, and the
    /// same at its end.
    pub fn watch(&self) -> Watch {
        let target = WatchTarget::Entity {
            kind: self.kind,
            entity: self.id.clone(),
        };
        Watch::new(&self.shared, target)
    }

    /// Explains where the entity's shard is and why: its home, whether it is moving, and the last decisions
    /// of its coordinator about it ([`Placement`](quorate_core::sharding::protocol::survey::Placement)). The
    /// same from every node, because it is the coordinator that is asked. Waits for its time limit (default
    /// [`TIMEOUT_DEFAULT`], 1 ms to 60 s, clamped) at most and names who was asked then. The entity need not
    /// run, and is not started. Costs a message and its answer.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] with `TooManySurveys` if sixteen questions of this node are open already,
    /// with `BadEntityId`; [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub fn explain(&self) -> Request<Result<Explained, ClusterError>> {
        let (shared, kind, id) = (Arc::clone(&self.shared), self.kind, self.id.clone());
        Request::new(TIMEOUT_DEFAULT, async move |timeout| {
            shared.explain_entity(kind, id, timeout).await
        })
    }
}

impl<M: Serialize, R> EntityRef<M, R> {
    fn tell_payload(&self, message: &M) -> Result<Payload, TellError> {
        let payload = codec::encode(message).ok_or(TellError::Encode)?;
        self.shared.check(&self.id, &payload)?;
        Ok(payload)
    }

    /// Sends a message, by value or by reference, at most once and without a reply. Waits while the node's
    /// command queue is full, which slows fast senders down, or the kind's buffer on this node is, until it
    /// has room ([`ShardingEvent::BufferHasRoom`](crate::events::ShardingEvent::BufferHasRoom)) or the shard
    /// has a home.
    ///
    /// # Errors
    /// [`TellError::Encode`], [`TellError::TooLarge`], [`TellError::BadEntityId`], [`TellError::Stopped`];
    /// [`TellError::Full`] if `sharding.buffer_waiting_max` callers wait for room in the buffer already.
    ///
    /// # Cancel safety
    /// Dropping it before it completes sends nothing, unless it waits for room in the kind's buffer: then it
    /// may have been sent.
    pub fn tell(&self, message: impl Borrow<M>) -> impl Future<Output = Result<(), TellError>> + Send {
        let payload = self.tell_payload(message.borrow());
        async move { self.tell_payload_in_time(payload?).await }
    }

    /// Like [`Self::tell`], but fails instead of waiting.
    ///
    /// # Errors
    /// [`TellError::Full`] besides those of `tell`: the command queue is full, or the kind's buffer.
    pub fn try_tell(&self, message: impl Borrow<M>) -> Result<(), TellError> {
        let payload = self.tell_payload(message.borrow())?;
        if self.shared.full.has(self.kind) {
            return Err(TellError::Full);
        }
        let command = self.tell_command(payload);
        self.shared.try_user(command).map_err(|(error, _)| error)
    }
}

impl<M, R> EntityRef<M, R> {
    fn tell_command(&self, payload: Payload) -> UserCommand {
        UserCommand::Tell {
            to: Recipient::Entity(self.kind, self.id.clone()),
            payload,
        }
    }

    async fn tell_payload_in_time(&self, payload: Payload) -> Result<(), TellError> {
        if self.shared.full.has(self.kind) {
            let to = Recipient::Entity(self.kind, self.id.clone());
            return self.shared.tell_in_time(to, payload).await;
        }
        self.shared.user(self.tell_command(payload)).await
    }
}

impl<M: Serialize, R: DeserializeOwned> EntityRef<M, R> {
    /// Sends a message, by value or by reference, and waits for the answer, at most [`TIMEOUT_DEFAULT`]
    /// unless [`Ask::timeout`] says otherwise: `entity.ask(message).timeout(duration).await`. Nothing is sent
    /// before it is awaited. Every error says whether the message may have been handled
    /// ([`AskError::may_have_been_handled`](crate::AskError::may_have_been_handled)).
    pub fn ask(&self, message: impl Borrow<M>) -> Ask<R> {
        let to = Recipient::Entity(self.kind, self.id.clone());
        Ask::new(Arc::clone(&self.shared), to, codec::encode(message.borrow()))
    }
}

impl<M, R> Clone for EntityRef<M, R> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            kind: self.kind,
            id: self.id.clone(),
            types: PhantomData,
        }
    }
}

impl<M, R> fmt::Debug for EntityRef<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EntityRef")
            .field(&self.kind)
            .field(&self.id)
            .finish()
    }
}
