//! What the parts share: who this node is, the time of the turn, chance, counters, deadlines and the ways
//! out.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;

use quorate_core::config::ValidConfig;
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::input::{DropReason, LinkEvent, SendTarget};
use quorate_core::message::Message;
use quorate_core::time::{Instant, Now};
use quorate_core::view::View;
use quorate_core::wire::handshake::{FEATURES, LinkKind};
use rand_core::Rng;

use crate::authentication::{LinkAuthentication, Plaintext};
use crate::limits::{OUT_BYTES_MAX, SWEEP_INTERVAL};
use crate::order::{LinkId, LinkOrder};
use crate::report::{LinkRefusal, LinkReport, LinkReports, ReportParty};
use crate::settings::ValidLinkLimits;
use crate::stats::LinkStats;
use crate::timers::LinkTimers;

/// What the node is to hear next.
pub(crate) enum NodeNews {
    Event(LinkEvent),
    /// A control link with this peer is gone, the one or the other way. Whether that is news depends on the
    /// user link.
    ControlLost(UniqueAddress),
}

/// See the module.
pub(crate) struct LinksBase {
    pub(crate) me: UniqueAddress,
    pub(crate) config: ValidConfig,
    pub(crate) limits: ValidLinkLimits,
    /// What this node understands.
    pub(crate) features: u64,
    /// Encoded bytes that one link gathers.
    pub(crate) out_bytes_max: usize,
    /// What the ends of a link prove.
    pub(crate) authentication: Box<dyn LinkAuthentication>,
    /// How old a link may become; `None` where its ends prove nothing.
    pub(crate) max_link_age: Option<Duration>,
    pub(crate) now: Now,
    pub(crate) rng: Box<dyn Rng + Send>,
    pub(crate) stats: LinkStats,
    pub(crate) timers: LinkTimers,
    pub(crate) orders: VecDeque<LinkOrder>,
    pub(crate) news: VecDeque<NodeNews>,
    pub(crate) reports: LinkReports,
    last_link: LinkId,
}

impl LinksBase {
    pub(crate) fn new(config: ValidConfig, me: UniqueAddress, rng: Box<dyn Rng + Send>, now: Now) -> Self {
        Self {
            me,
            config,
            limits: ValidLinkLimits::default(),
            features: FEATURES,
            out_bytes_max: OUT_BYTES_MAX,
            authentication: Box::new(Plaintext),
            max_link_age: None,
            now,
            rng,
            stats: LinkStats::default(),
            timers: LinkTimers::default(),
            orders: VecDeque::new(),
            news: VecDeque::new(),
            reports: LinkReports::default(),
            last_link: 0,
        }
    }

    /// When a link that opens now is cut if it was not renewed: the time for one more handshake is added, so
    /// that a node that is busy in the wrong moment loses nothing.
    pub(crate) fn link_expiry(&self) -> Option<Instant> {
        let age = self.max_link_age?;
        Some(self.now.mono + age + self.limits.handshake_timeout)
    }

    /// Whether a link's peer is nobody to us and has nothing to say. A removed member has a shorter time: its
    /// links are only still open if its host vanished without a word.
    pub(crate) fn is_idle_stranger(&self, view: &View, peer: &UniqueAddress, last: Instant) -> bool {
        let idle = self.now.mono.since(last);
        view.member(peer).is_none()
            && (idle >= self.limits.stranger_idle_timeout
                || (view.is_removed(peer) && idle >= SWEEP_INTERVAL))
    }

    pub(crate) const fn next_link(&mut self) -> LinkId {
        self.last_link += 1;
        self.last_link
    }

    pub(crate) fn nonce(&mut self) -> [u8; 16] {
        let mut nonce = [0; 16];
        self.rng.fill_bytes(&mut nonce);
        nonce
    }

    pub(crate) fn act(&mut self, order: LinkOrder) {
        self.orders.push_back(order);
    }

    pub(crate) fn tell(&mut self, event: LinkEvent) {
        self.news.push_back(NodeNews::Event(event));
    }

    /// A link to or from a peer is gone.
    pub(crate) fn lost(&mut self, kind: LinkKind, peer: UniqueAddress) {
        match kind {
            LinkKind::User => self.tell(LinkEvent::Down { peer }),
            LinkKind::Control => self.news.push_back(NodeNews::ControlLost(peer)),
            // No ask is under way on a bulk link; who sent something there sends it again.
            LinkKind::Bulk => {}
        }
    }

    pub(crate) fn report(&mut self, report: LinkReport) {
        self.reports.push(report, &mut self.stats);
    }

    /// Counts a refusal and says it.
    pub(crate) fn refuse(&mut self, refusal: LinkRefusal, from: ReportParty) {
        refusal.count(&mut self.stats);
        self.report(LinkReport::Refused { from, refusal });
    }

    /// Says that an open link was closed because of what the peer did.
    pub(crate) fn violation(&mut self, what: &dyn fmt::Display, peer: ReportParty) {
        let why = what.to_string();
        self.report(LinkReport::Closed { peer, why });
    }

    /// Counts an open link that could not be renewed in time and goes on.
    pub(crate) fn kept(&mut self, peer: UniqueAddress, kind: LinkKind) {
        self.stats.links_kept += 1;
        self.report(LinkReport::Kept { peer, kind });
    }

    /// Counts an open link that was not renewed in time and ends.
    pub(crate) fn expired(&mut self, peer: UniqueAddress, kind: LinkKind, why: String) {
        self.stats.links_expired += 1;
        self.report(LinkReport::Expired { peer, kind, why });
    }

    /// Counts a dial that was refused by either side, and says why: somebody has to set something right.
    pub(crate) fn dial_refused(&mut self, to: &Address, kind: LinkKind, why: &dyn fmt::Display) {
        self.stats.dials_refused += 1;
        let (to, why) = (to.clone(), why.to_string());
        self.report(LinkReport::DialRefused { to, kind, why });
    }

    /// Gives a message back to the core, so that it is accounted for (I-44).
    pub(crate) fn drop_message(&mut self, to: SendTarget, message: Message, reason: DropReason) {
        let counter = match reason {
            DropReason::QueueFull => &mut self.stats.dropped_queue_full,
            DropReason::Unreachable => &mut self.stats.dropped_unreachable,
            DropReason::TooLarge => &mut self.stats.dropped_too_large,
            DropReason::NoRoom => &mut self.stats.offers_refused,
        };
        *counter += 1;
        self.tell(LinkEvent::Dropped { to, message, reason });
    }
}

impl fmt::Debug for LinksBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Base")
            .field("me", &self.me)
            .finish_non_exhaustive()
    }
}
