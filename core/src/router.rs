//! The only wiring between bytes, commands, timers, statements and machines. Holds no logic of its own.

use rand_core::Rng;

use crate::admission::PeerProof;
use crate::drain::DrainPart;
use crate::ident::UniqueAddress;
use crate::input::{Caller, Command, DropReason, HostReport, LinkEvent, MessageCommand, Recipient, Token};
use crate::lease::protocol::LeaseReport;
use crate::membership::machine::Membership;
use crate::message::{Lane, Message};
use crate::messaging::AskWait;
use crate::node::Node;
use crate::owner::Requester;
use crate::reject::Rejection;
use crate::sharding::protocol::registry::RegistrationId;
use crate::sharding::state::ids::Payload;
use crate::signal::Signal;
use crate::store::StoreReport;
use crate::timer::Timer;
use crate::wire;

impl<R: Rng> Node<R> {
    pub(crate) fn route_frame(
        &mut self,
        from: &UniqueAddress,
        proof: PeerProof<'_>,
        lane: Lane,
        kind: u16,
        body: &[u8],
    ) {
        if !self.is_let_in(from, kind) {
            return;
        }
        let config = &self.base.config;
        match wire::decode_message_with(kind, lane, body, &config.limits, &config.ddata.custom_types) {
            Ok(message) => self.route_permitted(from, proof, message),
            Err(error) => {
                self.base.stats.node.rejected_wire += 1;
                if error.is_beyond_a_limit() {
                    self.base.stats.node.rejected_limit += 1;
                }
                self.base.reject(from, Rejection::Wire(error));
            }
        }
    }

    /// A message that came without a frame.
    pub(crate) fn route_whole(&mut self, from: &UniqueAddress, message: Message) {
        if self.is_let_in(from, message.tag().kind) {
            self.route_permitted(from, PeerProof::Nothing, message);
        }
    }

    /// Counts a message, and says whether this sender may say anything of the kind.
    fn is_let_in(&mut self, from: &UniqueAddress, kind: u16) -> bool {
        self.base.stats.node.frames_received += 1;
        let is_heard = self.hears(from, kind);
        if !is_heard {
            let membership = &mut self.machines.membership;
            membership.turn_away(&mut self.base.cx(), from, kind);
        }
        is_heard
    }

    fn route_permitted(&mut self, from: &UniqueAddress, proof: PeerProof<'_>, message: Message) {
        if let Message::Membership(msg) = &message
            && !Membership::permits(&mut self.base.cx(), from, proof, msg)
        {
            return;
        }
        self.route_message(from, message);
    }

    /// Sends a lease report home. A name is asked for by one owner only.
    pub(crate) fn route_lease(&mut self, owner: Requester, report: &LeaseReport) {
        let (machines, base) = (&mut self.machines, &mut self.base);
        match owner {
            Requester::Resolver => machines.resolver.on_lease(&mut base.cx(), report),
            Requester::Singleton => machines.singletons.on_lease(&mut base.cx(), report),
            Requester::Sharding => machines.sharding.on_lease(&mut base.cx(), report),
            // Replicas, paths and buckets ask for none.
            Requester::Ddata | Requester::Journal | Requester::Path | Requester::Kv => {}
        }
    }

    /// Sends the store's answer home. The resolver, sharding and paths ask a store for nothing: an answer is
    /// nobody's.
    pub(crate) fn route_stored(&mut self, owner: Requester, report: StoreReport) {
        match owner {
            Requester::Resolver | Requester::Sharding | Requester::Path => drop(report),
            Requester::Ddata => self.machines.ddata.on_stored(&mut self.base.cx(), report),
            Requester::Singleton => self.machines.singletons.on_stored(&mut self.base.cx(), report),
            Requester::Journal => self.machines.journals.on_stored(&mut self.base.cx(), report),
            Requester::Kv => self.machines.kv.on_stored(&mut self.base.cx(), report),
        }
    }

    /// Routes the next of what this node's machines say to each other; `false` if there is nothing.
    pub(crate) fn route_next(&mut self) -> bool {
        if let Some(signal) = self.base.signals.take(&self.base.view) {
            self.route_signal(signal);
        } else if let Some(message) = self.base.outbox.loopback.pop_front() {
            let me = self.base.me.clone();
            self.route_message(&me, message);
        } else if let Some((ask, command)) = self.base.outbox.asked.pop_front() {
            self.route_command(Caller::Sharding(ask), command);
        } else if let Some((opener, command)) = self.base.outbox.log_asked.pop_front() {
            self.route_command(Caller::Kv(opener), Command::Journal(command));
        } else if let Some((ask, answer)) = self.base.outbox.answered.pop_front() {
            let sharding = &mut self.machines.sharding;
            sharding.on_store_answer(&mut self.base.cx(), ask, answer);
        } else if let Some((opener, answer)) = self.base.outbox.log_answered.pop_front() {
            let kv = &mut self.machines.kv;
            kv.on_log_answer(&mut self.base.cx(), opener, answer);
        } else {
            return false;
        }
        true
    }

    pub(crate) fn route_message(&mut self, from: &UniqueAddress, message: Message) {
        let (machines, base) = (&mut self.machines, &mut self.base);
        match message {
            Message::Membership(msg) => machines.membership.on_message(&mut base.cx(), from, msg),
            Message::Detector(msg) => machines.detector.on_message(&mut base.cx(), from, msg),
            Message::Sharding(msg) => machines.sharding.on_message(&mut base.cx(), from, msg),
            Message::Ddata(msg) => machines.ddata.on_message(&mut base.cx(), from, msg),
            Message::Singleton(msg) => machines.singletons.on_message(&mut base.cx(), from, msg),
            Message::Journal(msg) => machines.journals.on_message(&mut base.cx(), from, *msg),
            Message::Load(msg) => machines.load.on_message(&mut base.cx(), from, msg),
            Message::Path(msg) => machines.paths.on_message(&mut base.cx(), from, msg),
            Message::Kv(msg) => machines.kv.on_message(&mut base.cx(), from, msg),
        }
    }

    pub(crate) fn route_command(&mut self, caller: Caller, command: Command) {
        let (machines, base) = (&mut self.machines, &mut self.base);
        match (caller, command) {
            (caller, Command::Ddata(command)) => machines.ddata.on_command(&mut base.cx(), caller, command),
            (caller, Command::Journal(command)) => {
                machines.journals.on_command(&mut base.cx(), caller, command);
            }
            (Caller::Host(token), Command::Message(command)) => self.route_to_recipient(token, command),
            (Caller::Host(token), Command::Membership(command)) => {
                machines.membership.on_command(&mut base.cx(), token, command);
            }
            (Caller::Host(token), Command::Sharding(command)) => {
                machines.sharding.on_command(&mut base.cx(), token, command);
            }
            (Caller::Host(token), Command::Singleton(command)) => {
                machines.singletons.on_command(&mut base.cx(), token, command);
            }
            (Caller::Host(token), Command::Path(command)) => {
                machines.paths.on_command(&mut base.cx(), token, command);
            }
            (Caller::Host(token), Command::Kv(command)) => {
                machines.kv.on_command(&mut base.cx(), token, command);
            }
            (
                Caller::Sharding(_) | Caller::Kv(_),
                Command::Message(_)
                | Command::Membership(_)
                | Command::Sharding(_)
                | Command::Singleton(_)
                | Command::Path(_)
                | Command::Kv(_),
            ) => {
                debug_assert!(false, "machines ask those only that keep something")
            }
        }
    }

    /// A message of a caller who waits for what becomes of it.
    fn route_to_recipient(&mut self, token: Token, command: MessageCommand) {
        let (machines, base) = (&mut self.machines, &mut self.base);
        match command {
            MessageCommand::Ask {
                to,
                payload,
                timeout,
                chain,
            } => {
                let wait = AskWait { timeout, chain };
                match to {
                    Recipient::Entity(kind, entity) => {
                        let to = (kind, entity);
                        machines.sharding.ask(&mut base.cx(), token, to, payload, wait);
                    }
                    Recipient::Singleton(id) => {
                        machines.singletons.ask(&mut base.cx(), token, id, payload, wait);
                    }
                    Recipient::Path(path, pick) => {
                        let to = (path, pick);
                        machines.paths.ask(&mut base.cx(), token, to, payload, wait);
                    }
                }
            }
            MessageCommand::Tell { to, payload } => match to {
                Recipient::Entity(kind, entity) => {
                    let to = (kind, entity);
                    machines
                        .sharding
                        .tell_and_wait(&mut base.cx(), token, to, payload);
                }
                Recipient::Singleton(id) => {
                    machines
                        .singletons
                        .tell_and_wait(&mut base.cx(), token, id, payload);
                }
                Recipient::Path(path, pick) => {
                    let to = (path, pick);
                    machines.paths.tell_and_wait(&mut base.cx(), token, to, payload);
                }
            },
        }
    }

    /// A message that nobody waits for.
    pub(crate) fn route_tell(&mut self, to: Recipient, payload: Payload) {
        let (machines, base) = (&mut self.machines, &mut self.base);
        match to {
            Recipient::Entity(kind, entity) => machines.sharding.tell(&mut base.cx(), kind, entity, payload),
            Recipient::Singleton(id) => machines.singletons.tell(&mut base.cx(), id, payload),
            Recipient::Path(path, pick) => machines.paths.tell(&mut base.cx(), (path, pick), payload),
        }
    }

    /// Sends what the host reports to whose entities or instances it has. No other machine has any.
    pub(crate) fn route_report(&mut self, owner: Requester, report: HostReport) {
        let (machines, base) = (&mut self.machines, &mut self.base);
        match owner {
            Requester::Sharding => machines.sharding.on_report(&mut base.cx(), report),
            Requester::Singleton => machines.singletons.on_report(&mut base.cx(), report),
            Requester::Path => machines.paths.on_report(&mut base.cx(), report),
            Requester::Resolver | Requester::Ddata | Requester::Journal | Requester::Kv => drop(report),
        }
    }

    pub(crate) fn route_timer(&mut self, timer: Timer) {
        let (machines, base) = (&mut self.machines, &mut self.base);
        match timer {
            Timer::Membership(timer) => machines.membership.on_timer(&mut base.cx(), &timer),
            Timer::Detector(timer) => machines.detector.on_timer(&mut base.cx(), timer),
            Timer::Downing(timer) => machines.resolver.on_timer(&mut base.cx(), &timer),
            Timer::Oldest(timer) => machines.oldest.on_timer(&mut base.cx(), &timer),
            Timer::Sharding(timer) => machines.sharding.on_timer(&mut base.cx(), timer),
            Timer::Ddata(timer) => machines.ddata.on_timer(&mut base.cx(), timer),
            Timer::Singleton(timer) => machines.singletons.on_timer(&mut base.cx(), timer),
            Timer::Journal(timer) => machines.journals.on_timer(&mut base.cx(), timer),
            Timer::Load(timer) => machines.load.on_timer(&mut base.cx(), &timer),
            Timer::Path(timer) => machines.paths.on_timer(&mut base.cx(), timer),
            Timer::Kv(timer) => machines.kv.on_timer(&mut base.cx(), timer),
        }
    }

    pub(crate) fn route_signal(&mut self, signal: Signal) {
        let (machines, base) = (&mut self.machines, &mut self.base);
        match signal {
            Signal::ViewChanged { before, after } => {
                machines.detector.on_view_changed(&mut base.cx(), &before, &after);
                machines.resolver.on_view_changed(&mut base.cx(), &before, &after);
                machines.oldest.on_view_changed(&mut base.cx(), &before, &after);
                machines.ddata.on_view_changed(&mut base.cx(), &before, &after);
                machines.journals.on_view_changed(&mut base.cx(), &after);
                machines.load.on_view_changed(&mut base.cx(), &after);
                machines.paths.on_view_changed(&mut base.cx(), &before, &after);
            }
            Signal::AgesChanged { before, after } => {
                machines.sharding.on_view_changed(&mut base.cx(), &before, &after);
                machines
                    .singletons
                    .on_ages_changed(&mut base.cx(), &before, &after);
                machines.kv.on_ages_changed(&mut base.cx(), &before, &after);
            }
            Signal::MarginOver => {
                machines.sharding.on_margin_over(&mut base.cx());
                machines.singletons.on_margin_over(&mut base.cx());
                machines.paths.on_margin_over(&mut base.cx());
                machines.kv.on_margin_over(&mut base.cx());
            }
            Signal::GossipHeard(from) => machines.detector.on_gossip_heard(&mut base.cx(), &from),
            Signal::Verdicts(verdicts) => machines.membership.on_verdicts(&mut base.cx(), &verdicts),
            Signal::DownDecided(nodes) => machines.membership.on_down_decided(&mut base.cx(), &nodes),
            Signal::DrainRequested(DrainPart::Sharding) => {
                machines.sharding.on_drain_requested(&mut base.cx())
            }
            Signal::DrainRequested(DrainPart::Paths) => machines.paths.on_drain_requested(&mut base.cx()),
            Signal::DrainRequested(DrainPart::Singletons) => {
                machines.singletons.on_drain_requested(&mut base.cx());
            }
            Signal::DrainRequested(DrainPart::Kv) => machines.kv.on_drain_requested(&mut base.cx()),
            Signal::DrainRequested(DrainPart::Ddata) => machines.ddata.on_drain_requested(&mut base.cx()),
            Signal::Registered(id, fields) => {
                machines.sharding.on_registered(&mut base.cx(), id, fields);
            }
            Signal::Judged(id, judgement) => match id {
                RegistrationId::Singleton(id) => {
                    machines.singletons.on_judged(&mut base.cx(), id, judgement);
                }
                RegistrationId::Bucket(name) => machines.kv.on_judged(&mut base.cx(), &name, judgement),
                // Sharding keeps what is decided about its kinds to itself.
                RegistrationId::Kind(_) => {}
            },
            Signal::RefusedOn(id, node, difference) => match id {
                RegistrationId::Singleton(id) => {
                    machines
                        .singletons
                        .on_refused_on(&mut base.cx(), id, node, difference);
                }
                RegistrationId::Bucket(name) => {
                    machines.kv.on_refused_on(&mut base.cx(), name, node, difference);
                }
                RegistrationId::Kind(_) => {}
            },
            Signal::PlacementOutdone { log, placement, held } => {
                machines
                    .sharding
                    .on_placement_outdone(&mut base.cx(), &log, placement, held);
            }
            Signal::PathsWritten(table) => machines.membership.on_paths_written(&mut base.cx(), &table),
            Signal::Quarantine(node) => machines.membership.on_quarantine(&mut base.cx(), node),
            Signal::Drained(part) => machines.membership.on_drained(&mut base.cx(), part),
            Signal::Paused { since } => {
                machines.resolver.on_paused(&mut base.cx(), since);
                machines.sharding.on_paused();
                machines.singletons.on_paused();
                machines.paths.on_paused();
                machines.kv.on_paused(&base.cx(), since);
            }
            Signal::StillMember => {
                machines.resolver.on_still_member(&base.cx());
                machines.sharding.on_still_member(&mut base.cx());
                machines.singletons.on_still_member(&mut base.cx());
                machines.paths.on_still_member(&mut base.cx());
                machines.kv.on_still_member(&mut base.cx());
            }
            Signal::ToldRemoved(by) => machines.detector.on_told_removed(&mut base.cx(), &by),
            Signal::LinksCut(cut) => machines.membership.on_links_cut(cut),
            Signal::RollCall => machines.membership.on_roll_call(&mut base.cx()),
            Signal::Disowned => machines.membership.on_disowned(&mut base.cx()),
        }
    }

    pub(crate) fn route_link(&mut self, event: LinkEvent) {
        let (machines, base) = (&mut self.machines, &mut self.base);
        match event {
            LinkEvent::WrongIncarnation { expected, .. } => {
                machines.sharding.on_link_down(&mut base.cx(), &expected);
                machines.singletons.on_link_down(&mut base.cx(), &expected);
                machines.paths.on_link_down(&mut base.cx(), &expected);
            }
            LinkEvent::QuarantinedBy { peer } => {
                machines.detector.on_quarantined_by(&mut base.cx(), &peer);
            }
            LinkEvent::Quarantined { peer } => machines.detector.on_quarantined(&mut base.cx(), &peer),
            LinkEvent::Down { peer } => {
                base.stats.node.links_lost += 1;
                machines.sharding.on_link_down(&mut base.cx(), &peer);
                machines.singletons.on_link_down(&mut base.cx(), &peer);
                machines.paths.on_link_down(&mut base.cx(), &peer);
            }
            LinkEvent::Room { to } => machines.sharding.on_room(&mut base.cx(), &to),
            LinkEvent::Dropped { to, message, reason } => {
                // What was only offered is not lost.
                base.stats.node.messages_dropped_by_host += u64::from(reason != DropReason::NoRoom);
                match message {
                    Message::Sharding(msg) => machines.sharding.on_dropped(&mut base.cx(), &to, msg, reason),
                    Message::Singleton(msg) => {
                        machines.singletons.on_dropped(&mut base.cx(), &to, msg, reason)
                    }
                    Message::Path(msg) => machines.paths.on_dropped(&mut base.cx(), &to, msg, reason),
                    // Asked again, or overtaken by a later one, in any case.
                    Message::Membership(_)
                    | Message::Detector(_)
                    | Message::Ddata(_)
                    | Message::Journal(_)
                    | Message::Load(_)
                    | Message::Kv(_) => {}
                }
            }
        }
    }
}
