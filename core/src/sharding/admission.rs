//! From "registered by the user" to "accepted by the cluster": a kind's region and coordinator begin when the
//! registry has accepted it, and end when it is refused. Until then this node answers as one that does not
//! have the kind. What is decided about singletons and buckets is passed on to them. Decides nothing about
//! fields. Spec: sharding 10.11.

use alloc::boxed::Box;

use crate::effect::{Answer, CommandError, ShardingCommandError};
use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::input::{KindSettings, Token};
use crate::ordered::OrderedMap;
use crate::sharding::Cx;
use crate::sharding::coordinator::Coordinator;
use crate::sharding::kind::RegisteredKind;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::protocol::registry::{
    Judgement, RegistrationFields, RegistrationId, RegistryMsg, RegistryTimer,
};
use crate::sharding::region::ShardRegion;
use crate::sharding::registry::{AnnouncedStanding, NewJudgement};
use crate::sharding::remembered::NAME_BYTES_MAX;
use crate::sharding::state::allocation::{AllocationSettings, PLACED_NAME_BYTES_MAX};
use crate::sharding::state::fields::{FieldDifferences, KIND_NAME_BYTES_MAX, KindFields, StoreMode};
use crate::sharding::state::ids::{KindId, SHARDS_MAX};
use crate::sharding::state::remember::RememberStore;
use crate::sharding::{KindMachines, Sharding};
use crate::view::MembershipPhase;

/// What a legal registration finds.
enum RegistrationMatch {
    /// Nothing: the kind is new, or was refused with other settings.
    Nothing,
    /// The same kind, accepted.
    Accepted,
    /// The same kind; the cluster has not decided about it.
    Pending,
}

impl Sharding {
    /// A user registers a kind. A node that is a member or becomes one answers when the cluster has decided;
    /// one that has not begun to join answers at once, and what is decided later is an event.
    pub(super) fn register(&mut self, cx: &mut Cx<'_>, token: Token, mut settings: KindSettings) {
        settings
            .store_mode
            .get_or_insert(cx.config().sharding.state_store_mode);
        let fields = KindFields::of(&settings);
        let decides_soon = match cx.view().phase() {
            MembershipPhase::Joining | MembershipPhase::Member => true,
            MembershipPhase::Idle | MembershipPhase::Halted => false,
        };
        let found = self.check_registration(cx, &settings, &fields);
        let found = found.and_then(|found| self.host_again(cx, fields.id(), found));
        let answer = match found {
            Err(error) => Some(Answer::Refused(error)),
            Ok(RegistrationMatch::Accepted) => Some(Answer::Done),
            Ok(RegistrationMatch::Pending) if !decides_soon => Some(Answer::Done),
            Ok(RegistrationMatch::Pending) => {
                let waits = self.registry.wait(&RegistrationId::Kind(fields.id()), token);
                (!waits).then_some(Answer::Refused(CommandError::Sharding(
                    ShardingCommandError::RegistrationPending,
                )))
            }
            Ok(RegistrationMatch::Nothing) => {
                let waits = decides_soon.then_some(token);
                self.add(cx, settings, fields, waits);
                waits.is_none().then_some(Answer::Done)
            }
        };
        if let Some(answer) = answer {
            cx.reply(token, answer);
        }
    }

    /// A region that has been shut down hosts again when its kind is registered again.
    fn host_again(
        &mut self,
        cx: &mut Cx<'_>,
        kind: KindId,
        found: RegistrationMatch,
    ) -> Result<RegistrationMatch, CommandError> {
        let known = match found {
            RegistrationMatch::Nothing => None,
            RegistrationMatch::Accepted | RegistrationMatch::Pending => self.kinds.get_mut(&kind),
        };
        match known.map(|machines| machines.region.host_again(shared!(self, cx))) {
            Some(false) => Err(CommandError::Sharding(ShardingCommandError::ShuttingDown)),
            Some(true) | None => Ok(found),
        }
    }

    /// A node or this one speaks about kinds.
    pub(super) fn on_registry(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, message: RegistryMsg) {
        if self.halted {
            return;
        }
        let running = running(&self.kinds);
        let decided = self.registry.on_message(cx, from, message, running);
        for decided in decided {
            self.apply(cx, decided);
        }
        self.say_if_drained(cx);
    }

    /// A singleton or a bucket of this node has such fields from now on; `None`: it is none of this node's
    /// any more.
    pub(crate) fn on_registered(
        &mut self,
        cx: &mut Cx<'_>,
        id: RegistrationId,
        fields: Option<RegistrationFields>,
    ) {
        let Some(fields) = fields else {
            return self.registry.remove(&id);
        };
        if !self.registry.has_room_for(cx, &fields) {
            return cx.say_judged(id, Judgement::TooMany);
        }
        let running = running(&self.kinds);
        self.registry.add(cx, fields, None, running);
    }

    /// A timer of the registry is due.
    pub(super) fn on_registry_timer(&mut self, cx: &mut Cx<'_>, timer: RegistryTimer) {
        let running = running(&self.kinds);
        self.registry.on_timer(cx, timer, running);
    }

    /// Whether a kind's machines take part.
    pub(super) fn is_accepted(&self, kind: KindId) -> bool {
        self.registry.is_accepted(kind)
    }

    /// Whoever still waits for a decision hears that there will be none.
    pub(super) fn end_registrations(&mut self, cx: &mut Cx<'_>) {
        for token in self.registry.take_waiting() {
            cx.reply(token, Answer::Refused(CommandError::Stopped));
        }
    }

    fn check_registration(
        &self,
        cx: &Cx<'_>,
        settings: &KindSettings,
        fields: &KindFields,
    ) -> Result<RegistrationMatch, CommandError> {
        if self.halted {
            return Err(CommandError::Stopped);
        }
        check_name(settings).map_err(CommandError::Sharding)?;
        if !settings.extractor.is_legal() {
            return Err(CommandError::Sharding(ShardingCommandError::BadExtractorName));
        }
        if settings.shards == 0 || settings.shards > SHARDS_MAX {
            return Err(CommandError::Sharding(ShardingCommandError::BadShardCount));
        }
        if let Err(error) = settings.config.check(&cx.config().sharding) {
            return Err(CommandError::Sharding(ShardingCommandError::BadSetting(error)));
        }
        if settings.remember_entities == Some(RememberStore::Events) && cx.config().journal.voters == 0 {
            let error = ShardingCommandError::RememberStoreUnavailable;
            return Err(CommandError::Sharding(error));
        }
        if let Some(Err(error)) = settings.allocation.as_ref().map(AllocationSettings::check) {
            return Err(CommandError::Sharding(ShardingCommandError::BadAllocation(error)));
        }
        match settings.store_mode {
            None | Some(StoreMode::Memory) => {}
            Some(StoreMode::DistributedData | StoreMode::Events) if cx.config().journal.voters > 0 => {}
            Some(mode @ (StoreMode::DistributedData | StoreMode::Events | StoreMode::Other { .. })) => {
                let error = ShardingCommandError::StoreModeUnavailable { mode };
                return Err(CommandError::Sharding(error));
            }
        }
        let lacks_role = |role| !cx.config().node_roles().contains(role);
        if settings.hosts && settings.role.as_ref().is_some_and(lacks_role) {
            return Err(CommandError::Sharding(ShardingCommandError::RoleMissing));
        }
        let id = fields.id();
        let known = self.kinds.get(&id).map(|machines| &machines.region);
        let found = match (known, self.registry.standing(&RegistrationId::Kind(id))) {
            (Some(region), Some(AnnouncedStanding::Refused)) if region.runs_nothing() => {
                RegistrationMatch::Nothing
            }
            (Some(region), _) if region.kind().settings != *settings => {
                let known = KindFields::of(&region.kind().settings);
                let error = match FieldDifferences::between(fields, &known) {
                    Some(difference) => ShardingCommandError::KindDiffers { difference },
                    None => ShardingCommandError::KindConflict,
                };
                return Err(CommandError::Sharding(error));
            }
            (Some(_), Some(AnnouncedStanding::Accepted { .. })) => RegistrationMatch::Accepted,
            (Some(_), Some(AnnouncedStanding::Pending | AnnouncedStanding::Refused)) => {
                RegistrationMatch::Pending
            }
            (Some(_), None) | (None, _) => RegistrationMatch::Nothing,
        };
        if known.is_none()
            && !self
                .registry
                .has_room_for(cx, &RegistrationFields::Kind(fields.clone()))
        {
            return Err(CommandError::Sharding(ShardingCommandError::TooManyKinds));
        }
        Ok(found)
    }

    fn add(&mut self, cx: &mut Cx<'_>, settings: KindSettings, fields: KindFields, waits: Option<Token>) {
        let id = fields.id();
        self.drop_machines(cx, id);
        let configured = &cx.config().sharding.passivation;
        let passivation = settings.passivation.as_ref().unwrap_or(configured).clone();
        let remembers = fields
            .keeping
            .is_some_and(|keeping| keeping.remember_entities.is_some());
        let passivation = passivation.unless_remembered(remembers);
        let config = cx.config();
        let kind = RegisteredKind::new(id, settings, &config.sharding, &config.downing.strategy);
        let mut machines = Box::new(KindMachines {
            region: ShardRegion::new(kind.clone(), passivation),
            coordinator: Coordinator::new(kind),
        });
        if self.paused {
            machines.coordinator.on_paused();
            machines.region.on_paused();
        }
        if self.draining {
            self.drained = false;
            machines.region.drain(shared!(self, cx));
        }
        self.kinds.insert(id, machines);
        let running = running(&self.kinds);
        self.registry
            .add(cx, RegistrationFields::Kind(fields), waits, running);
        self.say_if_drained(cx);
    }

    fn apply(&mut self, cx: &mut Cx<'_>, decided: NewJudgement) {
        let NewJudgement { id, judgement, waits } = decided;
        let kind = match id {
            RegistrationId::Kind(kind) => kind,
            RegistrationId::Singleton(_) | RegistrationId::Bucket(_) => {
                return cx.say_judged(id, judgement);
            }
        };
        let error = match judgement {
            Judgement::Accepted => {
                self.begin(cx, kind);
                None
            }
            Judgement::Refused(difference) => {
                let event = ShardingEvent::KindRefused {
                    difference: difference.clone(),
                };
                cx.notify_sharding(kind, event);
                Some(CommandError::Sharding(ShardingCommandError::KindDiffers {
                    difference,
                }))
            }
            Judgement::TooMany => Some(CommandError::Sharding(ShardingCommandError::TooManyKinds)),
        };
        let Some(error) = error else {
            if let Some(token) = waits {
                cx.reply(token, Answer::Done);
            }
            return;
        };
        match waits {
            // The caller was not told before that it has the kind, and does not have it now.
            Some(token) => {
                self.registry.remove(&id);
                self.drop_machines(cx, kind);
                cx.reply(token, Answer::Refused(error));
            }
            None => self.end(cx, kind),
        }
    }

    fn begin(&mut self, cx: &mut Cx<'_>, kind: KindId) {
        if let Some(machines) = self.kinds.get_mut(&kind) {
            let known = machines.region.kind();
            if let Some(strategy) = known.may_run_twice {
                cx.notify_sharding(kind, ShardingEvent::MayRunTwice { strategy });
            }
            machines.coordinator.on_view_changed(cx);
            machines.region.on_kind_accepted(cx);
        }
    }

    fn end(&mut self, cx: &mut Cx<'_>, kind: KindId) {
        if let Some(machines) = self.kinds.get_mut(&kind) {
            machines.coordinator.halt(cx);
            machines.region.refuse(shared!(self, cx));
        }
    }

    /// Forgets a kind of which nothing runs here.
    fn drop_machines(&mut self, cx: &mut Cx<'_>, kind: KindId) {
        if let Some(mut machines) = self.kinds.remove(&kind) {
            machines.coordinator.halt(cx);
            machines.region.refuse(shared!(self, cx));
            machines.region.halt(shared!(self, cx));
        }
    }
}

/// Whether a kind may have its name: what is kept of it has names that begin with it.
fn check_name(settings: &KindSettings) -> Result<(), ShardingCommandError> {
    let bytes = settings.name.len();
    if bytes == 0 || bytes > KIND_NAME_BYTES_MAX {
        return Err(ShardingCommandError::BadKindName);
    }
    if settings.remember_entities.is_some() && bytes > NAME_BYTES_MAX {
        return Err(ShardingCommandError::NameTooLongToRemember);
    }
    let is_placed = settings.allocation == Some(AllocationSettings::External);
    if is_placed && bytes > PLACED_NAME_BYTES_MAX {
        return Err(ShardingCommandError::NameTooLongToPlace);
    }
    Ok(())
}

/// Whether shards of a kind run here.
pub(super) fn running(kinds: &OrderedMap<KindId, Box<KindMachines>>) -> impl Fn(KindId) -> bool {
    |kind| {
        kinds
            .get(&kind)
            .is_some_and(|machines| !machines.region.runs_nothing())
    }
}
