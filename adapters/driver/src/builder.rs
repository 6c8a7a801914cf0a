//! How a node is described and started. Checks everything before anything runs. Spec: `README.md`.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use quorate_core::admission::Admission;
use quorate_core::agreement::{JoinChecker, Setting};
use quorate_core::config::{Config, DowningStrategy, ValidConfig};
use quorate_core::ddata::crdt::CustomType;
use quorate_core::ident::{Address, ClusterName, NameError, Role, UniqueAddress};
use quorate_core::input::{Command, MembershipCommand};
use quorate_core::membership::app_version::AppVersion;
use quorate_links::{LinkLimits, ValidLinkLimits};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::adapter::Adapter;
use crate::background::Background;
use crate::cluster::{Cluster, check_port, parse_address};
use crate::error::StartError;
use crate::lease::{LeaseKeeper, Leases};
use crate::mailbox::{MailboxGate, Reports, SleepUntil};
use crate::pump::policy::{Joiner, Manager, Policy};
use crate::pump::{Parts, Pump};
use crate::run::{self, Network, Runtimes};
use crate::runtime::Runtime;
use crate::security::{Method, Security};
use crate::shared::{Shared, SharedParts};
use crate::shutdown::Life;
use crate::store::{Store, Stores};
use crate::sync::{self, Notify};
use crate::transport::{Listener, Transport};

/// The address a node listens on unless [`ClusterBuilder::bind`] sets one: loopback, so that no port is
/// opened to the network by accident, with the port that Akka's tutorials use.
pub const BIND_DEFAULT: &str = "127.0.0.1:2551";

/// The state of a builder before [`ClusterBuilder::security`] was called: it has no `start`.
#[derive(Clone, Copy, Debug)]
pub struct SecurityNotChosen;

/// What a caller wants of the configuration, or of the limits of links.
type Change<C> = Box<dyn FnOnce(&mut C) + Send>;

/// Builds a node. Made by an adapter's `builder`, `quorate_tokio::builder("orders")` for instance; every
/// method takes and returns it by value. Names and addresses are checked by [`ClusterBuilder::start`], which
/// exists only once [`ClusterBuilder::security`] was called.
#[must_use = "a builder does nothing until it is started"]
pub struct ClusterBuilder<S = SecurityNotChosen> {
    entry: Entry,
    name: String,
    bind: String,
    advertise: Option<String>,
    roles: Vec<String>,
    app_version: Option<String>,
    seeds: Vec<String>,
    preset: fn(ClusterName) -> Config,
    changes: Vec<Change<Config>>,
    link_changes: Vec<Change<LinkLimits>>,
    leases: Option<Arc<dyn LeaseKeeper>>,
    store: Option<Box<dyn Store>>,
    data_types: Vec<Arc<dyn CustomType>>,
    policy: Policy,
    join_checkers: Vec<Arc<dyn JoinChecker>>,
    security: S,
}

impl ClusterBuilder {
    /// Describes a node with this adapter. For users an adapter's crate has a function that takes the name
    /// alone and is compiled with the crate, instead of with every program: see [`Self::started_by`].
    pub fn on<A: Adapter>(name: impl Into<String>) -> Self {
        Self::started_by(start_on::<A>, name.into())
    }

    /// Describes a node that is started by this function: [`start_on`] of an adapter, in a function that has
    /// no parameter, so that the adapter's crate compiles the node's loop and links.
    pub fn started_by(entry: Entry, name: String) -> Self {
        Self {
            entry,
            name,
            bind: BIND_DEFAULT.to_owned(),
            advertise: None,
            roles: Vec::new(),
            app_version: None,
            seeds: Vec::new(),
            preset: Config::lan,
            changes: Vec::new(),
            link_changes: Vec::new(),
            leases: None,
            store: None,
            data_types: Vec::new(),
            policy: Policy::default(),
            join_checkers: Vec::new(),
            security: SecurityNotChosen,
        }
    }
}

impl<S> ClusterBuilder<S> {
    /// Sets the address to listen on, `host:port` (default [`BIND_DEFAULT`]). With port 0 the system chooses,
    /// and the port it chose is the node's.
    pub fn bind(mut self, address: impl ToString) -> Self {
        self.bind = address.to_string();
        self
    }

    /// Sets the address that peers dial, `host:port` (default: where it listens). Port 0 stands for the port
    /// it listens at.
    pub fn advertise(mut self, address: impl ToString) -> Self {
        self.advertise = Some(address.to_string());
        self
    }

    /// Adds a role to this node.
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.roles.push(role.into());
        self
    }

    /// Sets the version of the application, which the other members see and a rolling restart goes by
    /// (default `0.0.0`): `major[.minor[.patch]]` with a suffix behind `-` or `+`, at most 64 bytes,
    /// `env!("CARGO_PKG_VERSION")` for instance.
    pub fn app_version(mut self, version: impl Into<String>) -> Self {
        self.app_version = Some(version.into());
        self
    }

    /// Sets the seeds to join through, `host:port` each; the same list, in the same order, on every node. The
    /// node joins when it is started; the first of the list forms a new cluster if no other answers. Without
    /// seeds the node waits for [`Cluster::join`] or [`Cluster::form`].
    pub fn seeds(mut self, seeds: impl IntoIterator<Item = impl ToString>) -> Self {
        self.seeds.extend(seeds.into_iter().map(|seed| seed.to_string()));
        self
    }

    /// Starts from this preset instead of [`Config::lan`]: [`Config::one_data_center`], for instance.
    pub fn preset(mut self, preset: fn(ClusterName) -> Config) -> Self {
        self.preset = preset;
        self
    }

    /// Starts from [`Config::fast`], the timings for demonstrations and tests on one machine.
    pub fn fast_profile(self) -> Self {
        self.preset(Config::fast)
    }

    /// Changes the configuration. Called in `start`, after the preset and in the order given; ranges are
    /// checked after it.
    pub fn config(mut self, change: impl FnOnce(&mut Config) + Send + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Changes the limits of links: handshakes, places, rates, queues. Called in `start`, in the order given;
    /// ranges are checked after it. `docs/limits.md` says what counts against each.
    pub fn link_limits(mut self, change: impl FnOnce(&mut LinkLimits) + Send + 'static) -> Self {
        self.link_changes.push(Box::new(change));
        self
    }

    /// Sets the lease keeper, for lease-majority and for kinds and singletons with a lease (default: none).
    /// [`crate::lease::FileLeases`] serves the processes of one machine.
    pub fn leases(mut self, keeper: Arc<dyn LeaseKeeper>) -> Self {
        self.leases = Some(keeper);
        self
    }

    /// Sets the store that keeps what must survive the process (default: none). It runs on a thread of its
    /// own, so a stalled disk delays no heartbeat; it is closed when the node has ended. `store::MemoryStore`
    /// (one node) and `store::SharedMemoryStore` (all nodes of a process) are for tests,
    /// `quorate-store-redb` keeps a file, `quorate-store-postgres` serves several machines.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Box::new(store));
        self
    }

    /// Registers a replicated type of your own ([`crate::data::OwnType`]). All nodes need the same types: a
    /// node with others is not admitted.
    pub fn data_type(mut self, kind: impl CustomType + 'static) -> Self {
        self.data_types.push(Arc::new(kind));
        self
    }

    /// Sets the policy that decides which nodes may join (default: every node that gets a link and whose
    /// settings agree). An error refuses the node; it appears in the audit line, and the joiner is told that
    /// it was not admitted. Every node asks its own policy about those who join through it, so give all nodes
    /// the same one. Called on the node's loop: it must answer at once.
    pub fn join_policy(
        mut self,
        admits: impl Fn(&Joiner<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.policy.admits = Some(Arc::new(admits));
        self
    }

    /// Sets the policy that decides whether a peer may make a member leave or down it through this node
    /// (default: every member may). An error drops the request and appears in the audit line. What this
    /// node's own program asks for, and what the split-brain resolver decides, is not asked about. Called on
    /// the node's loop: it must answer at once.
    pub fn management_policy(
        mut self,
        allows: impl Fn(&Manager<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.policy.allows = Some(Arc::new(allows));
        self
    }

    /// Adds a setting of the application that every node of the cluster has to have, with this value: 1 to 64
    /// bytes of `A-Z a-z 0-9 . _ : -` as key, none of Quorate's own sections in front, and at most 128 bytes
    /// of value; at most 32 of them. A node that differs is not admitted, and both sides name the key and
    /// both values, in an event, in the log and in [`Cluster::up`]'s error. For secrets, optional settings
    /// and comparisons of your own see [`ClusterBuilder::join_checker`].
    ///
    /// ```no_run
    /// # fn of(builder: quorate_driver::ClusterBuilder) -> quorate_driver::ClusterBuilder {
    /// builder
    ///     .check_on_join("billing.currency", "EUR")
    ///     .check_on_join("orders.schema", 7)
    /// # }
    /// ```
    pub fn check_on_join(self, key: impl Into<String>, value: impl ToString) -> Self {
        self.join_checker(Setting::new(key, value))
    }

    /// Adds settings of the application that all nodes have to agree on, by their own comparison. A
    /// [`Setting`] is a checker too, one that wants equal values: [`Setting::secret`] says only a hash of its
    /// value, [`Setting::if_known`] is compared with nodes that have it.
    pub fn join_checker(mut self, checker: impl JoinChecker + 'static) -> Self {
        self.join_checkers.push(Arc::new(checker));
        self
    }

    /// Sets how links are protected. There is no default: the choice has to be visible in the program.
    pub fn security(self, security: Security) -> ClusterBuilder<Security> {
        ClusterBuilder {
            entry: self.entry,
            name: self.name,
            bind: self.bind,
            advertise: self.advertise,
            roles: self.roles,
            app_version: self.app_version,
            seeds: self.seeds,
            preset: self.preset,
            changes: self.changes,
            link_changes: self.link_changes,
            leases: self.leases,
            store: self.store,
            data_types: self.data_types,
            policy: self.policy,
            join_checkers: self.join_checkers,
            security,
        }
    }
}

impl<S> fmt::Debug for ClusterBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterBuilder")
            .field("name", &self.name)
            .field("bind", &self.bind)
            .field("advertise", &self.advertise)
            .field("roles", &self.roles)
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
}

/// A node on its way: see [`start_on`].
pub type Starting = Pin<Box<dyn Future<Output = Result<Cluster, StartError>> + Send>>;

/// What starts a node that was described: [`start_on`] of an adapter.
pub type Entry = fn(ClusterBuilder<Security>) -> Starting;

/// Starts a node with this adapter. Whoever calls it compiles the node's loop, its links and the adapter's
/// security.
#[must_use = "a node that nobody waits for is not started"]
pub fn start_on<A: Adapter>(builder: ClusterBuilder<Security>) -> Starting {
    Box::pin(builder.start_with::<A>())
}

impl ClusterBuilder<Security> {
    /// Starts the node: listens, runs it in tasks of the caller's runtime, and begins to join if seeds were
    /// given. Does not wait for the cluster: that is [`Cluster::up`].
    ///
    /// # Errors
    /// [`StartError`] says which setting is wrong or what the system refused; nothing is left running.
    ///
    /// # Cancel safety
    /// Dropping it tears down what was started.
    pub async fn start(self) -> Result<Cluster, StartError> {
        (self.entry)(self).await
    }

    async fn start_with<A: Adapter>(mut self) -> Result<Cluster, StartError> {
        let config = self.valid_config()?;
        let limits = self.valid_link_limits(&config)?;
        if self.leases.is_none() && matches!(config.downing.strategy, DowningStrategy::LeaseMajority(_)) {
            return Err(StartError::NoLeaseKeeper);
        }
        let seeds = self.seed_addresses()?;
        let environment = |what| move |error| StartError::Environment { what, error };
        let users = A::runtime().map_err(environment("runtime"))?;
        let runtime = users.dedicated().map_err(environment("thread of the node"))?;
        let security = self.security.clone().limited_by(&limits);
        let transport = A::transport(&runtime, &security).map_err(environment("transport"))?;
        let bind_error = |error| StartError::Bind {
            address: self.bind.clone(),
            error,
        };
        let listener = bind(&runtime, &transport, &self.bind).await.map_err(bind_error)?;
        let port = listener.local_address().map_err(bind_error)?.port();
        let address = self.own_address(port)?;
        let (uid, seed) = entropy().map_err(environment("entropy"))?;
        let me = UniqueAddress::new(address, uid);
        match security.method() {
            Method::InsecurePlaintext => tracing::warn!(
                target: "cluster::transport", event = "insecure_plaintext", node = %me,
                "links are neither authenticated nor encrypted; anyone who reaches this port can control the cluster"
            ),
            Method::Psk | Method::Mtls => {}
        }
        let wake = Arc::new(Notify::default());
        let detector = &config.failure_detector;
        // What the core calls a pause: a heartbeat round later than that.
        let late = detector
            .acceptable_heartbeat_pause
            .max(detector.heartbeat_interval);
        // The users' runtime: it has the same clock, and the node's own must not live as long as an entity.
        let clock = users.clone();
        let gate = MailboxGate::new(detector.heartbeat_interval + late, move || clock.mono());
        let sleep = SleepUntil::new(users.clone());
        let reports = Arc::new(Reports::new(Arc::clone(&wake), gate, sleep));
        let stores = match self.store.take() {
            Some(store) => Stores::start(store, Arc::clone(&wake)).map_err(environment("store thread"))?,
            None => Stores::default(),
        };
        let executor = users.clone();
        let parts = SharedParts {
            wake,
            background: Background::new(users.clone()),
            store: stores.access(),
            life: Life::new(&config, move |work| executor.spawn(work)),
        };
        let (shared, commands) = Shared::new(me.clone(), &config, parts);
        let rng = ChaCha8Rng::from_seed(seed);
        let leases = match self.leases.take() {
            Some(keeper) => {
                Leases::start(keeper, Arc::clone(&shared.wake)).map_err(environment("lease thread"))?
            }
            None => Leases::default(),
        };
        let parts = Parts {
            config,
            limits,
            me,
            rng,
            reports,
            authentication: security.authentication(),
        };
        let pump = Pump::new(parts, runtime.now())
            .with_watched_executor()
            .with_leases(leases)
            .with_stores(stores)
            .with_measured_load(&shared.wake)
            .with_paced_exit();
        let network = Network { transport, listener };
        run::start(
            Runtimes {
                node: runtime.clone(),
                users,
            },
            network,
            pump,
            Arc::clone(&shared),
            commands,
        );
        let cluster = Cluster::new(shared);
        if !seeds.is_empty() {
            cluster
                .shared()
                .core(Command::Membership(MembershipCommand::JoinSeeds(seeds)))
                .await?;
        }
        Ok(cluster)
    }

    fn valid_config(&mut self) -> Result<ValidConfig, StartError> {
        let name = ClusterName::new(&self.name).map_err(|error| StartError::Name {
            what: "cluster name",
            value: self.name.clone(),
            error,
        })?;
        let mut config = (self.preset)(name);
        for role in &self.roles {
            config
                .roles
                .push(Role::new(role).map_err(|error| StartError::Name {
                    what: "role",
                    value: role.clone(),
                    error,
                })?);
        }
        if let Some(version) = self.app_version.take() {
            config.app_version = AppVersion::new(&version).map_err(|error| StartError::AppVersion {
                value: version,
                error,
            })?;
        }
        for change in self.changes.drain(..) {
            change(&mut config);
        }
        if self.policy.asks_anything() {
            config.membership.admission = Admission(Arc::new(self.policy.clone()));
        }
        for checker in self.join_checkers.drain(..) {
            config.membership.join_checkers.add(checker)?;
        }
        for kind in self.data_types.drain(..) {
            config.ddata.custom_types.register(kind)?;
        }
        let config = config.validate()?;
        if let Some(least) = config.stable_after_too_short_for_detector() {
            tracing::warn!(
                target: "cluster::sbr", event = "sbr_stable_after_too_short",
                stable_after = ?config.stable_after(1), ?least,
                "`downing.stable_after` is too short for the failure detector; both sides of a split may stay"
            );
        }
        Ok(config)
    }

    fn valid_link_limits(&mut self, config: &ValidConfig) -> Result<ValidLinkLimits, StartError> {
        let mut limits = LinkLimits::default();
        for change in self.link_changes.drain(..) {
            change(&mut limits);
        }
        Ok(limits.validate(&config.limits)?)
    }

    fn seed_addresses(&self) -> Result<Vec<Address>, StartError> {
        let parse = |seed: &String| {
            parse_address(seed).map_err(|error| StartError::Name {
                what: "seed",
                value: seed.clone(),
                error,
            })
        };
        self.seeds.iter().map(parse).collect()
    }

    fn own_address(&self, bound_port: u16) -> Result<Address, StartError> {
        let (what, text) = match &self.advertise {
            Some(text) => ("advertised address", text),
            None => ("address", &self.bind),
        };
        let named = |error| StartError::Name {
            what,
            value: text.clone(),
            error,
        };
        let (host, port) = text.rsplit_once(':').ok_or(NameError::NoPort).map_err(named)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if matches!(host, "0.0.0.0" | "::") {
            return Err(StartError::UnspecifiedAddress {
                address: text.clone(),
            });
        }
        let port = match port.parse::<u16>() {
            Ok(0) => bound_port,
            Ok(port) if self.advertise.is_some() => port,
            Ok(_) => bound_port,
            Err(_) => return Err(named(NameError::BadPort)),
        };
        Address::new(host, port).map_err(named)
    }
}

/// Listens in a task of the node's own runtime: some sockets belong to the runtime in which they are opened.
async fn bind<R: Runtime, T: Transport>(
    runtime: &R,
    transport: &T,
    address: &str,
) -> io::Result<T::Listener> {
    check_port(address)?;
    let (reply, bound) = sync::oneshot();
    let (transport, address) = (transport.clone(), address.to_owned());
    runtime.spawn(async move { reply.send(transport.bind(&address).await) });
    let gone = || io::Error::other("the node's own thread has ended");
    bound.await.unwrap_or_else(|| Err(gone()))
}

/// A uid and a seed for the node's generator.
fn entropy() -> std::io::Result<(u64, [u8; 32])> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    Ok((getrandom::u64()?, seed))
}
