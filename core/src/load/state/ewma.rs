//! Exponentially weighted moving averages: the older a sample is, the less it counts. Spec: sharding 5.5.

use core::time::Duration;

/// How much of the difference a new sample takes the average along, for samples this far apart when an old
/// one counts half after the half-life: from 0 (not at all) to 1 (the sample alone). A half-life of 0 gives
/// 1.
#[must_use]
pub fn alpha(interval: Duration, half_life: Duration) -> f64 {
    if half_life.is_zero() {
        return 1.0;
    }
    1.0 - libm::exp2(-(interval.as_secs_f64() / half_life.as_secs_f64()))
}

/// An average; the first sample starts it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ewma {
    value: Option<f64>,
}

impl Ewma {
    /// One that has this value already.
    #[must_use]
    pub const fn starting_at(value: f64) -> Self {
        Self { value: Some(value) }
    }

    /// Takes a sample, and gives the average with it. What is no number, and what is infinite, is left out.
    /// `alpha` is what [`alpha`] gives.
    pub fn add(&mut self, sample: f64, alpha: f64) -> Option<f64> {
        if sample.is_finite() {
            self.value = Some(match self.value {
                None => sample,
                Some(value) => value + alpha * (sample - value),
            });
        }
        self.value
    }

    /// The average; `None` before the first sample.
    #[must_use]
    pub const fn value(&self) -> Option<f64> {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 0.005,
            "found {found}, expected {expected}"
        );
    }

    #[test]
    fn samples_three_seconds_apart_with_a_half_life_of_twelve_take_it_along_by_0_159() {
        let alpha = alpha(Duration::from_secs(3), Duration::from_secs(12));
        assert!((alpha - 0.159).abs() < 0.0005, "found {alpha}");
        let mut average = Ewma::starting_at(1.0);
        for _ in 0..4 {
            average.add(0.0, alpha);
        }
        assert!(
            (average.value().unwrap() - 0.5).abs() < 1e-12,
            "half of it after the half-life"
        );
    }

    #[test]
    fn four_samples_of_ten_after_one_thousand_with_two_elevenths() {
        let mut average = Ewma::default();
        assert_eq!(
            average.add(1_000.0, 2.0 / 11.0),
            Some(1_000.0),
            "the first sample starts it"
        );
        for expected in [820.0, 672.73, 552.23, 453.64] {
            close(average.add(10.0, 2.0 / 11.0).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_no_number_changes_nothing() {
        let mut average = Ewma::default();
        assert_eq!(average.add(f64::NAN, 0.5), None);
        average.add(4.0, 0.5);
        assert_eq!(average.add(f64::INFINITY, 0.5), Some(4.0));
        assert_eq!(alpha(Duration::from_secs(3), Duration::ZERO), 1.0);
        assert_eq!(alpha(Duration::ZERO, Duration::from_secs(3)), 0.0);
    }
}
