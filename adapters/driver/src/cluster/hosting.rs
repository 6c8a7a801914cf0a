//! What a node hosts, as its users say it: kinds of entities, durable ones and consumers, singletons, queues
//! of work. Decides nothing. Spec: `README.md`.

use std::sync::Arc;

use super::{Cluster, EntitiesBuilder};
use crate::delivery::WorkQueueBuilder;
use crate::kind::Kind;
use crate::path_builder::InstancesBuilder;
use crate::singleton_builder::SingletonBuilder;

impl Cluster {
    /// A singleton: exactly one instance in the whole cluster, on the oldest member (with a role), with a
    /// fencing token that grows with every instance. The name has 1 to 255 bytes.
    ///
    /// ```no_run
    /// # use quorate_driver::{Cluster, Entity, EntityContext, Token};
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
    /// let answer = billing.ask(7).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn singleton(&self, name: impl AsRef<str>) -> SingletonBuilder {
        SingletonBuilder::new(Arc::clone(self.shared()), Arc::from(name.as_ref()))
    }

    /// Instances of a path: as many as its fault tolerance, its bounds and its load ask for, each on a member
    /// of its own, with an ordered hand-over when a slot moves. A path has 1 to 8 segments of letters,
    /// digits, `_` and `-` of ASCII and at most 128 bytes.
    ///
    /// ```no_run
    /// # use quorate_driver::{Cluster, Entity, EntityContext};
    /// # use quorate_driver::paths::{FaultTolerance, HandoffOptions};
    /// # struct Prices;
    /// # impl Entity for Prices {
    /// #     type Message = u64;
    /// #     type Reply = u64;
    /// #     async fn handle(&mut self, _: &EntityContext, message: u64) -> u64 { message }
    /// # }
    /// # async fn example(cluster: Cluster) -> Result<(), Box<dyn std::error::Error>> {
    /// // On every node with the role: one instance still runs when two hosts are lost at once.
    /// let prices = cluster.instances("shop/prices").fault_tolerance(FaultTolerance::Constant(2));
    /// prices.role("backend").handoff(HandoffOptions::STATELESS).start(|_| Prices).await?;
    /// // On any node.
    /// let prices = cluster.path::<u64, u64>("shop/prices")?;
    /// let price = prices.ask(7).await?;
    /// let same = prices.by("tea").ask(7).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn instances(&self, path: impl AsRef<str>) -> InstancesBuilder {
        InstancesBuilder::new(Arc::clone(self.shared()), path.as_ref())
    }

    /// A work queue, from which workers on any node pull jobs: each takes a job when it is ready for one, and
    /// what a lost worker has not confirmed goes to others. A singleton holds the queue. The name has 1 to
    /// 200 bytes.
    ///
    /// ```no_run
    /// # use quorate_driver::{Cluster, delivery::WorkQueue};
    /// # async fn example(cluster: Cluster) -> Result<(), Box<dyn std::error::Error>> {
    /// // On every node with the role: one of them holds it.
    /// let images: WorkQueue<String> = cluster.work_queue("images").role("backend").start().await?;
    /// images.push("cat.png".to_owned()).await?;
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

    /// Entities of a kind: each has an id and lives on one node of the cluster, where its shard is. What the
    /// kind is, [`Kind`] says; the builder's verbs say how its entities are made, or that this node only
    /// reaches them.
    ///
    /// ```no_run
    /// # use quorate_driver::{Cluster, Entity, EntityContext, Kind, Region};
    /// # struct Account;
    /// # impl Entity for Account {
    /// #     type Message = u64;
    /// #     type Reply = u64;
    /// #     async fn handle(&mut self, _: &EntityContext, message: u64) -> u64 { message }
    /// # }
    /// # async fn example(cluster: Cluster) -> Result<(), Box<dyn std::error::Error>> {
    /// // On every node with the kind's role: it hosts a part of them and reaches all.
    /// let accounts = cluster.entities(Kind::new("account").role("backend")).start(|_| Account).await?;
    /// // On nodes without it.
    /// let kind = Kind::new("account").role("backend");
    /// let accounts: Region<u64, u64> = cluster.entities(kind).proxy().await?;
    /// let balance = accounts.entity("ada").ask(7).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn entities<M, R>(&self, kind: Kind<M, R>) -> EntitiesBuilder<M, R> {
        EntitiesBuilder::new(Arc::clone(self.shared()), kind)
    }
}
