//! Dialing: from a message that waits to an open link, or to giving up. Decides when to try again and when to say that a
//! peer cannot be reached; the first failure never costs a message. Spec: architecture 4.

use std::time::Duration;

use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::input::LinkEvent;
use quorate_core::wire::handshake::{
    FEATURES, HandshakeDecoded, Hello, HelloAck, HelloAnswer, RejectReason, check_ack, decode_answer,
    encode_hello,
};
use quorate_core::wire::{VERSION_MAX, VERSION_MIN};
use rand_core::Rng;

use super::{Outbound, return_strays, set_state};
use crate::pump::action::{Action, Chunk, LinkId};
use crate::pump::base::Base;
use crate::pump::limits::DIALS_BEFORE_UNREACHABLE;
use crate::pump::quarantine::Quarantine;
use crate::pump::refusal::violation;
use crate::pump::way::{State, backoff};
use crate::transport::LinkKind;

impl Outbound {
    /// Opens a link, for whoever the first waiting message is for.
    pub(super) fn dial(&mut self, base: &mut Base, address: &Address, kind: LinkKind) {
        let Some(way) = self.peers.get_mut(address).map(|peer| peer.way(kind)) else {
            return;
        };
        self.epoch = self.epoch.wrapping_add(1);
        let link = base.next_link();
        let hello = Hello {
            versions: (VERSION_MIN, VERSION_MAX),
            cluster: base.config.cluster.clone(),
            from: base.me.clone(),
            to: address.clone(),
            expected_uid: way.wanted_uid(),
            link: kind,
            epoch: self.epoch,
            features: FEATURES,
            auth_method: base.auth_method,
            nonce: base.nonce(),
        };
        let deadline = base.now.mono + base.config.limits.handshake_timeout;
        way.progress_at = base.now.mono;
        set_state(
            base,
            way,
            address,
            kind,
            State::Dialing {
                link,
                hello: Box::new(hello),
                deadline,
            },
        );
        self.links.insert(link, (address.clone(), kind));
        base.stats.dials += 1;
        base.act(Action::Dial {
            link,
            to: address.clone(),
            kind,
        });
    }

    /// The link is open: say who we are.
    pub(crate) fn dialed(&mut self, base: &mut Base, link: LinkId) {
        let Some((address, kind)) = self.links.get(&link).cloned() else {
            return base.act(Action::Abort(link));
        };
        let Some(way) = self.peers.get_mut(&address).map(|peer| peer.way(kind)) else {
            return;
        };
        let State::Dialing { hello, deadline, .. } = std::mem::take(&mut way.state) else {
            return;
        };
        let mut bytes = Vec::new();
        let encoded = encode_hello(&hello, &mut bytes);
        // The deadline goes on: it is for the dial and the handshake together.
        way.state = State::Greeting {
            link,
            hello,
            deadline,
            heard: Vec::new(),
        };
        match encoded {
            Ok(()) => base.act(Action::Write { link, bytes }),
            Err(error) => self.failed(base, link, &error),
        }
    }

    /// Bytes on a link that we dialed: the answer to the handshake, and nothing else ever.
    pub(crate) fn received(&mut self, base: &mut Base, quarantine: &Quarantine, link: LinkId, chunk: Chunk) {
        base.stats.bytes_received += chunk.len as u64;
        let Some((address, kind)) = self.links.get(&link).cloned() else {
            return;
        };
        let Some(way) = self.peers.get_mut(&address).map(|peer| peer.way(kind)) else {
            return;
        };
        let State::Greeting { hello, heard, .. } = &mut way.state else {
            violation(&"bytes on a one-way link", &address, &mut base.log, base.now.mono);
            base.stats.links_closed_for_violation += 1;
            return self.break_link(base, &address, kind);
        };
        heard.extend_from_slice(chunk.filled());
        let decoded = decode_answer(heard);
        let hello = Hello::clone(hello);
        base.act(Action::Resume { link, chunk });
        match decoded {
            HandshakeDecoded::NeedMore(_) => {}
            HandshakeDecoded::Bad(error) => self.failed(base, link, &error),
            HandshakeDecoded::Done { value, .. } => match value {
                HelloAnswer::Reject(reject) => {
                    if let (RejectReason::Quarantined, Some(uid)) = (reject.reason, hello.expected_uid) {
                        // The very incarnation that was meant refuses this one for good: it has removed it.
                        let peer = UniqueAddress::new(address, uid);
                        base.tell(LinkEvent::QuarantinedBy { peer });
                    }
                    self.rejected(base, link, reject.reason);
                }
                HelloAnswer::Ack(ack) => match check_ack(&hello, &ack) {
                    Err(reason) => self.rejected(base, link, reason),
                    Ok(()) if quarantine.contains(&ack.from) => {
                        self.rejected(base, link, RejectReason::Quarantined);
                    }
                    Ok(()) => self.open(base, link, ack, hello.epoch),
                },
            },
        }
    }

    fn open(&mut self, base: &mut Base, link: LinkId, ack: HelloAck, epoch: u32) {
        let Some((address, kind)) = self.links.get(&link).cloned() else {
            return;
        };
        let Some(way) = self.peers.get_mut(&address).map(|peer| peer.way(kind)) else {
            return;
        };
        let peer = ack.from;
        way.failures = 0;
        way.reset_buffers();
        way.progress_at = base.now.mono;
        let strays = way.take_strays(&peer);
        let state = State::Open {
            link,
            peer: peer.clone(),
            epoch,
        };
        set_state(base, way, &address, kind, state);
        base.stats.handshakes_completed += 1;
        tracing::debug!(target: "cluster::transport", event = "link_opened", %peer, ?kind, epoch);
        return_strays(base, strays, Some(&peer));
        if kind == LinkKind::Control {
            base.tell(LinkEvent::Up { peer, epoch });
        }
        self.refill(base, link);
    }

    /// The peer, or we, do not want this link.
    fn rejected(&mut self, base: &mut Base, link: LinkId, reason: RejectReason) {
        let Some((address, kind)) = self.links.get(&link).cloned() else {
            return;
        };
        if let RejectReason::WrongIncarnation { found } = reason {
            let peer = UniqueAddress::new(address.clone(), found);
            if let Some(way) = self.peers.get_mut(&address).map(|peer| peer.way(kind)) {
                let strays = way.take_strays(&peer);
                return_strays(base, strays, Some(&peer));
            }
        }
        self.failed(base, link, &reason);
    }

    /// The system could not open the link, or the handshake failed.
    pub(crate) fn failed(&mut self, base: &mut Base, link: LinkId, why: &dyn std::fmt::Display) {
        let Some((address, kind)) = self.links.remove(&link) else {
            return;
        };
        base.act(Action::Abort(link));
        base.stats.dials_failed += 1;
        let Some(way) = self.peers.get_mut(&address).map(|peer| peer.way(kind)) else {
            return;
        };
        way.failures = way.failures.saturating_add(1);
        let failures = way.failures;
        tracing::debug!(target: "cluster::transport", event = "dial_failed", %address, ?kind, failures, "{why}");
        let slow = base.now.mono.since(way.progress_at) >= base.config.limits.handshake_timeout;
        if failures >= DIALS_BEFORE_UNREACHABLE || slow {
            let strays = way.queues.remove_unless(|_| false);
            return_strays(base, strays, None);
        }
        let until = base.now.mono + jittered(base, failures);
        set_state(base, way, &address, kind, State::Backoff { until });
    }

    /// A deadline of a way has passed.
    pub(crate) fn on_due(&mut self, base: &mut Base, address: &Address, kind: LinkKind) {
        let Some(way) = self.peers.get_mut(address).map(|peer| peer.way(kind)) else {
            return;
        };
        match &way.state {
            State::Backoff { .. } if way.queues.is_empty() => way.state = State::Idle,
            State::Backoff { .. } => self.dial(base, address, kind),
            State::Dialing { link, .. } | State::Greeting { link, .. } => {
                let link = *link;
                self.failed(base, link, &"no answer in time");
            }
            State::Idle | State::Open { .. } => {}
        }
    }

    /// The peer closed a link that we dialed, or it broke.
    pub(crate) fn closed(&mut self, base: &mut Base, link: LinkId) {
        let Some((address, kind)) = self.links.get(&link).cloned() else {
            return;
        };
        let state = self.peers.get_mut(&address).map(|peer| &peer.way(kind).state);
        match state {
            Some(State::Open { .. }) => self.break_link(base, &address, kind),
            Some(State::Idle | State::Backoff { .. } | State::Dialing { .. } | State::Greeting { .. }) => {
                self.failed(base, link, &"the link broke");
            }
            None => {}
        }
    }
}

/// The pause before the next dial, between three and five quarters of its length: nodes that lost the same peer come back
/// one after the other.
pub(super) fn jittered(base: &mut Base, failures: u32) -> Duration {
    let quarters = 768 + base.rng.next_u32() % 512;
    backoff(failures) * quarters / 1024
}
