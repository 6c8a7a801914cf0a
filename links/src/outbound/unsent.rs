//! Entity messages that certainly were not sent: they wait in a queue, or they are encoded and no writer has them. Whoever asked
//! hears that such a message was not handled, before the core takes everything else that is under way to that peer for lost.
//! Decides nothing else. Spec: I-44, sharding 3.

use alloc::vec::Vec;

use quorate_core::ident::UniqueAddress;
use quorate_core::input::{DropReason, LinkEvent, Target};
use quorate_core::message::{EntityEnvelope, Lane, Message, ShardingMsg, SingletonMsg};
use quorate_core::singleton::protocol::Delivery;
use quorate_core::wire::{Decoded, decode_frame, decode_message};

use super::{Outbound, Peer};
use crate::base::{Base, News};
use crate::links::Links;
use crate::peer_link::PeerLink;

/// Whether a message is an ask of this node itself. Those of others wait on: their askers hear of it from us or from nobody.
fn is_own_ask(me: &UniqueAddress, message: &Message) -> bool {
    match message {
        Message::Sharding(ShardingMsg::Entity(EntityEnvelope {
            ask: Some(ticket), ..
        })) => ticket.ask.asker == *me,
        Message::Singleton(SingletonMsg::Delivery(Delivery {
            ask: Some(ticket), ..
        })) => ticket.ask.asker == *me,
        Message::Singleton(_)
        | Message::Sharding(_)
        | Message::Membership(_)
        | Message::Detector(_)
        | Message::Ddata(_)
        | Message::Journal(_) => false,
    }
}

impl Outbound {
    /// Whether this incarnation's user link is open.
    fn asks_reach(&self, node: &UniqueAddress) -> bool {
        let peer = self.peers.get(node.address());
        peer.is_some_and(|peer| peer.user.state.peer() == Some(node))
    }

    /// Takes out this node's own asks that wait for a link to a peer which the core is about to take for lost.
    pub(crate) fn take_waiting_asks(
        &mut self,
        me: &UniqueAddress,
        peer: &UniqueAddress,
    ) -> Vec<(Target, Message)> {
        let is_its = |to: &Target, message: &Message| {
            matches!(to, Target::Node(node) if node == peer) && is_own_ask(me, message)
        };
        let held = self.peers.get_mut(peer.address());
        held.map_or_else(Vec::new, |held| held.user.queues.take(Lane::User, is_its))
    }

    /// This node ends: gives back its own asks that no writer has. Nobody would be there for their answers.
    pub(crate) fn return_waiting_asks(&mut self, base: &mut Base) {
        let waiting = |peer: &mut Peer, me: &UniqueAddress| {
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

impl Links {
    /// What the node has to hear next, as [`Input::Link`](quorate_core::input::Input::Link). Its own asks that still wait for a
    /// link come back before the news that their peer is lost: else it would tell their callers that they may have been handled.
    /// A control link is no such news while asks go to the peer over a user link that is open: nothing of them is lost, and an
    /// answer that is was on its way is missed when its time is over. A peer that is gone has no user link for long.
    pub fn next_event(&mut self) -> Option<LinkEvent> {
        let event = loop {
            let Some(news) = self.base.news.pop_front() else {
                return self.next_room();
            };
            match news {
                News::Event(event) => break event,
                News::ControlLost(peer) if self.outbound.asks_reach(&peer) => {}
                News::ControlLost(peer) => break LinkEvent::Down { peer },
            }
        };
        let peer = match &event {
            LinkEvent::Down { peer } => peer,
            LinkEvent::WrongIncarnation { expected, .. } => expected,
            LinkEvent::QuarantinedBy { .. } | LinkEvent::Dropped { .. } | LinkEvent::Room { .. } => {
                return Some(event);
            }
        };
        let unsent = self.outbound.take_waiting_asks(&self.base.me, peer);
        if unsent.is_empty() {
            return Some(event);
        }
        self.base.news.push_front(News::Event(event));
        for (to, message) in unsent.into_iter().rev() {
            self.base.stats.dropped_unreachable += 1;
            let reason = DropReason::Unreachable;
            let dropped = LinkEvent::Dropped { to, message, reason };
            self.base.news.push_front(News::Event(dropped));
        }
        self.next_event()
    }

    /// Where there is room again. Said when nothing else is to be said: everything that found none has come back by then.
    fn next_room(&mut self) -> Option<LinkEvent> {
        let to = self.outbound.room(&self.base.limits)?.clone();
        self.outbound.admits_again(&to);
        Some(LinkEvent::Room { to })
    }

    /// A node is no member any more: this node's asks that wait for a link to it come back, before the node takes them for lost.
    pub(crate) fn give_up_asks_of(&mut self, node: &UniqueAddress) {
        for (to, message) in self.outbound.take_waiting_asks(&self.base.me, node) {
            self.base.drop_message(to, message, DropReason::Unreachable);
        }
    }

    /// The node is about to end: gives back its own asks that no writer has. Nobody would be there for their answers.
    pub fn return_waiting_asks(&mut self) {
        self.outbound.return_waiting_asks(&mut self.base);
    }
}

/// Gives back what was encoded for a link that breaks and that no writer has seen. Its frames are this node's own and whole.
pub(super) fn return_encoded(base: &mut Base, peer_link: &mut PeerLink, peer: &UniqueAddress) {
    let encoded = core::mem::take(&mut peer_link.out);
    let mut rest = encoded.as_slice();
    while let Decoded::Frame { frame, consumed } = decode_frame(rest, &base.config.limits) {
        rest = rest.get(consumed..).unwrap_or_default();
        let decoded = decode_message(frame.kind, frame.lane, frame.body, &base.config.limits);
        if let Ok(message @ Message::Sharding(ShardingMsg::Entity(_))) = decoded {
            base.stats.frames_sent = base.stats.frames_sent.saturating_sub(1);
            base.drop_message(Target::Node(peer.clone()), message, DropReason::Unreachable);
        }
    }
}
