//! The only wiring between bytes, commands, timers, statements and machines. Holds no logic of its own.

use rand_core::Rng;

use crate::drain::DrainPart;
use crate::ident::UniqueAddress;
use crate::input::{Command, LinkEvent, Token};
use crate::lease::protocol::LeaseReport;
use crate::message::{Lane, Message};
use crate::node::Node;
use crate::owner::Owner;
use crate::reject::Rejection;
use crate::signal::Signal;
use crate::store::StoreReport;
use crate::timer::Timer;
use crate::wire;

impl<R: Rng> Node<R> {
    pub(crate) fn route_frame(&mut self, from: &UniqueAddress, lane: Lane, kind: u16, body: &[u8]) {
        self.base.stats.frames_received += 1;
        if !self.hears(from, kind) {
            let (membership, cx) = (&self.machines.membership, &mut self.base.cx());
            return membership.turn_away(cx, from, kind);
        }
        let config = &self.base.config;
        match wire::decode_message_with(kind, lane, body, &config.limits, &config.ddata.custom_types) {
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

    /// Sends a lease report home. A name is asked for by one owner only.
    pub(crate) fn route_lease(&mut self, owner: Owner, report: &LeaseReport) {
        let (machines, cx) = (&mut self.machines, &mut self.base.cx());
        match owner {
            Owner::Resolver => machines.resolver.on_lease(cx, report),
            // The replicator asks for none.
            Owner::Ddata => {}
        }
    }

    /// Sends the store's answer home. No machine of today asks a store for anything: an answer is nobody's.
    pub(crate) fn route_stored(&mut self, owner: Owner, report: StoreReport) {
        match owner {
            Owner::Resolver => drop(report),
            Owner::Ddata => self.machines.ddata.on_stored(&mut self.base.cx(), report),
        }
    }

    pub(crate) fn route_message(&mut self, from: &UniqueAddress, message: Message) {
        let (machines, cx) = (&mut self.machines, &mut self.base.cx());
        match message {
            Message::Membership(msg) => machines.membership.on_message(cx, from, msg),
            Message::Detector(msg) => machines.detector.on_message(cx, from, msg),
            Message::Sharding(msg) => machines.sharding.on_message(cx, from, msg),
            Message::Ddata(msg) => machines.ddata.on_message(cx, from, msg),
        }
    }

    pub(crate) fn route_command(&mut self, token: Token, command: Command) {
        let (machines, cx) = (&mut self.machines, &mut self.base.cx());
        match command {
            Command::Membership(command) => machines.membership.on_command(cx, token, command),
            Command::Sharding(command) => machines.sharding.on_command(cx, token, command),
            Command::Ddata(command) => machines.ddata.on_command(cx, token, command),
        }
    }

    pub(crate) fn route_timer(&mut self, timer: Timer) {
        let (machines, cx) = (&mut self.machines, &mut self.base.cx());
        match timer {
            Timer::Membership(timer) => machines.membership.on_timer(cx, &timer),
            Timer::Detector(timer) => machines.detector.on_timer(cx, timer),
            Timer::Downing(timer) => machines.resolver.on_timer(cx, &timer),
            Timer::Sharding(timer) => machines.sharding.on_timer(cx, timer),
            Timer::Ddata(timer) => machines.ddata.on_timer(cx, timer),
        }
    }

    pub(crate) fn route_signal(&mut self, signal: Signal) {
        let (machines, cx) = (&mut self.machines, &mut self.base.cx());
        match signal {
            Signal::ViewChanged { before, after } => {
                machines.detector.on_view_changed(cx, &before, &after);
                machines.resolver.on_view_changed(cx, &before, &after);
                machines.sharding.on_view_changed(cx, &before, &after);
                machines.ddata.on_view_changed(cx, &before, &after);
            }
            Signal::GossipHeard(from) => machines.detector.on_gossip_heard(cx, &from),
            Signal::Verdicts(verdicts) => machines.membership.on_verdicts(cx, &verdicts),
            Signal::DownDecided(nodes) => machines.membership.on_down_decided(cx, &nodes),
            Signal::DrainRequested(DrainPart::Sharding) => machines.sharding.on_drain_requested(cx),
            Signal::DrainRequested(DrainPart::Ddata) => machines.ddata.on_drain_requested(cx),
            Signal::Drained(part) => machines.membership.on_drained(cx, part),
            Signal::Paused { since } => {
                machines.resolver.on_paused(cx, since);
                machines.sharding.on_paused();
            }
            Signal::StillMember => {
                machines.resolver.on_still_member(cx);
                machines.sharding.on_still_member(cx);
            }
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
                match message {
                    Message::Sharding(msg) => machines.sharding.on_dropped(cx, &to, msg, reason),
                    // Asked again, or overtaken by a later one, in any case.
                    Message::Membership(_) | Message::Detector(_) | Message::Ddata(_) => {}
                }
            }
        }
    }
}
