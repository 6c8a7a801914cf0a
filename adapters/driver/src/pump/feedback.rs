//! What the node hears of what came of its orders. Decides one order: asks that were not sent come back before the news that
//! their peer is lost. Spec: I-44.

use quorate_core::input::{DropReason, Input, LinkEvent};

use super::Pump;
use super::base::Feedback;
use super::machine::Machine;

impl<M: Machine> Pump<M> {
    /// Hands one thing to the node.
    pub(super) fn hear(&mut self, feedback: Feedback) {
        let input = match feedback {
            Feedback::Link(event) => match self.unsent_before(event) {
                Some(event) => Input::Link(event),
                None => return,
            },
            Feedback::Lease(owner, report) => Input::Lease(owner, report),
            Feedback::Stored(owner, report) => Input::Stored(owner, report),
            Feedback::Entity(report) => Input::Entity(report),
        };
        self.node.handle(self.base.now, input);
    }

    /// The event, unless this node's own asks to the peer of which it speaks still wait for a link: then those come first. Else
    /// the core would tell their callers that they may have been handled.
    fn unsent_before(&mut self, event: LinkEvent) -> Option<LinkEvent> {
        let peer = match &event {
            LinkEvent::Down { peer } => peer,
            LinkEvent::WrongIncarnation { expected, .. } => expected,
            LinkEvent::Up { .. } | LinkEvent::QuarantinedBy { .. } | LinkEvent::Dropped { .. } => {
                return Some(event);
            }
        };
        let unsent = self.outbound.take_waiting_asks(&self.base.me, peer);
        if unsent.is_empty() {
            return Some(event);
        }
        self.base.feedback.push_front(Feedback::Link(event));
        for (to, message) in unsent.into_iter().rev() {
            self.base.stats.dropped_unreachable += 1;
            let reason = DropReason::Unreachable;
            let dropped = LinkEvent::Dropped { to, message, reason };
            self.base.feedback.push_front(Feedback::Link(dropped));
        }
        None
    }
}
