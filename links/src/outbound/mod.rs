//! Links that this node dials, up to three per peer: dialing on demand, the handshake, writing in batches,
//! giving up. Every message it takes is written to a link or goes back to the core (I-44). Spec:
//! `ARCHITECTURE.md`, sharding 10.2, 10.3.
//!
//! A message waits at most until the third dial in a row has failed, or until the first dial that fails after
//! the handshake limit; it then comes back as unreachable. What was written to a link that breaks is lost,
//! and the core hears `Down`.

mod bulk;
mod causes;
mod datagrams;
mod dialing;
mod offers;
mod questions;
mod renewal;
mod unsent;

use alloc::boxed::Box;
use alloc::vec::Vec;

use quorate_core::event::SeedCause;
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::input::{DropReason, LinkEvent, SendTarget};
use quorate_core::message::{Lane, Message};
use quorate_core::ordered::{OrderedMap, OrderedSet};
use quorate_core::time::Instant;
use quorate_core::view::View;
use quorate_core::wire::Encoder;

use crate::base::LinksBase;
use crate::order::{LinkId, LinkOrder};
use crate::peer_link::{ConnectionState, PeerLink};
use crate::queue::QueueOutcome;
use crate::report::ReportParty;
use crate::settings::LinkLimits;
use crate::stats::LinkState;
use crate::timers::LinkDue;
use bulk::is_unused;
use datagrams::is_heartbeat;
use dialing::jittered;
pub(crate) use offers::UnsentFrame;
pub(crate) use questions::LinkWord;
use questions::Question;
use quorate_core::wire::handshake::LinkKind;

/// The links to one address.
#[derive(Debug, Default)]
struct PeerLinks {
    control: PeerLink,
    user: PeerLink,
    bulk: PeerLink,
    /// Whether who answered on the control link accepts bulk links; unknown until somebody has.
    accepts_bulk: Option<bool>,
    /// What came of the last dial of the control link, if it did not open.
    last_failure: Option<SeedCause>,
}

impl PeerLinks {
    const fn link(&mut self, kind: LinkKind) -> &mut PeerLink {
        match kind {
            LinkKind::Control => &mut self.control,
            LinkKind::User => &mut self.user,
            LinkKind::Bulk => &mut self.bulk,
        }
    }
}

/// All links.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    /// Boxed: a map keeps places for eleven, and most hosts with little memory have one peer or two.
    peers: OrderedMap<Address, Box<PeerLinks>>,
    links: OrderedMap<LinkId, (Address, LinkKind)>,
    /// Links by which peers are asked about links in their names.
    questions: OrderedMap<LinkId, Question>,
    /// Links with something to write.
    dirty: Vec<LinkId>,
    /// Grows with every dial of this incarnation, so that a later link always has the larger epoch.
    epoch: u32,
    encoder: Encoder,
    /// Most bytes of a datagram, for links of transports that have them.
    datagram_bytes_max: OrderedMap<LinkId, usize>,
    /// Some queue was long when last looked at.
    maybe_slow: bool,
    /// Addresses whose queues had no room for something that was offered.
    refusing: OrderedSet<Address>,
}

impl Outbound {
    /// Whether this node has a link to this very incarnation.
    pub(crate) fn reaches(&self, node: &UniqueAddress) -> bool {
        let peer = self.peers.get(node.address());
        peer.is_some_and(|peer| peer.control.state.peer() == Some(node))
    }

    pub(crate) fn len(&self) -> usize {
        self.links.len() + self.questions.len()
    }

    pub(crate) fn is_mine(&self, link: LinkId) -> bool {
        self.links.contains_key(&link)
    }

    /// Takes a message. The hot path: nothing but encoding, if the link is open and has room.
    pub(crate) fn send(&mut self, base: &mut LinksBase, view: &View, to: SendTarget, message: Message) {
        if is_heartbeat(&message) && self.send_beside(base, &to, &message) {
            return;
        }
        self.take(base, view, UnsentFrame::of(to, message, false));
    }

    /// Takes a message for a lane.
    pub(crate) fn take(&mut self, base: &mut LinksBase, view: &View, frame: UnsentFrame) {
        let UnsentFrame {
            lane,
            to,
            message,
            is_offer,
        } = frame;
        let kind = LinkKind::of(lane);
        if !self.peers.contains_key(to.address()) {
            self.peers.insert(to.address().clone(), Box::default());
        }
        let Some(peer_link) = self.peers.get_mut(to.address()).map(|peer| peer.link(kind)) else {
            return;
        };
        match (&peer_link.state, &to) {
            (ConnectionState::Open { peer, .. }, SendTarget::Node(node)) if peer != node => {
                let stale = view.member(node).is_some() && view.member(peer).is_none();
                if !stale {
                    let found = peer.clone();
                    let expected = node.clone();
                    base.drop_message(to, message, DropReason::Unreachable);
                    return base.tell(LinkEvent::WrongIncarnation { expected, found });
                }
                // The members have replaced the incarnation that this link once reached.
                let address = to.address().clone();
                self.enqueue(base, lane, (to, message), is_offer);
                self.break_link(base, &address, kind);
            }
            (ConnectionState::Open { link, epoch, .. }, _)
                if peer_link.queues.is_empty()
                    && peer_link.has_room(base.out_bytes_max)
                    && !peer_link.queues.bars(&message) =>
            {
                let (link, epoch) = (*link, *epoch);
                let encoded = self
                    .encoder
                    .encode(&message, epoch, &base.config.limits, &mut peer_link.out);
                match encoded {
                    Ok(()) => {
                        base.stats.frames_sent += 1;
                        if !peer_link.dirty {
                            peer_link.dirty = true;
                            self.dirty.push(link);
                        }
                    }
                    Err(_) => base.drop_message(to, message, DropReason::TooLarge),
                }
            }
            (
                ConnectionState::Open { .. }
                | ConnectionState::Idle
                | ConnectionState::Backoff { .. }
                | ConnectionState::Dialing { .. }
                | ConnectionState::Greeting { .. },
                _,
            ) => self.enqueue(base, lane, (to, message), is_offer),
        }
    }

    fn enqueue(
        &mut self,
        base: &mut LinksBase,
        lane: Lane,
        (to, message): (SendTarget, Message),
        is_offer: bool,
    ) {
        let (address, kind) = (to.address().clone(), LinkKind::of(lane));
        let Some(peer_link) = self.peers.get_mut(&address).map(|peer| peer.link(kind)) else {
            return;
        };
        let queued = peer_link.queues.push(&base.limits, lane, (to, message), is_offer);
        self.maybe_slow |= peer_link.queues.is_slow(&base.limits);
        let idle = matches!(peer_link.state, ConnectionState::Idle);
        match queued {
            QueueOutcome::Kept => {}
            QueueOutcome::Shed => base.stats.gossip_shed += 1,
            QueueOutcome::Rejected(to, message) => base.drop_message(to, message, DropReason::QueueFull),
            QueueOutcome::Refused(to, message) => {
                self.refusing.insert(address.clone());
                base.drop_message(to, message, DropReason::NoRoom);
            }
            QueueOutcome::Overflow => return self.overflow(base, &address, kind),
        }
        match kind {
            LinkKind::Control | LinkKind::User if idle => self.dial(base, &address, kind),
            LinkKind::Bulk if idle => self.dial_bulk(base, &address),
            LinkKind::Control | LinkKind::User | LinkKind::Bulk => {}
        }
    }

    /// Too much control traffic waits: the peer does not keep up with membership.
    fn overflow(&mut self, base: &mut LinksBase, address: &Address, kind: LinkKind) {
        base.violation(
            &"the control queue is full",
            ReportParty::Address(address.clone()),
        );
        base.stats.links_closed_for_control_overflow += 1;
        if let Some(peer_link) = self.peers.get_mut(address).map(|peer| peer.link(kind)) {
            for (to, message) in peer_link.queues.remove_unless(|_| false) {
                base.drop_message(to, message, DropReason::QueueFull);
            }
        }
        self.break_link(base, address, kind);
    }

    /// Ends an open link at once. What waits will go over the next one.
    fn break_link(&mut self, base: &mut LinksBase, address: &Address, kind: LinkKind) {
        let Some(peer_link) = self.peers.get_mut(address).map(|peer| peer.link(kind)) else {
            return;
        };
        let Some(link) = peer_link.state.link() else {
            return;
        };
        let peer = peer_link.state.peer().cloned();
        if let (LinkKind::User, Some(peer)) = (kind, &peer) {
            unsent::return_encoded(base, peer_link, peer);
        }
        peer_link.reset_buffers();
        peer_link.dirty = false;
        // A pause even after a good link: a peer that opens and closes must not become a busy loop.
        let until = base.now.mono + jittered(base, 1);
        set_state(base, peer_link, address, kind, ConnectionState::Backoff { until });
        self.end_renewal(base, address, kind);
        self.links.remove(&link);
        base.act(LinkOrder::Abort(link));
        if let Some(peer) = peer {
            base.lost(kind, peer);
        }
    }

    /// What was handed over is written.
    pub(crate) fn written(&mut self, base: &mut LinksBase, link: LinkId, buffer: Vec<u8>) {
        let Some((address, kind)) = self.links.get(&link) else {
            return;
        };
        let Some(peer_link) = self.peers.get_mut(address).map(|peer| peer.link(*kind)) else {
            return;
        };
        if peer_link.is_draining(link) {
            base.stats.bytes_sent += buffer.len() as u64;
            peer_link.progress_at = base.now.mono;
        } else if matches!(peer_link.state, ConnectionState::Open { link: own, .. } if own == link)
            && peer_link.writing
        {
            base.stats.bytes_sent += buffer.len() as u64;
            peer_link.written(buffer, base.now.mono);
            self.refill(base, link);
        }
    }

    /// Encodes what waits, as far as there is room.
    fn refill(&mut self, base: &mut LinksBase, link: LinkId) {
        let Some((address, kind)) = self.links.get(&link) else {
            return;
        };
        let Some(peer_link) = self.peers.get_mut(address).map(|peer| peer.link(*kind)) else {
            return;
        };
        let ConnectionState::Open { epoch, .. } = peer_link.state else {
            return;
        };
        encode_waiting(base, &mut self.encoder, peer_link, epoch, false);
        if !peer_link.out.is_empty() && !peer_link.dirty {
            peer_link.dirty = true;
            self.dirty.push(link);
        }
    }

    /// Hands over what was encoded since the last time: one write per link and turn.
    pub(crate) fn flush(&mut self, base: &mut LinksBase) {
        for link in self.dirty.drain(..) {
            let Some((address, kind)) = self.links.get(&link) else {
                continue;
            };
            let Some(peer_link) = self.peers.get_mut(address).map(|peer| peer.link(*kind)) else {
                continue;
            };
            peer_link.dirty = false;
            if peer_link.writing || peer_link.is_held() || peer_link.out.is_empty() {
                continue;
            }
            peer_link.progress_at = base.now.mono;
            let bytes = peer_link.take_out();
            base.act(LinkOrder::Write { link, bytes });
        }
    }

    /// Whether this node's own senders should wait for a slow peer.
    #[inline]
    pub(crate) fn slows_senders(&mut self, limits: &LinkLimits, now: Instant) -> bool {
        self.maybe_slow && self.finds_slow(limits, now)
    }

    fn finds_slow(&mut self, limits: &LinkLimits, now: Instant) -> bool {
        self.maybe_slow = self.peers.values().any(|peer| peer.user.queues.is_slow(limits));
        self.peers
            .values()
            .any(|peer| peer.user.slows_senders(limits, now))
    }

    /// Ends everything with an incarnation that is refused from now on.
    pub(crate) fn quarantine(&mut self, base: &mut LinksBase, node: &UniqueAddress) {
        for kind in LinkKind::ALL {
            let Some(peer_link) = self.peers.get_mut(node.address()).map(|peer| peer.link(kind)) else {
                continue;
            };
            let is_other = |to: &SendTarget| matches!(to, SendTarget::Node(other) if other != node);
            let reached = peer_link.state.peer() == Some(node);
            let strays = peer_link
                .queues
                .remove_unless(|to| is_other(to) || (!reached && matches!(to, SendTarget::Address(_))));
            return_strays(base, kind, strays, None);
            if reached {
                self.break_link(base, node.address(), kind);
            }
        }
    }

    /// Closes links to nodes that are no members and were told nothing for long, and forgets addresses nobody
    /// uses.
    pub(crate) fn sweep(&mut self, base: &mut LinksBase, view: &View) {
        let mut idle = Vec::new();
        for (address, peer) in &mut self.peers {
            for kind in LinkKind::ALL {
                let peer_link = peer.link(kind);
                if let ConnectionState::Open { link, peer, .. } = &peer_link.state
                    && (base.is_idle_stranger(view, peer, peer_link.progress_at)
                        || (kind == LinkKind::Bulk && is_unused(base, peer_link)))
                {
                    idle.push((address.clone(), kind, *link, peer_link.writing));
                }
            }
        }
        for (address, kind, link, stuck) in idle {
            if let Some(peer_link) = self.peers.get_mut(&address).map(|peer| peer.link(kind)) {
                peer_link.reset_buffers();
                peer_link.state = ConnectionState::Idle;
            }
            self.end_renewal(base, &address, kind);
            self.links.remove(&link);
            // A write that has not ended in all this time never will.
            base.act(if stuck {
                LinkOrder::Abort(link)
            } else {
                LinkOrder::Finish(link)
            });
        }
        let unused = |peer_link: &PeerLink| {
            matches!(peer_link.state, ConnectionState::Idle) && peer_link.queues.is_empty()
        };
        self.peers
            .retain(|_, peer| LinkKind::ALL.iter().any(|kind| !unused(peer.link(*kind))));
    }

    /// The node is finished: hands over everything that waits for an open link, then closes all links.
    pub(crate) fn finish_all(&mut self, base: &mut LinksBase) {
        for peer in self.peers.values_mut() {
            for kind in LinkKind::ALL {
                let peer_link = peer.link(kind);
                if let Some(other) = peer_link.renewal.link() {
                    base.act(if peer_link.is_held() {
                        LinkOrder::Finish(other)
                    } else {
                        LinkOrder::Abort(other)
                    });
                }
                match peer_link.state {
                    ConnectionState::Open { link, epoch, .. } => {
                        encode_waiting(base, &mut self.encoder, peer_link, epoch, true);
                        if !peer_link.out.is_empty() {
                            let bytes = peer_link.take_out();
                            base.act(LinkOrder::Write { link, bytes });
                        }
                        base.act(LinkOrder::Finish(link));
                    }
                    ConnectionState::Dialing { link, .. } | ConnectionState::Greeting { link, .. } => {
                        base.act(LinkOrder::Abort(link))
                    }
                    ConnectionState::Idle | ConnectionState::Backoff { .. } => {}
                }
            }
        }
        for link in core::mem::take(&mut self.questions).into_keys() {
            base.act(LinkOrder::Abort(link));
        }
        self.peers.clear();
        self.links.clear();
        self.dirty.clear();
    }

    /// All links as they are.
    pub(crate) fn links(&self) -> Vec<LinkState> {
        let of = |address: &Address, kind, peer_link: &PeerLink| LinkState {
            peer: address.clone(),
            kind,
            is_open: matches!(peer_link.state, ConnectionState::Open { .. }),
            handshakes: peer_link.handshakes,
        };
        let all = self.peers.iter().flat_map(|(address, peer)| {
            [
                of(address, LinkKind::Control, &peer.control),
                of(address, LinkKind::User, &peer.user),
                of(address, LinkKind::Bulk, &peer.bulk),
            ]
        });
        all.filter(|link| link.is_open || link.handshakes > 0).collect()
    }

    pub(crate) fn queued(&self, address: &Address, lane: Lane) -> usize {
        self.peers
            .get(address)
            .map_or(0, |peer| match LinkKind::of(lane) {
                LinkKind::Control => peer.control.queues.len(lane),
                LinkKind::User => peer.user.queues.len(lane),
                LinkKind::Bulk => peer.bulk.queues.len(lane),
            })
    }
}

/// Moves waiting messages to the write buffer, up to its bound or, at the very end, all of them.
fn encode_waiting(
    base: &mut LinksBase,
    encoder: &mut Encoder,
    peer_link: &mut PeerLink,
    epoch: u32,
    all: bool,
) {
    while all || peer_link.has_room(base.out_bytes_max) {
        let Some((to, message)) = peer_link.queues.pop() else {
            return;
        };
        match encoder.encode(&message, epoch, &base.config.limits, &mut peer_link.out) {
            Ok(()) => base.stats.frames_sent += 1,
            Err(_) => base.drop_message(to, message, DropReason::TooLarge),
        }
    }
}

/// Gives messages back that will not be sent, and says afterwards about each incarnation why: another one
/// lives there, or none. That a bulk link could not be opened says nothing about the peer.
fn return_strays(
    base: &mut LinksBase,
    kind: LinkKind,
    strays: Vec<(SendTarget, Message)>,
    found: Option<&UniqueAddress>,
) {
    let mut lost: Vec<UniqueAddress> = Vec::new();
    for (to, message) in strays {
        if let SendTarget::Node(node) = &to
            && kind != LinkKind::Bulk
            && !lost.contains(node)
        {
            lost.push(node.clone());
        }
        base.drop_message(to, message, DropReason::Unreachable);
    }
    for peer in lost {
        match found {
            Some(found) => base.tell(LinkEvent::WrongIncarnation {
                expected: peer,
                found: found.clone(),
            }),
            None => base.lost(kind, peer),
        }
    }
}

/// Moves a link to another state and its deadline with it.
fn set_state(
    base: &mut LinksBase,
    peer_link: &mut PeerLink,
    address: &Address,
    kind: LinkKind,
    state: ConnectionState,
) {
    if let Some(deadline) = peer_link.state.deadline() {
        base.timers
            .disarm(deadline, LinkDue::PeerLink(address.clone(), kind));
    }
    if let Some(deadline) = state.deadline() {
        base.timers
            .arm(deadline, LinkDue::PeerLink(address.clone(), kind));
    }
    peer_link.state = state;
}
