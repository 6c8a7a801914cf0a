//! The window's share follows the load: a little more or less of it, in the direction in which the share of
//! hits rises. Spec: sharding 1.6 (hill-climbing window).

use crate::sharding::state::passivation::ClimbingSettings;

/// Counts accesses and says when the window should change.
#[derive(Clone, Debug)]
pub(super) struct HillClimber {
    settings: ClimbingSettings,
    accesses: u64,
    hits: u64,
    rate: f64,
    next_step: f64,
    adjustments: u64,
}

impl HillClimber {
    pub(super) const fn new(settings: ClimbingSettings) -> Self {
        Self {
            accesses: 0,
            hits: 0,
            rate: 0.0,
            // Small windows are good for most loads: that is tried first.
            next_step: -settings.initial_step.get(),
            adjustments: 0,
            settings,
        }
    }

    /// How often the window was changed.
    pub(super) const fn adjustments(&self) -> u64 {
        self.adjustments
    }

    /// An entity was used; whether it was running.
    pub(super) const fn on_access(&mut self, is_hit: bool) {
        self.accesses += 1;
        if is_hit {
            self.hits += 1;
        }
    }

    /// By how much the window's share should change, if it is time.
    pub(super) fn adjustment(&mut self, limit: usize) -> Option<f64> {
        if (self.accesses as f64) < self.settings.adjust_multiplier.get() * limit as f64 {
            return None;
        }
        let rate = self.hits as f64 / self.accesses as f64;
        let delta = rate - self.rate;
        let adjustment = if delta >= 0.0 {
            self.next_step
        } else {
            -self.next_step
        };
        let first = self.settings.initial_step.get();
        let has_changed = delta.abs() >= self.settings.restart_threshold.get();
        self.next_step = match (has_changed, adjustment >= 0.0) {
            (true, true) => first,
            (true, false) => -first,
            (false, _) => adjustment * self.settings.decay.get(),
        };
        self.rate = rate;
        self.accesses = 0;
        self.hits = 0;
        self.adjustments += 1;
        Some(adjustment)
    }

    /// The window's share after a change.
    pub(super) const fn changed(&self, proportion: f64, adjustment: f64) -> f64 {
        let (least, most) = (self.settings.least.get(), self.settings.most.get());
        (proportion + adjustment).max(least).min(most)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// What a limit of five changes over accesses that hit as `is_hit` says.
    fn changes(settings: ClimbingSettings, accesses: u64, is_hit: impl Fn(u64) -> bool) -> Vec<(u64, f64)> {
        let mut climb = HillClimber::new(settings);
        let mut found = Vec::new();
        for access in 1..=accesses {
            climb.on_access(is_hit(access));
            if let Some(change) = climb.adjustment(5) {
                found.push((access, change));
            }
        }
        assert_eq!(climb.adjustments(), found.len() as u64);
        found
    }

    fn close(found: &[(u64, f64)], expected: &[(u64, f64)]) {
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.0, expected.0);
            assert!(
                (found.1 - expected.1).abs() < 1e-12,
                "{found:?} is not {expected:?}"
            );
        }
    }

    #[test]
    fn s_074_steps_shrink_and_begin_anew_when_the_rate_jumps() {
        let settings = ClimbingSettings::default().every(2.0).unwrap();
        let settings = settings.step(0.1, 0.5).unwrap().restart_at(0.8).unwrap();
        let found = changes(settings, 90, |access| access > 40);
        let expected = [
            (10, -0.1),
            (20, -0.05),
            (30, -0.025),
            (40, -0.0125),
            (50, -0.00625),
            (60, -0.1),
            (70, -0.05),
            (80, -0.025),
            (90, -0.0125),
        ];
        close(&found, &expected);
    }

    #[test]
    fn s_075_a_falling_rate_turns_every_time() {
        // Of each fifty accesses fewer hit than of the fifty before.
        let found = changes(ClimbingSettings::default(), 500, |access| {
            let round = (access - 1) / 50;
            (access - 1) % 10 >= round
        });
        // The first round has a rate of 1 after none, so it goes on as it began.
        assert_eq!(found.len(), 10);
        assert!(found[0].1 < 0.0);
        for pair in found.windows(2) {
            assert!(pair[0].1 * pair[1].1 < 0.0, "{found:?}");
        }
    }
}
