//! When a path gets one instance more or fewer: by the load of consecutive windows, never soon after it
//! changed. A value for each path; the leader keeps it in memory. Spec: sharding 5.2, 10.22.

use core::time::Duration;

use crate::time::Instant;

/// Above this load a window asks for one more.
pub const UP_ABOVE: f64 = 0.8;
/// So many windows in a row have to ask for one more.
pub const UP_WINDOWS: u8 = 3;
/// Below this load a window asks for one fewer.
pub const DOWN_BELOW: f64 = 0.4;
/// So many windows in a row have to ask for one fewer.
pub const DOWN_WINDOWS: u8 = 10;
/// The load that one instance fewer would have has to be below this, so that it is not added again.
pub const DOWN_RESULT_BELOW: f64 = 0.7;
/// After a change the windows of so long count for nothing: they show the load of before.
pub const COOL_DOWN: Duration = Duration::from_secs(60);

/// What the load calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// One more.
    More,
    /// One fewer.
    Fewer,
    /// Nothing.
    Stay,
}

/// What the last windows of a path showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadWindows {
    /// Windows in a row that asked for more; counts no further than it has to.
    above: u8,
    /// The same for fewer.
    below: u8,
    /// The load of the last one.
    last: f64,
    /// Until then windows count for nothing.
    resting_until: Option<Instant>,
}

impl LoadWindows {
    /// A window ended with this load: 1 is all that an instance can do, averaged over the instances, times
    /// what users expect. One that is no number ends both rows.
    pub fn on_window(&mut self, now: Instant, load: f64) {
        if self.resting_until.is_some_and(|until| now < until) {
            return;
        }
        let next = |count: u8, is_one: bool| if is_one { count.saturating_add(1) } else { 0 };
        self.above = next(self.above, load > UP_ABOVE).min(UP_WINDOWS);
        self.below = next(self.below, load < DOWN_BELOW).min(DOWN_WINDOWS);
        self.last = load;
    }

    /// The number of instances changed, for whatever reason: what was counted belongs to the old number.
    pub fn on_change(&mut self, now: Instant, cool_down: Duration) {
        *self = Self {
            resting_until: Some(now + cool_down),
            ..Self::default()
        };
    }

    /// What the windows call for, with `instances` and these bounds.
    #[must_use]
    pub fn decide(&self, instances: u16, min: u16, max: u16) -> Scaling {
        if self.above >= UP_WINDOWS && instances < max {
            return Scaling::More;
        }
        let is_idle = self.below >= DOWN_WINDOWS && instances > min.max(1);
        if is_idle && self.last * f64::from(instances) / f64::from(instances - 1) < DOWN_RESULT_BELOW {
            return Scaling::Fewer;
        }
        Scaling::Stay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_millis(5_000);

    fn seen(loads: &[f64]) -> LoadWindows {
        let mut windows = LoadWindows::default();
        for load in loads {
            windows.on_window(START, *load);
        }
        windows
    }

    #[test]
    fn three_windows_above_call_for_one_more_and_one_that_is_not_begins_anew() {
        assert_eq!(seen(&[0.9, 0.9]).decide(2, 1, 5), Scaling::Stay);
        assert_eq!(seen(&[0.1, 0.9, 0.9, 0.9]).decide(2, 1, 5), Scaling::More);
        assert_eq!(seen(&[0.9, 0.9, 0.9]).decide(5, 1, 5), Scaling::Stay, "the most");
        assert_eq!(seen(&[0.9, 0.8, 0.9, 0.9]).decide(2, 1, 5), Scaling::Stay);
        assert_eq!(seen(&[0.9, f64::NAN, 0.9, 0.9]).decide(2, 1, 5), Scaling::Stay);
        assert_eq!(seen(&[f64::INFINITY; 300]).decide(2, 1, 5), Scaling::More);
    }

    #[test]
    fn ten_windows_below_call_for_one_fewer_if_the_rest_can_carry_it() {
        assert_eq!(seen(&[0.3; 9]).decide(3, 1, 5), Scaling::Stay);
        assert_eq!(seen(&[0.3; 10]).decide(3, 1, 5), Scaling::Fewer);
        assert_eq!(seen(&[0.3; 10]).decide(3, 3, 5), Scaling::Stay, "the fewest");
        assert_eq!(seen(&[0.0; 10]).decide(1, 0, 5), Scaling::Stay, "never none");
        assert_eq!(
            seen(&[0.39; 10]).decide(2, 1, 5),
            Scaling::Stay,
            "0.78 for the other"
        );
        assert_eq!(seen(&[0.39; 10]).decide(3, 1, 5), Scaling::Fewer);
        assert_eq!(seen(&[f64::NAN; 10]).decide(3, 1, 5), Scaling::Stay);
    }

    #[test]
    fn a_change_begins_anew_and_its_cool_down_counts_nothing() {
        let mut windows = seen(&[0.9; 3]);
        windows.on_change(START, COOL_DOWN);
        assert_eq!(windows.decide(3, 1, 5), Scaling::Stay);
        let late = |seconds| START + Duration::from_secs(seconds);
        for second in 0..60 {
            windows.on_window(late(second), 0.9);
        }
        assert_eq!(windows.decide(3, 1, 5), Scaling::Stay);
        for second in 60..62 {
            windows.on_window(late(second), 0.9);
            assert_eq!(windows.decide(3, 1, 5), Scaling::Stay);
        }
        windows.on_window(late(62), 0.9);
        assert_eq!(windows.decide(3, 1, 5), Scaling::More);
    }
}
