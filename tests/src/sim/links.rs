//! What a TCP host does for its node, simulated: dial when there is something to send, keep what waits for
//! the dial, encode, carry, decode, notice dead links, refuse quarantined incarnations. Every frame goes
//! through the wire codec.

use quorate_core::admission::PeerProof;
use quorate_core::ident::UniqueAddress;
use quorate_core::input::{DropReason, Input, LinkEvent, SendTarget};
use quorate_core::message::{Lane, Message};
use quorate_core::wire::{self, DecodedFrame};

use super::engine::{Happening, Sim};
use super::history::{ProcessId, Whereabouts};
use super::names::{Brief, ENTITY, Number, PATH_MESSAGE, entity_message, name};
use super::network::{DIAL_BACKOFF, DIAL_QUEUE_MAX, DIAL_TIMEOUT, Fate, LinkState};
use super::trace::Show;
use crate::invariants::Cause;

/// A frame on its way.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) from: ProcessId,
    pub(crate) to: ProcessId,
    pub(crate) epoch: u32,
    pub(crate) lane: Lane,
    pub(crate) bytes: Vec<u8>,
    /// The message itself, where frames are only measured.
    pub(crate) whole: Option<Message>,
    /// What is in it, for the trace and the history only; the receiver decodes the bytes.
    pub(crate) name: &'static str,
    /// The workload's message in it.
    pub(crate) message: Option<usize>,
}

/// What a transport may send without order and without a guarantee that it comes once.
fn may_be_a_datagram(name: &str) -> bool {
    matches!(
        name,
        "Heartbeat" | "HeartbeatRsp" | "Gossip" | "GossipDelta" | "GossipSeen" | "GossipStatus"
    )
}

impl Sim {
    /// A node wants a message sent, or offers one that goes on waiting if there is no room for it.
    pub(crate) fn send(&mut self, from: ProcessId, to: SendTarget, message: Message, is_offer: bool) {
        let Some(index) = self.index_of(&to) else {
            return self.dropped(from, to, message, DropReason::Unreachable);
        };
        if self.shows_frame(name(&message)) {
            self.say(from, format_args!("-> {to:?} {}", Brief(&message)));
        }
        if let Err(reason) = self.network.takes(from, index, &message, is_offer) {
            return self.dropped(from, to, message, reason);
        }
        let now = self.now;
        match &mut self.network.link(from, index).state {
            LinkState::Up(peer) => {
                let peer = *peer;
                self.send_on_link(from, index, peer, to, message);
            }
            LinkState::Dialling(waiting) if waiting.len() < DIAL_QUEUE_MAX => waiting.push((to, message)),
            LinkState::Dialling(_) => self.dropped(from, to, message, DropReason::QueueFull),
            LinkState::Idle { again_at } if *again_at > now => {
                self.dropped(from, to, message, DropReason::Unreachable);
            }
            LinkState::Idle { .. } => {
                self.network.link(from, index).state = LinkState::Dialling(vec![(to, message)]);
                let here = self.processes[from as usize].index;
                let cut = self.network.is_cut(here, index) || self.network.is_cut(index, here);
                let round_trip = self.network.latency() + self.network.latency();
                let wait = if cut { DIAL_TIMEOUT } else { round_trip };
                self.queue
                    .push(now + wait, Happening::Dialled { from, to: index });
            }
        }
    }

    /// A dial comes to its end, one way or the other.
    pub(crate) fn on_dialled(&mut self, from: ProcessId, to: usize) {
        self.end_dial(from, to);
        self.make_room(from, to);
    }

    fn end_dial(&mut self, from: ProcessId, to: usize) {
        let peer = self.answering(from, to);
        let again_at = self.now + DIAL_BACKOFF;
        let link = self.network.link(from, to);
        let next = match peer {
            Some(peer) => LinkState::Up(peer),
            None => LinkState::Idle { again_at },
        };
        let LinkState::Dialling(waiting) = core::mem::replace(&mut link.state, next) else {
            return;
        };
        let Some(peer) = peer else {
            if let Some(by) = self.refuses_for_good(from, to, &waiting) {
                self.tell_soon(from, LinkEvent::QuarantinedBy { peer: by });
            }
            for (target, message) in waiting {
                self.dropped(from, target, message, DropReason::Unreachable);
            }
            return;
        };
        link.epoch += 1;
        link.crowd.leave();
        for (target, message) in waiting {
            self.send_on_link(from, to, peer, target, message);
        }
    }

    /// Who accepts a link from this process at an address: alive, not cut off, and neither refuses the other.
    fn answering(&self, from: ProcessId, to: usize) -> Option<ProcessId> {
        let dialler = &self.processes[from as usize];
        let peer_id = self.running_at(to)?;
        let peer = &self.processes[peer_id as usize];
        let cut = self.network.is_cut(dialler.index, to) || self.network.is_cut(to, dialler.index);
        let refused = dialler.quarantined.contains(&peer.me) || peer.quarantined.contains(&dialler.me);
        let other_cluster = dialler.node.config().cluster != peer.node.config().cluster;
        (dialler.runs() && !cut && !refused && !other_cluster).then_some(peer_id)
    }

    /// The incarnation that refuses this dialler for good, if it is one that a waiting message is for.
    fn refuses_for_good(
        &self,
        from: ProcessId,
        to: usize,
        waiting: &[(SendTarget, Message)],
    ) -> Option<UniqueAddress> {
        let (dialler, peer) = (&self.processes[from as usize], self.running_at(to)?);
        let peer = &self.processes[peer as usize];
        let cut = self.network.is_cut(dialler.index, to) || self.network.is_cut(to, dialler.index);
        let meant = waiting
            .iter()
            .any(|(target, _)| *target == SendTarget::Node(peer.me.clone()));
        (!cut && meant && peer.quarantined.contains(&dialler.me)).then(|| peer.me.clone())
    }

    fn send_on_link(
        &mut self,
        from: ProcessId,
        to: usize,
        peer: ProcessId,
        target: SendTarget,
        message: Message,
    ) {
        let found = self.processes[peer as usize].me.clone();
        if let SendTarget::Node(expected) = &target
            && *expected != found
        {
            let wrong = LinkEvent::WrongIncarnation {
                expected: expected.clone(),
                found,
            };
            self.tell_soon(from, wrong);
            return self.dropped(from, target, message, DropReason::Unreachable);
        }
        if self.processes[from as usize].quarantined.contains(&found) {
            return self.dropped(from, target, message, DropReason::Unreachable);
        }
        self.transmit(from, to, peer, target, message);
    }

    pub(super) fn transmit(
        &mut self,
        from: ProcessId,
        to: usize,
        peer: ProcessId,
        target: SendTarget,
        message: Message,
    ) {
        let lane = message.lane();
        let epoch = self.network.link(from, to).epoch;
        let mut bytes = Vec::new();
        let limits = &self.processes[from as usize].node.config().limits;
        if wire::encode_message(&message, epoch, limits, &mut bytes).is_err() {
            return self.dropped(from, target, message, DropReason::TooLarge);
        }
        self.liars.hear(from, peer, &message);
        let number = entity_message(&message);
        self.history.given_to.entry(peer).or_default().extend(number);
        let here = self.processes[from as usize].index;
        self.traffic.add(&message, bytes.len());
        if !self.is_bare {
            self.trace.begin(self.now, from, b'S');
            self.trace.number(u64::from(peer));
            self.trace.bytes(&bytes);
        }
        let name = name(&message);
        let mut fate = self.network.carry(self.now, (from, here), to, lane);
        let doomed = self.doomed.iter().position(|doom| *doom == (name, here, to));
        if let Some(at) = doomed {
            self.doomed.remove(at);
            fate = Fate::Lost;
        }
        if self.is_swallowed(here, to, name) {
            fate = Fate::Lost;
        }
        match fate {
            Fate::Arrives(at) => {
                let whole = self.is_bare.then_some(message);
                let flight = Flight {
                    from,
                    to: peer,
                    epoch,
                    lane,
                    bytes: if self.is_bare { Vec::new() } else { bytes },
                    whole,
                    name,
                    message: number,
                };
                if name == ENTITY {
                    self.network.link(from, to).crowd.enters();
                }
                let (late, copy) = if may_be_a_datagram(name) {
                    self.network.datagram_oddities()
                } else {
                    (0, None)
                };
                if let Some(after) = copy {
                    let again = Happening::Frame(Box::new(flight.clone()));
                    self.queue.push(at + late + after, again);
                }
                self.queue.push(at + late, Happening::Frame(Box::new(flight)));
            }
            Fate::Lost | Fate::Cut => self.destroyed(number),
        }
    }

    /// A frame arrives, if its link is still the one it left on and there is somebody to read it; a slow
    /// process reads it later.
    pub(crate) fn on_frame(&mut self, flight: Flight) {
        let now = self.now;
        match self.processes[flight.to as usize].reads_at(now) {
            Some(later) => self.queue.push(later, Happening::Read(Box::new(flight))),
            None => self.read(flight),
        }
    }

    /// A process gets round to a frame.
    pub(crate) fn read(&mut self, flight: Flight) {
        let (here, there) = (
            self.processes[flight.from as usize].index,
            self.processes[flight.to as usize].index,
        );
        let receiver = &self.processes[flight.to as usize];
        let readable = receiver.runs()
            && !receiver
                .quarantined
                .contains(&self.processes[flight.from as usize].me);
        let link = self.network.link(flight.from, there);
        let current = link.epoch == flight.epoch;
        if current && flight.name == ENTITY {
            link.crowd.leaves();
            self.make_room(flight.from, there);
        }
        let cut = self.network.is_cut(here, there);
        if cut {
            self.network.frames_cut += 1;
        }
        if !readable || !current || cut {
            return self.destroyed(flight.message);
        }
        self.deliver(flight);
    }

    fn deliver(&mut self, flight: Flight) {
        let Flight {
            from,
            to,
            epoch,
            lane,
            bytes,
            whole,
            name,
            message,
        } = flight;
        if let Some(at) = message {
            self.history.arrives(at, to, self.now);
            if name == PATH_MESSAGE {
                // Also where it comes back to its sender: the new host is told what is left of its time.
                self.history.has_travelled(at, self.now);
            }
            self.arrives_for(to, at);
        }
        let sender = self.processes[from as usize].me.clone();
        if name == "ExitingConfirmed" {
            self.history.processes[to as usize]
                .exiting_confirmed
                .insert(sender.clone());
        }
        let cause = Cause::Message { name, from };
        if let Some(message) = whole {
            let from = &sender;
            return self.feed(to, &cause, Input::Message { from, message });
        }
        let limits = self.processes[to as usize].node.config().limits.clone();
        let DecodedFrame::Frame { frame, consumed } = wire::decode_frame(&bytes, &limits) else {
            return self.violated("wire", to, format!("{name} does not decode"));
        };
        if consumed != bytes.len() || frame.epoch != epoch || frame.lane != lane {
            return self.violated("wire", to, format!("{name} changes on the way"));
        }
        if !self.is_bare {
            self.trace.begin(self.now, to, b'F');
            self.trace.number(u64::from(from));
            self.trace.bytes(frame.body);
        }
        if self.shows_frame(name) {
            let number = Number(message);
            self.say(to, format_args!("<- {sender} {name}{number}"));
        }
        let input = Input::Frame {
            proof: PeerProof::Nothing,
            from: &sender,
            lane: frame.lane,
            kind: frame.kind,
            body: frame.body,
        };
        self.feed(to, &cause, input);
    }

    /// A host notices that a link is dead, unless it has been replaced or came back to life.
    pub(crate) fn on_noticed(&mut self, from: ProcessId, to: usize, epoch: u32) {
        let link = self.network.link(from, to);
        let (LinkState::Up(peer), true) = (&link.state, link.epoch == epoch) else {
            return;
        };
        let peer = *peer;
        let here = self.processes[from as usize].index;
        let alive = self.processes[peer as usize].runs();
        let cut = self.network.is_cut(here, to) || self.network.is_cut(to, here);
        if alive && !cut {
            return;
        }
        self.break_link(from, to);
    }

    /// Breaks an established link: what was on the way is lost, and the dialler knows.
    pub(crate) fn break_link(&mut self, from: ProcessId, to: usize) {
        let link = self.network.link(from, to);
        let LinkState::Up(peer) = link.state else { return };
        link.state = LinkState::Idle { again_at: 0 };
        link.epoch += 1;
        link.crowd.leave();
        let peer = self.processes[peer as usize].me.clone();
        if self.network.room.is_bounded() {
            // Behind what came back before.
            self.tell_soon(from, LinkEvent::Down { peer });
            self.make_room(from, to);
        } else if self.now < self.processes[from as usize].paused_until {
            // It hears nothing before it goes on: else it would not notice that it stood still.
            self.tell_soon(from, LinkEvent::Down { peer });
        } else {
            self.tell_link(from, LinkEvent::Down { peer });
        }
    }

    /// A process is gone: its peers' sockets break soon, or much later where the network is cut.
    pub(crate) fn close_links(&mut self, gone: ProcessId) {
        for message in self.network.forget_dialler(gone) {
            self.destroyed(entity_message(&message));
        }
        for (from, to, epoch) in self.network.links_up(|_, _, peer| peer == gone) {
            let here = self.processes[from as usize].index;
            let wait = if self.network.is_cut(to, here) {
                self.network.between(1_000_000, 5_000_000)
            } else {
                self.network.latency()
            };
            self.queue
                .push(self.now + wait, Happening::Noticed { from, to, epoch });
        }
    }

    /// After a cut: some hosts notice their dead links after a while, others do not before it heals.
    pub(crate) fn links_are_cut(&mut self) {
        let cut: Vec<(ProcessId, usize, u32)> = self
            .network
            .links_up(|_, _, _| true)
            .into_iter()
            .filter(|(from, to, _)| {
                let here = self.processes[*from as usize].index;
                self.network.is_cut(here, *to) || self.network.is_cut(*to, here)
            })
            .collect();
        for (from, to, epoch) in cut {
            let wait = self.network.between(500_000, 8_000_000);
            self.queue
                .push(self.now + wait, Happening::Noticed { from, to, epoch });
        }
    }

    fn dropped(&mut self, from: ProcessId, to: SendTarget, message: Message, reason: DropReason) {
        self.tell_soon(from, LinkEvent::Dropped { to, message, reason });
    }

    /// A node has ended: its host gives back its asks that still wait for a dial, before the node says how
    /// far each has come.
    pub(crate) fn give_back_unsent(&mut self, process: ProcessId) {
        for (to, message) in self.network.take_waiting_asks(process) {
            if let Some(at) = entity_message(&message).filter(|at| *at < self.history.messages.len()) {
                self.history.arrives(at, process, self.now);
            }
            let reason = DropReason::Unreachable;
            let event = LinkEvent::Dropped { to, message, reason };
            let host = &mut self.processes[process as usize];
            host.node.handle(host.now(self.now), Input::Link(event));
        }
    }

    /// The links of one node refuse another incarnation for good, as after three violations of the protocol.
    pub fn quarantine(&mut self, at: usize, target: usize) {
        let (Some(by), Some(refused)) = (self.running_at(at), self.running_at(target)) else {
            return;
        };
        self.reset(at, target);
        let peer = self.processes[refused as usize].me.clone();
        self.processes[by as usize].quarantined.insert(peer.clone());
        self.tell_soon(by, LinkEvent::Quarantined { peer });
    }

    /// A host tells its node something, but never in the middle of its effects.
    pub(super) fn tell_soon(&mut self, to: ProcessId, event: LinkEvent) {
        let (at, event) = (self.network.room.told_at(to, self.now), Box::new(event));
        self.queue.push(at, Happening::Told { to, event });
    }

    fn destroyed(&mut self, message: Option<usize>) {
        if let Some(at) = message {
            self.history.messages[at].whereabouts = Whereabouts::Destroyed;
        }
    }

    pub(super) fn index_of(&self, target: &SendTarget) -> Option<usize> {
        let port = usize::from(target.address().port());
        port.checked_sub(2_551)
            .filter(|index| *index < self.last_at.len())
    }

    fn shows_frame(&self, name: &str) -> bool {
        self.trace.shows(Show::Everything) && !name.starts_with("Heartbeat")
    }

    /// The incarnation running on an address now.
    #[must_use]
    pub fn incarnation(&self, index: usize) -> Option<UniqueAddress> {
        let id = self.running_at(index)?;
        Some(self.processes[id as usize].me.clone())
    }
}
