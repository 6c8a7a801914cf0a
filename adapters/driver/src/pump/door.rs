//! The node as its links see it: frames pass the user's policy on their way in, and a link that has become too old is asked
//! about there as if its peer came now. Decides nothing.

use quorate_core::ident::{Roles, UniqueAddress};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::time::Now;
use quorate_core::view::View;
use quorate_links::{Identity, Received, Reception, Recipient};

use super::base::Base;
use super::machine::Machine;
use super::policy::{Joiner, Judged, Policy};
use crate::authentication::proved_by;

/// See the module.
pub(super) struct Door<'a, M> {
    pub(super) node: &'a mut M,
    pub(super) policy: &'a Policy,
    pub(super) base: &'a mut Base,
}

impl<M: Machine> Recipient for Door<'_, M> {
    fn view(&self) -> &View {
        self.node.view()
    }

    fn hears(&self, from: &UniqueAddress, kind: u16) -> bool {
        self.node.hears(from, kind)
    }

    fn receive(&mut self, now: Now, frame: &Received<'_>) -> Reception {
        // What the node does not hear it counts, undecoded.
        let answer = match self.node.hears(frame.from, frame.kind) {
            true => self
                .policy
                .judge(frame, &self.base.config.limits, (&mut self.base.log, now.mono)),
            false => Judged::Pass,
        };
        match answer {
            Judged::Pass => {
                self.node.handle(now, frame.input());
                Reception::Taken
            }
            Judged::Refused(answer) => Reception::Refused(answer),
        }
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
        self.policy.admit(&Joiner {
            node: peer,
            roles: member.map_or(&roles, |member| &member.roles),
            app_version: member.map_or(&app_version, |member| &member.app_version),
            certificate: proved_by(identity).certificate(),
        })
    }
}
