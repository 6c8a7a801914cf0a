//! Where each entity lives. One region per kind on every node that hosts or reaches it, one coordinator per
//! kind on the oldest member of the kind's role. This file holds them all and hands each message to its
//! machine; it decides nothing. Spec: sharding 1.1-1.4, 10.1-10.5.

/// Splits the container into one kind's machines and what they share.
macro_rules! shared {
    ($self:ident, $cx:ident) => {
        &mut RegionContext {
            cx: $cx,
            asks: &mut $self.asks,
            slots: &mut $self.slots,
        }
    };
}

mod admission;
pub mod allocation;
mod coordinator;
mod entity_state;
mod inspect;
mod kind;
pub mod passivation;
mod pending_message;
pub mod protocol;
mod region;
mod registry;
mod remembered;
mod reports;
mod shard;
mod slots;
pub(crate) mod state;
mod stops;
mod strays;
mod survey;
mod user;
mod watch;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::cx::OfSharding;
use crate::ident::UniqueAddress;
use crate::membership::state::member::Status;
use crate::message::{EntityEnvelope, ShardingBody, ShardingMessage, ShardingMsg};
use crate::messaging::{Asks, may_send};
use crate::ordered::OrderedMap;
use crate::reject::{Rejection, ShardingRejection};
use crate::sharding::coordinator::{Coordinator, RegionRegistration};
use crate::sharding::pending_message::{PendingMessage, RegionContext, Waits, fail};
use crate::sharding::protocol::EntityStarts;
use crate::sharding::region::{ShardRegion, WaitingArrival};
use crate::sharding::registry::Registry;
use crate::sharding::slots::EntitySlots;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::KindId;
use crate::sharding::stops::StopCommands;
use crate::sharding::strays::answer_for_unknown_kind;
use crate::sharding::survey::Surveys;
use crate::sharding::watch::Watches;
use crate::timer::{CoordinatorTimer, RegionTimer, ShardingTimer};
use crate::view::{MembershipPhase, View};

pub use coordinator::{CoordinatorPhase, CoordinatorState, coordinator_log};
pub use region::RegionState;
pub use remembered::{is_remembered_key, remembered_keys, remembered_logs, remembered_range};
pub use state::{chain, errors, extractor, fields, ids, remember, wish};

/// What the machine may touch outside itself.
pub(crate) type Cx<'a> = crate::cx::Cx<'a, OfSharding>;

/// Everything a node knows about sharding. Users see it through [`Sharding::kinds`], [`Sharding::region`] and
/// [`Sharding::coordinator`].
#[derive(Clone, Debug, Default)]
pub struct Sharding {
    /// Boxed: a node of the map has room for eleven, however few kinds there are.
    kinds: OrderedMap<KindId, Box<KindMachines>>,
    asks: Asks<Waits>,
    slots: EntitySlots,
    registry: Registry,
    surveys: Surveys,
    stops: StopCommands,
    watches: Watches,
    draining: bool,
    drained: bool,
    halted: bool,
    /// This process stood still, and nobody has counted it in since.
    paused: bool,
}

#[derive(Clone, Debug)]
struct KindMachines {
    region: ShardRegion,
    coordinator: Coordinator,
}

impl Sharding {
    /// Sharding without a kind.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Another node (or this one itself) speaks.
    pub(crate) fn on_message(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, msg: ShardingMsg) {
        match msg {
            ShardingMsg::Kind(message) => self.on_kind_message(cx, from, message),
            ShardingMsg::Entity(envelope) => self.on_entity(cx, from, envelope),
            ShardingMsg::AskReply(reply) => self.asks.on_reply(cx, from, reply),
            ShardingMsg::Registry(message) => self.on_registry(cx, from, message),
            ShardingMsg::HandBack(envelope) => self.on_hand_back(cx, from, envelope),
            ShardingMsg::Survey(message) => self.on_survey(cx, from, message),
            ShardingMsg::Mark(mark) => self.on_mark(cx, from, mark),
            ShardingMsg::MarkAck(mark) => self.on_mark_ack(cx, from, mark),
            ShardingMsg::Watch(message) => self.on_watch(cx, from, message),
            ShardingMsg::Start(starts) => self.on_starts(cx, from, starts, ShardRegion::on_start),
            ShardingMsg::Started(starts) => self.on_starts(cx, from, starts, ShardRegion::on_started),
        }
    }

    /// A timer is due.
    pub(crate) fn on_timer(&mut self, cx: &mut Cx<'_>, timer: ShardingTimer) {
        match timer {
            ShardingTimer::AskDeadline => self.on_ask_deadline(cx),
            ShardingTimer::Registry(timer) => self.on_registry_timer(cx, timer),
            ShardingTimer::Survey => self.surveys.on_deadline(cx),
            ShardingTimer::Stops => self.on_stops_timer(cx),
            ShardingTimer::Watch => self.on_watch_timer(cx),
            ShardingTimer::Region(kind, timer) => self.on_region_timer(cx, kind, &timer),
            ShardingTimer::Coordinator(kind, timer) => self.on_coordinator_timer(cx, kind, &timer),
        }
    }

    /// Another node's region or coordinator speaks.
    fn on_kind_message(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, message: ShardingMessage) {
        let ShardingMessage { kind, body } = message;
        if self.halted {
            return;
        }
        if self.is_accepted(kind) {
            self.dispatch(cx, from, kind, body);
        } else if self
            .kinds
            .get(&kind)
            .is_none_or(|known| known.region.runs_nothing())
        {
            answer_for_unknown_kind(cx, from, kind, body);
        }
        // Otherwise the kind was refused while it ran here: what asks hears nothing until all of it has
        // stopped.
        self.after_kind(cx, kind);
        self.say_if_drained(cx);
    }

    /// A message to an entity comes from another node.
    fn on_entity(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, envelope: EntityEnvelope) {
        if !may_send(cx, from, envelope.ask.as_ref()) {
            return;
        }
        cx.counters().entity_messages_accepted += 1;
        match addressee(&mut self.kinds, cx, &envelope) {
            Ok(region) => {
                let pending = PendingMessage::received(cx, from, envelope);
                if pending.own_ask(cx).is_some() {
                    let what = "a message of my own";
                    return cx.reject(from, Rejection::Unexpected { what });
                }
                let kind = pending.envelope.kind;
                if let Some(waiting) = region.route_from_peer(shared!(self, cx), pending) {
                    self.wait_in(cx, kind, waiting);
                }
            }
            Err((rejection, reason)) => {
                cx.reject(from, rejection);
                fail(cx, &mut self.asks, envelope, reason);
            }
        }
    }

    /// A message of another node has to wait. All kinds are looked at for it, which one that is handled at
    /// once needs not.
    #[inline(never)]
    fn wait_in(&mut self, cx: &mut Cx<'_>, kind: KindId, waiting: WaitingArrival) {
        let is_crowded = self.is_crowded(&cx.config().sharding);
        if let Some(machines) = self.kinds.get_mut(&kind) {
            machines.region.wait(shared!(self, cx), waiting, is_crowded);
        }
    }

    /// A message of this node's user comes back unhandled. It waits again, unless its asker has been answered
    /// in the meantime.
    fn on_hand_back(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, envelope: EntityEnvelope) {
        let region = match addressee(&mut self.kinds, cx, &envelope) {
            Ok(region) => region,
            Err((rejection, reason)) => {
                cx.reject(from, rejection);
                let asked = envelope.ask.as_ref().map(|ticket| &ticket.ask);
                if asked.is_none_or(|ask| ask.asker == *cx.me() && self.asks.take_back(ask.id, from).is_ok())
                {
                    fail(cx, &mut self.asks, envelope, reason);
                }
                return;
            }
        };
        let mut pending = PendingMessage::received(cx, from, envelope);
        pending.from = None;
        if let Some(ticket) = &pending.envelope.ask {
            if ticket.ask.asker != *cx.me() {
                let to = ticket.ask.asker.clone();
                return cx.reject(from, Rejection::WrongReceiver { to });
            }
            match self.asks.take_back(ticket.ask.id, from) {
                Ok(deadline) => pending.deadline = Some(deadline),
                Err(None) => {
                    cx.counters().entity_messages_expired += 1;
                    region.on_came_back(cx, pending.envelope.shard, from);
                    return;
                }
                Err(Some(what)) => return cx.reject(from, Rejection::Unexpected { what }),
            }
        }
        region.on_handed_back(shared!(self, cx), from, pending);
    }

    /// A region speaks about entities that it remembers and does not host. Of a kind that is not accepted
    /// here yet it says so again.
    fn on_starts(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        starts: EntityStarts,
        hear: impl FnOnce(&mut ShardRegion, &mut RegionContext<'_, '_>, &UniqueAddress, EntityStarts),
    ) {
        let kind = starts.kind;
        if let Some(machines) = self.kinds.get_mut(&kind).filter(|_| !self.halted) {
            hear(&mut machines.region, shared!(self, cx), from, starts);
            self.after_kind(cx, kind);
            self.say_if_drained(cx);
        }
    }

    /// The picture changed.
    pub(crate) fn on_view_changed(&mut self, cx: &mut Cx<'_>, before: &View, after: &View) {
        if self.halted {
            return;
        }
        let was_member = before.self_member().is_some();
        let is_gone = after.phase() == MembershipPhase::Halted
            || after.is_lost(after.me())
            || (was_member && after.self_member().is_none());
        if is_gone {
            self.halt(cx);
            return;
        }
        let running = admission::running(&self.kinds);
        self.registry.on_view_changed(cx, before, after, running);
        if before.unreachable() != after.unreachable() {
            for machines in self.kinds.values_mut() {
                machines.coordinator.on_reachability_changed(cx);
            }
        }
        if core::ptr::eq(before.members(), after.members()) {
            // Only reachability or the seen set changed; nothing else here follows those.
            return;
        }
        let lost = after.lost_since(before).into_iter();
        let lost: Vec<UniqueAddress> = lost
            .filter(|member| member.status != Status::Down)
            .map(|member| member.node.clone())
            .collect();
        for node in &lost {
            self.asks.give_up_on(cx, node);
        }
        self.surveys.on_lost(cx, &lost);
        for (kind, machines) in &mut self.kinds {
            machines
                .region
                .on_view_changed(shared!(self, cx), before, after, &lost);
            if self.registry.is_accepted(*kind) {
                machines.coordinator.on_view_changed(cx);
            }
        }
        self.watches_see(cx, before, after);
        self.say_if_drained(cx);
    }

    /// The removal margin of somebody is over: what he did may be done here, if this node is the oldest now.
    pub(crate) fn on_margin_over(&mut self, cx: &mut Cx<'_>) {
        if self.halted {
            return;
        }
        for (kind, machines) in &mut self.kinds {
            if self.registry.is_accepted(*kind) {
                machines.coordinator.consider_takeover(cx);
            }
        }
    }

    /// This process stood still: whatever acts for others begins nothing new.
    pub(crate) fn on_paused(&mut self) {
        self.paused = true;
        self.registry.set_paused(true);
        for machines in self.kinds.values_mut() {
            machines.coordinator.on_paused();
            machines.region.on_paused();
        }
    }

    /// After a pause the others still count this node in.
    pub(crate) fn on_still_member(&mut self, cx: &mut Cx<'_>) {
        self.paused = false;
        self.registry.set_paused(false);
        for machines in self.kinds.values_mut() {
            machines.region.on_still_member(shared!(self, cx));
            machines.coordinator.on_still_member(cx);
        }
        self.after_kinds(cx);
        self.say_if_drained(cx);
    }

    /// This node leaves: everything is to be handed over.
    pub(crate) fn on_drain_requested(&mut self, cx: &mut Cx<'_>) {
        self.draining = true;
        self.end_registrations(cx);
        for machines in self.kinds.values_mut() {
            machines.region.drain(shared!(self, cx));
        }
        self.after_kinds(cx);
        self.say_if_drained(cx);
    }

    /// Everything stops at once: this node is Down, removed or finished. Nothing is accepted afterwards. Asks
    /// whose messages are under way stay open until [`Self::answer_the_rest`]: their answers may still come,
    /// or the messages themselves, unsent.
    pub(crate) fn halt(&mut self, cx: &mut Cx<'_>) {
        if core::mem::replace(&mut self.halted, true) {
            return;
        }
        self.end_registrations(cx);
        self.registry.halt(cx);
        self.surveys.halt(cx);
        self.stops.halt(cx);
        self.watches.halt(cx);
        for machines in self.kinds.values_mut() {
            machines.coordinator.halt(cx);
            machines.region.halt(shared!(self, cx));
        }
        self.asks.give_up_unsent(cx);
    }

    /// The node says nothing more after this: whoever still waits for an answer hears how far its message
    /// came.
    pub(crate) fn answer_the_rest(&mut self, cx: &mut Cx<'_>) {
        self.asks.stop(cx);
    }

    /// A region's timer is due.
    fn on_region_timer(&mut self, cx: &mut Cx<'_>, kind: KindId, timer: &RegionTimer) {
        if let Some(machines) = self.kinds.get_mut(&kind) {
            machines.region.on_timer(shared!(self, cx), timer);
        }
        self.after_kind(cx, kind);
        self.say_if_drained(cx);
    }

    /// A coordinator's timer is due.
    fn on_coordinator_timer(&mut self, cx: &mut Cx<'_>, kind: KindId, timer: &CoordinatorTimer) {
        if let Some(machines) = self.kinds.get_mut(&kind) {
            machines.coordinator.on_timer(cx, timer);
        }
    }

    /// The earliest deadline of an ask has come.
    fn on_ask_deadline(&mut self, cx: &mut Cx<'_>) {
        let kinds = &self.kinds;
        let view = alloc::sync::Arc::clone(cx.view());
        let nobody_hosts = |(kind, _): Waits| {
            let machines = kinds.get(&kind);
            machines.is_some_and(|machines| machines.region.nobody_hosts(&view))
        };
        for expired in self.asks.on_deadline(cx, nobody_hosts) {
            let (kind, shard) = expired.place;
            if let Some(machines) = self.kinds.get_mut(&kind) {
                machines.region.on_ask_expired(cx, shard, expired.id);
            }
        }
    }

    fn dispatch(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, kind: KindId, body: ShardingBody) {
        let Some(machines) = self.kinds.get_mut(&kind) else {
            return;
        };
        let KindMachines { region, coordinator } = &mut **machines;
        match body {
            ShardingBody::Register {
                fields,
                hosted,
                draining,
                part,
            } => {
                let said = RegionRegistration {
                    fields,
                    hosted,
                    draining,
                };
                coordinator.on_register_part(cx, from, part, said);
            }
            ShardingBody::ShardTokens { tokens } => coordinator.on_shard_tokens(cx, from, tokens),
            ShardingBody::NoRegion { term } => coordinator.on_no_region(cx, from, &term),
            ShardingBody::GetShardHome { shard } => coordinator.on_get_shard_home(cx, from, shard),
            ShardingBody::ShardStarted { term, shard } => {
                coordinator.on_shard_started(cx, from, &term, shard);
            }
            ShardingBody::BeginHandOffAck { term, shard, number } => {
                coordinator.on_begin_hand_off_ack(cx, from, &term, (shard, number));
            }
            ShardingBody::ShardStopped { term, shard } => {
                coordinator.on_shard_stopped(cx, from, &term, shard);
            }
            ShardingBody::GracefulShutdownReq => coordinator.on_graceful_shutdown(cx, from),
            ShardingBody::RegionStopped => coordinator.on_region_stopped(cx, from),
            ShardingBody::RegisterAck { term } => region.on_register_ack(shared!(self, cx), from, term),
            ShardingBody::RegisterRefused { term, fields } => {
                region.on_register_refused(shared!(self, cx), from, term, &fields);
            }
            ShardingBody::Stop(message) => self.on_stop(cx, from, kind, message),
            ShardingBody::NobodyHosts => region.on_nobody_hosts(shared!(self, cx), from),
            ShardingBody::RegionQuery { term } => region.on_region_query(shared!(self, cx), from, term),
            ShardingBody::ShardHomes { term, homes } => {
                region.on_shard_homes(shared!(self, cx), from, term, homes);
            }
            ShardingBody::HostShard { term, shard, token } => {
                region.on_host_shard(shared!(self, cx), from, term, (shard, token));
            }
            ShardingBody::BeginHandOff { term, shard, number } => {
                region.on_begin_hand_off(shared!(self, cx), from, term, (shard, number));
            }
            ShardingBody::HandOff {
                term,
                shard,
                by_force,
            } => {
                region.on_hand_off(shared!(self, cx), from, term, (shard, by_force));
            }
        }
    }

    fn is_drained(&self) -> bool {
        self.kinds.values().all(|machines| machines.region.is_drained())
    }

    fn say_if_drained(&mut self, cx: &mut Cx<'_>) {
        if self.draining && !self.drained && self.is_drained() && self.watches.has_had_last_words(cx) {
            self.drained = true;
            cx.say_drained();
        }
    }
}

/// The region that a peer's message goes through, if it is one that can be (B-58).
fn addressee<'k>(
    kinds: &'k mut OrderedMap<KindId, Box<KindMachines>>,
    cx: &Cx<'_>,
    envelope: &EntityEnvelope,
) -> Result<&'k mut ShardRegion, (ShardingRejection, AskFailure)> {
    let Some(machines) = kinds.get_mut(&envelope.kind) else {
        return Err((ShardingRejection::UnknownKind, AskFailure::UnknownKind));
    };
    let region = &mut machines.region;
    let id_bytes = envelope.entity.as_bytes().len();
    if id_bytes == 0 || id_bytes > cx.config().limits.entity_id_bytes_max {
        let what = "length of an entity id";
        return Err((ShardingRejection::OutOfRange { what }, AskFailure::BadEntityId));
    }
    if envelope.shard != region.kind().shard_of(&envelope.entity) {
        return Err((ShardingRejection::NO_SHARD, AskFailure::ShardCountMismatch));
    }
    Ok(region)
}

#[cfg(test)]
mod tests;
