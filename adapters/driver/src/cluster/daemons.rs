//! How daemons are described and started. Decides nothing.

use std::fmt;
use std::sync::Arc;

use quorate_core::daemons::{DAEMONS_MAX, extractor};
use quorate_core::effect::{CommandError, SingletonCommandError};
use quorate_core::sharding::allocation::AllocationSettings;
use quorate_core::sharding::passivation::PassivationSettings;

use super::Cluster;
use crate::daemons::{Answered, Daemon, DaemonStarter, Daemons, Manager, Scales, Told};
use crate::delivery::NAME_BYTES;
use crate::error::{ClusterError, DaemonsError};
use crate::kind::Kind;
use crate::region::Region;
use crate::singleton_builder::SingletonBuilder;

/// Builds daemons of a name. See [`Cluster::daemons`].
#[must_use = "nothing happens before they are started or a proxy is made"]
pub struct DaemonsBuilder {
    cluster: Cluster,
    name: String,
    role: Option<String>,
    allocation: Option<AllocationSettings>,
}

impl Cluster {
    /// Daemons: a fixed number of tasks, each of which runs exactly once in the cluster. They are spread over
    /// the members with a role, and start elsewhere when their node is gone. The name has 1 to 200 bytes.
    ///
    /// ```no_run
    /// # use quorate_driver::{Cluster, Daemon, DaemonContext};
    /// # struct Projection(u32);
    /// # impl Daemon for Projection {
    /// #     async fn run(&mut self, daemon: &DaemonContext) { daemon.stopping().await }
    /// # }
    /// # async fn example(cluster: Cluster) -> Result<(), Box<dyn std::error::Error>> {
    /// // On every node with the role:
    /// let projections = cluster.daemons("projections").role("backend");
    /// let projections = projections.start(4, |index| Projection(index)).await?;
    /// // From any node, at any time:
    /// projections.rescale(7).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn daemons(&self, name: impl Into<String>) -> DaemonsBuilder {
        DaemonsBuilder {
            cluster: self.clone(),
            name: name.into(),
            role: None,
            allocation: None,
        }
    }
}

impl DaemonsBuilder {
    /// Only members with this role run them (default: all). The same on every node, proxies included. Mirrors
    /// `role`.
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.role = Some(role.into());
        self
    }

    /// Sets how daemons are spread over the nodes; each has a shard of its own (default:
    /// `sharding.rebalance_…` of the configuration). Mirrors the shard allocation strategy of Akka.
    pub fn allocation(mut self, settings: AllocationSettings) -> Self {
        self.allocation = Some(settings);
        self
    }

    /// Runs daemons on this node; `make` makes one by its number. Call it on every node with the role.
    /// `count`, 1 to [`DAEMONS_MAX`], is how many there are at first: once anybody has begun,
    /// [`Daemons::rescale`] changes it, and what the cluster has agreed on counts for as long as one of its
    /// members lives.
    ///
    /// # Errors
    /// [`ClusterError::Daemons`] for a number out of range, and those of
    /// [`EntitiesBuilder::start`](crate::EntitiesBuilder::start) and
    /// [`SingletonBuilder::start`](crate::SingletonBuilder::start): daemons are entities, and who sees to
    /// them is a singleton.
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn start<D, F>(self, count: u32, make: F) -> Result<Daemons, ClusterError>
    where
        D: Daemon,
        F: Fn(u32) -> D + Send + Sync + 'static,
    {
        if !(1..=DAEMONS_MAX).contains(&count) {
            return Err(ClusterError::Daemons(DaemonsError::Count));
        }
        self.named()?;
        let shared = Arc::clone(self.cluster.shared());
        let scales = self.scales();
        let starter = DaemonStarter {
            make: Arc::new(make),
            shared: Arc::clone(&shared),
            scales: scales.clone(),
        };
        let region = Region::host(&shared, &self.kind(), Arc::new(starter)).await?;
        let patience = shared.handoff_timeout;
        let make = move |_| Manager::new(Arc::clone(&shared), region.clone(), scales.clone(), count);
        let manager = self.singleton().start(make).await?;
        // A change ends daemons that may each take a while, and asks again where one moves meanwhile.
        let patience = patience.saturating_mul(2);
        Ok(Daemons::new(manager, patience))
    }

    /// Reaches the daemons from this node without running any.
    ///
    /// # Errors
    /// Those of [`SingletonBuilder::proxy`](crate::SingletonBuilder::proxy).
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn proxy(self) -> Result<Daemons, ClusterError> {
        self.named()?;
        let patience = self.cluster.shared().handoff_timeout.saturating_mul(2);
        let manager = self.singleton().proxy().await?;
        Ok(Daemons::new(manager, patience))
    }

    fn named(&self) -> Result<(), ClusterError> {
        let error = CommandError::Singleton(SingletonCommandError::BadName);
        let is_legal = NAME_BYTES.contains(&self.name.len());
        is_legal.then_some(()).ok_or(ClusterError::Refused(error))
    }

    /// Akka's name for it.
    fn internal_name(&self) -> String {
        format!("sharded-daemon-process-{}", self.name)
    }

    fn scales(&self) -> Scales {
        Scales::of(self.cluster.data().set(self.internal_name()))
    }

    fn kind(&self) -> Kind<Told, Answered> {
        let mut kind = Kind::new(self.internal_name())
            .shards(DAEMONS_MAX)
            .extractor(extractor())
            .passivation(PassivationSettings::off());
        if let Some(role) = &self.role {
            kind = kind.role(role);
        }
        if let Some(allocation) = &self.allocation {
            kind = kind.allocation(allocation.clone());
        }
        kind
    }

    fn singleton(&self) -> SingletonBuilder {
        let singleton = self.cluster.singleton(self.internal_name());
        match &self.role {
            Some(role) => singleton.role(role),
            None => singleton,
        }
    }
}

impl fmt::Debug for DaemonsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DaemonsBuilder")
            .field("name", &self.name)
            .field("role", &self.role)
            .field("allocation", &self.allocation)
            .finish_non_exhaustive()
    }
}
