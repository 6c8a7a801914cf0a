//! How a path is described, registered and hosted. The core checks it; nothing is decided here.

use std::fmt;
use std::sync::Arc;

use quorate_core::ident::Role;
use quorate_core::paths::state::instances::FaultTolerance;
use quorate_core::paths::state::options::HandoffOptions;
use quorate_core::paths::state::settings::{PathRouter, PathSettings};
use serde::de::DeserializeOwned;

use crate::delivery::{Mail, MailboxStarter};
use crate::entity::{Entity, EntityContext, Stateful, StatefulStarter, TypedStarter};
use crate::error::{ClusterError, PathError};
use crate::journal::Keeper;
use crate::paths::{Path, parse_path};
use crate::shared::Shared;
use crate::supervision::{Directive, Supervision};

/// Describes a path, and hosts its instances or only registers it. See
/// [`Cluster::instances`](crate::Cluster::instances).
///
/// The whole cluster has one description of a path: a registration that differs from it is refused, and
/// [`Path::change`] changes it.
#[must_use = "nothing happens before it is started or registered"]
#[derive(Clone)]
pub struct InstancesBuilder {
    shared: Arc<Shared>,
    name: String,
    role: Option<String>,
    /// What is wished beside name and role.
    settings: Wished,
}

/// See [`PathSettings`], where each of these stands.
#[derive(Clone, Debug)]
struct Wished {
    fault_tolerance: FaultTolerance,
    instances_min: u16,
    instances_max: u16,
    expected_load: u16,
    handoff: HandoffOptions,
    router: PathRouter,
    subtree: bool,
    mailbox: bool,
}

impl Default for Wished {
    fn default() -> Self {
        Self {
            fault_tolerance: FaultTolerance::Constant(0),
            instances_min: 1,
            instances_max: crate::paths::INSTANCES_MAX,
            expected_load: 100,
            handoff: HandoffOptions::ORDERED,
            router: PathRouter::RoundRobin,
            subtree: false,
            mailbox: false,
        }
    }
}

impl InstancesBuilder {
    pub(crate) fn new(shared: Arc<Shared>, name: &str) -> Self {
        Self {
            shared,
            name: name.to_owned(),
            role: None,
            settings: Wished::default(),
        }
    }

    /// Instances run on members with this role (default: on all).
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.role = Some(role.into());
        self
    }

    /// How many hosts may be lost at once while an instance still runs: a constant, a share of the members
    /// that can host it, or by a table (default: none may, so there is one instance). There is one instance
    /// more than that, each on a member of its own.
    pub fn fault_tolerance(mut self, tolerance: FaultTolerance) -> Self {
        self.settings.fault_tolerance = tolerance;
        self
    }

    /// At least so many instances (default 1, 1 to 1,024), as far as there are members for them.
    pub const fn at_least(mut self, instances: u16) -> Self {
        self.settings.instances_min = instances;
        self
    }

    /// At most so many instances, whatever load and fault tolerance ask for (default 1,024, which is the
    /// most).
    pub const fn at_most(mut self, instances: u16) -> Self {
        self.settings.instances_max = instances;
        self
    }

    /// A hint for scaling: the load to expect in percent of what is measured (default 100, 1 to 10,000). 200
    /// has instances added at half the load at which they are otherwise, for a peak that is known to come;
    /// see [`Path::change`].
    pub const fn expected_load(mut self, percent: u16) -> Self {
        self.settings.expected_load = percent;
        self
    }

    /// What happens to messages while a slot moves: one of the presets [`HandoffOptions::STATELESS`],
    /// [`ORDERED`](HandoffOptions::ORDERED) (the default), [`LOSSY`](HandoffOptions::LOSSY),
    /// [`STATEFUL`](HandoffOptions::STATEFUL), [`DURABLE`](HandoffOptions::DURABLE), or options of one's own.
    /// The page `docs/paths.md` has a table of what each of them guarantees.
    pub const fn handoff(mut self, options: HandoffOptions) -> Self {
        self.settings.handoff = options;
        self
    }

    /// How a message that names no instance finds one (default: round robin).
    pub const fn router(mut self, router: PathRouter) -> Self {
        self.settings.router = router;
        self
    }

    /// Each instance is the top of a subtree: messages to paths below this one go to an instance of it, those
    /// to one name to the same instance while their number stays. [`EntityContext::below`] says which.
    pub const fn subtree(mut self) -> Self {
        self.settings.subtree = true;
        self
    }

    /// Each slot has a durable mailbox: for [`Self::register`] on a node that hosts none.
    /// [`Self::start_mailbox`] says it by itself.
    pub const fn mailbox(mut self) -> Self {
        self.settings.mailbox = true;
        self
    }

    /// Registers the path and hosts instances of it on this node: those slots that the leader gives it.
    /// `make` is called on the caller's runtime for each instance, whose path, slot and fencing token its
    /// context has. Completes when the leader has accepted the path, which takes a member that leads and a
    /// cluster that has converged: call it once the node is up ([`Cluster::up`](crate::Cluster::up)).
    /// Instances start after that.
    ///
    /// Do it on every node with the role: one that has not is passed over with the event
    /// [`PathEvent::CodeMissing`](crate::paths::PathEvent::CodeMissing). Calling it again as it is changes
    /// nothing, but that later instances are made by the newer `make`.
    ///
    /// # Errors
    /// [`ClusterError::Path`] for a name that is no path, or where [`HandoffOptions::transfer`] is set: see
    /// [`Self::start_stateful`], or [`Self::mailbox`]; [`ClusterError::Refused`] with a
    /// [`PathCommandError`](crate::paths::PathCommandError) if the settings are not legal, the leader refuses
    /// them, or none answered within `paths.request_timeout`: it may still be done then;
    /// [`ClusterError::Lookup`] if it is registered here with other types, [`ClusterError::Name`] if the role
    /// is not legal, [`ClusterError::Stopped`]. The node hosts the path from the first attempt on, also if
    /// that was refused.
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn start<E, F>(self, make: F) -> Result<Path<E::Message, E::Reply>, ClusterError>
    where
        E: Entity,
        F: Fn(EntityContext) -> E + Send + Sync + 'static,
    {
        let settings = self.settings_without_mailbox()?;
        if settings.handoff.transfer {
            return Err(PathError::WithoutState { path: self.name }.into());
        }
        let starter = Arc::new(TypedStarter {
            make: Arc::new(make),
            shared: Arc::clone(&self.shared),
            // The core begins another instance after a pause.
            supervision: Arc::new(Supervision::always(Directive::Stop)),
        });
        Path::register(&self.shared, settings, Some(starter)).await
    }

    /// Like [`Self::start`], for instances whose state goes with them when their slot moves: `make` gets what
    /// the one before left, or `None` for the first one and for one whose predecessor died or failed. State
    /// is moved if the options say so: `handoff(HandoffOptions::STATEFUL)`.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn start_stateful<E, F>(self, make: F) -> Result<Path<E::Message, E::Reply>, ClusterError>
    where
        E: Stateful,
        F: Fn(EntityContext, Option<E::State>) -> E + Send + Sync + 'static,
    {
        let settings = self.settings_without_mailbox()?;
        let starter = Arc::new(StatefulStarter::<F, E>::new(make, &self.shared));
        Path::register(&self.shared, settings, Some(starter)).await
    }

    /// Like [`Self::start`], for instances with a durable mailbox, one for each slot: an ask completes with
    /// `()` when its message is in the store, before it is handled; from then on it survives the death of
    /// every host. Whoever hosts the slot handles what is kept, in order, each message once; only the one
    /// that an instance was at when it failed, died or moved may come again, marked as such
    /// ([`Mail::is_repeated`](crate::delivery::Mail)). A message that is told is kept all the same, without a
    /// word.
    ///
    /// A full mailbox refuses the newest with [`MailboxFull`](crate::AskFailure::MailboxFull), a store
    /// without room with [`NotDurable`](crate::AskError::NotDurable); neither was kept. An ask that times out
    /// may have been. A message over which the instance fails comes again after `paths.restart_backoff_min`
    /// to `paths.restart_backoff_max`, and holds up those behind it: nothing that was kept is dropped. An
    /// instance that wants to go on without it sets it aside when it comes repeated.
    ///
    /// It takes a store that every host reaches, as durable entities do, `handoff(HandoffOptions::DURABLE)`,
    /// and `start_mailbox` on every host: one that started the path otherwise is passed over. Senders need
    /// nothing: [`Cluster::path`](crate::Cluster::path) with the types `M` and `()`.
    ///
    /// # Errors
    /// Those of [`Self::start`]; [`ClusterError::Path`] with other options than [`HandoffOptions::DURABLE`];
    /// [`ClusterError::Durability`] without a store that every host reaches.
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn start_mailbox<E, M, F>(self, make: F) -> Result<Path<M, ()>, ClusterError>
    where
        E: Entity<Message = Mail<M>, Reply = ()>,
        M: DeserializeOwned + Send + 'static,
        F: Fn(EntityContext) -> E + Send + Sync + 'static,
    {
        let shared = Arc::clone(&self.shared);
        let settings = self.mailbox().settings()?;
        settings.check().map_err(PathError::Settings)?;
        let (keeper, _) = Keeper::of(&shared, false)?;
        let starter = Arc::new(MailboxStarter {
            make: Arc::new(make),
            shared: Arc::clone(&shared),
            keeper,
        });
        Path::register(&shared, settings, Some(starter)).await
    }

    /// Registers the path for the cluster without hosting instances here: others do. Who only sends need not
    /// even do this: [`Cluster::path`](crate::Cluster::path).
    ///
    /// # Errors
    /// Those of [`Self::start`].
    ///
    /// # Cancel safety
    /// Dropping it may or may not register.
    pub async fn register<M: 'static, R: 'static>(self) -> Result<Path<M, R>, ClusterError> {
        let settings = self.settings()?;
        Path::register(&self.shared, settings, None).await
    }

    fn settings_without_mailbox(&self) -> Result<PathSettings, ClusterError> {
        if self.settings.mailbox {
            let path = self.name.clone();
            return Err(PathError::WithMailbox { path }.into());
        }
        self.settings()
    }

    fn settings(&self) -> Result<PathSettings, ClusterError> {
        let role = match &self.role {
            None => None,
            Some(role) => Some(Role::new(role).map_err(|error| ClusterError::Name {
                value: role.clone(),
                error,
            })?),
        };
        let wished = self.settings.clone();
        Ok(PathSettings {
            role,
            fault_tolerance: wished.fault_tolerance,
            instances_min: wished.instances_min,
            instances_max: wished.instances_max,
            expected_load: wished.expected_load,
            handoff: wished.handoff,
            router: wished.router,
            subtree: wished.subtree,
            mailbox: wished.mailbox,
            ..PathSettings::new(parse_path(&self.name)?)
        })
    }
}

impl fmt::Debug for InstancesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstancesBuilder")
            .field("name", &self.name)
            .field("role", &self.role)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
