//! The name of a kind of entities and what all nodes must agree on about it.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quorate_core::config::KindConfig;
use quorate_core::ident::Role;
use quorate_core::input::KindSettings;
use quorate_core::sharding::allocation::AllocationSettings;
use quorate_core::sharding::extractor::ShardExtractor;
use quorate_core::sharding::fields::StoreMode;
use quorate_core::sharding::ids::Payload;
use quorate_core::sharding::passivation::PassivationSettings;
use quorate_core::sharding::remember::RememberStore;
use serde::Serialize;

use crate::allocating::{Asked, AsyncAllocationStrategy};
use crate::codec;
use crate::error::ClusterError;
use crate::extract::Extract;
use crate::supervision::Supervision;

/// The number of shards of a kind unless [`Kind::shards`] sets another: ten or more per node up to a dozen
/// nodes.
pub const SHARDS_DEFAULT: u32 = 128;

/// What an entity of a kind is to handle last.
#[derive(Clone)]
enum StopMessage {
    Encoded(Payload),
    Unencodable,
}

/// A kind of entities: its name, the type of its messages `M` and of their answers `R`. Name, shards and role
/// must be the same on every node; both types must have the same postcard form everywhere.
pub struct Kind<M, R> {
    name: Arc<str>,
    shards: u32,
    role: Option<String>,
    extractor: ShardExtractor,
    passivation: Option<PassivationSettings>,
    remember_entities: Option<RememberStore>,
    allocation: Option<AllocationSettings>,
    asked: Option<Arc<dyn Asked>>,
    store_mode: Option<StoreMode>,
    lease: bool,
    pub(crate) config: KindConfig,
    single_host: bool,
    bucket: Option<Arc<str>>,
    extract: Option<Extract>,
    supervision: Option<Supervision>,
    stop_message: Option<StopMessage>,
    types: PhantomData<fn(M) -> R>,
}

impl<M, R> Kind<M, R> {
    /// A kind of [`SHARDS_DEFAULT`] shards, hosted by all members. The name has 1 to 255 bytes.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: Arc::from(name.into()),
            shards: SHARDS_DEFAULT,
            role: None,
            extractor: ShardExtractor::default(),
            passivation: None,
            remember_entities: None,
            allocation: None,
            asked: None,
            store_mode: None,
            lease: false,
            config: KindConfig::default(),
            single_host: false,
            bucket: None,
            extract: None,
            supervision: None,
            stop_message: None,
            types: PhantomData,
        }
    }

    /// Sets the number of shards, 1 to 65,536 (default [`SHARDS_DEFAULT`]). A shard is what moves between
    /// nodes: ten times the largest number of nodes is a good choice. It cannot be changed while the cluster
    /// runs. Mirrors `number-of-shards`.
    #[must_use]
    pub const fn shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self
    }

    /// Only members with this role host the kind (default: all). Mirrors `role`.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.role = Some(role.into());
        self
    }

    /// Sets how an entity is assigned to a shard (default: a hash of its id; [`ShardExtractor::Kafka`] places
    /// it where Kafka's default partitioner places its key, [`ShardExtractor::custom`] where a function of
    /// your own says). The same on every node, and it cannot be changed while the cluster runs. Mirrors the
    /// message extractors of Akka.
    #[must_use]
    pub fn extractor(mut self, extractor: ShardExtractor) -> Self {
        self.extractor = extractor;
        self
    }

    /// Sets when this node passivates entities of the kind (default: `sharding.passivation` of the
    /// configuration, which is after two minutes without a message). May differ from node to node. Mirrors
    /// `passivation.strategy`.
    #[must_use]
    pub fn passivation(mut self, settings: PassivationSettings) -> Self {
        self.passivation = Some(settings);
        self
    }

    /// Remembers which entities there are (default: not remembered). Once started, an entity runs until it
    /// stops or passivates itself: when its shard moves, its node is lost, or all nodes were stopped, it is
    /// started again without a message, and one that crashed for good is after
    /// `sharding.entity_restart_backoff`. A new one handles nothing before its id is stored, which costs its
    /// first message a write to a majority. Nobody is passivated for being idle, or because there are many.
    ///
    /// [`RememberStore::Data`] keeps that in replicated data, [`RememberStore::Events`] in a log per shard on
    /// a majority of the nodes' own stores (`journal.voters`), which an earlier home of the shard cannot
    /// write any more. The same on every node that hosts the kind, whose name then has at most 230 bytes.
    /// Mirrors `remember-entities` and `remember-entities-store`.
    ///
    /// ```
    /// # use quorate_driver::Kind;
    /// use quorate_driver::sharding::RememberStore;
    ///
    /// let timers = Kind::<u64, ()>::new("timer").remember_entities(RememberStore::Data);
    /// # let _ = timers;
    /// ```
    #[must_use]
    pub const fn remember_entities(mut self, store: RememberStore) -> Self {
        self.remember_entities = Some(store);
        self
    }

    /// Sets how the kind's shards are spread over the nodes (default: `sharding.rebalance_…` of the
    /// configuration). Only the oldest member of the kind's role uses it: say the same on every node. Mirrors
    /// the `ShardAllocationStrategy` of Akka.
    #[must_use]
    pub fn allocation(mut self, settings: AllocationSettings) -> Self {
        self.allocation = Some(settings);
        self.asked = None;
        self
    }

    /// Uses an asynchronous allocation strategy of the application instead of [`Self::allocation`]. Only the
    /// oldest member of the kind's role calls it; set the same on every node.
    #[must_use]
    pub fn allocation_by(mut self, strategy: impl AsyncAllocationStrategy) -> Self {
        self.allocation = Some(AllocationSettings::Asked(Arc::from(strategy.name())));
        self.asked = Some(Arc::new(strategy));
        self
    }

    pub(crate) fn asked(&self) -> Option<Arc<dyn Asked>> {
        self.asked.clone()
    }

    /// Sets where the coordinator keeps the homes of shards (default: `sharding.state_store_mode` of the
    /// configuration, which is in memory). [`StoreMode::DistributedData`] and [`StoreMode::Events`] need
    /// stores and `journal.voters`: then shards find their homes again after all nodes were killed. The same
    /// on every node. Mirrors `state-store-mode`.
    #[must_use]
    pub const fn store_mode(mut self, mode: StoreMode) -> Self {
        self.store_mode = Some(mode);
        self
    }

    /// A shard runs only while its node holds the lease `<cluster>-shard-<kind>-<shard>` (default: without
    /// one), from the keeper that [`ClusterBuilder::leases`](crate::ClusterBuilder::leases) names: so that
    /// two sides of a split cluster that both go on run no entity twice. A node that loses one stops the
    /// shard's entities at once, without a stop message. The same on every node that hosts it. It costs
    /// fail-over time: a node that died holds its leases for `sharding.lease_time_to_live`; and a renewal per
    /// shard, so that such a kind should not have more shards than it needs. Mirrors `use-lease`.
    #[must_use]
    pub const fn lease(mut self) -> Self {
        self.lease = true;
        self
    }

    /// Extracts the entity's id and its message from an envelope, so that the sender need not know the id:
    /// [`Region::tell`](crate::Region::tell) and [`Region::ask`](crate::Region::ask) take such envelopes
    /// then. `None`: the envelope is for no entity. Only this node's own senders use it; with other types of
    /// envelopes, register the kind where they are sent. Mirrors the message extractors of Akka.
    ///
    /// ```
    /// # use quorate_driver::Kind;
    /// struct Scan { cart: Option<String>, item: u64 }
    ///
    /// let carts = Kind::<u64, ()>::new("cart").extract(|scan: Scan| Some((scan.cart?, scan.item)));
    /// # let _ = carts;
    /// ```
    #[must_use]
    pub fn extract<E, I>(mut self, opens: impl Fn(E) -> Option<(I, M)> + Send + Sync + 'static) -> Self
    where
        E: 'static,
        M: 'static,
        I: AsRef<[u8]>,
    {
        self.extract = Some(Extract::new(opens));
        self
    }

    pub(crate) fn extracts(&self) -> Option<Extract> {
        self.extract.clone()
    }

    /// Sets what happens to entities that fail (default: [`Supervision::default`], which restarts them). May
    /// differ from node to node. Durable entities recover instead and ignore it.
    #[must_use]
    pub fn supervision(mut self, supervision: Supervision) -> Self {
        self.supervision = Some(supervision);
        self
    }

    pub(crate) fn supervised(&self) -> Supervision {
        self.supervision.clone().unwrap_or_default()
    }

    /// Sets the message that each entity handles last when it is told to stop: its shard moves, its node
    /// leaves, the region is shut down, or it is taken out of memory (default: nothing). After it
    /// [`Entity::on_stop`](crate::Entity::on_stop) runs; its answer is dropped. One that asks to be
    /// [passivated with a message](crate::EntityContext::passivate_with) gets that one instead. Not when it
    /// stops itself, after a failure that ends it, nor when its node or its shard stops at once. May differ
    /// from node to node. Mirrors `handOffStopMessage` and `withStopMessage`.
    ///
    /// ```
    /// # use quorate_driver::Kind;
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// enum Order { Add(u64), Save }
    ///
    /// let carts = Kind::<Order, ()>::new("cart").stop_message(Order::Save);
    /// # let _ = carts;
    /// ```
    #[must_use]
    pub fn stop_message(mut self, message: impl Borrow<M>) -> Self
    where
        M: Serialize,
    {
        let encoded = codec::encode(message.borrow());
        self.stop_message = Some(encoded.map_or(StopMessage::Unencodable, StopMessage::Encoded));
        self
    }

    /// Its stop message as bytes, if it has one.
    pub(crate) fn last_message(&self) -> Result<Option<Payload>, ClusterError> {
        match &self.stop_message {
            None => Ok(None),
            Some(StopMessage::Encoded(payload)) => Ok(Some(payload.clone())),
            Some(StopMessage::Unencodable) => Err(ClusterError::StopMessage),
        }
    }

    /// Declares that exactly one member hosts this kind, always the same one, so that durable entities may
    /// keep their logs in a store that only this node reads, a file for instance
    /// ([`StoreScope::NodeLocal`](crate::store::StoreScope::NodeLocal)). Without it such a kind is refused,
    /// because its logs would stay behind whenever a shard moves. While another member has the kind's role
    /// its entities answer nothing but
    /// [`DurableFailure::SeveralHosts`](crate::error::DurableFailure::SeveralHosts). Says nothing for kinds
    /// whose entities are in memory only.
    #[must_use]
    pub const fn single_host(mut self) -> Self {
        self.single_host = true;
        self
    }

    pub(crate) const fn has_single_host(&self) -> bool {
        self.single_host
    }

    /// Keeps the logs of durable entities of this kind in a bucket of the keyed store, which is open on this
    /// node already and in which every read meets every write: on N of its owners, wherever an entity runs,
    /// so that neither a shared database nor `journal.voters` are needed. The same on every node that hosts
    /// the kind. A log has at most [`LOG_BYTES_MAX`](crate::durable::limits::LOG_BYTES_MAX) bytes: snapshots
    /// take the place of the events that they cover.
    #[must_use]
    pub fn backed_by_bucket(mut self, bucket: impl AsRef<str>) -> Self {
        self.bucket = Some(Arc::from(bucket.as_ref()));
        self
    }

    pub(crate) fn bucket(&self) -> Option<&str> {
        self.bucket.as_deref()
    }

    /// Another kind of this name, hosted by the same members and with its homes kept in the same way.
    pub(crate) fn beside<M2, R2>(&self, name: String) -> Kind<M2, R2> {
        Kind {
            role: self.role.clone(),
            store_mode: self.store_mode,
            single_host: self.single_host,
            ..Kind::new(name)
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn settings(&self, hosts: bool) -> Result<KindSettings, ClusterError> {
        let role = match &self.role {
            None => None,
            Some(role) => Some(Role::new(role).map_err(|error| ClusterError::Name {
                value: role.clone(),
                error,
            })?),
        };
        Ok(KindSettings {
            role,
            extractor: surviving(self.extractor.clone(), &self.name),
            passivation: self.passivation.clone(),
            remember_entities: self.remember_entities,
            allocation: self.allocation.clone(),
            store_mode: self.store_mode,
            lease: self.lease,
            config: Box::new(self.config.clone()),
            ..KindSettings::new(Arc::clone(&self.name), self.shards, hosts)
        })
    }
}

/// A function of the user's runs on the node's loop, which must not end by it. The first shard is as good as
/// any for an id over which it panics, because it is the same on every node.
fn surviving(extractor: ShardExtractor, kind: &Arc<str>) -> ShardExtractor {
    let kind = Arc::clone(kind);
    let is_said = AtomicBool::new(false);
    extractor.around(move |id, shard_of| {
        catch_unwind(AssertUnwindSafe(shard_of)).unwrap_or_else(|_| {
            if !is_said.swap(true, Ordering::Relaxed) {
                tracing::error!(
                    target: "cluster::sharding", event = "extractor_panicked", kind = %kind.escape_debug(), %id,
                    "the kind's extractor panicked; its entities go to the first shard (logged once)"
                );
            }
            0
        })
    })
}

impl<M, R> Clone for Kind<M, R> {
    fn clone(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            shards: self.shards,
            role: self.role.clone(),
            extractor: self.extractor.clone(),
            passivation: self.passivation.clone(),
            remember_entities: self.remember_entities,
            allocation: self.allocation.clone(),
            asked: self.asked.clone(),
            store_mode: self.store_mode,
            lease: self.lease,
            config: self.config.clone(),
            single_host: self.single_host,
            bucket: self.bucket.clone(),
            extract: self.extract.clone(),
            supervision: self.supervision.clone(),
            stop_message: self.stop_message.clone(),
            types: PhantomData,
        }
    }
}

impl<M, R> fmt::Debug for Kind<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind")
            .field("name", &self.name)
            .field("shards", &self.shards)
            .field("role", &self.role)
            .field("extractor", &self.extractor)
            .field("passivation", &self.passivation)
            .field("remember_entities", &self.remember_entities)
            .field("allocation", &self.allocation)
            .field("store_mode", &self.store_mode)
            .field("lease", &self.lease)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
