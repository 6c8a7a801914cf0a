//! What the parts of the pump share: who this node is, the time of the turn, chance, counters, deadlines and the way out.

use std::collections::VecDeque;
use std::time::Duration;

use quorate_core::config::ValidConfig;
use quorate_core::ident::UniqueAddress;
use quorate_core::input::{DropReason, EntityReport, LinkEvent, Target};
use quorate_core::lease::protocol::LeaseReport;
use quorate_core::message::Message;
use quorate_core::owner::Owner;
use quorate_core::store::StoreReport;
use quorate_core::time::{Instant, Now};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::action::{Action, LinkId};
use super::refusal::LogLimit;
use super::timers::Timers;
use crate::security::Authentication;
use crate::stats::LinkStats;

/// What the node hears once it has finished with its present input.
#[derive(Debug)]
pub(crate) enum Feedback {
    Link(LinkEvent),
    Entity(EntityReport),
    Lease(Owner, LeaseReport),
    Stored(Owner, StoreReport),
}

/// See the module.
pub(crate) struct Base {
    pub(crate) me: UniqueAddress,
    pub(crate) config: ValidConfig,
    /// What the ends of a link prove.
    pub(crate) authentication: Authentication,
    /// How old a link may become; `None` where its ends prove nothing.
    pub(crate) max_link_age: Option<Duration>,
    pub(crate) now: Now,
    pub(crate) rng: ChaCha8Rng,
    pub(crate) stats: LinkStats,
    pub(crate) log: LogLimit,
    pub(crate) timers: Timers,
    pub(crate) actions: VecDeque<Action>,
    pub(crate) feedback: VecDeque<Feedback>,
    last_link: LinkId,
}

impl Base {
    /// The generator is a stream of its own: how often the network fails must not change what the core draws.
    pub(crate) fn new(
        config: ValidConfig,
        me: UniqueAddress,
        authentication: Authentication,
        seeds: &mut ChaCha8Rng,
        now: Now,
    ) -> Self {
        let log_lines = config.limits.log_lines_per_second_max;
        let max_link_age = match authentication {
            Authentication::None => None,
            #[cfg(feature = "psk")]
            Authentication::Psk(_) => Some(config.limits.max_link_age),
            #[cfg(feature = "tls")]
            Authentication::Certificates(_) => Some(config.limits.max_link_age),
        };
        Self {
            me,
            config,
            authentication,
            max_link_age,
            now,
            rng: ChaCha8Rng::from_rng(seeds),
            stats: LinkStats::default(),
            log: LogLimit::new(log_lines),
            timers: Timers::default(),
            actions: VecDeque::new(),
            feedback: VecDeque::new(),
            last_link: 0,
        }
    }

    /// When a link that opens now is cut if it was not renewed: the time for one more handshake is added, so that a node that
    /// is busy in the wrong moment loses nothing.
    pub(crate) fn link_expiry(&self) -> Option<Instant> {
        let age = self.max_link_age?;
        Some(self.now.mono + age + self.config.limits.handshake_timeout)
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

    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub(crate) fn tell(&mut self, event: LinkEvent) {
        self.feedback.push_back(Feedback::Link(event));
    }

    /// Gives a message back to the core, so that it is accounted for (I-44).
    pub(crate) fn drop_message(&mut self, to: Target, message: Message, reason: DropReason) {
        let counter = match reason {
            DropReason::QueueFull => &mut self.stats.dropped_queue_full,
            DropReason::Unreachable => &mut self.stats.dropped_unreachable,
            DropReason::TooLarge => &mut self.stats.dropped_too_large,
        };
        *counter += 1;
        self.tell(LinkEvent::Dropped { to, message, reason });
    }
}

impl std::fmt::Debug for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Base")
            .field("me", &self.me)
            .finish_non_exhaustive()
    }
}
