//! Asks the node about links that have become too old, in between the two sides that know them. Decides nothing.

use quorate_core::ident::Address;
use quorate_core::wire::handshake::LinkKind;

use super::Links;
use crate::order::LinkId;
use crate::recipient::Recipient;

impl Links {
    /// An accepted link is as old as links may become.
    pub(crate) fn on_expired(&mut self, node: &dyn Recipient, link: LinkId) {
        let aged = self.inbound.aged(&mut self.base, link);
        let Some((peer, identity)) = aged else {
            return;
        };
        let admitted = node.admits(&peer, identity.as_ref());
        self.inbound.on_aged(&mut self.base, link, admitted);
    }

    /// A link that this node dialed has to be renewed, or a try at that takes too long.
    pub(crate) fn on_renewal_due(&mut self, node: &dyn Recipient, address: &Address, kind: LinkKind) {
        let aged = self.outbound.aged(&self.base, address, kind);
        let admitted = aged.map_or(Ok(()), |(peer, identity)| node.admits(&peer, identity.as_ref()));
        self.outbound
            .on_renewal_due(&mut self.base, address, kind, admitted);
    }
}
