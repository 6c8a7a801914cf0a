//! How fast what is promised for a log may rise: by one term as often as anybody asks, by up to [`TERM_STEP`]
//! a few times a second. So whoever is behind is soon led on, and nobody takes all terms there are. Pure.
//! Spec: sharding 10.7; reliability I-100.

use core::time::Duration;

use crate::journal::protocol::TERM_STEP;
use crate::time::Instant;

/// How often in [`WITHIN`] a promise may rise by more than one term: whoever takes all of them needs eight
/// years to the last term.
const STEPS_MAX: u32 = 16;

const WITHIN: Duration = Duration::from_secs(1);

/// How often the promise of a log rose by more than one term.
#[derive(Clone, Copy, Debug)]
pub(super) struct PromiseSteps {
    since: Instant,
    taken: u32,
}

impl Default for PromiseSteps {
    fn default() -> Self {
        Self {
            since: Instant::ZERO,
            taken: 0,
        }
    }
}

impl PromiseSteps {
    /// Whether it may rise so far now, and counts that it does.
    pub(super) fn takes(&mut self, now: Instant, from: u64, to: u64) -> bool {
        let above = to.saturating_sub(from);
        if above <= 1 {
            return true;
        }
        if now.since(self.since) >= WITHIN {
            (self.since, self.taken) = (now, 0);
        }
        let may = above <= TERM_STEP && self.taken < STEPS_MAX;
        self.taken += u32::from(may);
        may
    }
}
