//! Dialing: from a message that waits to an open link, or to giving up. Decides when to try again and when to
//! say that a peer cannot be reached; the first failure never costs a message. Spec: `ARCHITECTURE.md`.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use quorate_core::event::SeedCause;
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::input::LinkEvent;
use quorate_core::wire::handshake::{
    AUTH_NONE, FEATURE_QUESTION, HandshakeDecoded, Hello, HelloAck, HelloAnswer, RejectReason, check_ack,
    decode_answer, encode_hello,
};
use quorate_core::wire::{VERSION_MAX, VERSION_MIN, WireError};
use rand_core::Rng;

use super::causes::{cause_of_refusal, other_method};
use super::renewal::due;
use super::renewal::set_renewal;
use super::{Outbound, return_strays, set_state};
use crate::authentication::PeerIdentity;
use crate::base::LinksBase;
use crate::limits::DIALS_BEFORE_UNREACHABLE;
use crate::order::{LinkId, LinkOrder, ReadChunk};
use crate::peer_link::{ConnectionState, backoff};
use crate::quarantine::Quarantine;
use crate::report::{LinkReport, ReportParty, is_final, is_mistake};
use quorate_core::wire::handshake::LinkKind;

impl Outbound {
    /// Opens a link, for whoever the first waiting message is for.
    pub(super) fn dial(&mut self, base: &mut LinksBase, address: &Address, kind: LinkKind) {
        let Some(peer_link) = self.peers.get_mut(address).map(|peer| peer.link(kind)) else {
            return;
        };
        let wanted = peer_link.wanted_uid();
        let link = base.next_link();
        let hello = self.hello(base, address, kind, wanted);
        let Some(peer_link) = self.peers.get_mut(address).map(|peer| peer.link(kind)) else {
            return;
        };
        let deadline = base.now.mono + base.limits.handshake_timeout;
        peer_link.progress_at = base.now.mono;
        set_state(
            base,
            peer_link,
            address,
            kind,
            ConnectionState::Dialing {
                link,
                hello: Box::new(hello),
                deadline,
            },
        );
        self.links.insert(link, (address.clone(), kind));
        base.stats.dials += 1;
        base.act(LinkOrder::Dial {
            link,
            to: address.clone(),
            kind,
        });
    }

    /// The first words on a new link: its epoch is larger than that of any before.
    pub(super) fn hello(
        &mut self,
        base: &mut LinksBase,
        address: &Address,
        kind: LinkKind,
        wanted: Option<u64>,
    ) -> Hello {
        self.epoch = self.epoch.wrapping_add(1);
        Hello {
            versions: (VERSION_MIN, VERSION_MAX),
            cluster: base.config.cluster.clone(),
            from: base.me.clone(),
            to: address.clone(),
            expected_uid: wanted,
            link: kind,
            epoch: self.epoch,
            features: base.features & !FEATURE_QUESTION,
            auth_method: AUTH_NONE,
            nonce: base.nonce(),
        }
    }

    /// The link is open: say who we are.
    pub(crate) fn dialed(&mut self, base: &mut LinksBase, link: LinkId) {
        let Some((address, kind)) = self.links.get(&link).cloned() else {
            return base.act(LinkOrder::Abort(link));
        };
        let Some(peer_link) = self.peers.get_mut(&address).map(|peer| peer.link(kind)) else {
            return;
        };
        let phase = peer_link.state_of(link);
        if !matches!(phase, ConnectionState::Dialing { .. }) {
            return;
        }
        let ConnectionState::Dialing { hello, deadline, .. } = core::mem::take(phase) else {
            return;
        };
        let mut bytes = Vec::new();
        let encoded = encode_hello(&hello, &mut bytes);
        // The deadline goes on: it is for the dial and the handshake together.
        *phase = ConnectionState::Greeting {
            link,
            hello,
            deadline,
            heard: Vec::new(),
            identity: None,
        };
        match encoded {
            Ok(()) => base.act(LinkOrder::Write { link, bytes }),
            Err(error) => self.failed(base, link, &error),
        }
    }

    /// Bytes on a link that we dialed: the answer to the handshake, and nothing else ever.
    pub(crate) fn received(
        &mut self,
        base: &mut LinksBase,
        quarantine: &Quarantine,
        link: LinkId,
        chunk: ReadChunk,
    ) {
        base.stats.bytes_received += chunk.len as u64;
        let Some((address, kind)) = self.links.get(&link).cloned() else {
            return;
        };
        let Some(peer_link) = self.peers.get_mut(&address).map(|peer| peer.link(kind)) else {
            return;
        };
        let ConnectionState::Greeting {
            hello,
            heard,
            identity,
            ..
        } = peer_link.state_of(link)
        else {
            base.violation(&"bytes on a one-way link", ReportParty::Address(address.clone()));
            base.stats.links_closed_for_violation += 1;
            return self.break_link(base, &address, kind);
        };
        heard.extend_from_slice(chunk.filled());
        let decoded = decode_answer(heard);
        let hello = Hello::clone(hello);
        let covered = base.authentication.covers(identity.as_ref(), &address);
        let seen = identity.clone();
        base.act(LinkOrder::Resume { link, chunk });
        let answer = match decoded {
            HandshakeDecoded::NeedMore(_) => return,
            HandshakeDecoded::Bad(error) => {
                let other = other_method(heard);
                return self.answered_badly(base, link, &error, other);
            }
            HandshakeDecoded::Done { value, .. } => value,
        };
        match answer {
            HelloAnswer::Reject(reject) => {
                if let (RejectReason::Quarantined, Some(uid)) = (reject.reason, hello.expected_uid) {
                    // The very incarnation that was meant refuses this one for good: it has removed it.
                    let peer = UniqueAddress::new(address, uid);
                    base.tell(LinkEvent::QuarantinedBy { peer });
                }
                self.rejected(base, link, reject.reason);
            }
            HelloAnswer::Ack(ack) => match check_ack(&hello, &ack).and(covered) {
                Err(reason) => self.rejected(base, link, reason),
                Ok(()) if quarantine.contains(&ack.from) => {
                    self.rejected(base, link, RejectReason::Quarantined);
                }
                Ok(()) => self.open(base, link, ack, hello.epoch, seen),
            },
        }
    }

    /// What the transport has seen of an acceptor.
    pub(crate) fn identified(&mut self, link: LinkId, seen: PeerIdentity) {
        let Some((address, kind)) = self.links.get(&link) else {
            return;
        };
        let peer_link = self.peers.get_mut(address).map(|peer| peer.link(*kind));
        if let Some(ConnectionState::Greeting { identity, .. }) =
            peer_link.map(|peer_link| peer_link.state_of(link))
        {
            *identity = Some(seen);
        }
    }

    /// The transport does not believe an acceptor, or the acceptor does not believe this node.
    /// `shaken`: after the transport had believed it, so that it is the acceptor's word.
    pub(crate) fn unproved(&mut self, base: &mut LinksBase, link: LinkId, why: &str, shaken: bool) {
        let Some((address, kind)) = self.links.get(&link).cloned() else {
            return;
        };
        if shaken {
            self.refused_by_peer(link);
        }
        let state = self
            .peers
            .get_mut(&address)
            .map(|peer| peer.link(kind).state_of(link));
        if !matches!(state, Some(ConnectionState::Open { .. })) {
            base.dial_refused(&address, kind, &why);
            self.note(link, SeedCause::Security(why.to_owned()));
        }
        self.broken(base, link);
    }

    fn open(
        &mut self,
        base: &mut LinksBase,
        link: LinkId,
        ack: HelloAck,
        epoch: u32,
        proved: Option<PeerIdentity>,
    ) {
        let Some((address, kind)) = self.links.get(&link).cloned() else {
            return;
        };
        let due = due(base);
        let Some(peer) = self.peers.get_mut(&address) else {
            return;
        };
        if kind == LinkKind::Control {
            peer.last_failure = None;
        }
        let peer_link = peer.link(kind);
        let renews = peer_link.is_opening(link);
        peer_link.handshakes += 1;
        peer_link.proves(proved, base.link_expiry());
        if renews {
            return self.hand_over(base, link, ack, epoch);
        }
        let peer = ack.from.clone();
        peer_link.failures = 0;
        peer_link.reset_buffers();
        peer_link.progress_at = base.now.mono;
        let strays = peer_link.take_strays(&peer);
        let state = ConnectionState::Open {
            link,
            peer: peer.clone(),
            epoch,
        };
        set_state(base, peer_link, &address, kind, state);
        set_renewal(base, peer_link, &address, kind, due);
        base.stats.handshakes_completed += 1;
        base.report(LinkReport::Opened {
            peer: peer.clone(),
            kind,
            epoch,
        });
        return_strays(base, kind, strays, Some(&peer));
        if kind == LinkKind::Control {
            self.learn_of_bulk(base, &address, &ack);
        }
        self.refill(base, link);
    }

    /// What answers is no node, or one that speaks something else.
    fn answered_badly(
        &mut self,
        base: &mut LinksBase,
        link: LinkId,
        error: &WireError,
        other: Option<&'static str>,
    ) {
        if let Some((address, kind)) = self.links.get(&link).cloned() {
            let (why, cause) = if let Some(why) = other {
                (why.to_owned(), SeedCause::Security(why.to_owned()))
            } else {
                let why = format!("what answers there is no node: {error}");
                (why.clone(), SeedCause::Other(why))
            };
            base.dial_refused(&address, kind, &why);
            self.note(link, cause);
        }
        self.failed(base, link, error);
    }

    /// The peer, or we, do not want this link.
    fn rejected(&mut self, base: &mut LinksBase, link: LinkId, reason: RejectReason) {
        let Some((address, kind)) = self.links.get(&link).cloned() else {
            return;
        };
        if let RejectReason::WrongIncarnation { found } = reason {
            let peer = UniqueAddress::new(address.clone(), found);
            if self.is_renewing(link) {
                // Whom the link reached is not there any more.
                return self.break_link(base, &address, kind);
            }
            if let Some(peer_link) = self.peers.get_mut(&address).map(|peer| peer.link(kind)) {
                let strays = peer_link.take_strays(&peer);
                if !peer_link.queues.is_empty() {
                    // Somebody lives there, and what is left is for them: not one more failure of the
                    // address. Else messages for the incarnation that is gone would have those for its
                    // successor given up as well, its answer to a join too.
                    (peer_link.failures, peer_link.progress_at) = (0, base.now.mono);
                }
                return_strays(base, kind, strays, Some(&peer));
            }
        }
        if is_final(reason) {
            self.refused_by_peer(link);
        }
        self.note(link, cause_of_refusal(reason));
        if is_mistake(reason) {
            base.dial_refused(&address, kind, &reason);
        } else {
            base.stats.dials_refused += 1;
        }
        self.failed(base, link, &reason);
    }

    /// The system could not open the link, or the handshake failed.
    pub(crate) fn failed(&mut self, base: &mut LinksBase, link: LinkId, why: &dyn core::fmt::Display) {
        let Some((address, kind)) = self.links.remove(&link) else {
            return;
        };
        base.act(LinkOrder::Abort(link));
        base.stats.dials_failed += 1;
        let Some(peer_link) = self.peers.get_mut(&address).map(|peer| peer.link(kind)) else {
            return;
        };
        if peer_link.is_opening(link) {
            return self.renewal_failed(base, &address, kind, why);
        }
        peer_link.failures = peer_link.failures.saturating_add(1);
        let failures = peer_link.failures;
        base.report(LinkReport::DialFailed {
            to: address.clone(),
            kind,
            failures,
            why: why.to_string(),
        });
        let slow = base.now.mono.since(peer_link.progress_at) >= base.limits.handshake_timeout;
        let gives_up = failures >= DIALS_BEFORE_UNREACHABLE || slow;
        if gives_up {
            let strays = peer_link.queues.remove_unless(|_| false);
            return_strays(base, kind, strays, None);
        }
        let until = base.now.mono + jittered(base, failures);
        set_state(
            base,
            peer_link,
            &address,
            kind,
            ConnectionState::Backoff { until },
        );
        if gives_up && kind == LinkKind::Control && self.bulk_waits(&address) {
            self.return_bulk(base, &address);
        }
    }

    /// A deadline of a link has passed.
    pub(crate) fn on_due(&mut self, base: &mut LinksBase, address: &Address, kind: LinkKind) {
        let bulk_waits = kind == LinkKind::Control && self.bulk_waits(address);
        let Some(peer_link) = self.peers.get_mut(address).map(|peer| peer.link(kind)) else {
            return;
        };
        match &peer_link.state {
            ConnectionState::Backoff { .. } if peer_link.queues.is_empty() && !bulk_waits => {
                peer_link.state = ConnectionState::Idle
            }
            ConnectionState::Backoff { .. } => self.dial(base, address, kind),
            ConnectionState::Dialing { link, .. } | ConnectionState::Greeting { link, .. } => {
                let link = *link;
                self.note(link, SeedCause::NoAnswer);
                self.failed(base, link, &"no answer in time");
            }
            ConnectionState::Idle | ConnectionState::Open { .. } => {}
        }
    }

    /// The peer closed a link that we dialed, or it broke.
    pub(crate) fn closed(&mut self, base: &mut LinksBase, link: LinkId) {
        let Some((address, kind)) = self.links.get(&link).cloned() else {
            return;
        };
        let peer_link = self.peers.get_mut(&address).map(|peer| peer.link(kind));
        if peer_link
            .as_ref()
            .is_some_and(|peer_link| peer_link.is_draining(link))
        {
            return self.drained(base, link);
        }
        match peer_link.map(|peer_link| peer_link.state_of(link)) {
            Some(ConnectionState::Open { .. }) => self.break_link(base, &address, kind),
            Some(
                ConnectionState::Idle
                | ConnectionState::Backoff { .. }
                | ConnectionState::Dialing { .. }
                | ConnectionState::Greeting { .. },
            ) => {
                self.note(
                    link,
                    SeedCause::Other("the link ended before its handshake did".to_owned()),
                );
                self.failed(base, link, &"the link broke");
            }
            None => {}
        }
    }
}

/// The pause before the next dial, between three and five quarters of its length: nodes that lost the same
/// peer come back one after the other.
pub(super) fn jittered(base: &mut LinksBase, failures: u32) -> Duration {
    let quarters = 768 + base.rng.next_u32() % 512;
    backoff(failures) * quarters / 1024
}
