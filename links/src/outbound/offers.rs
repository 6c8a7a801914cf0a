//! Messages that their sender keeps if there is no room: offered, and told when there is some. Spec: sharding
//! 10.3, I-44.

use quorate_core::ident::Address;
use quorate_core::input::SendTarget;
use quorate_core::message::{Lane, Message};
use quorate_core::view::View;

use super::Outbound;
use crate::base::LinksBase;
use crate::settings::LinkLimits;

/// A message, with what decides its way.
pub(crate) struct UnsentFrame {
    pub(crate) lane: Lane,
    pub(crate) to: SendTarget,
    pub(crate) message: Message,
    /// Its sender keeps it if there is no room.
    pub(crate) is_offer: bool,
}

impl UnsentFrame {
    /// A message on its own lane.
    pub(super) fn of(to: SendTarget, message: Message, is_offer: bool) -> Self {
        let lane = message.lane();
        Self {
            lane,
            to,
            message,
            is_offer,
        }
    }
}

impl Outbound {
    /// Takes a message if there is room for it.
    pub(crate) fn offer(&mut self, base: &mut LinksBase, view: &View, to: SendTarget, message: Message) {
        self.take(base, view, UnsentFrame::of(to, message, true));
    }

    /// Where there is room again for what was offered, if somewhere.
    pub(crate) fn room(&self, limits: &LinkLimits) -> Option<&Address> {
        self.refusing.iter().find(|address| {
            let peer = self.peers.get(*address);
            peer.is_none_or(|peer| peer.user.queues.has_room_again(limits))
        })
    }

    /// Who had something refused has been told that there is room.
    pub(crate) fn admits_again(&mut self, address: &Address) {
        self.refusing.remove(address);
        if let Some(peer) = self.peers.get_mut(address) {
            peer.user.queues.admits_again();
        }
    }
}
