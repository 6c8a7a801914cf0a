//! The handle of a running node: what users hold. Every call becomes a command to the node's loop, or reads
//! what the loop has published (`shared`, `hub`); nothing is decided here, and nothing waits for the loop
//! under a lock. Spec: `README.md`.

mod address;
mod daemons;
mod ending;
mod entities;
mod hosting;
mod tasks;

use std::fmt;
use std::sync::Arc;

use quorate_core::effect::HaltReason;
use quorate_core::explain::Explanation;
use quorate_core::ident::UniqueAddress;
use quorate_core::input::{Command, MembershipCommand};
use quorate_core::membership::member::{Member, Status};
use quorate_core::sharding::protocol::watch::WatchTarget;
use quorate_core::view::View;

use crate::data::Data;
use crate::error::{ClusterError, LookupError, Termination};
use crate::events::Events;
use crate::kv::KvBuilder;
use crate::paths::Path;
use crate::places::{PlaceError, ShardPlaces};
use crate::region::Region;
use crate::shared::Shared;
use crate::singleton::Singleton;
use crate::stats::{BucketState, KindState, LinkState, NodeStats, PathState};
use crate::watch::Watch;
use address::parse_down_target;
pub(crate) use address::{check_port, parse_address, parse_addresses};
pub use daemons::DaemonsBuilder;
pub use entities::EntitiesBuilder;

/// Stops the node when the last handle is dropped.
#[derive(Debug)]
struct Alive(Arc<Shared>);

impl Drop for Alive {
    fn drop(&mut self) {
        // One that ends already goes on with it.
        if self.0.hub.termination().is_none() && !self.0.life.has_begun() {
            tracing::warn!(
                target: "cluster::membership", event = "dropped_without_leave", node = %self.0.me,
                "the last handle was dropped without leaving; the other members will see this node as unreachable"
            );
            self.0.stop();
        }
    }
}

/// A running node of a cluster. Cheap to clone; dropping the last clone stops the node without leaving, so
/// call [`Cluster::leave`] first. [`Region`]s and [`Events`] do not keep it alive.
#[derive(Clone)]
pub struct Cluster {
    alive: Arc<Alive>,
}

impl Cluster {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            alive: Arc::new(Alive(shared)),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.alive.0
    }

    /// This node: its address and the uid of this incarnation, shown as `host:port#uid`.
    /// `cluster.address().address()` is `host:port` alone, which others join through; the port is the one
    /// that the system chose if port 0 was bound.
    #[must_use]
    pub fn address(&self) -> &UniqueAddress {
        &self.shared().me
    }

    /// The newest view of the cluster. Costs one lock and one reference count.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.shared().hub.view()
    }

    /// Whether this node can do work: it is Up or WeaklyUp, the executor that runs its handlers makes
    /// progress, and its membership was confirmed after the last process pause. Use it for a load balancer's
    /// probe, best from a thread of its own: it answers even if the executor makes no progress. Costs one
    /// lock.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared().hub.is_ready()
    }

    /// All members, sorted by node, as of now.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.view().members().to_vec()
    }

    /// Replicated data: counters, sets, maps and registers that every node holds, by name. Cheap.
    #[must_use]
    pub fn data(&self) -> Data {
        Data::new(Arc::clone(self.shared()))
    }

    /// A bucket of the keyed store: values by key, each on N nodes, that any node reads and writes. The name
    /// has 1 to [`BUCKET_NAME_BYTES_MAX`](crate::kv::BUCKET_NAME_BYTES_MAX) bytes; keys are text, values
    /// anything that serde serialises.
    ///
    /// ```no_run
    /// # async fn example(cluster: quorate_driver::Cluster) -> Result<(), Box<dyn std::error::Error>> {
    /// let carts = cluster.kv::<Vec<String>>("carts").copies(3).memory().open().await?;
    /// let found = carts.get("u-1").await?;
    /// let mut cart: Vec<String> = found.values.into_iter().flatten().collect();
    /// cart.push("tea".to_owned());
    /// // In place of all siblings that were seen.
    /// carts.put("u-1", &cart, &found.context).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn kv<V>(&self, bucket: impl AsRef<str>) -> KvBuilder<V> {
        KvBuilder::new(Arc::clone(self.shared()), bucket.as_ref())
    }

    /// Subscribes to cluster events: a stream that starts with a snapshot. A reader that falls behind by more
    /// than [`crate::events::EVENTS_WAITING_MAX`] events gets one [`crate::ClusterEvent::Resync`] in their
    /// place.
    pub fn events(&self) -> Events {
        self.shared().hub.subscribe()
    }

    /// Forms a new cluster with this node as its first member, at once. Other nodes join through it. Two
    /// nodes that form clusters are two clusters for good: where several nodes start at the same time, give
    /// all of them the same [seeds](crate::ClusterBuilder::seeds) instead.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if the node has joined already, [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Dropping it may or may not form the cluster.
    pub async fn form(&self) -> Result<(), ClusterError> {
        let me = self.address().address().clone();
        self.shared()
            .core(Command::Membership(MembershipCommand::Join(me)))
            .await
    }

    /// Begins to join a cluster through these nodes, `host:port` each; the first of them forms a new cluster
    /// if it is this node and no other answers. This node's own address alone forms a cluster of one at once,
    /// as [`Self::form`] does. Completes when joining has begun; [`Self::up`] waits for its end. To join
    /// another node of this program: `second.join([first.address().address()])`.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if the node has joined already or the list is empty, [`ClusterError::Name`]
    /// for an address that is not legal, [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Dropping it may or may not begin to join.
    pub async fn join(&self, seeds: impl IntoIterator<Item = impl ToString>) -> Result<(), ClusterError> {
        let seeds = parse_addresses(seeds)?;
        let command = match seeds.as_slice() {
            [only] if only == self.address().address() => {
                Command::Membership(MembershipCommand::Join(only.clone()))
            }
            _ => Command::Membership(MembershipCommand::JoinSeeds(seeds)),
        };
        self.shared().core(command).await
    }

    /// Waits until this node is a full member (Up), however long that takes: for ever if it was neither given
    /// seeds nor told to [`form`](Self::form) or [`join`](Self::join), or if no seed answers.
    /// [`Self::explain`] says what it waits for.
    ///
    /// # Errors
    /// [`ClusterError::NotJoined`] if it ends because it could not join, with what was in the way: settings
    /// that differ, for instance, each with both values. [`ClusterError::Stopped`] if it ends for another
    /// reason, or has ended.
    ///
    /// # Cancel safety
    /// Safe: it only watches.
    pub async fn up(&self) -> Result<(), ClusterError> {
        let mut events = self.events();
        loop {
            if self.shared().hub.termination().is_some() {
                return Err(self.ended_before_up());
            }
            if self.view().self_status() == Status::Up {
                return Ok(());
            }
            if events.next().await.is_none() {
                return Err(self.ended_before_up());
            }
        }
    }

    fn ended_before_up(&self) -> ClusterError {
        let hub = &self.shared().hub;
        match (hub.termination(), hub.join_failure()) {
            (
                Some(Termination::Halted(
                    halted @ (HaltReason::IncompatibleConfig
                    | HaltReason::JoinAborted
                    | HaltReason::JoinRefused),
                )),
                Some(cause),
            ) => ClusterError::NotJoined {
                halted,
                cause: Box::new(cause),
            },
            (_, _) => ClusterError::Stopped,
        }
    }

    /// Makes another member leave gracefully. Completes when the request is on its way.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if no member has this address.
    ///
    /// # Cancel safety
    /// Dropping it may or may not send the request.
    pub async fn leave_member(&self, address: impl ToString) -> Result<(), ClusterError> {
        let text = address.to_string();
        let address = parse_address(&text).map_err(|error| ClusterError::Name { value: text, error })?;
        self.shared()
            .core(Command::Membership(MembershipCommand::LeaveMember(address)))
            .await
    }

    /// Declares a member Down, as `host:port` or, for exactly one incarnation, as `host:port#uid` (the form
    /// in which a [`UniqueAddress`] is shown). Its work moves elsewhere; if it still runs it stops itself.
    /// Completes when the decision is on its way.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if there is no such member.
    ///
    /// # Cancel safety
    /// Dropping it may or may not send the request.
    pub async fn down(&self, member: impl ToString) -> Result<(), ClusterError> {
        let target = parse_down_target(&member.to_string())?;
        self.shared()
            .core(Command::Membership(MembershipCommand::Down(target)))
            .await
    }

    /// Removes a member at once, as `host:port` or `host:port#uid`: without waiting for convergence, and
    /// without proof that it stopped. The last resort when a member cannot be removed otherwise; prefer
    /// [`Self::down`]. If the member still runs, it stops when it learns of its removal; until then it may
    /// run what others now run too. Its work moves after the removal margin. Two members that remove each
    /// other at the same time may both go on, as two clusters. Repeating it is harmless.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if there is no such member, or it is this node and not the only one.
    ///
    /// # Cancel safety
    /// Dropping it may or may not remove the member.
    pub async fn remove(&self, member: impl ToString) -> Result<(), ClusterError> {
        let target = parse_down_target(&member.to_string())?;
        self.shared()
            .core(Command::Membership(MembershipCommand::Remove(target)))
            .await
    }

    /// Reads and changes where the shards of a kind with external allocation should be, from any node,
    /// whether it has the kind or not.
    ///
    /// # Errors
    /// [`PlaceError::Refused`] if no kind with external allocation can have this name: it is empty, or longer
    /// than 237 bytes.
    pub fn shard_places(&self, kind: &str) -> Result<ShardPlaces, PlaceError> {
        ShardPlaces::new(Arc::clone(self.shared()), kind)
    }

    /// A handle to all entities of a kind that this node has registered, as a host or a proxy, by its name:
    /// `cluster.region::<Message, Reply>("greeter")?`. Costs one lock and a look-up.
    ///
    /// # Errors
    /// [`LookupError`] if the kind is not registered here, or with other types.
    pub fn region<M: 'static, R: 'static>(&self, kind: &str) -> Result<Region<M, R>, LookupError> {
        Region::known(self.shared(), kind)
    }

    /// A handle to a singleton that this node has registered, as a host or a proxy, by its name:
    /// `cluster.singleton_ref::<Message, Reply>("billing")?`. Costs one lock and a look-up.
    ///
    /// # Errors
    /// [`LookupError`] if the singleton is not registered here, or with other types.
    pub fn singleton_ref<M: 'static, R: 'static>(&self, name: &str) -> Result<Singleton<M, R>, LookupError> {
        Singleton::known(self.shared(), name)
    }

    /// The way to a path by its name, for senders and operators; this node need not host or have registered
    /// it: `cluster.path::<Message, Reply>("shop/orders")?`. Which path a name belongs to, or is below of, is
    /// looked up when something is sent.
    ///
    /// # Errors
    /// [`ClusterError::Path`] for a name that is no path, [`ClusterError::Lookup`] if it is registered here
    /// with other types.
    pub fn path<M: 'static, R: 'static>(&self, name: impl AsRef<str>) -> Result<Path<M, R>, ClusterError> {
        Path::known(self.shared(), name.as_ref())
    }

    /// Every path of the cluster as this node knows it: who hosts which slot, what moves and how far it is,
    /// and which instances run here. Costs time linear in the slots.
    ///
    /// # Errors
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn paths_state(&self) -> Result<Vec<PathState>, ClusterError> {
        self.shared().paths().await
    }

    /// Every bucket of the keyed store that is open here, as this node knows it: who owns which range, and
    /// which one is being replaced. The node that coordinates it knows; others may be behind. Costs time
    /// linear in the ranges, the calls that are open and the hints that are kept.
    ///
    /// # Errors
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn kv_state(&self) -> Result<Vec<BucketState>, ClusterError> {
        self.shared().buckets().await
    }

    /// Watches an incarnation of a node: completes once it has been removed from the cluster
    /// ([`TerminationReason::NodeRemoved`](crate::TerminationReason::NodeRemoved)), at once if it was removed
    /// before. One that is unreachable or Down is waited for: it may run until its removal. A node that
    /// restarts at the same address is another one, and the end of this one.
    ///
    /// A node that is no member is waited for for half a minute, because pictures lag; if it does not appear
    /// the watch completes with [`NeverSeen`](crate::TerminationReason::NeverSeen): it never was a member, or
    /// its removal has been forgotten (`membership.prune_removed_after`).
    pub fn watch(&self, node: &UniqueAddress) -> Watch {
        Watch::new(self.shared(), WatchTarget::Node(node.clone()))
    }

    /// The node's counters, as of now.
    ///
    /// # Errors
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn stats(&self) -> Result<NodeStats, ClusterError> {
        self.shared().stats().await
    }

    /// The links that this node dials, in the order of the addresses: two per peer, and a third where there
    /// was bulk data (`docs/adr/0001`).
    ///
    /// # Errors
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn links(&self) -> Result<Vec<LinkState>, ClusterError> {
        self.shared().links().await
    }

    /// Where the shards of every kind are, as this node knows it. Costs time linear in their number.
    ///
    /// # Errors
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn sharding_state(&self) -> Result<Vec<KindState>, ClusterError> {
        self.shared().kinds().await
    }

    /// Why the cluster has not converged, as this node sees it, in words an operator can act on: who keeps
    /// the leader from acting, who observes whom unreachable, what each member on its way in or out waits
    /// for, what the split-brain resolver would decide. Print it. Costs time linear in the members.
    ///
    /// # Errors
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn explain(&self) -> Result<Explanation, ClusterError> {
        self.shared().explain().await
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cluster").field(self.address()).finish()
    }
}
