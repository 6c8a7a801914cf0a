//! What a decision waits for: under every strategy but one that the picture as a whole is stable; under
//! auto-down each silent member's own time. Says when, not what is done then. Values only. Spec: membership
//! 2.16, 3.1.

use core::time::Duration;

use crate::config::{DowningStrategy, ValidConfig};
use crate::downing::resolver::clocks::PictureWait;
use crate::downing::resolver::silences::Silences;
use crate::downing::resolver::watch;
use crate::ident::UniqueAddress;
use crate::time::Instant;
use crate::view::View;

/// See the module.
#[derive(Clone, Debug)]
pub(super) enum DecisionWait {
    Picture(PictureWait),
    EachMember(Silences),
}

impl DecisionWait {
    pub(super) fn new(config: &ValidConfig) -> Self {
        match &config.downing.strategy {
            DowningStrategy::AutoDown => Self::EachMember(Silences::default()),
            DowningStrategy::Off
            | DowningStrategy::KeepMajority { .. }
            | DowningStrategy::StaticQuorum { .. }
            | DowningStrategy::KeepOldest { .. }
            | DowningStrategy::DownAll
            | DowningStrategy::LeaseMajority(_)
            | DowningStrategy::Custom(_) => Self::Picture(PictureWait::Calm),
        }
    }

    pub(super) fn on_view(&mut self, now: Instant, before: &View, after: &View) {
        match self {
            Self::Picture(wait) => {
                let is_anybody_unreachable = !after.unreachable().is_empty();
                wait.on_view(now, is_anybody_unreachable, watch::is_unsettled(before, after));
            }
            Self::EachMember(silences) => silences.on_view(now, after),
        }
    }

    /// This process stood still: what it knows is old, so it waits again.
    pub(super) fn restart(&mut self, now: Instant) {
        match self {
            Self::Picture(wait) => wait.restart(now),
            Self::EachMember(silences) => silences.restart(now),
        }
    }

    /// Observations changed that may tell of a broken link; auto-down does not look at those.
    pub(super) const fn put_off(&mut self, now: Instant) {
        match self {
            Self::Picture(wait) => wait.put_off(now),
            Self::EachMember(_) => {}
        }
    }

    /// They told of none after all.
    pub(super) const fn put_off_no_more(&mut self) {
        match self {
            Self::Picture(wait) => wait.put_off_no_more(),
            Self::EachMember(_) => {}
        }
    }

    /// These were given up. If they are still there after another period, it is said again.
    pub(super) fn on_decided(&mut self, now: Instant, down: &[UniqueAddress]) {
        match self {
            Self::Picture(wait) => wait.restart(now),
            Self::EachMember(silences) => silences.restart_of(now, down),
        }
    }

    /// This node is no member any more.
    pub(super) fn forget(&mut self) {
        match self {
            Self::Picture(wait) => *wait = PictureWait::Calm,
            Self::EachMember(silences) => silences.forget(),
        }
    }

    /// When the first decision is due, or was; `None` while nobody is unreachable.
    pub(super) fn over_at(&self, period: Duration) -> Option<Instant> {
        match self {
            Self::Picture(wait) => wait.over_at(period),
            Self::EachMember(silences) => silences.first_over_at(period),
        }
    }

    /// When the next decision is due that is not due yet.
    pub(super) fn next_over_at(&self, now: Instant, period: Duration) -> Option<Instant> {
        match self {
            Self::Picture(wait) => wait.over_at(period).filter(|at| now < *at),
            Self::EachMember(silences) => silences.next_over_at(now, period),
        }
    }

    /// Whether a decision made at `at` may include this member.
    pub(super) fn may_go(&self, node: &UniqueAddress, at: Instant, period: Duration) -> bool {
        match self {
            Self::Picture(_) => true,
            Self::EachMember(silences) => silences.is_over(node, at, period),
        }
    }

    /// What must hold between inputs.
    pub(super) fn check_invariants(&self, view: &View) {
        match self {
            Self::Picture(wait) => wait.check_invariants(),
            Self::EachMember(silences) => silences.check_invariants(view),
        }
    }
}
