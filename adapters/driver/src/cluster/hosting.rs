//! What a node hosts, as its users say it: kinds of entities, durable ones and consumers, singletons, queues
//! of work. Decides nothing. Spec: `README.md`.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use quorate_core::delivery::ConsumerSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Cluster;
use crate::delivery::{Consumer, DeliveryMessage, Receipt, Receiving};
use crate::durable::{self, DurableState, EventSourced};
use crate::entity::{Entity, EntityContext, TypedStarter};
use crate::error::ClusterError;
use crate::kind::Kind;
use crate::region::Region;
use crate::singleton_builder::SingletonBuilder;
use crate::work::WorkQueueBuilder;

impl Cluster {
    /// A singleton: exactly one instance in the whole cluster, on the oldest member (with a role), with a
    /// fencing token that grows with every instance. The name has 1 to 255 bytes.
    ///
    /// ```no_run
    /// # use quorate_driver::{Cluster, Entity, EntityContext, core::Token};
    /// # struct Billing;
    /// # impl Billing { fn new(_: Token) -> Self { Self } }
    /// # impl Entity for Billing {
    /// #     type Message = u64;
    /// #     type Reply = u64;
    /// #     async fn handle(&mut self, _: &EntityContext, message: u64) -> u64 { message }
    /// # }
    /// # async fn example(cluster: Cluster) -> Result<(), Box<dyn std::error::Error>> {
    /// // On every node with the role: it runs on one of them.
    /// let billing = cluster.singleton("billing").role("backend").start(|token| Billing::new(token)).await?;
    /// // On nodes without it.
    /// let billing = cluster.singleton("billing").role("backend").proxy::<u64, u64>().await?;
    /// let answer = billing.ask(&7).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn singleton(&self, name: impl AsRef<str>) -> SingletonBuilder {
        SingletonBuilder::new(Arc::clone(self.shared()), Arc::from(name.as_ref()))
    }

    /// A work queue, from which workers on any node pull jobs: each takes a job when it is ready for one, and
    /// what a lost worker has not confirmed goes to others. A singleton holds the queue. The name has 1 to
    /// 200 bytes.
    ///
    /// ```no_run
    /// # use quorate_driver::{Cluster, WorkQueue};
    /// # async fn example(cluster: Cluster) -> Result<(), Box<dyn std::error::Error>> {
    /// // On every node with the role: one of them holds it.
    /// let images: WorkQueue<String> = cluster.work_queue("images").role("backend").start().await?;
    /// images.push(&"cat.png".to_owned()).await?;
    ///
    /// let mut worker = images.worker();
    /// while let Some(job) = worker.next().await {
    ///     println!("work on {}", job.message());
    ///     job.confirm();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn work_queue(&self, name: impl Into<String>) -> WorkQueueBuilder {
        WorkQueueBuilder::new(Arc::clone(self.shared()), name.into())
    }

    /// Hosts entities of a kind on this node (if it has the kind's role) and reaches all of them. `make` is
    /// called on the caller's runtime whenever an entity gets its first message.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if the settings are not legal, differ from an earlier registration or from
    /// the kind of that name in the cluster
    /// ([`ShardingCommandError::KindDiffers`](crate::core::ShardingCommandError::KindDiffers) names the
    /// fields with both values), or the node lacks the role; [`ClusterError::Region`] if the kind is
    /// registered here with other types.
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn register<E, F>(
        &self,
        kind: Kind<E::Message, E::Reply>,
        make: F,
    ) -> Result<Region<E::Message, E::Reply>, ClusterError>
    where
        E: Entity,
        F: Fn(EntityContext) -> E + Send + Sync + 'static,
    {
        let starter = Arc::new(TypedStarter {
            make: Arc::new(make),
            shared: Arc::clone(self.shared()),
            supervision: Arc::new(kind.supervised()),
        });
        Region::host(self.shared(), &kind, starter).await
    }

    /// Like [`Self::register`] for entities without state: one async function handles every message.
    ///
    /// # Errors
    /// Those of `register`.
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn register_fn<M, R, H, Fut>(
        &self,
        kind: Kind<M, R>,
        handler: H,
    ) -> Result<Region<M, R>, ClusterError>
    where
        M: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        H: Fn(EntityContext, M) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let make = move |_| FnEntity {
            handler: Arc::clone(&handler),
            types: PhantomData,
        };
        self.register::<FnEntity<M, R, H>, _>(kind, make).await
    }

    /// Hosts entities of a kind that keep their events in the node's store, and reaches all of them. `make`
    /// is called on the caller's runtime whenever an entity gets its first message; what it makes is not
    /// durable, its [`EventSourced::State`] is. Do it on every node with the kind's role; elsewhere
    /// [`Cluster::register_proxy`] reaches them.
    ///
    /// The store has to be one that all of them share ([`StoreScope::Shared`](crate::StoreScope::Shared)), or
    /// the nodes' own stores vote about logs (`journal.voters`), or the kind is one of a single host
    /// ([`Kind::single_host`]).
    ///
    /// # Errors
    /// Those of [`Cluster::register`]; [`ClusterError::Durability`] if the node has no store, or one that no
    /// other node reads.
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn register_event_sourced<E, F>(
        &self,
        kind: Kind<E::Command, E::Reply>,
        make: F,
    ) -> Result<Region<E::Command, E::Reply>, ClusterError>
    where
        E: EventSourced,
        F: Fn(EntityContext) -> E + Send + Sync + 'static,
    {
        durable::host_event_sourced(self.shared(), kind, self.shared().background.sleeper(), make).await
    }

    /// Hosts entities of a kind that keep their newest state in the node's store. Otherwise as
    /// [`Self::register_event_sourced`].
    ///
    /// # Errors
    /// Those of [`Self::register_event_sourced`].
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn register_durable_state<D, F>(
        &self,
        kind: Kind<D::Command, D::Reply>,
        make: F,
    ) -> Result<Region<D::Command, D::Reply>, ClusterError>
    where
        D: DurableState,
        F: Fn(EntityContext) -> D + Send + Sync + 'static,
    {
        durable::host_durable_state(self.shared(), kind, self.shared().background.sleeper(), make).await
    }

    /// Hosts entities that consume reliable delivery, with the default settings, and reaches all of them:
    /// producers are made with [`Region::producer`](crate::Region::producer). Do it on every node with the
    /// kind's role; elsewhere [`Cluster::register_proxy`] reaches them. The kind's messages are
    /// [`DeliveryMessage`]s: `Kind::<DeliveryMessage<Order>, Receipt>::new("orders")`.
    ///
    /// # Errors
    /// Those of [`Cluster::register`].
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn register_consumer<C, F>(
        &self,
        kind: Kind<DeliveryMessage<C::Message>, Receipt>,
        make: F,
    ) -> Result<Region<DeliveryMessage<C::Message>, Receipt>, ClusterError>
    where
        C: Consumer,
        F: Fn(EntityContext) -> C + Send + Sync + 'static,
    {
        self.register_consumer_with(kind, ConsumerSettings::default(), make)
            .await
    }

    /// Like [`Self::register_consumer`], with other settings for the consumer.
    ///
    /// # Errors
    /// Those of [`Cluster::register`]; [`ClusterError::Setting`] for one out of range.
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn register_consumer_with<C, F>(
        &self,
        kind: Kind<DeliveryMessage<C::Message>, Receipt>,
        settings: ConsumerSettings,
        make: F,
    ) -> Result<Region<DeliveryMessage<C::Message>, Receipt>, ClusterError>
    where
        C: Consumer,
        F: Fn(EntityContext) -> C + Send + Sync + 'static,
    {
        settings.check()?;
        let make = move |context: EntityContext| {
            let consumer = make(context.clone());
            Receiving::new(consumer, settings.clone(), context)
        };
        self.register::<Receiving<C>, _>(kind, make).await
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
