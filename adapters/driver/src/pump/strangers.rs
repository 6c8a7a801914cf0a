//! What the node tells the accepted links about who is a member. Spec: reliability 3a, 3b.

use quorate_core::ident::UniqueAddress;
use quorate_core::view::Phase;

use super::Pump;
use super::action::LinkId;
use super::inbound::Known;
use super::machine::Machine;

impl<M: Machine> Pump<M> {
    /// Goes on with a handshake.
    pub(super) fn greet(&mut self, link: LinkId) {
        let node = &self.node;
        let known = Known {
            quarantine: &self.quarantine,
            is_member: &|peer: &UniqueAddress| node.knows(peer),
        };
        self.inbound.greet(&mut self.base, &known, link);
    }

    /// Gives the links of those who have become members what members have.
    pub(super) fn recognize(&mut self) {
        let revision = Some(self.node.revision());
        if self.recognized != revision {
            self.recognized = revision;
            let node = &self.node;
            let known = |peer: &UniqueAddress| node.knows(peer);
            for link in self.inbound.recognize(&mut self.base, &known) {
                self.read_at_once(link);
            }
        }
    }

    /// A stranger's time to ask is over. While this node itself is no member, those whom it turned to are not meant.
    pub(super) fn stranger_due(&mut self, link: LinkId) {
        let (joins, outbound) = (self.node.view().phase() != Phase::Member, &self.outbound);
        let meant = |peer: &UniqueAddress| joins && outbound.reaches(peer);
        self.inbound.on_stranger_due(&mut self.base, link, &meant);
    }

    /// Looks for links that nobody needs.
    pub(super) fn sweep_inbound(&mut self) {
        let node = &self.node;
        let known = |peer: &UniqueAddress| node.knows(peer);
        self.inbound.sweep(&mut self.base, node.view(), &known);
    }
}
