//! What the parts share: who this node is, the time of the turn, chance, counters, deadlines and the ways out.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::fmt;
use core::time::Duration;

use quorate_core::config::ValidConfig;
use quorate_core::ident::UniqueAddress;
use quorate_core::input::{DropReason, LinkEvent, Target};
use quorate_core::message::Message;
use quorate_core::time::{Instant, Now};
use quorate_core::wire::handshake::{FEATURES, LinkKind};
use rand_core::Rng;

use crate::authentication::{Authentication, Plaintext};
use crate::limits::OUT_BYTES_MAX;
use crate::order::{LinkId, Order};
use crate::report::{Report, Reports};
use crate::settings::ValidLinkLimits;
use crate::stats::LinkStats;
use crate::timers::Timers;

/// What the node is to hear next.
pub(crate) enum News {
    Event(LinkEvent),
    /// A control link with this peer is gone, the one or the other way. Whether that is news depends on the user link.
    ControlLost(UniqueAddress),
}

/// See the module.
pub(crate) struct Base {
    pub(crate) me: UniqueAddress,
    pub(crate) config: ValidConfig,
    pub(crate) limits: ValidLinkLimits,
    /// What this node understands.
    pub(crate) features: u64,
    /// Encoded bytes that one link gathers.
    pub(crate) out_bytes_max: usize,
    /// What the ends of a link prove.
    pub(crate) authentication: Box<dyn Authentication>,
    /// How old a link may become; `None` where its ends prove nothing.
    pub(crate) max_link_age: Option<Duration>,
    pub(crate) now: Now,
    pub(crate) rng: Box<dyn Rng + Send>,
    pub(crate) stats: LinkStats,
    pub(crate) timers: Timers,
    pub(crate) orders: VecDeque<Order>,
    pub(crate) news: VecDeque<News>,
    pub(crate) reports: Reports,
    last_link: LinkId,
}

impl Base {
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
            timers: Timers::default(),
            orders: VecDeque::new(),
            news: VecDeque::new(),
            reports: Reports::default(),
            last_link: 0,
        }
    }

    /// When a link that opens now is cut if it was not renewed: the time for one more handshake is added, so that a node that
    /// is busy in the wrong moment loses nothing.
    pub(crate) fn link_expiry(&self) -> Option<Instant> {
        let age = self.max_link_age?;
        Some(self.now.mono + age + self.limits.handshake_timeout)
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

    pub(crate) fn act(&mut self, order: Order) {
        self.orders.push_back(order);
    }

    pub(crate) fn tell(&mut self, event: LinkEvent) {
        self.news.push_back(News::Event(event));
    }

    /// A link to or from a peer is gone.
    pub(crate) fn lost(&mut self, kind: LinkKind, peer: UniqueAddress) {
        match kind {
            LinkKind::User => self.tell(LinkEvent::Down { peer }),
            LinkKind::Control => self.news.push_back(News::ControlLost(peer)),
            // No ask is under way on a bulk link; who sent something there sends it again.
            LinkKind::Bulk => {}
        }
    }

    pub(crate) fn report(&mut self, report: Report) {
        self.reports.push(report, &mut self.stats);
    }

    /// Gives a message back to the core, so that it is accounted for (I-44).
    pub(crate) fn drop_message(&mut self, to: Target, message: Message, reason: DropReason) {
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

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Base")
            .field("me", &self.me)
            .finish_non_exhaustive()
    }
}
