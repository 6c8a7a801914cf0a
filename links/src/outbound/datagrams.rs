//! Heartbeats beside the stream, on transports that have a way for that: one that waits for a lost packet, or
//! behind a window that the peer does not open, holds up no heartbeat. What does not fit goes over the
//! stream. Spec: `docs/WIRE.md` 3.6.

use alloc::vec::Vec;
use quorate_core::input::SendTarget;
use quorate_core::message::{DetectorMsg, Message};

use super::Outbound;
use crate::base::LinksBase;
use crate::order::{LinkId, LinkOrder};
use crate::peer_link::ConnectionState;
use quorate_core::wire::handshake::LinkKind;

/// Whether a message may get lost, overtake others and be overtaken.
pub(super) const fn is_heartbeat(message: &Message) -> bool {
    matches!(
        message,
        Message::Detector(DetectorMsg::Heartbeat(_)) | Message::Detector(DetectorMsg::HeartbeatRsp(_))
    )
}

impl Outbound {
    /// A link to come can carry datagrams of so many bytes, or none although this transport could.
    pub(crate) fn takes_datagrams(&mut self, link: LinkId, max: usize) {
        let links = &self.links;
        self.datagram_bytes_max
            .retain(|known, _| links.contains_key(known));
        if links.contains_key(&link) {
            self.datagram_bytes_max.insert(link, max);
        }
    }

    /// Sends a heartbeat beside the stream; `false` if it has to go over it.
    pub(super) fn send_beside(&mut self, base: &mut LinksBase, to: &SendTarget, message: &Message) -> bool {
        let peer_link = self
            .peers
            .get_mut(to.address())
            .map(|peer| peer.link(LinkKind::of(message.lane())));
        let Some(ConnectionState::Open { link, peer, epoch }) = peer_link.map(|peer_link| &peer_link.state)
        else {
            return false;
        };
        let is_meant = match to {
            SendTarget::Node(node) => node == peer,
            SendTarget::Address(_) => true,
        };
        let Some(max) = self.datagram_bytes_max.get(link).filter(|_| is_meant) else {
            return false;
        };
        let mut bytes = Vec::new();
        let limits = &base.config.limits;
        let encoded = self.encoder.encode(message, *epoch, limits, &mut bytes);
        if encoded.is_err() || bytes.len() > *max {
            base.stats.heartbeats_over_stream += 1;
            return false;
        }
        base.stats.heartbeats_in_datagrams += 1;
        base.stats.frames_sent += 1;
        base.act(LinkOrder::Datagram { link: *link, bytes });
        true
    }

    /// The transport did not take a datagram: it goes over the stream, and so do those that are longer than
    /// `max` from now on.
    pub(crate) fn datagram_unsent(&mut self, base: &mut LinksBase, link: LinkId, bytes: &[u8], max: usize) {
        let Some((address, kind)) = self.links.get(&link) else {
            return;
        };
        // The transport's word may be about another path by now: what it refused is too long in any case.
        let max = max.min(bytes.len().saturating_sub(1));
        self.datagram_bytes_max.insert(link, max);
        base.stats.heartbeats_in_datagrams = base.stats.heartbeats_in_datagrams.saturating_sub(1);
        base.stats.heartbeats_over_stream += 1;
        let Some(peer_link) = self.peers.get_mut(address).map(|peer| peer.link(*kind)) else {
            return;
        };
        if matches!(peer_link.state, ConnectionState::Open { link: own, .. } if own == link) {
            peer_link.out.extend_from_slice(bytes);
            if !peer_link.dirty {
                peer_link.dirty = true;
                self.dirty.push(link);
            }
        }
    }
}
