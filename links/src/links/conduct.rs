//! What becomes of a peer that breaks the protocol: its links end, and it is refused for good if it did so
//! too often. Spec: reliability 3a (quarantine).

use quorate_core::ident::UniqueAddress;
use quorate_core::input::LinkEvent;
use quorate_core::wire::Reaction;

use super::Links;
use crate::report::LinkReport;

impl Links {
    /// The core could not read a frame that looked whole.
    pub(crate) fn react(&mut self, peer: &UniqueAddress, reaction: Reaction) {
        match reaction {
            Reaction::Drop => {}
            Reaction::Close | Reaction::CloseAndCount => {
                self.base.stats.links_closed_for_violation += 1;
                if reaction == Reaction::CloseAndCount {
                    self.inbound.stranger_violated_by(&self.base, peer);
                }
                self.inbound.abort_peer(&mut self.base, peer);
                if reaction == Reaction::CloseAndCount {
                    self.misbehaved(peer);
                }
            }
        }
    }

    pub(crate) fn misbehaved(&mut self, peer: &UniqueAddress) {
        if self.violations.violated(peer, self.base.now.mono) {
            self.cut_off(peer.clone());
            self.base.tell(LinkEvent::Quarantined { peer: peer.clone() });
        }
    }

    /// Refuses links from and to an incarnation from now on.
    pub(crate) fn cut_off(&mut self, node: UniqueAddress) {
        self.base.report(LinkReport::Quarantined { node: node.clone() });
        self.inbound.abort_peer(&mut self.base, &node);
        self.outbound.quarantine(&mut self.base, &node);
        self.quarantine.insert(node);
    }
}
