//! How a singleton is described and started. The core checks it; nothing is decided here.

use std::fmt;
use std::sync::Arc;

use quorate_core::ident::Role;
use quorate_core::input::SingletonSettings;
use quorate_core::token::Token;

use crate::entity::{Entity, EntityContext, TypedStarter};
use crate::error::ClusterError;
use crate::shared::Shared;
use crate::singleton::Singleton;
use crate::supervision::{Directive, Supervision};

/// Builds a singleton or a proxy to it. See [`Cluster::singleton`](crate::Cluster::singleton).
#[must_use = "nothing happens before it is started or a proxy is made"]
#[derive(Clone)]
pub struct SingletonBuilder {
    shared: Arc<Shared>,
    name: Arc<str>,
    role: Option<String>,
    lease: bool,
    durable: bool,
}

impl SingletonBuilder {
    pub(crate) const fn new(shared: Arc<Shared>, name: Arc<str>) -> Self {
        Self {
            shared,
            name,
            role: None,
            lease: false,
            durable: false,
        }
    }

    /// The oldest member with this role hosts it (default: the oldest of all). The same on every node,
    /// proxies included. Mirrors `role`.
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.role = Some(role.into());
        self
    }

    /// An instance runs only while its node holds the lease `<cluster>-singleton-<name>` (default: without
    /// one), from the keeper that [`ClusterBuilder::leases`](crate::ClusterBuilder::leases) names. The same
    /// on every node that hosts it. It costs fail-over time: a node that died holds its lease for
    /// `singleton.lease_time_to_live`. Mirrors `use-lease`.
    pub const fn lease(mut self) -> Self {
        self.lease = true;
        self
    }

    /// What it holds is kept in the store: nodes that do so and nodes that do not are told apart.
    pub(crate) const fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// Hosts the singleton on this node: its instance runs here while this node is the oldest member that may
    /// host it. `make` is called on the caller's runtime for each instance, with its fencing token, which is
    /// above that of every earlier one. Completes when the cluster has accepted it, on a node that has not
    /// begun to join at once; whether an instance runs here, [`Singleton::is_running_here`] says.
    ///
    /// Do it on every node with the role, early: while the oldest one has not, nobody runs it. Calling it
    /// again as it is changes nothing, but that later instances are made by the newer `make`.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if the name is not legal (1 to 255 bytes), another node or an earlier
    /// registration has it with another role or lease
    /// ([`Differs`](crate::singleton::SingletonCommandError::Differs) names both values; on a node that had
    /// not begun to join the event [`SingletonEvent::Refused`](crate::events::SingletonEvent::Refused) does),
    /// it is one too many (256 on one node), or this node lacks the role or a keeper of the lease that it
    /// asks for, leaves, or is still stopping it; [`ClusterError::Lookup`] if it is registered here with
    /// other types, [`ClusterError::Name`] if the role is not legal, [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn start<E, F>(self, make: F) -> Result<Singleton<E::Message, E::Reply>, ClusterError>
    where
        E: Entity,
        F: Fn(Token) -> E + Send + Sync + 'static,
    {
        let make = move |context: EntityContext| make(context.token());
        let starter = Arc::new(TypedStarter {
            make: Arc::new(make),
            shared: Arc::clone(&self.shared),
            // The cluster begins another instance, with a token of its own, after a pause.
            supervision: Arc::new(Supervision::always(Directive::Stop)),
        });
        let settings = self.settings(true)?;
        Singleton::register(&self.shared, settings, Some(starter)).await
    }

    /// Reaches the singleton from this node without hosting it. A node that hosts it needs no proxy: its
    /// handle is one.
    ///
    /// # Errors
    /// Those of [`Self::start`], but that this node may lack the role.
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn proxy<M: 'static, R: 'static>(self) -> Result<Singleton<M, R>, ClusterError> {
        let settings = self.settings(false)?;
        Singleton::register(&self.shared, settings, None).await
    }

    fn settings(&self, hosts: bool) -> Result<SingletonSettings, ClusterError> {
        let role = match &self.role {
            None => None,
            Some(role) => Some(Role::new(role).map_err(|error| ClusterError::Name {
                value: role.clone(),
                error,
            })?),
        };
        Ok(SingletonSettings {
            name: Arc::clone(&self.name),
            role,
            hosts,
            lease: self.lease,
            durable: self.durable,
        })
    }
}

impl fmt::Debug for SingletonBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingletonBuilder")
            .field("name", &self.name)
            .field("role", &self.role)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}
