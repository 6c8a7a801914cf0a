//! From "registered by the user" to "accepted by the cluster": this node begins to host a singleton when the
//! registry of kinds has accepted its name, role, lease and durability, and ends it when they are refused. A
//! proxy starts nothing and looks for the instance at once. Decides nothing about fields. Spec: sharding
//! 10.11.

use alloc::sync::Arc;

use super::manager::SingletonManager;
use super::protocol::{Event, SingletonCommandError, SingletonSettings};
use super::proxy::SingletonProxy;
use super::state::SingletonId;
use super::state::fields::{SINGLETON_NAME_BYTES_MAX, SingletonFields, SingletonHosting};
use super::{Cx, SINGLETONS_MAX, SingletonEntry, Singletons};
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::ident::UniqueAddress;
use crate::input::Token;
use crate::membership::state::member::Status;
use crate::sharding::protocol::registry::Judgement;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::fields::FieldDifferences;
use crate::view::MembershipPhase;

/// What the cluster makes of a singleton of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SingletonStanding {
    /// Nothing yet.
    Pending,
    /// It may be hosted.
    Accepted,
    /// Not with these fields, until those who have others are gone.
    Refused,
}

/// How far a registration is.
#[derive(Clone, Debug)]
pub(super) struct SingletonRegistration {
    standing: SingletonStanding,
    /// The caller who waits for the decision.
    waits: Option<Token>,
    /// What stands, while something else is asked for.
    earlier: Option<SingletonSettings>,
    /// This node's user wants it hosted here.
    pub(super) hosting: bool,
}

impl SingletonRegistration {
    pub(super) fn is_refused(&self) -> bool {
        self.standing == SingletonStanding::Refused
    }

    /// Whether a manager may do what it does: one whose singleton was not accepted is retired.
    pub(super) fn may_run(&self, manager: &SingletonManager) -> bool {
        self.is_accepted() || manager.is_retired()
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.standing == SingletonStanding::Accepted
    }
}

impl SingletonSettings {
    /// What all nodes have to agree on.
    fn fields(&self) -> SingletonFields {
        let hosting = SingletonHosting {
            lease: self.lease,
            durable: self.durable,
        };
        SingletonFields {
            name: Arc::clone(&self.name),
            role: self.role.clone(),
            hosting: self.hosts.then_some(hosting),
        }
    }
}

impl SingletonEntry {
    fn new(id: SingletonId, settings: SingletonSettings) -> Self {
        Self {
            registration: SingletonRegistration {
                standing: SingletonStanding::Pending,
                waits: None,
                earlier: None,
                hosting: settings.hosts,
            },
            proxy: SingletonProxy::new(id, settings.role.clone()),
            manager: None,
            may_run_twice: None,
            settings,
        }
    }

    /// Whether no instance of it runs or stops here.
    fn runs_nothing(&self) -> bool {
        let manager = self.manager.as_ref();
        manager.is_none_or(|manager| manager.instance.is_absent())
    }

    /// What binds a later registration on this node: one that only reaches it agrees with any way of hosting.
    fn binding(&self) -> SingletonFields {
        let mut fields = self.settings.fields();
        if !self.registration.hosting {
            fields.hosting = None;
        }
        fields
    }
}

impl Singletons {
    /// A user wants to host one, or to reach it. A node that is a member or becomes one answers when the
    /// cluster has decided; one that has not begun to join answers at once, and what is decided later is an
    /// event.
    pub(super) fn register(&mut self, cx: &mut Cx<'_>, token: Token, settings: SingletonSettings) {
        let answer = match self.try_register(cx, token, settings) {
            Ok(true) => AnyAnswer::Done,
            Ok(false) => return,
            Err(error) => AnyAnswer::Refused(error),
        };
        cx.reply(token, answer);
    }

    /// Says whether it is done; if not, the caller waits.
    fn try_register(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        settings: SingletonSettings,
    ) -> Result<bool, AnyError> {
        if self.halted {
            return Err(AnyError::Stopped);
        }
        let id = SingletonId::of(&settings.name);
        self.check(cx, id, &settings).map_err(AnyError::Singleton)?;
        let decides_soon = match cx.view().phase() {
            MembershipPhase::Joining | MembershipPhase::Member => true,
            MembershipPhase::Idle | MembershipPhase::Halted => false,
        };
        let is_void = |entry: &SingletonEntry| entry.registration.is_refused() && entry.runs_nothing();
        if self.entries.get(&id).is_some_and(is_void) {
            self.entries.remove(&id);
        }
        let is_new = !self.entries.contains_key(&id);
        let entry = self
            .entries
            .entry(id)
            .or_insert_with(|| SingletonEntry::new(id, settings.clone()));
        let registration = &mut entry.registration;
        let asks_for_more = settings.hosts && settings != entry.settings;
        if registration.waits.is_some() {
            return Err(AnyError::Singleton(SingletonCommandError::RegistrationPending));
        }
        if asks_for_more {
            registration.earlier = registration.is_accepted().then(|| entry.settings.clone());
            entry.settings = settings.clone();
        }
        registration.hosting |= settings.hosts;
        if is_new || asks_for_more || registration.is_refused() {
            registration.standing = SingletonStanding::Pending;
            cx.say_registered(id, Some(entry.settings.fields()));
        }
        let is_decided = registration.is_accepted();
        registration.waits = (decides_soon && !is_decided).then_some(token);
        let waits = registration.waits.is_some();
        entry.proxy.on_ages_changed(cx);
        self.begin(cx, id);
        Ok(!waits)
    }

    fn check(
        &self,
        cx: &Cx<'_>,
        id: SingletonId,
        settings: &SingletonSettings,
    ) -> Result<(), SingletonCommandError> {
        if settings.name.is_empty() || settings.name.len() > SINGLETON_NAME_BYTES_MAX {
            return Err(SingletonCommandError::BadName);
        }
        match self.entries.get(&id) {
            // It is registered anew.
            Some(entry) if entry.registration.is_refused() && entry.runs_nothing() => {}
            Some(entry) => {
                if settings.hosts && entry.manager.as_ref().is_some_and(SingletonManager::is_stopping) {
                    return Err(SingletonCommandError::Stopping);
                }
                if let Some(difference) = settings.fields().differs_from(&entry.binding()) {
                    return Err(SingletonCommandError::Differs { difference });
                }
            }
            None if self.entries.len() >= SINGLETONS_MAX => return Err(SingletonCommandError::TooMany),
            None => {}
        }
        if !settings.hosts {
            return Ok(());
        }
        let own = cx.config().node_roles();
        if settings.role.as_ref().is_some_and(|role| !own.contains(role)) {
            return Err(SingletonCommandError::RoleMissing);
        }
        // What ran here may have been handed over already by the time this node knows.
        if self.draining
            || matches!(
                cx.view().self_status(),
                Status::Leaving | Status::Exiting | Status::Down
            )
        {
            return Err(SingletonCommandError::Leaving);
        }
        Ok(())
    }

    /// The cluster has decided.
    pub(crate) fn on_judged(&mut self, cx: &mut Cx<'_>, id: SingletonId, judgement: Judgement) {
        if self.halted {
            return;
        }
        match judgement {
            Judgement::Accepted => self.on_accepted(cx, id),
            Judgement::Refused(difference) => {
                if self.entries.contains_key(&id) {
                    let difference = difference.clone();
                    cx.notify((id, Event::Refused { difference }));
                }
                self.on_refused(cx, id, SingletonCommandError::Differs { difference });
            }
            Judgement::TooMany => self.on_refused(cx, id, SingletonCommandError::TooMany),
        }
        self.say_if_drained(cx);
    }

    /// This node is the oldest, and the registry refused another node's.
    pub(crate) fn on_refused_on(
        &mut self,
        cx: &mut Cx<'_>,
        id: SingletonId,
        node: UniqueAddress,
        difference: FieldDifferences,
    ) {
        cx.notify((id, Event::RefusedOn { node, difference }));
    }

    fn on_accepted(&mut self, cx: &mut Cx<'_>, id: SingletonId) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.registration.standing = SingletonStanding::Accepted;
        entry.registration.earlier = None;
        let waits = entry.registration.waits.take();
        entry.proxy.on_ages_changed(cx);
        self.begin(cx, id);
        if let Some(token) = waits {
            cx.reply(token, AnyAnswer::Done);
        }
    }

    fn on_refused(&mut self, cx: &mut Cx<'_>, id: SingletonId, error: SingletonCommandError) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let registration = &mut entry.registration;
        let (waits, earlier) = (registration.waits.take(), registration.earlier.take());
        if let Some(earlier) = earlier {
            // What this node had stands: it asked for more.
            registration.hosting = false;
            registration.standing = SingletonStanding::Pending;
            cx.say_registered(id, Some(earlier.fields()));
            entry.settings = earlier;
        } else {
            registration.standing = SingletonStanding::Refused;
            entry.proxy.end(cx, &mut self.asks, AskFailure::KindRefused);
            if let Some(manager) = entry.manager.as_mut().filter(|manager| !manager.is_retired()) {
                let timeout = cx.config().singleton.stop_timeout;
                manager.retire(cx, None, timeout);
            }
            if waits.is_some() && entry.runs_nothing() {
                // The caller was not told before that it has it, and does not have it now.
                self.entries.remove(&id);
                cx.say_registered(id, None);
            }
        }
        if let Some(token) = waits {
            cx.reply(token, AnyAnswer::Refused(AnyError::Singleton(error)));
        }
    }

    /// Begins to host it, if that is wanted and the cluster has accepted it.
    pub(super) fn begin(&mut self, cx: &mut Cx<'_>, id: SingletonId) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let may_host = entry.registration.is_accepted() && entry.registration.hosting && !self.draining;
        let manager = entry.manager.as_ref();
        let is_idle = manager.is_none_or(|manager| manager.is_retired() && !manager.is_stopping());
        if !may_host || !is_idle {
            return;
        }
        let downing = &cx.config().downing.strategy;
        let is_risky = !entry.settings.lease && downing.lets_both_sides_go_on();
        entry.may_run_twice = is_risky.then(|| downing.name());
        if let Some(strategy) = entry.may_run_twice {
            cx.notify((id, Event::MayRunTwice { strategy }));
        }
        let settings = entry.settings.clone();
        match &mut entry.manager {
            Some(manager) => manager.begin_again(cx, settings),
            manager => {
                let index = self.next_index;
                self.next_index += 1;
                let begun = SingletonManager::new(id, index, settings, self.paused);
                manager.insert(begun).look(cx);
            }
        }
    }

    /// Whoever still waits for a decision hears that there will be none.
    pub(super) fn end_registrations(&mut self, cx: &mut Cx<'_>, error: &AnyError) {
        for entry in self.entries.values_mut() {
            if let Some(token) = entry.registration.waits.take() {
                cx.reply(token, AnyAnswer::Refused(error.clone()));
            }
        }
    }
}
