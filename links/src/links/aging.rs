//! Links that have become too old: whether their peers would be let in if they came now. Spec: reliability 3a
//! (rotation), ADR 9.

use alloc::borrow::ToOwned;
use alloc::string::String;

use quorate_core::admission::{PeerAsk, PeerRequest};
use quorate_core::ident::{Address, Roles, UniqueAddress};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::wire::handshake::LinkKind;

use super::Links;
use crate::authentication::PeerIdentity;
use crate::order::LinkId;
use crate::recipient::LinkRecipient;

impl Links {
    /// An accepted link is as old as links may become.
    pub(crate) fn on_expired(&mut self, node: &dyn LinkRecipient, link: LinkId) {
        let aged = self.inbound.aged(&mut self.base, link);
        let Some((peer, identity)) = aged else {
            return;
        };
        let admitted = self.admits(node, &peer, identity.as_ref());
        self.inbound.on_aged(&mut self.base, link, admitted);
    }

    /// A link that this node dialed has to be renewed, or a try at that takes too long.
    pub(crate) fn on_renewal_due(&mut self, node: &dyn LinkRecipient, address: &Address, kind: LinkKind) {
        let aged = self.outbound.aged(&self.base, address, kind);
        let admitted = aged.map_or(Ok(()), |(peer, identity)| {
            self.admits(node, &peer, identity.as_ref())
        });
        self.outbound
            .on_renewal_due(&mut self.base, address, kind, admitted);
    }

    /// Whether a peer would be let in if it came now: it is a member, and the admission policy would take it
    /// again.
    fn admits(
        &self,
        node: &dyn LinkRecipient,
        peer: &UniqueAddress,
        identity: Option<&PeerIdentity>,
    ) -> Result<(), String> {
        if !node.is_member(peer) {
            return Err("it is no member".to_owned());
        }
        let (roles, app_version) = (Roles::default(), AppVersion::default());
        let member = node.view().member(peer);
        let ask = PeerAsk::Join {
            roles: member.map_or(&roles, |member| &member.roles),
            app_version: member.map_or(&app_version, |member| &member.app_version),
        };
        let request = PeerRequest::new(peer, self.base.authentication.proof(identity), ask);
        let admission = &self.base.config.membership.admission.0;
        admission.allows(&request).map_err(|denied| denied.0)
    }
}
