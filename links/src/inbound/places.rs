//! Who gets a place among the accepted links. Members have theirs; links in their handshake, and strangers
//! (who have finished it and are no members), have others, so that no number of them keeps a member out. A
//! count per source is for strangers only: a source from which a member has a link is judged by what each one
//! behind it proves. Spec: reliability 3b, B-52.

use alloc::vec::Vec;

use quorate_core::ident::UniqueAddress;
use quorate_core::ordered::OrderedMap;
use rand_core::Rng;

use super::{InLink, Inbound, OpenedLink};
use crate::base::LinksBase;
use crate::crowd::{Crowd, Source};
use crate::order::LinkId;
use crate::pending::{Bounds, Pending};
use crate::report::{LinkRefusal, ReportParty};
use crate::timers::LinkDue;
use crate::violations::Violations;
use quorate_core::wire::handshake::LinkKind;

/// How many strangers are looked at for one who has not asked to join before one who has asked has to go.
const LOOKED_AT_MAX: usize = 4;

/// The places and who has them.
#[derive(Debug, Default)]
pub(super) struct InboundPlaces {
    pub(super) pending: Pending,
    pub(super) strangers: Crowd,
    /// Links of members.
    pub(super) members: usize,
    /// Where each member's newest link came from, for as long as it is one.
    sources: OrderedMap<UniqueAddress, Source>,
    /// How many members came from there.
    members_of: OrderedMap<Source, usize>,
    unruly: Violations<Source>,
}

impl InboundPlaces {
    fn has_members(&self, source: Source) -> bool {
        self.members_of.contains_key(&source)
    }

    /// The count for a source, if it is one that is counted.
    fn counted(&self, source: Source, max: usize) -> Option<usize> {
        (!self.has_members(source)).then_some(max)
    }

    fn note(&mut self, peer: &UniqueAddress, source: Source) {
        if self.sources.get(peer) == Some(&source) {
            return;
        }
        let before = self.sources.insert(peer.clone(), source);
        self.uncount(before);
        *self.members_of.entry(source).or_default() += 1;
    }

    fn uncount(&mut self, source: Option<Source>) {
        let Some(source) = source else {
            return;
        };
        if let Some(count) = self.members_of.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.members_of.remove(&source);
            }
        }
    }

    /// Forgets where those came from who are members no more.
    pub(super) fn forget_former(&mut self, known: &dyn Fn(&UniqueAddress) -> bool) {
        let gone: Vec<UniqueAddress> = self.sources.keys().filter(|peer| !known(peer)).cloned().collect();
        for peer in gone {
            let source = self.sources.remove(&peer);
            self.uncount(source);
        }
    }

    /// Which stranger has to go before another one of this source can come.
    fn victim(&self, source: Source, bounds: Bounds, random: u64) -> Option<LinkId> {
        let strangers = &self.strangers;
        if bounds
            .per_source_max
            .is_some_and(|max| strangers.count(source) >= max)
        {
            strangers.one_of(source, random)
        } else if strangers.len() >= bounds.max {
            strangers.one_of_the_most(random)
        } else {
            None
        }
    }
}

impl Inbound {
    /// A stranger knocks. `None`: close it without a word. Another one that knocked before may have to go for
    /// it.
    pub(crate) fn accept(&mut self, base: &mut LinksBase, source: Source) -> Option<LinkId> {
        let places = &self.places;
        if !places.has_members(source) && places.unruly.is_unruly(&source, base.now.mono) {
            base.refuse(LinkRefusal::Unruly, ReportParty::Source(source));
            return None;
        }
        let random = base.rng.next_u64();
        let (limits, known) = (&base.limits, places.has_members(source));
        let bounds = Bounds {
            max: limits.pending_handshakes_max,
            per_source_max: (!known).then_some(limits.pending_handshakes_per_source_max),
        };
        if let Some(victim) = places.pending.victim(source, bounds, random) {
            self.refuse_silently(base, victim, LinkRefusal::TooManyPending);
        }
        let link = base.next_link();
        let deadline = base.now.mono + base.limits.handshake_timeout;
        base.timers.arm(deadline, LinkDue::Inbound(link));
        self.places.pending.add(link, source, known);
        self.links.insert(link, InLink::new(base, source, deadline));
        Some(link)
    }

    /// The system has no more sockets: one that has proved nothing goes, so that the next one can come.
    pub(crate) fn relieve(&mut self, base: &mut LinksBase) {
        let random = base.rng.next_u64();
        if let Some(victim) = self.places.pending.one_of_the_most(random) {
            self.refuse_silently(base, victim, LinkRefusal::TooManyPending);
        }
    }

    /// Whether there is a place for a link whose handshake is finished, and which of them takes it. A
    /// stranger's is made, if another stranger has to go for it.
    pub(super) fn enter(&mut self, base: &mut LinksBase, link: LinkId, is_member: bool) -> bool {
        let limits = &base.limits;
        let Some(source) = self.links.get(&link).map(|held| held.source) else {
            return false;
        };
        if is_member {
            return self.places.members < limits.links_max && self.budget.draw_for_link();
        }
        let places = &self.places;
        let per_source_max = match places.unruly.is_unruly(&source, base.now.mono) {
            true => Some(1),
            false => places.counted(source, limits.stranger_links_per_source_max),
        };
        let bounds = Bounds {
            max: limits.stranger_links_max,
            per_source_max,
        };
        let victim = |random| places.victim(source, bounds, random);
        let looked_at = core::iter::from_fn(|| victim(base.rng.next_u64())).take(LOOKED_AT_MAX);
        let mut last = None;
        for found in looked_at {
            last = Some(found);
            if self.links.get(&found).is_some_and(|held| !held.asked) {
                break;
            }
        }
        if let Some(victim) = last {
            base.stats.strangers_displaced += 1;
            self.abort(base, victim);
        }
        true
    }

    /// The link takes its place.
    pub(super) fn take_place(
        &mut self,
        base: &mut LinksBase,
        link: LinkId,
        peer: &UniqueAddress,
        is_member: bool,
    ) {
        let Some(held) = self.links.get_mut(&link) else {
            return;
        };
        self.places.pending.remove(link, held.source);
        held.member = is_member;
        if is_member {
            self.places.members += 1;
            self.places.note(peer, held.source);
            return;
        }
        self.places.strangers.add(link, held.source);
        let due = base.now.mono + base.limits.handshake_timeout;
        held.stranger_due = Some(due);
        base.timers.arm(due, LinkDue::Stranger(link));
    }

    /// The members have changed: strangers who are members now take members' places, and what they said waits
    /// no longer. Says which of their bulk links have to be read.
    pub(crate) fn recognize(
        &mut self,
        base: &mut LinksBase,
        known: &dyn Fn(&UniqueAddress) -> bool,
    ) -> Vec<LinkId> {
        let mut to_read = Vec::new();
        if self.places.strangers.is_empty() {
            return to_read;
        }
        let is_known = |held: &InLink| !held.member && held.opened.as_ref().is_some_and(|o| known(&o.peer));
        let links = self.links.iter().filter(|(_, held)| is_known(held));
        let links: Vec<LinkId> = links.map(|(link, _)| *link).collect();
        for link in links {
            if self.places.members >= base.limits.links_max {
                break;
            }
            if self.promote(base, link) == Some(LinkKind::Bulk) {
                to_read.push(link);
            }
        }
        to_read
    }

    /// A stranger's link becomes a member's; its kind, if something waits on it that was not read.
    fn promote(&mut self, base: &mut LinksBase, link: LinkId) -> Option<LinkKind> {
        let held = self.links.get_mut(&link)?;
        let opened = held.opened.as_ref()?;
        self.places.strangers.remove(link, held.source);
        if let Some(due) = held.stranger_due.take() {
            base.timers.disarm(due, LinkDue::Stranger(link));
        }
        held.member = true;
        self.places.members += 1;
        self.places.note(&opened.peer, held.source);
        self.budget.draw_for_newcomer();
        let waits = held.bytes.has_unread().then_some(opened.kind);
        if waits == Some(LinkKind::User) {
            self.ready.push_back(link);
        }
        waits
    }

    /// A stranger's time to ask is over. `meant`: this node itself turned to it, to join.
    pub(crate) fn on_stranger_due(
        &mut self,
        base: &mut LinksBase,
        link: LinkId,
        meant: &dyn Fn(&UniqueAddress) -> bool,
    ) {
        let Some(held) = self.links.get_mut(&link) else {
            return;
        };
        held.stranger_due = None;
        let Some(opened) = held.opened.as_ref().filter(|_| !held.member) else {
            return;
        };
        if meant(&opened.peer) || self.has_asked(link) {
            return;
        }
        base.stats.strangers_closed_unasked += 1;
        self.abort(base, link);
    }

    /// Whether a stranger has asked to join, on this link or on another one.
    fn has_asked(&self, link: LinkId) -> bool {
        let opened = |held: &InLink| {
            held.opened
                .as_ref()
                .map(|opened: &OpenedLink| opened.peer.clone())
        };
        let Some(peer) = self.links.get(&link).and_then(opened) else {
            return false;
        };
        let is_its = |held: &&InLink| held.opened.as_ref().is_some_and(|opened| opened.peer == peer);
        self.links.values().filter(is_its).any(|held| held.asked)
    }

    /// A stranger broke the protocol: its source is watched too, for the next one from there has another
    /// name.
    pub(crate) fn stranger_violated(&mut self, base: &LinksBase, link: LinkId) {
        if let Some(held) = self.links.get(&link).filter(|held| !held.member) {
            self.places.unruly.violated(&held.source, base.now.mono);
        }
    }

    /// The same, where the core noticed.
    pub(crate) fn stranger_violated_by(&mut self, base: &LinksBase, peer: &UniqueAddress) {
        let is_its = |held: &InLink| held.opened.as_ref().is_some_and(|opened| opened.peer == *peer);
        let link = self.links.iter().find(|(_, held)| is_its(held));
        if let Some(link) = link.map(|(link, _)| *link) {
            self.stranger_violated(base, link);
        }
    }

    /// Gives the place of a link back.
    pub(super) fn vacate(&mut self, base: &mut LinksBase, link: LinkId, held: &InLink) {
        if held.opened.is_none() {
            self.places.pending.remove(link, held.source);
        } else if held.member {
            self.places.members -= 1;
        } else {
            self.places.strangers.remove(link, held.source);
        }
        if let Some(due) = held.stranger_due {
            base.timers.disarm(due, LinkDue::Stranger(link));
        }
    }
}
