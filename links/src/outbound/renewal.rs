//! Links that are replaced before they are too old, so that both ends prove again who they are, with the keys
//! of the day. Make before break: the successor is opened beside the link; then what was written to the link
//! is delivered to its end, which the peer confirms by closing; only then the successor carries frames. So
//! nothing is lost and nothing overtakes. A successor that cannot be opened costs nothing: the link goes on,
//! and it is tried again, beyond the link's age too if what the peer has proved still holds. Spec:
//! reliability 3a (rotation).

use alloc::boxed::Box;
use alloc::string::ToString;
use core::time::Duration;

use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::input::LinkEvent;
use quorate_core::wire::handshake::HelloAck;
use rand_core::Rng;

use super::Outbound;
use crate::aging::{Admitted, AgedLink, look_interval};
use crate::authentication::LinkEnd;
use crate::authentication::PeerIdentity;
use crate::base::LinksBase;
use crate::order::{LinkId, LinkOrder};
use crate::peer_link::{ConnectionState, PeerLink, Renewal};
use crate::report::{LinkReport, ReportParty};
use crate::timers::LinkDue;
use quorate_core::wire::handshake::LinkKind;

/// How long a peer may take at least to read the rest of a user link, which it pauses while it has no room.
/// After it the rest is given up.
const USER_DRAIN_MIN: Duration = Duration::from_secs(30);

/// How long a look for the earlier incarnation of an address may take: a link that shares its connection with
/// one to nowhere hears nothing, and such a connection is given up (QUIC's after half of this), well before a
/// first seed has waited for long enough to form a cluster.
const LOOK_WAIT: Duration = Duration::from_secs(1);

/// When a link that opens now is renewed: between five and seven eighths of its time, so that links do not
/// all come due at once, and one failure leaves time for another try.
pub(super) fn due(base: &mut LinksBase) -> Renewal {
    let Some(age) = base.max_link_age else {
        return Renewal::None;
    };
    let part = 640 + base.rng.next_u32() % 256;
    Renewal::Due {
        at: base.now.mono + age * part / 1024,
    }
}

impl Outbound {
    /// A deadline of a renewal has passed.
    pub(crate) fn on_renewal_due(
        &mut self,
        base: &mut LinksBase,
        address: &Address,
        kind: LinkKind,
        admitted: Admitted,
    ) {
        let Some(peer_link) = self.peers.get_mut(address).map(|peer| peer.link(kind)) else {
            return;
        };
        match &peer_link.renewal {
            Renewal::None => {}
            Renewal::Due { .. } if peer_link.is_too_old(base.now.mono) => {
                if self.keeps(base, address, kind, admitted) {
                    self.renew(base, address, kind, base.limits.handshake_timeout);
                } else {
                    self.break_link(base, address, kind);
                }
            }
            Renewal::Due { .. } => self.renew(base, address, kind, base.limits.handshake_timeout),
            Renewal::Opening(state) => {
                if let Some(link) = state.link() {
                    self.failed(base, link, &"no answer in time");
                }
            }
            Renewal::Draining { link, .. } => {
                let link = *link;
                self.broken(base, link);
            }
        }
    }

    /// The peer of a link that is too old now, and what it has proved.
    pub(crate) fn aged(
        &self,
        base: &LinksBase,
        address: &Address,
        kind: LinkKind,
    ) -> Option<(UniqueAddress, Option<PeerIdentity>)> {
        let peer = self.peers.get(address)?;
        let peer_link = match kind {
            LinkKind::Control => &peer.control,
            LinkKind::User => &peer.user,
            LinkKind::Bulk => &peer.bulk,
        };
        let node = peer_link
            .state
            .peer()
            .filter(|_| peer_link.is_too_old(base.now.mono))?;
        Some((node.clone(), peer_link.proved.clone()))
    }

    /// Whether a link that is too old goes on: what its acceptor proved still holds, and it has not refused
    /// this node itself.
    fn keeps(&mut self, base: &mut LinksBase, address: &Address, kind: LinkKind, admitted: Admitted) -> bool {
        let Some(peer_link) = self.peers.get_mut(address).map(|peer| peer.link(kind)) else {
            return false;
        };
        let Some(peer) = peer_link.state.peer() else {
            return false;
        };
        let admitted = match peer_link.refused {
            true => Err("its acceptor refuses this node".into()),
            false => admitted,
        };
        let aged = AgedLink {
            peer,
            kind,
            identity: peer_link.proved.as_ref(),
            end: LinkEnd::Acceptor,
            kept: peer_link.kept,
        };
        let Some(pause) = aged.keep_for(base, admitted) else {
            return false;
        };
        peer_link.kept = true;
        peer_link.expires = Some(base.now.mono + pause);
        true
    }

    /// An acceptor refuses the successor of a link. It is believed, for links that are renewed have proved
    /// their acceptor before it says a word: the link ends when it is as old as links may become.
    pub(super) fn refused_by_peer(&mut self, link: LinkId) {
        let Some((address, kind)) = self.links.get(&link) else {
            return;
        };
        let Some(peer_link) = self.peers.get_mut(address).map(|peer| peer.link(*kind)) else {
            return;
        };
        peer_link.refused |= peer_link.is_opening(link);
    }

    /// Whether this link is a successor that is not open yet.
    pub(super) fn is_renewing(&mut self, link: LinkId) -> bool {
        let Some((address, kind)) = self.links.get(&link) else {
            return false;
        };
        let peer_link = self.peers.get_mut(address).map(|peer| peer.link(*kind));
        peer_link.is_some_and(|peer_link| peer_link.is_opening(link))
    }

    /// A link broke, or was not read to its end in time: what was written to it last may be lost.
    pub(crate) fn broken(&mut self, base: &mut LinksBase, link: LinkId) {
        let Some((address, kind)) = self.links.get(&link).cloned() else {
            return;
        };
        let peer_link = self.peers.get_mut(&address).map(|peer| peer.link(kind));
        let Some(peer_link) = peer_link.filter(|peer_link| peer_link.is_draining(link)) else {
            return self.closed(base, link);
        };
        let peer = peer_link.state.peer().cloned();
        let what = "a link that was renewed was not read to its end";
        base.violation(&what, ReportParty::Address(address.clone()));
        base.stats.renewals_cut_short += 1;
        // This node's asks travel on the user link. A control link carries answers to the peer, whose asks
        // then time out, and what is said again: it is no reason to give up asks that are under way.
        if let (LinkKind::User, Some(peer)) = (kind, peer) {
            base.tell(LinkEvent::Down { peer });
        }
        self.drained(base, link);
    }

    /// Somebody has dialed who may be another incarnation than the one that this node's links to the address
    /// reach. They are renewed then: if the earlier one still lives there nothing is lost, and if it does not
    /// they end at once. Else links that no system resets (QUIC's, or those to a machine that lost its power)
    /// go on to nowhere, and what its successor is answered, a join too, goes with them, until they were
    /// silent for too long; a first seed that hears nothing for that long forms a cluster of its own.
    pub(crate) fn look_again(&mut self, base: &mut LinksBase, seen: &UniqueAddress) {
        for kind in LinkKind::ALL {
            let Some(peer_link) = self.peers.get_mut(seen.address()).map(|peer| peer.link(kind)) else {
                return;
            };
            let reaches_other = peer_link.state.peer().is_some_and(|peer| peer != seen);
            if reaches_other && matches!(peer_link.renewal, Renewal::None | Renewal::Due { .. }) {
                let within = LOOK_WAIT.min(base.limits.handshake_timeout);
                self.renew(base, seen.address(), kind, within);
            }
        }
    }

    /// Opens a successor for the incarnation at the other end.
    fn renew(&mut self, base: &mut LinksBase, address: &Address, kind: LinkKind, within: Duration) {
        let link = base.next_link();
        let hello = self.hello(base, address, kind, None);
        let Some(peer_link) = self.peers.get_mut(address).map(|peer| peer.link(kind)) else {
            return;
        };
        let mut hello = hello;
        hello.expected_uid = peer_link.state.peer().map(|peer| peer.uid());
        let deadline = base.now.mono + within;
        let opening = Renewal::Opening(ConnectionState::Dialing {
            link,
            hello: Box::new(hello),
            deadline,
        });
        set_renewal(base, peer_link, address, kind, opening);
        self.links.insert(link, (address.clone(), kind));
        base.stats.dials += 1;
        base.act(LinkOrder::Dial {
            link,
            to: address.clone(),
            kind,
        });
    }

    /// The successor did not open: the link goes on.
    pub(super) fn renewal_failed(
        &mut self,
        base: &mut LinksBase,
        address: &Address,
        kind: LinkKind,
        why: &dyn core::fmt::Display,
    ) {
        base.stats.renewals_failed += 1;
        base.report(LinkReport::RenewalFailed {
            to: address.clone(),
            kind,
            why: why.to_string(),
        });
        // Eight tries at least in what is left of the link's time.
        let pause = look_interval(base);
        let again = Renewal::Due {
            at: base.now.mono + pause,
        };
        if let Some(peer_link) = self.peers.get_mut(address).map(|peer| peer.link(kind)) {
            set_renewal(base, peer_link, address, kind, again);
        }
    }

    /// The successor is open: it takes the link's place, and waits until the link has been read to its end.
    pub(super) fn hand_over(&mut self, base: &mut LinksBase, successor: LinkId, ack: HelloAck, epoch: u32) {
        let Some((address, kind)) = self.links.get(&successor).cloned() else {
            return;
        };
        let Some(peer_link) = self.peers.get_mut(&address).map(|peer| peer.link(kind)) else {
            return;
        };
        let ConnectionState::Open { link: old, .. } = peer_link.state else {
            return self.failed(base, successor, &"its link is gone");
        };
        if !peer_link.out.is_empty() {
            let bytes = core::mem::take(&mut peer_link.out);
            base.act(LinkOrder::Write { link: old, bytes });
        }
        base.act(LinkOrder::Drain(old));
        peer_link.writing = false;
        // It stands in the list of links to flush as the old link, if at all, and has nothing left for that.
        peer_link.dirty = false;
        peer_link.state = ConnectionState::Open {
            link: successor,
            peer: ack.from,
            epoch,
        };
        let limit = match kind {
            LinkKind::Control => base.limits.handshake_timeout,
            LinkKind::User | LinkKind::Bulk => base
                .max_link_age
                .map_or(USER_DRAIN_MIN, |age| USER_DRAIN_MIN.max(age / 8)),
        };
        let draining = Renewal::Draining {
            link: old,
            deadline: base.now.mono + limit,
        };
        set_renewal(base, peer_link, &address, kind, draining);
        base.stats.handshakes_completed += 1;
        base.stats.links_renewed += 1;
        base.report(LinkReport::Renewed {
            to: address.clone(),
            kind,
            epoch,
        });
    }

    /// The old link is gone, read to its end or given up: its successor may speak.
    pub(super) fn drained(&mut self, base: &mut LinksBase, old: LinkId) {
        let Some((address, kind)) = self.links.remove(&old) else {
            return;
        };
        base.act(LinkOrder::Abort(old));
        let due = due(base);
        let Some(peer_link) = self.peers.get_mut(&address).map(|peer| peer.link(kind)) else {
            return;
        };
        peer_link.progress_at = base.now.mono;
        set_renewal(base, peer_link, &address, kind, due);
        if let Some(link) = peer_link.state.link() {
            self.refill(base, link);
        }
    }

    /// Ends whatever a renewal has begun: the link itself has ended, or is about to.
    pub(super) fn end_renewal(&mut self, base: &mut LinksBase, address: &Address, kind: LinkKind) {
        let Some(peer_link) = self.peers.get_mut(address).map(|peer| peer.link(kind)) else {
            return;
        };
        let begun = peer_link.renewal.link();
        set_renewal(base, peer_link, address, kind, Renewal::None);
        if let Some(link) = begun {
            self.links.remove(&link);
            base.act(LinkOrder::Abort(link));
        }
    }
}

/// Moves a renewal on and its deadline with it.
pub(super) fn set_renewal(
    base: &mut LinksBase,
    peer_link: &mut PeerLink,
    address: &Address,
    kind: LinkKind,
    renewal: Renewal,
) {
    if let Some(deadline) = peer_link.renewal.deadline() {
        base.timers
            .disarm(deadline, LinkDue::Renewal(address.clone(), kind));
    }
    if let Some(deadline) = renewal.deadline() {
        base.timers.arm(deadline, LinkDue::Renewal(address.clone(), kind));
    }
    peer_link.renewal = renewal;
}
