//! How a kind's entities are hosted on this node, or reached from it. Decides nothing. Page:
//! `docs/entities.md`.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use quorate_core::delivery::ConsumerSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::delivery::{Consumer, Delivery, Receiving};
use crate::durable::{self, DurableState, EventSourced};
use crate::entity::{Entity, EntityContext, TypedStarter};
use crate::error::ClusterError;
use crate::kind::Kind;
use crate::region::Region;
use crate::shared::Shared;

/// Hosts entities of a kind, or makes a proxy to them. See [`Cluster::entities`](crate::Cluster::entities).
///
/// Each verb gives a [`Region`], the handle to all entities of the kind. Use the verb that hosts on every
/// node with the kind's role and [`Self::proxy`] on the others. A verb may be called again with the same
/// settings: later entities are made by the newer function.
#[must_use = "nothing happens before they are started or a proxy is made"]
pub struct EntitiesBuilder<M, R> {
    shared: Arc<Shared>,
    kind: Kind<M, R>,
}

impl<M, R> EntitiesBuilder<M, R> {
    pub(super) const fn new(shared: Arc<Shared>, kind: Kind<M, R>) -> Self {
        Self { shared, kind }
    }
}

impl<M: 'static, R: 'static> EntitiesBuilder<M, R> {
    /// Hosts the entities on this node and reaches all of them. `make` is called on the caller's runtime
    /// whenever an entity gets its first message.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if the settings are not legal, differ from an earlier registration or from
    /// the kind of that name in the cluster
    /// ([`KindDiffers`](crate::sharding::ShardingCommandError::KindDiffers) names the fields with both
    /// values), or the node lacks the role; [`ClusterError::Name`] if the role is not legal,
    /// [`ClusterError::StopMessage`]; [`ClusterError::Lookup`] if the kind is registered here with other
    /// types; [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn start<E, F>(self, make: F) -> Result<Region<M, R>, ClusterError>
    where
        E: Entity<Message = M, Reply = R>,
        F: Fn(EntityContext) -> E + Send + Sync + 'static,
    {
        self.host(make).await
    }

    /// Like [`Self::start`] for entities without state: one async function handles every message.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn start_fn<H, Fut>(self, handler: H) -> Result<Region<M, R>, ClusterError>
    where
        M: DeserializeOwned + Send,
        R: Serialize + Send,
        H: Fn(EntityContext, M) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let make = move |_| FnEntity {
            handler: Arc::clone(&handler),
            types: PhantomData,
        };
        self.host(make).await
    }

    /// Hosts entities that keep their events in the node's store. What `make` makes is not durable, its
    /// [`EventSourced::State`] is.
    ///
    /// The store has to be one that all hosts share
    /// ([`StoreScope::Shared`](crate::store::StoreScope::Shared)), or the nodes' own stores vote about logs
    /// (`journal.voters`), or the kind is one of a single host ([`Kind::single_host`]).
    ///
    /// # Errors
    /// Those of [`Self::start`]; [`ClusterError::Durability`] if the node has no store, or one that no other
    /// node reads.
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn start_event_sourced<E, F>(self, make: F) -> Result<Region<M, R>, ClusterError>
    where
        E: EventSourced<Command = M, Reply = R>,
        F: Fn(EntityContext) -> E + Send + Sync + 'static,
    {
        let sleeper = self.shared.background.sleeper();
        durable::host_event_sourced(&self.shared, self.kind, sleeper, make).await
    }

    /// Hosts entities that keep their newest state in the node's store. Otherwise as
    /// [`Self::start_event_sourced`].
    ///
    /// # Errors
    /// Those of [`Self::start_event_sourced`].
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn start_durable_state<D, F>(self, make: F) -> Result<Region<M, R>, ClusterError>
    where
        D: DurableState<Command = M, Reply = R>,
        F: Fn(EntityContext) -> D + Send + Sync + 'static,
    {
        let sleeper = self.shared.background.sleeper();
        durable::host_durable_state(&self.shared, self.kind, sleeper, make).await
    }

    /// Reaches the entities from this node without hosting any: messages go to the nodes that do. It needs
    /// name, shards, role and extractor of the kind, the same as there.
    ///
    /// # Errors
    /// Those of [`Self::start`], but that this node may lack the role.
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn proxy(self) -> Result<Region<M, R>, ClusterError> {
        let settings = self.kind.settings(false)?;
        Region::register(&self.shared, &self.kind, settings, None).await
    }

    async fn host<E, F>(self, make: F) -> Result<Region<M, R>, ClusterError>
    where
        E: Entity,
        F: Fn(EntityContext) -> E + Send + Sync + 'static,
    {
        let starter = Arc::new(TypedStarter {
            make: Arc::new(make),
            shared: Arc::clone(&self.shared),
            supervision: Arc::new(self.kind.supervised()),
        });
        Region::host(&self.shared, &self.kind, starter).await
    }
}

impl<M: DeserializeOwned + Send + 'static> EntitiesBuilder<Delivery<M>, ()> {
    /// Hosts entities that consume reliable delivery, with the default settings: producers are made with
    /// [`Region::producer`]. `Kind::new("orders")` is the kind of such entities as of any.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn start_consumer<C, F>(self, make: F) -> Result<Region<Delivery<M>, ()>, ClusterError>
    where
        C: Consumer<Message = M>,
        F: Fn(EntityContext) -> C + Send + Sync + 'static,
    {
        self.start_consumer_with(ConsumerSettings::default(), make).await
    }

    /// Like [`Self::start_consumer`], with other settings for the consumer.
    ///
    /// # Errors
    /// Those of [`Self::start`]; [`ClusterError::Setting`] for one out of range.
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn start_consumer_with<C, F>(
        self,
        settings: ConsumerSettings,
        make: F,
    ) -> Result<Region<Delivery<M>, ()>, ClusterError>
    where
        C: Consumer<Message = M>,
        F: Fn(EntityContext) -> C + Send + Sync + 'static,
    {
        settings.check()?;
        let make = move |context: EntityContext| {
            let consumer = make(context.clone());
            Receiving::new(consumer, settings.clone(), context)
        };
        self.host(make).await
    }
}

impl<M, R> fmt::Debug for EntitiesBuilder<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntitiesBuilder")
            .field("kind", &self.kind.name())
            .finish_non_exhaustive()
    }
}

/// An entity that is one function.
struct FnEntity<M, R, H> {
    handler: Arc<H>,
    types: PhantomData<fn(M) -> R>,
}

impl<M, R, H, Fut> Entity for FnEntity<M, R, H>
where
    M: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    H: Fn(EntityContext, M) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
{
    type Message = M;
    type Reply = R;

    fn handle(&mut self, context: &EntityContext, message: M) -> impl Future<Output = R> + Send {
        (self.handler)(context.clone(), message)
    }
}
