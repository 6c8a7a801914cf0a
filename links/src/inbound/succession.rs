//! Which of a peer's accepted links counts: a newer one takes the place of the older ones of its kind, and
//! one that its dialer does not renew in time ends. Never looks at frames. Spec: `docs/WIRE.md` 3.5, I-93,
//! reliability 3a (rotation).

use alloc::vec::Vec;
use quorate_core::ident::UniqueAddress;
use quorate_core::time::Instant;
use quorate_core::wire::handshake::Hello;

use super::{InLink, Inbound, OpenedLink};
use crate::aging::{Admitted, AgedLink};
use crate::authentication::LinkEnd;
use crate::authentication::PeerIdentity;
use crate::base::LinksBase;
use crate::order::LinkId;
use crate::rates::PeerMeter;
use crate::timers::LinkDue;
use quorate_core::wire::handshake::LinkKind;

impl Inbound {
    /// Whether a link is newer than those of the same peer and kind. The newest of them stays until this one
    /// speaks, because a dialer that renews a link first lets it be read to its end; what is older still has
    /// had its time.
    pub(super) fn replace_older(&mut self, base: &mut LinksBase, hello: &Hello) -> bool {
        let mut older = self.same(&hello.from, hello.link);
        older.sort_unstable_by_key(|(_, epoch)| *epoch);
        let Some((_, newest)) = older.pop() else {
            return true;
        };
        if newest >= hello.epoch {
            return false;
        }
        self.supersede(base, older);
        true
    }

    /// Whether a peer has an open link of this kind.
    pub(super) fn has_same(&self, peer: &UniqueAddress, kind: LinkKind) -> bool {
        !self.same(peer, kind).is_empty()
    }

    /// A peer has called the link with this hello its newest: what is in its name beside it and no older is
    /// not its own.
    pub(super) fn replace_all(&mut self, base: &mut LinksBase, hello: &Hello) {
        let mut others = self.same(&hello.from, hello.link);
        others.retain(|(_, epoch)| *epoch >= hello.epoch);
        self.supersede(base, others);
        self.replace_older(base, hello);
    }

    /// A link says something for the first time: the older ones of the same peer and kind end, and what was
    /// not read of them belongs to an older epoch and is dropped.
    pub(crate) fn speaks(&mut self, base: &mut LinksBase, link: LinkId) {
        let opened = self.links.get_mut(&link).and_then(|held| held.opened.as_mut());
        let Some(opened) = opened.filter(|opened| !opened.spoke) else {
            return;
        };
        opened.spoke = true;
        let (peer, kind, epoch) = (opened.peer.clone(), opened.kind, opened.epoch);
        let mut older = self.same(&peer, kind);
        older.retain(|(_, other)| *other < epoch);
        self.supersede(base, older);
    }

    /// What a peer has left of its rates: a new link is no new start.
    pub(super) fn meter_of(&mut self, hello: &Hello) -> Option<PeerMeter> {
        if hello.link != LinkKind::Control {
            return None;
        }
        let open = self.same(&hello.from, hello.link);
        let newest = open.into_iter().max_by_key(|(_, epoch)| *epoch);
        let held = newest.and_then(|(link, _)| self.links.get(&link));
        held.map(|held| held.meter)
            .or_else(|| self.meters.take(&hello.from))
    }

    fn supersede(&mut self, base: &mut LinksBase, older: Vec<(LinkId, u32)>) {
        for (link, _) in older {
            base.stats.frames_of_old_epoch += 1;
            self.abort(base, link);
        }
    }

    /// The open links of a peer for a purpose, with their epochs.
    fn same(&self, peer: &UniqueAddress, kind: LinkKind) -> Vec<(LinkId, u32)> {
        let same = |opened: &&OpenedLink| opened.peer == *peer && opened.kind == kind;
        let links = self.links.iter();
        let epoch = |(link, held): (&LinkId, &InLink)| {
            let opened = held.opened.as_ref().filter(same)?;
            Some((*link, opened.epoch))
        };
        links.filter_map(epoch).collect()
    }

    /// Whether the same peer has a newer link of the same kind.
    pub(super) fn has_newer(&self, than: &OpenedLink) -> bool {
        self.same(&than.peer, than.kind)
            .iter()
            .any(|(_, epoch)| *epoch > than.epoch)
    }

    /// A link is as old as links may become. If its dialer has proved itself on a newer one, it is read to
    /// its end, for as long as the newer one may live. Otherwise: who it is, and what it has proved, for that
    /// has to be looked at again.
    pub(crate) fn aged(
        &mut self,
        base: &mut LinksBase,
        link: LinkId,
    ) -> Option<(UniqueAddress, Option<PeerIdentity>)> {
        let held = self.links.get_mut(&link)?;
        let identity = held.identity.clone();
        let opened = held.opened.as_mut()?;
        opened.expires = None;
        let (peer, kind, epoch) = (opened.peer.clone(), opened.kind, opened.epoch);
        let newer = self
            .same(&peer, kind)
            .into_iter()
            .filter(|(_, other)| *other > epoch);
        let expiry = |(link, _)| self.links.get(&link)?.opened.as_ref()?.expires;
        let later = newer.filter_map(expiry).max();
        match later.filter(|later| *later > base.now.mono) {
            Some(later) => {
                self.expire_at(base, link, later);
                None
            }
            None => Some((peer, identity)),
        }
    }

    /// The link goes on if what its dialer has proved still holds.
    pub(crate) fn on_aged(&mut self, base: &mut LinksBase, link: LinkId, admitted: Admitted) {
        let Some(held) = self.links.get_mut(&link) else {
            return;
        };
        let Some(opened) = held.opened.as_mut() else {
            return;
        };
        let aged = AgedLink {
            peer: &opened.peer,
            kind: opened.kind,
            identity: held.identity.as_ref(),
            end: LinkEnd::Dialer,
            kept: opened.kept,
        };
        match aged.keep_for(base, admitted) {
            Some(pause) => {
                opened.kept = true;
                let at = base.now.mono + pause;
                self.expire_at(base, link, at);
            }
            None => self.abort(base, link),
        }
    }

    fn expire_at(&mut self, base: &mut LinksBase, link: LinkId, at: Instant) {
        if let Some(opened) = self.links.get_mut(&link).and_then(|held| held.opened.as_mut()) {
            opened.expires = Some(at);
            base.timers.arm(at, LinkDue::Expiry(link));
        }
    }
}
