//! How a region finds its coordinator: it tells every candidate that it exists until the right one answers.
//! Spec: sharding 1.3 (registration), 10.1.

use alloc::vec::Vec;
use core::time::Duration;

use super::{RegionLifecycle, ShardRegion};
use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::membership::state::member::Member;
use crate::message::{ShardingBody, ShardingMessage, ShardingMsg};
use crate::oldest::state::{may_act, may_speak};
use crate::ordered::OrderedSet;
use crate::reject::{Rejection, ShardingRejection};
use crate::sharding::Cx;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::protocol::ListPart;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::fields::{FieldDifferences, KindFields};
use crate::sharding::state::ids::{ShardId, Term};
use crate::timer::RegionTimer;
use crate::view::View;

/// Shortest first retry of a registration: below this a coordinator that is about to start gains nothing.
const FIRST_RETRY_MIN: Duration = Duration::from_millis(100);

/// Homes that one step may ask for; the rest follows with the next retry. Fewer kinds have more shards than
/// that.
const QUESTIONS_PER_STEP: usize = 4096;

/// Bytes of a shard in a registration, and of what stands around them beside the kind's fields.
const SHARD_BYTES: usize = 2;
const AROUND_SHARDS_BYTES: usize = 32;

/// What a region and its coordinator know of each other.
#[derive(Clone, Debug, Default)]
pub(super) struct CoordinatorContact {
    /// The highest term heard of; lower ones are refused.
    pub(super) seen: Option<Term>,
    /// The coordinator that knows this region.
    pub(super) registered: Option<Term>,
    /// Counts the registrations that took several messages.
    pub(super) lists: u64,
    pub(super) acceptance: KindAcceptance,
    /// The node that would coordinate this kind has said that nobody hosts it; void once a coordinator knows
    /// better.
    pub(super) nobody_hosts: bool,
    pub(super) retry_delay: Duration,
}

/// What the cluster makes of this node's kind. The registry decides for all nodes; a coordinator refuses what
/// the registry could not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum KindAcceptance {
    /// Nothing has been decided: nothing begins.
    #[default]
    Undecided,
    /// It is the kind that stands.
    Accepted,
    /// It was accepted, and the present coordinator has other fields: nothing of ours can work until there is
    /// another one.
    RefusedByCoordinator,
    /// The cluster's kind has other fields: nothing of ours can work.
    Refused,
}

impl KindAcceptance {
    /// Whether this region may look for its coordinator.
    const fn may_register(self) -> bool {
        match self {
            Self::Accepted | Self::RefusedByCoordinator => true,
            Self::Undecided | Self::Refused => false,
        }
    }

    /// Whether nothing of this kind can work here.
    pub(super) const fn is_refused(self) -> bool {
        match self {
            Self::Refused | Self::RefusedByCoordinator => true,
            Self::Undecided | Self::Accepted => false,
        }
    }
}

impl ShardRegion {
    /// The cluster has accepted this kind as it is here.
    pub(crate) fn on_kind_accepted(&mut self, cx: &mut Cx<'_>) {
        self.contact.acceptance = KindAcceptance::Accepted;
        self.contact.retry_delay = Duration::ZERO;
        self.register(cx);
    }

    /// The cluster has another kind of this name: nothing of ours can work.
    pub(crate) fn refuse(&mut self, shared: &mut RegionContext<'_, '_>) {
        self.contact.acceptance = KindAcceptance::Refused;
        self.contact.registered = None;
        self.fail_all(shared, AskFailure::KindRefused);
        self.stop_all(shared);
        self.rearm_retry(shared.cx);
    }

    /// Tells every candidate that this region exists, and does so again later if none takes it in.
    pub(crate) fn register(&mut self, cx: &mut Cx<'_>) {
        if self.lifecycle == RegionLifecycle::Stopped
            || !self.contact.acceptance.may_register()
            || !may_act(cx.view().self_status())
        {
            return;
        }
        let view = alloc::sync::Arc::clone(cx.view());
        for candidate in self.kind.coordinator_candidates(&view) {
            self.send_register(cx, &candidate);
        }
        let longest = self.kind.config.retry_interval;
        let first = FIRST_RETRY_MIN.max(longest / 8);
        let delay = self
            .contact
            .retry_delay
            .max(first)
            .min(longest.max(FIRST_RETRY_MIN));
        self.contact.retry_delay = delay.saturating_mul(2);
        self.wake(cx, RegionTimer::Retry, delay);
    }

    /// A coordinator knows this region now.
    pub(crate) fn on_register_ack(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        term: Term,
    ) {
        if self.lifecycle == RegionLifecycle::Stopped || !self.accept(shared.cx, from, &term) {
            return;
        }
        self.contact.acceptance = match self.contact.acceptance {
            KindAcceptance::RefusedByCoordinator => KindAcceptance::Accepted,
            decided @ (KindAcceptance::Undecided | KindAcceptance::Accepted) => decided,
            // It answers what was said before.
            KindAcceptance::Refused => return,
        };
        self.contact.nobody_hosts = false;
        self.contact.retry_delay = Duration::ZERO;
        // What stops here was claimed; whoever coordinates now hears of its end.
        for (_, here) in self.shards.hosted_from_mut(ShardId(0)) {
            here.tells(&term);
        }
        if self.contact.registered.as_ref() != Some(&term) {
            self.contact.registered = Some(term.clone());
            self.notify(shared.cx, ShardingEvent::RegionRegistered { term });
        }
        self.ask_for_unknown_homes(shared.cx);
        self.rearm_retry(shared.cx);
    }

    /// The coordinator's kind has other fields: nothing of this kind can work here. The registry notices
    /// before; this is for what it cannot see, an oldest member that accepted one of them while it was cut
    /// off.
    pub(crate) fn on_register_refused(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        term: Term,
        theirs: &KindFields,
    ) {
        if !self.accept(shared.cx, from, &term) {
            return;
        }
        let ours = self.fields();
        let Some(difference) = FieldDifferences::between(&ours, theirs) else {
            let what = "refusal of equal fields";
            return shared.cx.reject(from, Rejection::Unexpected { what });
        };
        if !self.contact.acceptance.is_refused() {
            self.notify(shared.cx, ShardingEvent::KindRefused { difference });
        }
        self.contact.acceptance = match self.contact.acceptance {
            KindAcceptance::Accepted | KindAcceptance::RefusedByCoordinator => {
                KindAcceptance::RefusedByCoordinator
            }
            KindAcceptance::Undecided | KindAcceptance::Refused => KindAcceptance::Refused,
        };
        self.fail_all(shared, AskFailure::KindRefused);
        self.stop_all(shared);
        self.rearm_retry(shared.cx);
    }

    /// The node that coordinates this kind, or would if it had it, says that nobody hosts it. Messages wait
    /// on, because a node that does may start at any time.
    pub(crate) fn on_nobody_hosts(&mut self, shared: &mut RegionContext<'_, '_>, from: &UniqueAddress) {
        let view = alloc::sync::Arc::clone(shared.cx.view());
        let candidates = self.kind.coordinator_candidates(&view);
        if candidates.first() == Some(from) {
            self.contact.nobody_hosts = self.runs_nothing();
            self.answer_if_moved(shared);
        } else if !candidates.contains(from) {
            shared.cx.reject(from, ShardingRejection::WrongSender);
        }
    }

    /// Whether, as far as this node knows, no node hosts the kind: no member may, or its coordinator says so.
    pub(crate) fn nobody_hosts(&self, view: &View) -> bool {
        self.contact.nobody_hosts || view.by_age(self.kind.settings.role.as_ref()).is_empty()
    }

    /// Whether it is certain that no node hosts the kind. Who is not Up may hear of others' being Up late,
    /// and a member that joins may be Up by now.
    pub(crate) fn nobody_can_host(&self, view: &View) -> bool {
        let Some(me) = view.self_member().filter(|me| may_act(me.status)) else {
            return false;
        };
        let role = self.kind.settings.role.as_ref();
        let may_come = |member: &Member| {
            member.data_center() == me.data_center() && role.is_none_or(|role| member.roles.contains(role))
        };
        self.contact.nobody_hosts || !view.members().iter().any(may_come)
    }

    /// A coordinator that has just started asks whether this region hosts anything.
    pub(crate) fn on_region_query(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        term: Term,
    ) {
        if !self.accept(shared.cx, from, &term) {
            return;
        }
        if self.lifecycle == RegionLifecycle::Stopped {
            self.say(shared.cx, from, ShardingBody::NoRegion { term });
        } else if may_act(shared.cx.view().self_status()) {
            self.send_register(shared.cx, from);
        }
    }

    /// The oldest member is another one, or this node may register only now.
    pub(super) fn follow_coordinator(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        before: &View,
        after: &View,
    ) {
        let (old, new) = (
            self.kind.coordinator_candidates(before),
            self.kind.coordinator_candidates(after),
        );
        let entered = may_act(after.self_status()) && !may_act(before.self_status());
        let lost = self
            .contact
            .registered
            .as_ref()
            .is_some_and(|t| after.is_lost(&t.node));
        if lost || old.first() != new.first() {
            self.contact.nobody_hosts = false;
            self.contact.registered = None;
            if self.contact.acceptance == KindAcceptance::RefusedByCoordinator {
                self.contact.acceptance = KindAcceptance::Accepted;
            }
        } else if old == new && !entered {
            return;
        }
        if self.contact.registered.is_none() {
            self.contact.retry_delay = Duration::ZERO;
            self.register(shared.cx);
        }
    }

    /// Repeats what was not answered.
    pub(super) fn on_retry(&mut self, shared: &mut RegionContext<'_, '_>) {
        if self.contact.registered.is_none() {
            self.register(shared.cx);
        } else {
            self.ask_for_unknown_homes(shared.cx);
        }
        match self.lifecycle {
            RegionLifecycle::Retiring | RegionLifecycle::Draining => {
                self.request_shutdown(shared.cx);
                self.try_finish(shared);
            }
            RegionLifecycle::Working | RegionLifecycle::Stopped => {}
        }
        self.rearm_retry(shared.cx);
    }

    /// Asks where a shard lives. Without a coordinator nobody can be asked; registration comes first.
    pub(super) fn ask_home(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        if let Some(term) = &self.contact.registered {
            self.say(cx, &term.node, ShardingBody::GetShardHome { shard });
        }
        self.rearm_retry(cx);
    }

    /// Whether a coordinator's words count: it speaks for itself, under the number that it has in this
    /// picture, it is a member that coordinates the role or will soon, and no younger coordinator has been
    /// heard that is not lost (B-59).
    pub(super) fn accept(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, term: &Term) -> bool {
        let view = alloc::sync::Arc::clone(cx.view());
        let seen = self
            .contact
            .seen
            .as_ref()
            .filter(|seen| !view.is_lost(&seen.node));
        if seen.is_some_and(|seen| term < seen) || view.is_lost(from) {
            cx.reject(from, ShardingRejection::StaleTerm);
            return false;
        }
        let role = self.kind.settings.role.as_ref();
        let is_known = seen == Some(term);
        if term.node != *from || !(is_known || may_speak(&view, role, from, term.up_number)) {
            cx.reject(from, ShardingRejection::WrongSender);
            return false;
        }
        if !is_known {
            self.contact.seen = Some(term.clone());
            if self
                .contact
                .registered
                .as_ref()
                .is_some_and(|known| known != term)
            {
                self.contact.registered = None;
            }
        }
        true
    }

    /// Waits for the next retry if anything has to be repeated.
    pub(super) fn rearm_retry(&self, cx: &mut Cx<'_>) {
        let unknown = || {
            self.buffers
                .shards()
                .iter()
                .any(|shard| !self.shards.has_home(*shard))
        };
        let needed = match self.lifecycle {
            RegionLifecycle::Working => {
                let waits = self.retirement.waits_for().next().is_some()
                    || !self.sought.is_empty()
                    || self.wanted_shards().next().is_some();
                self.contact.acceptance.may_register()
                    && (self.contact.registered.is_none() || waits || unknown())
            }
            RegionLifecycle::Retiring | RegionLifecycle::Draining => true,
            RegionLifecycle::Stopped => false,
        };
        if !needed {
            self.cancel(cx, RegionTimer::Retry);
        } else if !self.is_set(cx, RegionTimer::Retry) && may_act(cx.view().self_status()) {
            self.wake(cx, RegionTimer::Retry, self.kind.config.retry_interval);
        }
    }

    pub(super) fn say(&self, cx: &mut Cx<'_>, to: &UniqueAddress, body: ShardingBody) {
        let kind = self.kind.id;
        cx.send(to, ShardingMsg::Kind(ShardingMessage { kind, body }));
    }

    /// Says what it hosts, in as many messages as that takes.
    pub(super) fn send_register(&mut self, cx: &mut Cx<'_>, to: &UniqueAddress) {
        self.say_tokens(cx, to);
        let (fields, draining) = (self.fields(), self.lifecycle != RegionLifecycle::Working);
        let limit = cx.config().limits.control_frame_bytes_max;
        let room = limit.saturating_sub(AROUND_SHARDS_BYTES + fields.bytes_max());
        let hosted = self.shards.hosted_ids();
        let parts: Vec<&[ShardId]> = hosted.chunks((room / SHARD_BYTES).max(1)).collect();
        let count = u16::try_from(parts.len().max(1)).unwrap_or(u16::MAX);
        if count > 1 {
            self.contact.lists += 1;
        }
        let mut part = ListPart {
            list: if count > 1 { self.contact.lists } else { 0 },
            index: 0,
            count,
        };
        while part.index < count {
            let hosted = parts.get(usize::from(part.index));
            let body = ShardingBody::Register {
                fields: fields.clone(),
                hosted: hosted.map(|shards| shards.to_vec()).unwrap_or_default(),
                draining,
                part,
            };
            self.say(cx, to, body);
            part.index += 1;
        }
    }

    /// What it says of itself: one that has been shut down speaks as a proxy.
    fn fields(&self) -> KindFields {
        let fields = KindFields::of(&self.kind.settings);
        KindFields {
            keeping: fields.keeping.filter(|_| self.hosts),
            ..fields
        }
    }

    fn ask_for_unknown_homes(&self, cx: &mut Cx<'_>) {
        let Some(term) = &self.contact.registered else {
            return;
        };
        let mut unknown: OrderedSet<ShardId> = self.buffers.shards().into_iter().collect();
        unknown.retain(|shard| !self.shards.has_home(*shard));
        unknown.extend(&self.sought);
        if self.lifecycle == RegionLifecycle::Working {
            unknown.extend(self.retirement.waits_for());
            unknown.extend(self.wanted_shards());
        }
        for shard in unknown.into_iter().take(QUESTIONS_PER_STEP) {
            self.say(cx, &term.node, ShardingBody::GetShardHome { shard });
        }
    }
}
