//! The node as its links see it: frames reach it with what their link has proved, and a link that has become too old is asked
//! about as if its peer came now. Decides nothing, and decodes no message.

use quorate_core::admission::{Ask, Request};
use quorate_core::ident::{Roles, UniqueAddress};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::time::Now;
use quorate_core::view::View;
use quorate_links::{Identity, Received, Recipient};

use super::base::Base;
use super::machine::Machine;
use crate::authentication::proved_by;

/// See the module.
pub(super) struct Door<'a, M> {
    pub(super) node: &'a mut M,
    pub(super) base: &'a Base,
}

impl<M: Machine> Recipient for Door<'_, M> {
    fn view(&self) -> &View {
        self.node.view()
    }

    fn hears(&self, from: &UniqueAddress, kind: u16) -> bool {
        self.node.hears(from, kind)
    }

    fn receive(&mut self, now: Now, frame: &Received<'_>) {
        let proof = proved_by(frame.identity).as_proof();
        self.node.handle(now, frame.input(proof));
    }

    fn revision(&self) -> u64 {
        self.node.revision()
    }

    fn is_member(&self, node: &UniqueAddress) -> bool {
        self.node.knows(node)
    }

    fn admits(&self, peer: &UniqueAddress, identity: Option<&Identity>) -> Result<(), String> {
        if !self.node.knows(peer) {
            return Err("it is no member".to_owned());
        }
        let (roles, app_version) = (Roles::default(), AppVersion::default());
        let member = self.node.view().member(peer);
        let ask = Ask::Join {
            roles: member.map_or(&roles, |member| &member.roles),
            app_version: member.map_or(&app_version, |member| &member.app_version),
        };
        let request = Request::new(peer, proved_by(identity).as_proof(), ask);
        let admission = &self.base.config.membership.admission.0;
        admission.allows(&request).map_err(|denied| denied.0)
    }
}
