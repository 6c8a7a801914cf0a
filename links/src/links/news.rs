//! What the node has to hear of its links, in an order in which it believes nothing of its own asks that is
//! not so. Spec: I-44.

use quorate_core::ident::UniqueAddress;
use quorate_core::input::{DropReason, LinkEvent};

use super::Links;
use crate::base::NodeNews;

impl Links {
    /// What the node has to hear next, as [`Input::Link`](quorate_core::input::Input::Link). Its own asks
    /// that still wait for a link come back before the news that their peer is lost: else it would tell their
    /// callers that they may have been handled. A control link is no such news while asks go to the peer over
    /// a user link that is open: nothing of them is lost, and an answer that is was on its way is missed when
    /// its time is over. A peer that is gone has no user link for long.
    pub fn next_event(&mut self) -> Option<LinkEvent> {
        let event = loop {
            let Some(news) = self.base.news.pop_front() else {
                return self.next_room();
            };
            match news {
                NodeNews::Event(event) => break event,
                NodeNews::ControlLost(peer) if self.outbound.asks_reach(&peer) => {}
                NodeNews::ControlLost(peer) => break LinkEvent::Down { peer },
            }
        };
        let peer = match &event {
            LinkEvent::Down { peer } => peer,
            LinkEvent::WrongIncarnation { expected, .. } => expected,
            LinkEvent::Quarantined { .. }
            | LinkEvent::QuarantinedBy { .. }
            | LinkEvent::Dropped { .. }
            | LinkEvent::Room { .. } => {
                return Some(event);
            }
        };
        let unsent = self.outbound.take_waiting_asks(&self.base.me, peer);
        if unsent.is_empty() {
            return Some(event);
        }
        self.base.news.push_front(NodeNews::Event(event));
        for (to, message) in unsent.into_iter().rev() {
            self.base.stats.dropped_unreachable += 1;
            let reason = DropReason::Unreachable;
            let dropped = LinkEvent::Dropped { to, message, reason };
            self.base.news.push_front(NodeNews::Event(dropped));
        }
        self.next_event()
    }

    /// Where there is room again. Said when nothing else is to be said: everything that found none has come
    /// back by then.
    fn next_room(&mut self) -> Option<LinkEvent> {
        let to = self.outbound.room(&self.base.limits)?.clone();
        self.outbound.admits_again(&to);
        Some(LinkEvent::Room { to })
    }

    /// A node is no member any more: this node's asks that wait for a link to it come back, before the node
    /// takes them for lost.
    pub(crate) fn give_up_asks_of(&mut self, node: &UniqueAddress) {
        for (to, message) in self.outbound.take_waiting_asks(&self.base.me, node) {
            self.base.drop_message(to, message, DropReason::Unreachable);
        }
    }

    /// The node is about to end: gives back its own asks that no writer has. Nobody would be there for their
    /// answers.
    pub fn return_waiting_asks(&mut self) {
        self.outbound.return_waiting_asks(&mut self.base);
    }
}
