//! Links for bulk data: dialed when there is some, only to who accepts them, and closed when nothing was sent
//! for long. Whether a peer accepts them its answer on the control link says. Spec: sharding 10.24,
//! `docs/WIRE.md` 3.3.

use quorate_core::ident::Address;
use quorate_core::wire::handshake::{FEATURE_BULK, HelloAck};

use super::{Outbound, return_strays};
use crate::base::LinksBase;
use crate::peer_link::{ConnectionState, PeerLink};
use quorate_core::wire::handshake::LinkKind;

impl Outbound {
    /// Bulk data waits for an idle link: opens a link, or first a control link to hear whether one is wanted.
    pub(super) fn dial_bulk(&mut self, base: &mut LinksBase, address: &Address) {
        let Some(peer) = self.peers.get(address) else {
            return;
        };
        match (peer.accepts_bulk, &peer.control.state) {
            (Some(true), _) => self.dial(base, address, LinkKind::Bulk),
            (Some(false), _) => self.return_bulk(base, address),
            (None, ConnectionState::Idle) => self.dial(base, address, LinkKind::Control),
            // When it is open, or given up, the bulk data is looked at again.
            (
                None,
                ConnectionState::Backoff { .. }
                | ConnectionState::Dialing { .. }
                | ConnectionState::Greeting { .. }
                | ConnectionState::Open { .. },
            ) => {}
        }
    }

    /// Somebody has answered on the control link.
    pub(super) fn learn_of_bulk(&mut self, base: &mut LinksBase, address: &Address, ack: &HelloAck) {
        let Some(peer) = self.peers.get_mut(address) else {
            return;
        };
        peer.accepts_bulk = Some(ack.features & FEATURE_BULK != 0);
        if self.bulk_waits(address) {
            self.dial_bulk(base, address);
        }
    }

    /// Whether bulk data waits for a link that nobody opens yet.
    pub(super) fn bulk_waits(&self, address: &Address) -> bool {
        let bulk = self.peers.get(address).map(|peer| &peer.bulk);
        bulk.is_some_and(|peer_link| {
            matches!(peer_link.state, ConnectionState::Idle) && !peer_link.queues.is_empty()
        })
    }

    /// Gives back what waits; nobody will open a link for it.
    pub(super) fn return_bulk(&mut self, base: &mut LinksBase, address: &Address) {
        if let Some(peer) = self.peers.get_mut(address) {
            let strays = peer.bulk.queues.remove_unless(|_| false);
            return_strays(base, LinkKind::Bulk, strays, None);
        }
    }
}

/// Whether nothing was sent for so long that the link is not worth its place: replicas change their partners.
pub(super) fn is_unused(base: &LinksBase, peer_link: &PeerLink) -> bool {
    let idle = base.now.mono.since(peer_link.progress_at);
    !peer_link.writing && peer_link.queues.is_empty() && idle >= base.limits.stranger_idle_timeout
}
