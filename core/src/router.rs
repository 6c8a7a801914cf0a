//! The only wiring between bytes, commands, timers, statements and machines. Holds no logic of its own.

use rand_core::Rng;

use crate::ident::UniqueAddress;
use crate::input::{Command, LinkEvent, Token};
use crate::message::{Lane, Message};
use crate::node::Node;
use crate::owner::Owner;
use crate::reject::Rejection;
use crate::signal::Signal;
use crate::store::StoreReport;
use crate::timers::Timer;
use crate::wire;

impl<R: Rng> Node<R> {
    pub(crate) fn route_frame(&mut self, from: &UniqueAddress, lane: Lane, kind: u16, body: &[u8]) {
        self.base.stats.frames_received += 1;
        match wire::decode_message(kind, lane, body, &self.base.config.limits) {
            Ok(message) => self.route_message(from, message),
            Err(error) => {
                self.base.stats.rejected_wire += 1;
                if error.is_beyond_a_limit() {
                    self.base.stats.rejected_limit += 1;
                }
                self.base.cx().reject(from, Rejection::Wire(error));
            }
        }
    }

    /// Sends the store's answer home. No machine of today asks a store for anything: an answer is nobody's.
    pub(crate) fn route_stored(&mut self, owner: Owner, report: StoreReport) {
        match owner {
            Owner::Resolver | Owner::Ddata => drop(report),
        }
    }

    pub(crate) fn route_message(&mut self, from: &UniqueAddress, message: Message) {
        let (machines, cx) = (&mut self.machines, &mut self.base.cx());
        match message {
            Message::InitJoin(ask) => machines.membership.on_init_join(cx, from, ask),
            Message::InitJoinAck(ack) => machines.membership.on_init_join_ack(cx, from, ack),
            Message::InitJoinNack => machines.membership.on_init_join_nack(cx, from),
            Message::Join(join) => machines.membership.on_join(cx, from, &join),
            Message::JoinRefused(refused) => machines.membership.on_join_refused(cx, from, &refused),
            Message::Removed { to } => machines.membership.on_removed(cx, from, &to),
            Message::Welcome(welcome) => machines.membership.on_welcome(cx, from, &welcome),
            Message::Leave(node) => machines.membership.on_leave(cx, from, &node),
            Message::Down(node) => machines.membership.on_down(cx, from, &node),
            Message::Heartbeat(heartbeat) => machines.detector.on_heartbeat(cx, from, heartbeat),
            Message::HeartbeatRsp(heartbeat) => machines.detector.on_heartbeat_rsp(cx, from, heartbeat),
            Message::ExitingConfirmed { to } => machines.membership.on_exiting_confirmed(cx, from, &to),
            Message::GossipStatus(status) => {
                machines.membership.on_gossip_status(cx, from, &status);
                machines.detector.on_gossip_heard(cx, from);
            }
            Message::Gossip(envelope) => {
                machines.membership.on_gossip(cx, from, &envelope);
                machines.detector.on_gossip_heard(cx, from);
            }
            Message::Sharding(message) => machines.sharding.on_message(cx, from, message),
            Message::Entity(envelope) => machines.sharding.on_entity(cx, from, envelope),
            Message::AskReply(reply) => machines.sharding.on_ask_reply(cx, from, reply),
        }
    }

    pub(crate) fn route_command(&mut self, token: Token, command: Command) {
        let (machines, cx) = (&mut self.machines, &mut self.base.cx());
        match command {
            Command::JoinSeeds(seeds) => machines.membership.on_join_command(cx, token, seeds),
            Command::Join(contact) => {
                machines
                    .membership
                    .on_join_command(cx, token, alloc::vec![contact]);
            }
            Command::Leave => machines.membership.on_leave_command(cx, token, None),
            Command::LeaveMember(address) => {
                machines.membership.on_leave_command(cx, token, Some(&address));
            }
            Command::Down(target) => machines.membership.on_down_command(cx, token, &target),
            Command::Remove(target) => machines.membership.on_remove_command(cx, token, &target),
            Command::PrepareForShutdown => machines.membership.on_prepare_command(cx, token),
            Command::RegisterKind(settings) => machines.sharding.register(cx, token, settings),
            Command::Ask {
                kind,
                entity,
                payload,
                timeout,
            } => {
                machines.sharding.ask(cx, token, kind, entity, payload, timeout);
            }
        }
    }

    pub(crate) fn route_timer(&mut self, timer: Timer) {
        let (machines, cx) = (&mut self.machines, &mut self.base.cx());
        match timer {
            Timer::Membership(timer) => machines.membership.on_timer(cx, &timer),
            Timer::Detector(timer) => machines.detector.on_timer(cx, timer),
            Timer::Downing => machines.resolver.on_timer(cx),
            Timer::AskDeadline => machines.sharding.on_ask_deadline(cx),
            Timer::Region(kind, timer) => machines.sharding.on_region_timer(cx, kind, timer),
            Timer::Coordinator(kind, timer) => machines.sharding.on_coordinator_timer(cx, kind, timer),
        }
    }

    pub(crate) fn route_signal(&mut self, signal: Signal) {
        let (machines, cx) = (&mut self.machines, &mut self.base.cx());
        match signal {
            Signal::ViewChanged { before, after } => {
                machines.detector.on_view_changed(cx, &before, &after);
                machines.resolver.on_view_changed(cx, &before, &after);
                machines.sharding.on_view_changed(cx, &before, &after);
            }
            Signal::Verdicts(verdicts) => machines.membership.on_verdicts(cx, &verdicts),
            Signal::DownDecided(nodes) => machines.membership.on_down_decided(cx, &nodes),
            Signal::DrainRequested => machines.sharding.on_drain_requested(cx),
            Signal::Drained => machines.membership.on_drained(cx),
            Signal::Paused { since } => machines.resolver.on_paused(cx, since),
            Signal::StillMember => machines.resolver.on_still_member(cx),
        }
    }

    pub(crate) fn route_link(&mut self, event: LinkEvent) {
        let (machines, cx) = (&mut self.machines, &mut self.base.cx());
        match event {
            LinkEvent::Up { .. } => {}
            LinkEvent::WrongIncarnation { expected, .. } => {
                machines.sharding.on_link_down(cx, &expected);
            }
            LinkEvent::QuarantinedBy { peer } => {
                machines.resolver.on_quarantined_by(cx, &peer);
                machines.membership.on_quarantined_by(cx, &peer);
            }
            LinkEvent::Down { peer } => {
                cx.stats.links_lost += 1;
                machines.sharding.on_link_down(cx, &peer);
            }
            LinkEvent::Dropped { to, message, reason } => {
                cx.stats.messages_dropped_by_host += 1;
                machines.sharding.on_dropped(cx, &to, message, reason);
            }
        }
    }
}
