//! The last heartbeat intervals of one peer, with mean and variance. Sums are integers, so they never drift
//! however long the node runs. Knows no clock. Spec: membership 2.14.

use alloc::collections::VecDeque;

use crate::math;

/// Largest window that can be configured. Each sample takes 4 bytes per monitored peer, and the integer sums
/// below stay far inside 128 bits.
pub const SAMPLES_MAX: usize = 65_536;

/// A window over the newest intervals, in whole milliseconds.
#[derive(Clone, Debug)]
pub struct HeartbeatHistory {
    capacity: usize,
    intervals_ms: VecDeque<u32>,
    sum: u128,
    sum_of_squares: u128,
}

impl HeartbeatHistory {
    /// An empty window of at most `capacity` intervals, taken into 1..=[`SAMPLES_MAX`].
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        let capacity = if capacity == 0 { 1 } else { capacity };
        let capacity = if capacity > SAMPLES_MAX {
            SAMPLES_MAX
        } else {
            capacity
        };
        Self {
            capacity,
            intervals_ms: VecDeque::new(),
            sum: 0,
            sum_of_squares: 0,
        }
    }

    /// Adds an interval; the oldest one goes when the window is full. Intervals beyond 49 days count as 49
    /// days.
    pub fn push(&mut self, interval_ms: u64) {
        if self.intervals_ms.len() == self.capacity
            && let Some(oldest) = self.intervals_ms.pop_front()
        {
            self.sum -= u128::from(oldest);
            self.sum_of_squares -= square(oldest);
        }
        let interval = u32::try_from(interval_ms).unwrap_or(u32::MAX);
        self.intervals_ms.push_back(interval);
        self.sum += u128::from(interval);
        self.sum_of_squares += square(interval);
    }

    /// Intervals held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.intervals_ms.len()
    }

    /// Whether nothing was recorded yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.intervals_ms.is_empty()
    }

    /// The intervals, oldest first, in milliseconds.
    pub fn intervals_ms(&self) -> impl Iterator<Item = u32> + '_ {
        self.intervals_ms.iter().copied()
    }

    /// Mean in milliseconds; 0 without samples.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        if self.is_empty() {
            0.0
        } else {
            self.sum as f64 / self.len() as f64
        }
    }

    /// Population variance in square milliseconds, never below 0; 0 without samples.
    #[must_use]
    pub fn variance_ms2(&self) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        // n*Σx² - (Σx)² is exact in integers: no cancellation, and never negative (Cauchy-Schwarz).
        let count = self.len() as u128;
        let scaled = (count * self.sum_of_squares).saturating_sub(self.sum * self.sum);
        scaled as f64 / (count * count) as f64
    }

    /// Population standard deviation in milliseconds.
    #[must_use]
    pub fn std_deviation_ms(&self) -> f64 {
        math::std_deviation(self.variance_ms2())
    }
}

const fn square(interval: u32) -> u128 {
    let wide = interval as u128;
    wide * wide
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(capacity: usize, intervals: &[u64]) -> HeartbeatHistory {
        let mut history = HeartbeatHistory::new(capacity);
        intervals.iter().for_each(|interval| history.push(*interval));
        history
    }

    fn close(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 1e-6,
            "found {found}, expected {expected}"
        );
    }

    #[test]
    fn m_268_mean_and_population_variance() {
        let five = history(20, &[100, 200, 125, 340, 130]);
        assert_eq!(five.mean_ms(), 179.0);
        assert_eq!(five.variance_ms2(), 7584.0);
    }

    #[test]
    fn m_269_a_single_sample_has_no_variance() {
        assert_eq!(history(20, &[5]).variance_ms2(), 0.0);
        assert_eq!(history(20, &[]).mean_ms(), 0.0);
        assert_eq!(history(20, &[]).std_deviation_ms(), 0.0);
    }

    #[test]
    fn m_270_a_full_window_drops_its_oldest_interval() {
        let mut three = history(3, &[100, 110, 90]);
        close(three.mean_ms(), 100.0);
        close(three.variance_ms2(), 66.666_667);
        three.push(140);
        close(three.mean_ms(), 113.333_333);
        close(three.variance_ms2(), 422.222_222);
        three.push(80);
        close(three.mean_ms(), 103.333_333);
        close(three.variance_ms2(), 688.888_889);
        assert!(three.intervals_ms().eq([90, 140, 80]));
    }

    #[test]
    fn sums_do_not_drift_over_a_million_intervals() {
        let mut long = HeartbeatHistory::new(7);
        for step in 0..1_000_000_u64 {
            long.push(step * 7919 % 100_003);
        }
        let fresh: std::vec::Vec<u64> = long.intervals_ms().map(u64::from).collect();
        let fresh = history(7, &fresh);
        assert_eq!(long.variance_ms2().to_bits(), fresh.variance_ms2().to_bits());
        assert_eq!(long.mean_ms().to_bits(), fresh.mean_ms().to_bits());
    }

    #[test]
    fn absurd_intervals_and_windows_are_taken_into_range() {
        let mut absurd = history(usize::MAX, &[u64::MAX, 0, u64::MAX]);
        assert!(absurd.std_deviation_ms().is_finite());
        (0..SAMPLES_MAX).for_each(|_| absurd.push(u64::MAX));
        assert_eq!(absurd.len(), SAMPLES_MAX);
        assert_eq!(absurd.variance_ms2(), 0.0);
        assert_eq!(history(0, &[1, 2]).len(), 1);
    }
}
