//! How a kind of durable entities is registered, and what its node needs for it. Spec: sharding 10.7: a file of one node claims nothing
//! after a move.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::sharding::ids::KindId;

use super::clocks::{Clock, Order, Said, Seeing, kind_beside};
use super::keeper::Keeper;
use super::life::Surroundings;
use super::state::Replacing;
use super::{DurableStarter, DurableState, EventSourced, Sleep};
use crate::adapter::Adapter;
use crate::cluster::Cluster;
use crate::entity::EntityContext;
use crate::error::ClusterError;
use crate::kind::Kind;
use crate::region::Region;
use crate::runtime::Runtime;

impl<A: Adapter> Cluster<A> {
    /// Hosts entities of a kind that keep their events in the node's store, and reaches all of them. `make` is called on the caller's
    /// runtime whenever an entity gets its first message; what it makes is not durable, its [`EventSourced::State`] is. Do it on every
    /// node with the kind's role; elsewhere [`Cluster::register_proxy`] reaches them.
    ///
    /// The store has to be one that all of them share ([`StoreScope::Shared`](crate::StoreScope::Shared)), or the nodes' own stores
    /// vote about logs (`journal.voters`), or the kind is one of a single host ([`Kind::single_host`]).
    ///
    /// # Errors
    /// Those of [`Cluster::register`]; [`ClusterError::Durability`] if the node has no store, or one that no other node reads;
    /// [`ClusterError::NoRuntime`] if the caller is in no runtime.
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
        let runtime = A::runtime().map_err(|error| ClusterError::NoRuntime(error.to_string()))?;
        let sleep: Sleep = Arc::new(move |time: Duration| {
            let until = runtime.now().mono + time;
            Box::pin(runtime.sleep_until(until))
        });
        let (keeper, is_alone) = Keeper::of(self.shared(), kind.has_single_host())?;
        let alone = if is_alone {
            Some(kind.settings(true)?.role)
        } else {
            None
        };
        let around = Surroundings {
            sleep,
            alone,
            clocks: None,
        };
        let clocks = self.clocks_of(&kind, keeper.clone(), around.clone()).await?;
        let starter = DurableStarter {
            make: Arc::new(make),
            shared: Arc::clone(self.shared()),
            keeper,
            around: Surroundings {
                clocks: Some(clocks),
                ..around
            },
        };
        self.host(&kind, Arc::new(starter)).await
    }

    /// Hosts the clocks that wake the entities of a kind, and sees that they run.
    async fn clocks_of<M, R>(
        &self,
        kind: &Kind<M, R>,
        keeper: Keeper,
        around: Surroundings,
    ) -> Result<Region<Order, Said>, ClusterError> {
        let entities = KindId::of(kind.name());
        let clocks = kind_beside(kind);
        let role = clocks.settings(true)?.role;
        let starter = DurableStarter {
            make: Arc::new(move |_| Clock::new(entities)),
            shared: Arc::clone(self.shared()),
            keeper,
            around,
        };
        let region = self.host(&clocks, Arc::new(starter)).await?;
        if self.shared().follows(region.kind()) {
            let seeing = Seeing::new(&region, role);
            self.shared().background.spawn(seeing.run());
        }
        Ok(region)
    }

    /// Hosts entities of a kind that keep their newest state in the node's store. Otherwise as [`Self::register_event_sourced`].
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
        let make = move |context: EntityContext| Replacing {
            inner: make(context),
            nothing: D::State::default(),
        };
        self.register_event_sourced(kind, make).await
    }
}
