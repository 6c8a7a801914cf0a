//! The one thing that hosts hold: all links of a node, from raw bytes to frames and back. Passes each input
//! to the part that decides about it; decides nothing itself. Spec: `ARCHITECTURE.md`.

mod aging;
mod conduct;
mod datagrams;
mod news;
mod reading;
mod strangers;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use quorate_core::config::ValidConfig;
use quorate_core::effect::Effect;
use quorate_core::event::{Event, MembershipEvent};
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::input::{DropReason, SendTarget};
use quorate_core::membership::events::MembershipChange;
use quorate_core::message::{Lane, Message};
use quorate_core::reject::Rejection;
use quorate_core::time::{Instant, Now};
use quorate_core::view::View;
use rand_core::Rng;

use crate::authentication::LinkAuthentication;
use crate::base::LinksBase;
use crate::crowd::Source;
use crate::inbound::Inbound;
use crate::limits::SWEEP_INTERVAL;
use crate::order::{LinkId, LinkInput, LinkOrder};
use crate::outbound::Outbound;
use crate::quarantine::Quarantine;
use crate::recipient::LinkRecipient;
use crate::report::LinkReport;
use crate::settings::ValidLinkLimits;
use crate::stats::{LinkState, LinkStats};
use crate::timers::LinkDue;
use crate::violations::Violations;
use reading::ReadTurn;

/// All links of a node. See the crate.
#[derive(Debug)]
pub struct Links {
    pub(crate) base: LinksBase,
    pub(crate) inbound: Inbound,
    pub(crate) outbound: Outbound,
    pub(crate) quarantine: Quarantine,
    pub(crate) violations: Violations<UniqueAddress>,
    /// The picture whose members links were last compared with.
    pub(crate) recognized: Option<u64>,
    /// Whose turn it is to be read.
    pub(crate) turn: ReadTurn,
}

impl Links {
    /// Links of the node `me`, none yet, with the limits of [`LinkLimits::default`](crate::LinkLimits), whose
    /// ends prove nothing. The generator has to be a stream of its own: how often the network fails must not
    /// change what the node draws.
    pub fn new(config: ValidConfig, me: UniqueAddress, rng: impl Rng + Send + 'static, now: Now) -> Self {
        let mut base = LinksBase::new(config, me, Box::new(rng), now);
        base.timers.arm(now.mono + SWEEP_INTERVAL, LinkDue::Sweep);
        Self {
            inbound: Inbound::new(&base.limits),
            base,
            outbound: Outbound::default(),
            quarantine: Quarantine::default(),
            violations: Violations::default(),
            recognized: None,
            turn: ReadTurn::default(),
        }
    }

    /// The same with other limits. To be said before anything else: it forgets what there is.
    #[must_use]
    pub fn limited(mut self, limits: ValidLinkLimits) -> Self {
        self.inbound = Inbound::new(&limits);
        self.base.limits = limits;
        self
    }

    /// The same with something that the ends of links prove, and how old links may become before both prove
    /// it again (`None`: as old as they like).
    #[must_use]
    pub fn authenticated(
        mut self,
        authentication: impl LinkAuthentication + 'static,
        max_link_age: Option<Duration>,
    ) -> Self {
        self.base.authentication = Box::new(authentication);
        self.base.max_link_age = max_link_age;
        self
    }

    /// The same with other features than [`FEATURES`](quorate_core::wire::handshake::FEATURES), for a host
    /// that accepts no bulk links for instance.
    #[must_use]
    pub const fn with_features(mut self, features: u64) -> Self {
        self.base.features = features;
        self
    }

    /// The same for slow lines: one link gathers so many encoded bytes (default 256 KiB, and at most one
    /// frame more) while those before them are written; what comes on top waits in the queue of its lane.
    #[must_use]
    pub const fn gathering(mut self, bytes: usize) -> Self {
        self.base.out_bytes_max = bytes;
        self
    }

    /// A new turn of the host begins. Everything until the next one happens at this time.
    pub const fn set_time(&mut self, now: Now) {
        self.base.now = now;
    }

    /// The time of this turn.
    #[must_use]
    pub const fn now(&self) -> Now {
        self.base.now
    }

    /// When [`Self::tick`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.base.timers.next()
    }

    /// Does one thing that is due; `false` if nothing is.
    pub fn tick(&mut self, node: &mut dyn LinkRecipient) -> bool {
        let Some(due) = self.base.timers.pop(self.base.now.mono) else {
            return false;
        };
        match due {
            LinkDue::Inbound(link) => self.inbound.on_due(&mut self.base, link),
            LinkDue::PeerLink(address, kind) => self.outbound.on_due(&mut self.base, &address, kind),
            LinkDue::Renewal(address, kind) => self.on_renewal_due(node, &address, kind),
            LinkDue::Expiry(link) => self.on_expired(node, link),
            LinkDue::Question(link) => {
                if let Some(word) = self.outbound.question_over(&mut self.base, link, false) {
                    self.on_word(node, word);
                }
            }
            LinkDue::Stranger(link) => self.stranger_due(node, link),
            LinkDue::Sweep => {
                self.sweep_inbound(node);
                self.outbound.sweep(&mut self.base, node.view());
                self.base
                    .timers
                    .arm(self.base.now.mono + SWEEP_INTERVAL, LinkDue::Sweep);
            }
        }
        true
    }

    /// A peer has opened a link from there. `None`: close it without a word.
    #[must_use]
    pub fn accepted(&mut self, source: Source) -> Option<LinkId> {
        self.inbound.accept(&mut self.base, source)
    }

    /// The system has no socket for the next link that a peer opens: one that has proved nothing goes.
    pub fn short_of_sockets(&mut self) {
        self.inbound.relieve(&mut self.base);
    }

    /// The transport has turned strangers away before they had a link: how many, and why the last one.
    pub fn turned_away(&mut self, count: u64, reason: String) {
        self.inbound.turned_away(&mut self.base, count, reason);
    }

    /// Something happened to a link. Frames that it brought wait for [`Self::next_urgent_frame`] and
    /// [`Self::next_frame`]; take the urgent ones before [`Self::next_event`]: what a peer says on a new link
    /// comes before the news that the old one is gone.
    pub fn handle(&mut self, node: &mut dyn LinkRecipient, input: LinkInput) {
        let link = input.link();
        if self.outbound.is_question(link) {
            if let Some(word) = self.outbound.on_question(&mut self.base, input) {
                self.on_word(node, word);
            }
            return;
        }
        let mine = self.outbound.is_mine(link);
        match input {
            LinkInput::Dialed(link) => self.outbound.dialed(&mut self.base, link),
            LinkInput::Datagrams(link, max) => self.outbound.takes_datagrams(link, max),
            LinkInput::DialFailed(link, cause) => self.outbound.dial_failed(&mut self.base, link, cause),
            LinkInput::Received(link, chunk) if mine => {
                self.outbound
                    .received(&mut self.base, &self.quarantine, link, chunk);
            }
            LinkInput::Received(link, chunk) => self.received(node, link, chunk),
            // Only who dials sends: nothing that this node could use.
            LinkInput::Datagram(link, chunk) if mine => self.base.act(LinkOrder::Resume { link, chunk }),
            LinkInput::Datagram(link, chunk) => self.datagram(node, link, chunk),
            LinkInput::Written(link, buffer) => self.outbound.written(&mut self.base, link, buffer),
            LinkInput::Identified(link, identity) if mine => self.outbound.identified(link, identity),
            LinkInput::Identified(link, identity) => self.inbound.identified(link, identity),
            LinkInput::Unproved(link, why) if mine => {
                self.outbound.unproved(&mut self.base, link, &why, true);
            }
            LinkInput::Unproved(link, why) => self.inbound.unproved(&mut self.base, link, why),
            LinkInput::Broken(link) if mine => self.outbound.broken(&mut self.base, link),
            LinkInput::Broken(link) => self.inbound.closed(&mut self.base, link),
            LinkInput::Closed(link) if mine => self.outbound.closed(&mut self.base, link),
            LinkInput::Closed(link) => self.inbound.closed(&mut self.base, link),
        }
    }

    /// The transport did not take a datagram: it goes over the stream. `max`: most bytes that it takes now.
    pub fn datagram_unsent(&mut self, link: LinkId, bytes: &[u8], max: usize) {
        self.outbound.datagram_unsent(&mut self.base, link, bytes, max);
        self.outbound.flush(&mut self.base);
    }

    /// Does what a node orders of its links. `Some`: an effect for somebody else.
    #[must_use]
    pub fn perform(&mut self, view: &View, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Send { to, message } => self.send(view, to, message),
            Effect::Offer { to, message } => self.offer(view, to, message),
            Effect::Quarantine(node) => self.cut_off(node),
            Effect::Notify(event) => return Some(Effect::Notify(self.on_event(event))),
            other @ (Effect::Host(..)
            | Effect::Reply { .. }
            | Effect::Lease(..)
            | Effect::Store(..)
            | Effect::Allocate(_)
            | Effect::Halt(_)) => return Some(other),
        }
        None
    }

    /// What users hear concerns links too; what links know of it goes with it.
    fn on_event(&mut self, event: Event) -> Event {
        if let Event::Membership(MembershipEvent::Changed {
            change: MembershipChange::Downed(member) | MembershipChange::Removed { member, .. },
            ..
        }) = &event
        {
            self.give_up_asks_of(&member.node);
        }
        if let Event::Rejected {
            peer,
            rejection: Rejection::Wire(error),
        } = &event
        {
            self.react(peer, error.reaction());
        }
        self.outbound.explain(event)
    }

    /// Takes a message for a peer. What cannot be sent comes back as
    /// [`LinkEvent::Dropped`](quorate_core::input::LinkEvent::Dropped).
    #[inline]
    pub fn send(&mut self, view: &View, to: SendTarget, message: Message) {
        if matches!(&to, SendTarget::Node(node) if self.quarantine.contains(node)) {
            self.base.drop_message(to, message, DropReason::Unreachable);
        } else {
            self.outbound.send(&mut self.base, view, to, message);
        }
    }

    /// Takes a message for a peer if there is room; if not, it comes back with
    /// [`DropReason::NoRoom`](quorate_core::input::DropReason::NoRoom), and
    /// [`LinkEvent::Room`](quorate_core::input::LinkEvent::Room) follows when less than half of the queue is
    /// taken.
    pub fn offer(&mut self, view: &View, to: SendTarget, message: Message) {
        if matches!(&to, SendTarget::Node(node) if self.quarantine.contains(node)) {
            self.base.drop_message(to, message, DropReason::Unreachable);
        } else {
            self.outbound.offer(&mut self.base, view, to, message);
        }
    }

    /// Whether senders on this node should wait, because some peer takes what is for its entities slowly.
    #[must_use]
    #[inline]
    pub fn slows_senders(&mut self) -> bool {
        let (limits, now) = (&self.base.limits, self.base.now.mono);
        self.outbound.slows_senders(limits, now)
    }

    /// Whether [`Self::next_event`] has one.
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.base.news.is_empty() || self.outbound.room(&self.base.limits).is_some()
    }

    /// Turns what was encoded into writes: once per turn, when the node wants nothing more.
    pub fn flush(&mut self, node: &dyn LinkRecipient) {
        self.recognize(node);
        self.outbound.flush(&mut self.base);
    }

    /// The next thing for the hands that hold the sockets.
    pub fn next_order(&mut self) -> Option<LinkOrder> {
        self.base.orders.pop_front()
    }

    /// The next thing for the log.
    pub fn next_report(&mut self) -> Option<LinkReport> {
        self.base.reports.pop()
    }

    /// The node is finished: writes what waits for open links, then closes them, and cuts all others.
    pub fn stop(&mut self) {
        self.outbound.finish_all(&mut self.base);
        self.inbound.abort_all(&mut self.base);
    }

    /// Whether links from and to this incarnation are refused.
    #[must_use]
    pub fn is_quarantined(&self, node: &UniqueAddress) -> bool {
        self.quarantine.contains(node)
    }

    /// The links that this node dials, as they are.
    #[must_use]
    pub fn states(&self) -> Vec<LinkState> {
        self.outbound.links()
    }

    /// Messages of a lane that wait for a peer, not encoded yet.
    #[must_use]
    pub fn waiting(&self, peer: &Address, lane: Lane) -> usize {
        self.outbound.queued(peer, lane)
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> LinkStats {
        let mut stats = self.base.stats;
        stats.links_open = (self.inbound.len() + self.outbound.len()) as u64;
        let (pending, strangers) = self.inbound.without_members();
        stats.handshakes_pending = pending as u64;
        stats.stranger_links = strangers as u64;
        stats.inbound_bytes_held = self.inbound.bytes_held() as u64;
        stats
    }
}
