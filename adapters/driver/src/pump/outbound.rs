//! Links that this node dials, up to three per peer: dialing on demand, the handshake, writing in batches, giving up. Every message
//! it takes is written to a link or goes back to the core (I-44). Spec: `ARCHITECTURE.md`, sharding 10.2, 10.3.
//!
//! A message waits at most until the third dial in a row has failed, or until the first dial that fails after the handshake
//! limit; it then comes back as unreachable. What was written to a link that breaks is lost, and the core hears `Down`.

mod bulk;
mod causes;
mod datagrams;
mod dialing;
mod renewal;

use std::collections::BTreeMap;

use quorate_core::config::Limits;
use quorate_core::event::SeedCause;
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::input::{DropReason, LinkEvent, Target};
use quorate_core::message::{Lane, Message};
use quorate_core::time::Instant;
use quorate_core::view::View;
use quorate_core::wire::Encoder;

use super::action::{Action, LinkId};
use super::base::Base;
use super::inbound::is_idle_stranger;
use super::queue::Queued;
use super::refusal::violation;
use super::timers::Due;
use super::way::{Renewal, State, Way};
use crate::stats::LinkState;
use crate::transport::LinkKind;
use bulk::is_unused;
use datagrams::is_heartbeat;
use dialing::jittered;

/// The ways to one address.
#[derive(Debug, Default)]
struct Peer {
    control: Way,
    user: Way,
    bulk: Way,
    /// Whether who answered on the control link accepts bulk links; unknown until somebody has.
    accepts_bulk: Option<bool>,
    /// What came of the last dial of the control link, if it did not open.
    last_failure: Option<SeedCause>,
}

impl Peer {
    const fn way(&mut self, kind: LinkKind) -> &mut Way {
        match kind {
            LinkKind::Control => &mut self.control,
            LinkKind::User => &mut self.user,
            LinkKind::Bulk => &mut self.bulk,
        }
    }
}

/// All ways.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    peers: BTreeMap<Address, Peer>,
    links: BTreeMap<LinkId, (Address, LinkKind)>,
    /// Links with something to write.
    dirty: Vec<LinkId>,
    /// Grows with every dial of this incarnation, so that a later link always has the larger epoch.
    epoch: u32,
    encoder: Encoder,
    /// Most bytes of a datagram, for links of transports that have them.
    datagram_bytes_max: BTreeMap<LinkId, usize>,
    /// Some queue was long when last looked at.
    maybe_slow: bool,
}

impl Outbound {
    /// Whether this node has a link to this very incarnation.
    pub(crate) fn reaches(&self, node: &UniqueAddress) -> bool {
        let peer = self.peers.get(node.address());
        peer.is_some_and(|peer| peer.control.state.peer() == Some(node))
    }

    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    pub(crate) fn is_mine(&self, link: LinkId) -> bool {
        self.links.contains_key(&link)
    }

    /// Takes a message. The hot path: nothing but encoding, if the link is open and has room.
    pub(crate) fn send(&mut self, base: &mut Base, view: &View, to: Target, message: Message) {
        if is_heartbeat(&message) && self.send_beside(base, &to, &message) {
            return;
        }
        let lane = message.lane();
        self.send_on(base, view, lane, to, message);
    }

    /// Takes a message for a lane.
    pub(crate) fn send_on(&mut self, base: &mut Base, view: &View, lane: Lane, to: Target, message: Message) {
        let kind = LinkKind::of(lane);
        if !self.peers.contains_key(to.address()) {
            self.peers.insert(to.address().clone(), Peer::default());
        }
        let Some(way) = self.peers.get_mut(to.address()).map(|peer| peer.way(kind)) else {
            return;
        };
        match (&way.state, &to) {
            (State::Open { peer, .. }, Target::Node(node)) if peer != node => {
                let stale = view.member(node).is_some() && view.member(peer).is_none();
                if !stale {
                    let found = peer.clone();
                    let expected = node.clone();
                    base.tell(LinkEvent::WrongIncarnation { expected, found });
                    return base.drop_message(to, message, DropReason::Unreachable);
                }
                // The members have replaced the incarnation that this link once reached.
                let address = to.address().clone();
                self.enqueue(base, lane, to, message);
                self.break_link(base, &address, kind);
            }
            (State::Open { link, epoch, .. }, _) if way.queues.is_empty() && way.has_room() => {
                let (link, epoch) = (*link, *epoch);
                let encoded =
                    self.encoder
                        .encode_for(way.features, &message, epoch, &base.config.limits, &mut way.out);
                match encoded {
                    Ok(()) => {
                        base.stats.frames_sent += 1;
                        if !way.dirty {
                            way.dirty = true;
                            self.dirty.push(link);
                        }
                    }
                    Err(_) => base.drop_message(to, message, DropReason::TooLarge),
                }
            }
            (
                State::Open { .. }
                | State::Idle
                | State::Backoff { .. }
                | State::Dialing { .. }
                | State::Greeting { .. },
                _,
            ) => self.enqueue(base, lane, to, message),
        }
    }

    fn enqueue(&mut self, base: &mut Base, lane: Lane, to: Target, message: Message) {
        let (address, kind) = (to.address().clone(), LinkKind::of(lane));
        let Some(way) = self.peers.get_mut(&address).map(|peer| peer.way(kind)) else {
            return;
        };
        let queued = way.queues.push(&base.config.limits, lane, to, message);
        self.maybe_slow |= way.queues.is_slow(&base.config.limits);
        let idle = matches!(way.state, State::Idle);
        match queued {
            Queued::Kept => {}
            Queued::Shed => base.stats.gossip_shed += 1,
            Queued::Rejected(to, message) => base.drop_message(to, message, DropReason::QueueFull),
            Queued::Overflow => return self.overflow(base, &address, kind),
        }
        match kind {
            LinkKind::Control | LinkKind::User if idle => self.dial(base, &address, kind),
            LinkKind::Bulk if idle => self.dial_bulk(base, &address),
            LinkKind::Control | LinkKind::User | LinkKind::Bulk => {}
        }
    }

    /// Too much control traffic waits: the peer does not keep up with membership.
    fn overflow(&mut self, base: &mut Base, address: &Address, kind: LinkKind) {
        violation(
            &"the control queue is full",
            address,
            &mut base.log,
            base.now.mono,
        );
        base.stats.links_closed_for_control_overflow += 1;
        if let Some(way) = self.peers.get_mut(address).map(|peer| peer.way(kind)) {
            for (to, message) in way.queues.remove_unless(|_| false) {
                base.drop_message(to, message, DropReason::QueueFull);
            }
        }
        self.break_link(base, address, kind);
    }

    /// Ends an open link at once. What waits will go over the next one.
    fn break_link(&mut self, base: &mut Base, address: &Address, kind: LinkKind) {
        let Some(way) = self.peers.get_mut(address).map(|peer| peer.way(kind)) else {
            return;
        };
        let Some(link) = way.state.link() else {
            return;
        };
        let peer = way.state.peer().cloned();
        way.reset_buffers();
        way.dirty = false;
        // A pause even after a good link: a peer that opens and closes must not become a busy loop.
        let until = base.now.mono + jittered(base, 1);
        set_state(base, way, address, kind, State::Backoff { until });
        self.end_renewal(base, address, kind);
        self.links.remove(&link);
        base.act(Action::Abort(link));
        // No ask is under way on a bulk link; who sent something there sends it again.
        if let Some(peer) = peer.filter(|_| kind != LinkKind::Bulk) {
            base.tell(LinkEvent::Down { peer });
        }
    }

    /// What was handed over is written.
    pub(crate) fn written(&mut self, base: &mut Base, link: LinkId, buffer: Vec<u8>) {
        let Some((address, kind)) = self.links.get(&link) else {
            return;
        };
        let Some(way) = self.peers.get_mut(address).map(|peer| peer.way(*kind)) else {
            return;
        };
        if way.is_draining(link) {
            base.stats.bytes_sent += buffer.len() as u64;
            way.progress_at = base.now.mono;
        } else if matches!(way.state, State::Open { link: own, .. } if own == link) && way.writing {
            base.stats.bytes_sent += buffer.len() as u64;
            way.written(buffer, base.now.mono);
            self.refill(base, link);
        }
    }

    /// Encodes what waits, as far as there is room.
    fn refill(&mut self, base: &mut Base, link: LinkId) {
        let Some((address, kind)) = self.links.get(&link) else {
            return;
        };
        let Some(way) = self.peers.get_mut(address).map(|peer| peer.way(*kind)) else {
            return;
        };
        let State::Open { epoch, .. } = way.state else {
            return;
        };
        encode_waiting(base, &mut self.encoder, way, epoch, false);
        if !way.out.is_empty() && !way.dirty {
            way.dirty = true;
            self.dirty.push(link);
        }
    }

    /// Hands over what was encoded since the last time: one write per link and turn.
    pub(crate) fn flush(&mut self, base: &mut Base) {
        for link in std::mem::take(&mut self.dirty) {
            let Some((address, kind)) = self.links.get(&link) else {
                continue;
            };
            let Some(way) = self.peers.get_mut(address).map(|peer| peer.way(*kind)) else {
                continue;
            };
            way.dirty = false;
            if way.writing || way.is_held() || way.out.is_empty() {
                continue;
            }
            way.progress_at = base.now.mono;
            let bytes = way.take_out();
            base.act(Action::Write { link, bytes });
        }
    }

    /// Whether this node's own senders should wait for a slow peer.
    pub(crate) fn slows_senders(&mut self, limits: &Limits, now: Instant) -> bool {
        if !self.maybe_slow {
            return false;
        }
        self.maybe_slow = self.peers.values().any(|peer| peer.user.queues.is_slow(limits));
        self.peers
            .values()
            .any(|peer| peer.user.slows_senders(limits, now))
    }

    /// Ends everything with an incarnation that is refused from now on.
    pub(crate) fn quarantine(&mut self, base: &mut Base, node: &UniqueAddress) {
        for kind in LinkKind::ALL {
            let Some(way) = self.peers.get_mut(node.address()).map(|peer| peer.way(kind)) else {
                continue;
            };
            let is_other = |to: &Target| matches!(to, Target::Node(other) if other != node);
            let reached = way.state.peer() == Some(node);
            let strays = way
                .queues
                .remove_unless(|to| is_other(to) || (!reached && matches!(to, Target::Address(_))));
            return_strays(base, kind, strays, None);
            if reached {
                self.break_link(base, node.address(), kind);
            }
        }
    }

    /// Closes links to nodes that are no members and were told nothing for long, and forgets addresses nobody uses.
    pub(crate) fn sweep(&mut self, base: &mut Base, view: &View) {
        let mut idle = Vec::new();
        for (address, peer) in &mut self.peers {
            for kind in LinkKind::ALL {
                let way = peer.way(kind);
                if let State::Open { link, peer, .. } = &way.state
                    && (is_idle_stranger(base, view, peer, way.progress_at)
                        || (kind == LinkKind::Bulk && is_unused(base, way)))
                {
                    idle.push((address.clone(), kind, *link, way.writing));
                }
            }
        }
        for (address, kind, link, stuck) in idle {
            if let Some(way) = self.peers.get_mut(&address).map(|peer| peer.way(kind)) {
                way.reset_buffers();
                way.state = State::Idle;
            }
            self.end_renewal(base, &address, kind);
            self.links.remove(&link);
            // A write that has not ended in all this time never will.
            base.act(if stuck {
                Action::Abort(link)
            } else {
                Action::Finish(link)
            });
        }
        let unused = |way: &Way| matches!(way.state, State::Idle) && way.queues.is_empty();
        self.peers
            .retain(|_, peer| LinkKind::ALL.iter().any(|kind| !unused(peer.way(*kind))));
    }

    /// The node is finished: hands over everything that waits for an open link, then closes all links.
    pub(crate) fn finish_all(&mut self, base: &mut Base) {
        for peer in self.peers.values_mut() {
            for kind in LinkKind::ALL {
                let way = peer.way(kind);
                if let Some(other) = way.renewal.link() {
                    base.act(if way.is_held() {
                        Action::Finish(other)
                    } else {
                        Action::Abort(other)
                    });
                }
                match way.state {
                    State::Open { link, epoch, .. } => {
                        encode_waiting(base, &mut self.encoder, way, epoch, true);
                        if !way.out.is_empty() {
                            let bytes = way.take_out();
                            base.act(Action::Write { link, bytes });
                        }
                        base.act(Action::Finish(link));
                    }
                    State::Dialing { link, .. } | State::Greeting { link, .. } => {
                        base.act(Action::Abort(link))
                    }
                    State::Idle | State::Backoff { .. } => {}
                }
            }
        }
        self.peers.clear();
        self.links.clear();
        self.dirty.clear();
    }

    /// All ways as they are.
    pub(crate) fn links(&self) -> Vec<LinkState> {
        let of = |address: &Address, kind, way: &Way| LinkState {
            peer: address.clone(),
            kind,
            is_open: matches!(way.state, State::Open { .. }),
            handshakes: way.handshakes,
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

    #[cfg(test)]
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
fn encode_waiting(base: &mut Base, encoder: &mut Encoder, way: &mut Way, epoch: u32, all: bool) {
    while all || way.has_room() {
        let Some((to, message)) = way.queues.pop() else {
            return;
        };
        match encoder.encode_for(way.features, &message, epoch, &base.config.limits, &mut way.out) {
            Ok(()) => base.stats.frames_sent += 1,
            Err(_) => base.drop_message(to, message, DropReason::TooLarge),
        }
    }
}

/// Gives messages back that will not be sent, and says about each incarnation why: another one lives there, or none. That a
/// bulk link could not be opened says nothing about the peer.
fn return_strays(
    base: &mut Base,
    kind: LinkKind,
    strays: Vec<(Target, Message)>,
    found: Option<&UniqueAddress>,
) {
    let mut told: Vec<UniqueAddress> = Vec::new();
    for (to, message) in strays {
        if let Target::Node(node) = &to
            && kind != LinkKind::Bulk
            && !told.contains(node)
        {
            told.push(node.clone());
            base.tell(match found {
                Some(found) => LinkEvent::WrongIncarnation {
                    expected: node.clone(),
                    found: found.clone(),
                },
                None => LinkEvent::Down { peer: node.clone() },
            });
        }
        base.drop_message(to, message, DropReason::Unreachable);
    }
}

/// Moves a renewal on and its deadline with it.
fn set_renewal(base: &mut Base, way: &mut Way, address: &Address, kind: LinkKind, renewal: Renewal) {
    if let Some(deadline) = way.renewal.deadline() {
        base.timers.disarm(deadline, Due::Renewal(address.clone(), kind));
    }
    if let Some(deadline) = renewal.deadline() {
        base.timers.arm(deadline, Due::Renewal(address.clone(), kind));
    }
    way.renewal = renewal;
}

/// Moves a way to another state and its deadline with it.
fn set_state(base: &mut Base, way: &mut Way, address: &Address, kind: LinkKind, state: State) {
    if let Some(deadline) = way.state.deadline() {
        base.timers.disarm(deadline, Due::Way(address.clone(), kind));
    }
    if let Some(deadline) = state.deadline() {
        base.timers.arm(deadline, Due::Way(address.clone(), kind));
    }
    way.state = state;
}
