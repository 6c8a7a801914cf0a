//! Links that are as old as links may become and were not renewed. That their renewal failed says nothing
//! about the peer, for a stranger who keeps both ends busy, or somebody on the way, can make it fail; so what
//! the peer proved is checked again as things stand now, and the join policy is asked again. The link goes on
//! if both hold. Spec: reliability 3a (rotation), ADR 9.

use alloc::string::String;
use core::time::Duration;

use quorate_core::ident::UniqueAddress;
use quorate_core::wire::handshake::LinkKind;

use crate::authentication::{LOOK_MIN, LinkEnd, PeerIdentity};
use crate::base::LinksBase;

/// Whether a peer is a member whom the join policy would take in again, or why not.
pub(crate) type Admitted = Result<(), String>;

/// A link that has become too old.
pub(crate) struct AgedLink<'a> {
    pub(crate) peer: &'a UniqueAddress,
    pub(crate) kind: LinkKind,
    pub(crate) identity: Option<&'a PeerIdentity>,
    /// Which end the peer is.
    pub(crate) end: LinkEnd,
    /// It was kept before.
    pub(crate) kept: bool,
}

/// The pause between two looks, and two tries: a sixty-fourth of the age.
pub(crate) fn look_interval(base: &LinksBase) -> Duration {
    base.max_link_age.map_or(LOOK_MIN, |age| LOOK_MIN.max(age / 64))
}

impl AgedLink<'_> {
    /// How long the link goes on until the next look, said and counted when it is the first; `None`: it ends,
    /// which is too.
    pub(crate) fn keep_for(&self, base: &mut LinksBase, admitted: Admitted) -> Option<Duration> {
        match admitted.and_then(|()| self.holds_for(base, look_interval(base))) {
            Ok(pause) => {
                if !self.kept {
                    base.kept(self.peer.clone(), self.kind);
                }
                Some(pause)
            }
            Err(why) => {
                base.expired(self.peer.clone(), self.kind, why);
                None
            }
        }
    }

    fn holds_for(&self, base: &LinksBase, pause: Duration) -> Result<Duration, String> {
        let (address, now) = (self.peer.address(), base.now.unix_ms);
        base.authentication
            .holds_for(self.identity, self.end, address, now, pause)
    }
}
