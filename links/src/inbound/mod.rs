//! Links that peers opened: their handshake, their limits, their end. Decides who may speak; what is said is
//! read by the pump. A link says nothing to the core before its handshake is complete (I-92). Spec:
//! reliability 3b, 3c.

mod greeting;
mod places;
mod room;
mod succession;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use quorate_core::ident::UniqueAddress;
use quorate_core::ordered::OrderedMap;
use quorate_core::time::Instant;
use quorate_core::view::View;

use crate::authentication::PeerIdentity;
use crate::base::LinksBase;
use crate::budget::{LINK_BYTES, QueueBudget};
use crate::crowd::Source;
use crate::inbuf::InBuffer;
use crate::limits::{CHECKSUM_WINDOW, READ_BYTES_MAX, STALL_PROGRESS_BYTES};
use crate::order::{LinkId, LinkOrder, ReadChunk};
use crate::rates::{PeerMeter, RememberedMeters};
use crate::report::{LinkRefusal, ReportParty};
use crate::settings::LinkLimits;
use crate::timers::LinkDue;
pub(crate) use greeting::KnownDialers;
use places::InboundPlaces;
use quorate_core::wire::handshake::{Hello, HelloAck, LinkKind};

/// Who is at the other end of a link whose handshake is complete.
#[derive(Clone, Debug)]
pub(crate) struct OpenedLink {
    pub(crate) peer: UniqueAddress,
    pub(crate) kind: LinkKind,
    pub(crate) epoch: u32,
    /// It has said something: older links of the same kind have nothing more to say.
    pub(super) spoke: bool,
    /// When it has to be renewed at the latest.
    expires: Option<Instant>,
    /// It lives on past its age.
    kept: bool,
}

/// One accepted link.
#[derive(Debug)]
pub(crate) struct InLink {
    source: Source,
    /// `None` during the handshake.
    pub(crate) opened: Option<OpenedLink>,
    /// What it said, and what it will be told once the peer has called it its own.
    unconfirmed: Option<Box<(Hello, HelloAck)>>,
    /// It belongs to a member, or did: it is read to its end.
    pub(crate) member: bool,
    /// A stranger has asked on it to be taken in.
    pub(crate) asked: bool,
    /// When a stranger's time to ask is over.
    stranger_due: Option<Instant>,
    /// What the transport has seen of the peer.
    pub(crate) identity: Option<PeerIdentity>,
    pub(crate) bytes: InBuffer,
    /// For the handshake, then for the rest of a frame that has begun.
    deadline: Option<Instant>,
    grown: u64,
    last_byte: Instant,
    /// The peer has closed it; what came before is still worth reading.
    ended: bool,
    bad_checksums: (Instant, u32),
    /// What the peer may say on a control link.
    pub(crate) meter: PeerMeter,
    /// Bytes of the budget by which the reader's buffer has grown.
    read_bytes_drawn: usize,
}

impl InLink {
    fn new(base: &LinksBase, source: Source, deadline: Instant) -> Self {
        let now = base.now.mono;
        Self {
            source,
            opened: None,
            unconfirmed: None,
            member: false,
            asked: false,
            stranger_due: None,
            identity: None,
            bytes: InBuffer::default(),
            deadline: Some(deadline),
            grown: 0,
            last_byte: now,
            ended: false,
            bad_checksums: (now, 0),
            meter: PeerMeter::new(&base.limits, now),
            read_bytes_drawn: 0,
        }
    }

    /// It is not idle.
    pub(crate) const fn heard_at(&mut self, now: Instant) {
        self.last_byte = now;
    }
}

/// All accepted links.
#[derive(Debug)]
pub(crate) struct Inbound {
    links: OrderedMap<LinkId, InLink>,
    places: InboundPlaces,
    /// User links with bytes that nobody looked at, in turn.
    pub(crate) ready: VecDeque<LinkId>,
    budget: QueueBudget,
    /// Links that wait for room, by kind, in turn.
    waiting: [VecDeque<LinkId>; LinkKind::ALL.len()],
    /// Room was made since the waiting links were last looked at.
    pub(super) room_made: bool,
    meters: RememberedMeters,
}

impl Inbound {
    pub(crate) fn new(limits: &LinkLimits) -> Self {
        Self {
            links: OrderedMap::new(),
            places: InboundPlaces::default(),
            ready: VecDeque::new(),
            budget: QueueBudget::new(limits.inbound_bytes_max),
            waiting: Default::default(),
            room_made: false,
            meters: RememberedMeters::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// Those in their handshake, and strangers'.
    pub(crate) fn without_members(&self) -> (usize, usize) {
        (self.places.pending.len(), self.places.strangers.len())
    }

    pub(crate) fn get_mut(&mut self, link: LinkId) -> Option<&mut InLink> {
        self.links.get_mut(&link)
    }

    /// Takes what was read; the handshake's or a frame's.
    pub(crate) fn put(
        &mut self,
        base: &mut LinksBase,
        link: LinkId,
        chunk: ReadChunk,
    ) -> Option<&mut InLink> {
        let held = self.links.get_mut(&link)?;
        let len = chunk.len as u64;
        base.stats.bytes_received += len;
        held.grown = held.grown.saturating_add(len);
        held.last_byte = base.now.mono;
        held.bytes.put(chunk);
        Some(held)
    }

    /// After frames of a link were read: hands the buffer back, watches a frame that has begun, forgets a
    /// link that ended.
    pub(crate) fn after_reading(&mut self, base: &mut LinksBase, link: LinkId) {
        let Some(held) = self.links.get_mut(&link) else {
            return;
        };
        let waiting = held.bytes.is_partial();
        match (waiting, held.deadline) {
            (true, None) => {
                let deadline = base.now.mono + base.limits.handshake_timeout;
                (held.deadline, held.grown) = (Some(deadline), 0);
                base.timers.arm(deadline, LinkDue::Inbound(link));
            }
            (false, Some(deadline)) => {
                held.deadline = None;
                base.timers.disarm(deadline, LinkDue::Inbound(link));
            }
            (true, Some(_)) | (false, None) => {}
        }
        if held.bytes.has_unread() {
            return;
        }
        if held.ended {
            self.gone(base, link);
        } else {
            resume(base, &mut self.budget, link, held);
        }
    }

    /// The peer closed the link. What it said before is still read; then the link is forgotten.
    pub(crate) fn closed(&mut self, base: &mut LinksBase, link: LinkId) {
        let Some(held) = self.links.get_mut(&link) else {
            return;
        };
        if held.opened.is_none() {
            self.refuse_silently(base, link, LinkRefusal::Incomplete);
        } else if held.bytes.has_unread() {
            held.ended = true;
        } else {
            self.gone(base, link);
        }
    }

    fn gone(&mut self, base: &mut LinksBase, link: LinkId) {
        if let Some(opened) = self.forget(base, link) {
            // In good order: a dialer that renews the link waits for this end of it.
            base.act(LinkOrder::Finish(link));
            if !self.has_newer(&opened) {
                lost(base, opened);
            }
        }
    }

    /// A deadline of a link has passed.
    pub(crate) fn on_due(&mut self, base: &mut LinksBase, link: LinkId) {
        let Some(held) = self.links.get_mut(&link) else {
            return;
        };
        held.deadline = None;
        let Some(opened) = &held.opened else {
            self.refuse_silently(base, link, LinkRefusal::Timeout);
            return;
        };
        // A link that we do not read ourselves cannot grow, and a large frame on a slow line is no crime,
        // unless others wait for its room.
        let wanted = self.waiting.iter().any(|waiting| !waiting.is_empty());
        if held.bytes.has_unread() || (held.grown >= STALL_PROGRESS_BYTES && !wanted) {
            let deadline = base.now.mono + base.limits.handshake_timeout;
            (held.deadline, held.grown) = (Some(deadline), 0);
            base.timers.arm(deadline, LinkDue::Inbound(link));
            return;
        }
        base.violation(
            &"half a frame, then silence",
            ReportParty::Node(opened.peer.clone()),
        );
        base.stats.links_closed_for_stalled_frame += 1;
        self.abort(base, link);
    }

    /// Counts a frame whose checksum was wrong; says whether the link has to go.
    pub(crate) fn bad_checksum(&mut self, base: &LinksBase, link: LinkId) -> bool {
        let Some(held) = self.links.get_mut(&link) else {
            return false;
        };
        let (since, count) = &mut held.bad_checksums;
        if base.now.mono.since(*since) > CHECKSUM_WINDOW {
            (*since, *count) = (base.now.mono, 0);
        }
        *count += 1;
        *count >= base.limits.checksum_failures_max
    }

    /// Closes a link because of what the peer did on it.
    pub(crate) fn violated(&mut self, base: &mut LinksBase, link: LinkId, what: &dyn core::fmt::Display) {
        if let Some(opened) = self.links.get(&link).and_then(|held| held.opened.as_ref()) {
            base.violation(what, ReportParty::Node(opened.peer.clone()));
        }
        base.stats.links_closed_for_violation += 1;
        self.abort(base, link);
    }

    /// Closes all links of an incarnation.
    pub(crate) fn abort_peer(&mut self, base: &mut LinksBase, peer: &UniqueAddress) {
        self.abort_if(base, |_, _, opened| opened.peer == *peer);
    }

    /// Closes links of nodes that are no members and have been silent for long.
    pub(crate) fn sweep(
        &mut self,
        base: &mut LinksBase,
        view: &View,
        known: &dyn Fn(&UniqueAddress) -> bool,
    ) {
        self.places.forget_former(known);
        let idle = |base: &LinksBase, held: &InLink, opened: &OpenedLink| {
            base.is_idle_stranger(view, &opened.peer, held.last_byte)
        };
        let condemned = self.abort_if(base, idle);
        base.stats.strangers_closed_for_idling += condemned;
    }

    /// Closes everything.
    pub(crate) fn abort_all(&mut self, base: &mut LinksBase) {
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        for link in links {
            self.abort(base, link);
        }
    }

    /// Says how many it closed.
    fn abort_if(
        &mut self,
        base: &mut LinksBase,
        condemned: impl Fn(&LinksBase, &InLink, &OpenedLink) -> bool,
    ) -> u64 {
        let is_condemned = |held: &InLink| {
            held.opened
                .as_ref()
                .is_some_and(|opened| condemned(base, held, opened))
        };
        let links = self.links.iter().filter(|(_, held)| is_condemned(held));
        let links: Vec<LinkId> = links.map(|(link, _)| *link).collect();
        for link in &links {
            self.abort(base, *link);
        }
        links.len() as u64
    }

    fn abort(&mut self, base: &mut LinksBase, link: LinkId) {
        base.act(LinkOrder::Abort(link));
        if let Some(opened) = self.forget(base, link) {
            lost(base, opened);
        }
    }

    fn refuse_silently(&mut self, base: &mut LinksBase, link: LinkId, refusal: LinkRefusal) {
        if let Some(held) = self.links.get(&link) {
            base.refuse(refusal, ReportParty::Source(held.source));
        }
        base.act(LinkOrder::Abort(link));
        self.forget(base, link);
    }

    fn forget(&mut self, base: &mut LinksBase, link: LinkId) -> Option<OpenedLink> {
        let mut held = self.links.remove(&link)?;
        let own = if held.member { LINK_BYTES } else { 0 };
        self.give_back(own + held.read_bytes_drawn + held.bytes.take_drawn());
        if let Some(deadline) = held.deadline {
            base.timers.disarm(deadline, LinkDue::Inbound(link));
        }
        self.vacate(base, link, &held);
        if let Some(at) = held.opened.as_ref().and_then(|opened| opened.expires) {
            base.timers.disarm(at, LinkDue::Expiry(link));
        }
        if let Some(opened) = &held.opened
            && opened.kind == LinkKind::Control
        {
            self.meters.keep(opened.peer.clone(), held.meter, base.now.mono);
        }
        held.opened
    }
}

/// Lets a link's reader go on, with a larger buffer if it has filled this one and there is room.
fn resume(base: &mut LinksBase, budget: &mut QueueBudget, link: LinkId, held: &mut InLink) {
    if let Some(mut chunk) = held.bytes.take_used() {
        let size = chunk.buffer.len();
        if held.member && chunk.len == size && size < READ_BYTES_MAX && budget.draw_for_reading(size) {
            held.read_bytes_drawn += size;
            chunk.buffer = vec![0; size * 2];
        }
        base.act(LinkOrder::Resume { link, chunk });
    }
}

/// Replies come over the peer's control link: without it those on the way are lost.
fn lost(base: &mut LinksBase, opened: OpenedLink) {
    match opened.kind {
        LinkKind::Control => base.lost(LinkKind::Control, opened.peer),
        LinkKind::User | LinkKind::Bulk => {}
    }
}
