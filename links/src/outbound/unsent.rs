//! Entity messages that certainly were not sent: they wait in a queue, or they are encoded and no writer has
//! them. Whoever asked hears that such a message was not handled, before the core takes everything else that
//! is under way to that peer for lost. Decides nothing else. Spec: I-44, sharding 3.

use alloc::vec::Vec;

use quorate_core::ident::UniqueAddress;
use quorate_core::input::{DropReason, SendTarget};
use quorate_core::message::{EntityEnvelope, Lane, Message, PathMsg, ShardingMsg, SingletonMsg};
use quorate_core::paths::protocol::PathMessage;
use quorate_core::singleton::protocol::InstanceMessage;
use quorate_core::wire::{DecodedFrame, decode_frame, decode_message};

use super::{Outbound, PeerLinks};
use crate::base::LinksBase;
use crate::peer_link::PeerLink;

/// Whether a message is an ask of this node itself. Those of others wait on: their askers hear of it from us
/// or from nobody.
fn is_own_ask(me: &UniqueAddress, message: &Message) -> bool {
    match message {
        Message::Sharding(ShardingMsg::Entity(EntityEnvelope {
            ask: Some(ticket), ..
        })) => ticket.ask.asker == *me,
        Message::Singleton(SingletonMsg::Delivery(InstanceMessage {
            ask: Some(ticket), ..
        })) => ticket.ask.asker == *me,
        Message::Path(PathMsg::Delivery(PathMessage {
            ask: Some(ticket), ..
        })) => ticket.ask.asker == *me,
        Message::Singleton(_)
        | Message::Path(_)
        | Message::Sharding(_)
        | Message::Membership(_)
        | Message::Detector(_)
        | Message::Ddata(_)
        | Message::Journal(_)
        | Message::Load(_)
        | Message::Kv(_) => false,
    }
}

impl Outbound {
    /// Whether this incarnation's user link is open.
    pub(crate) fn asks_reach(&self, node: &UniqueAddress) -> bool {
        let peer = self.peers.get(node.address());
        peer.is_some_and(|peer| peer.user.state.peer() == Some(node))
    }

    /// Takes out this node's own asks that wait for a link to a peer which the core is about to take for
    /// lost.
    pub(crate) fn take_waiting_asks(
        &mut self,
        me: &UniqueAddress,
        peer: &UniqueAddress,
    ) -> Vec<(SendTarget, Message)> {
        let is_its = |to: &SendTarget, message: &Message| {
            matches!(to, SendTarget::Node(node) if node == peer) && is_own_ask(me, message)
        };
        let held = self.peers.get_mut(peer.address());
        held.map_or_else(Vec::new, |held| held.user.queues.take(Lane::User, is_its))
    }

    /// This node ends: gives back its own asks that no writer has. Nobody would be there for their answers.
    pub(crate) fn return_waiting_asks(&mut self, base: &mut LinksBase) {
        let waiting = |peer: &mut PeerLinks, me: &UniqueAddress| {
            peer.user
                .queues
                .take(Lane::User, |_, message| is_own_ask(me, message))
        };
        for peer in self.peers.values_mut() {
            for (to, message) in waiting(peer, &base.me) {
                base.drop_message(to, message, DropReason::Unreachable);
            }
        }
    }
}

/// Gives back what was encoded for a link that breaks and that no writer has seen. Its frames are this node's
/// own and whole.
pub(super) fn return_encoded(base: &mut LinksBase, peer_link: &mut PeerLink, peer: &UniqueAddress) {
    let encoded = core::mem::take(&mut peer_link.out);
    let mut rest = encoded.as_slice();
    while let DecodedFrame::Frame { frame, consumed } = decode_frame(rest, &base.config.limits) {
        rest = rest.get(consumed..).unwrap_or_default();
        let decoded = decode_message(frame.kind, frame.lane, frame.body, &base.config.limits);
        if let Ok(message @ Message::Sharding(ShardingMsg::Entity(_))) = decoded {
            base.stats.frames_sent = base.stats.frames_sent.saturating_sub(1);
            base.drop_message(SendTarget::Node(peer.clone()), message, DropReason::Unreachable);
        }
    }
}
