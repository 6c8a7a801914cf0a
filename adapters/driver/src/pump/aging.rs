//! Links that are as old as links may become and were not renewed. That their renewal failed says nothing about the peer, for a
//! stranger who keeps both ends busy, or somebody on the way, can make it fail; so what the peer proved is checked again as
//! things stand now, and the join policy is asked again. The link goes on if both hold. Spec: reliability 3a (rotation), ADR 9.

use std::time::Duration;

use quorate_core::ident::{Address, Roles, UniqueAddress};
use quorate_core::membership::app_version::AppVersion;

use super::Pump;
use super::action::LinkId;
use super::base::Base;
use super::machine::Machine;
use super::policy::Joiner;
use super::refusal::{expired, kept};
use crate::proved::{Proved, Prover};
use crate::transport::{LinkKind, PeerCertificate};

/// Shortest time between two looks at a link that is older than it should be, and between two tries to renew it.
const LOOK_MIN: Duration = Duration::from_secs(1);

/// Whether a peer is a member whom the join policy would take in again, or why not.
pub(crate) type Admitted = Result<(), String>;

/// A link that has become too old.
pub(super) struct Aged<'a> {
    pub(super) peer: &'a UniqueAddress,
    pub(super) kind: LinkKind,
    pub(super) proved: &'a Proved,
    /// Which end the peer is.
    pub(super) end: Prover,
    /// It was kept before.
    pub(super) kept: bool,
}

/// The pause between two looks, and two tries: a sixty-fourth of the age.
pub(super) fn look_interval(base: &Base) -> Duration {
    base.max_link_age.map_or(LOOK_MIN, |age| LOOK_MIN.max(age / 64))
}

impl Aged<'_> {
    /// How long the link goes on until the next look, said and counted when it is the first; `None`: it ends, which is too.
    pub(super) fn keep_for(&self, base: &mut Base, admitted: Admitted) -> Option<Duration> {
        let (address, pause) = (self.peer.address(), look_interval(base));
        let now = base.now.unix_ms;
        let checked = admitted.and_then(|()| {
            base.authentication
                .keep_for(self.proved, self.end, address, now, pause)
        });
        match checked {
            Ok(pause) => {
                if !self.kept {
                    kept(base, self.peer, self.kind);
                }
                Some(pause)
            }
            Err(why) => {
                expired(base, self.peer, self.kind, &why);
                None
            }
        }
    }
}

impl<M: Machine> Pump<M> {
    /// Asks the join policy about a member again, as if it asked to be taken in.
    fn still_admits(&self, peer: &UniqueAddress, certificate: Option<&PeerCertificate>) -> Admitted {
        if !self.node.knows(peer) {
            return Err("it is no member".to_owned());
        }
        let (roles, app_version) = (Roles::default(), AppVersion::default());
        let member = self.node.view().member(peer);
        self.policy.admit(&Joiner {
            node: peer,
            roles: member.map_or(&roles, |member| &member.roles),
            app_version: member.map_or(&app_version, |member| &member.app_version),
            certificate,
        })
    }

    /// An accepted link is as old as links may become.
    pub(super) fn on_expired(&mut self, link: LinkId) {
        let aged = self.inbound.aged(&mut self.base, link);
        let Some((peer, certificate)) = aged else {
            return;
        };
        let admitted = self.still_admits(&peer, certificate.as_ref());
        self.inbound.on_aged(&mut self.base, link, admitted);
    }

    /// A link that this node dialed has to be renewed, or a try at that takes too long.
    pub(super) fn on_renewal_due(&mut self, address: &Address, kind: LinkKind) {
        let aged = self.outbound.aged(&self.base, address, kind);
        let admitted = aged.map_or(Ok(()), |(peer, certificate)| {
            self.still_admits(&peer, certificate.as_ref())
        });
        self.outbound
            .on_renewal_due(&mut self.base, address, kind, admitted);
    }
}
