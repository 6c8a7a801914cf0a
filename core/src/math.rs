//! Phi's arithmetic: how improbable a silence is under a normal distribution of heartbeat intervals. Only
//! `libm`, so a decision replays bit for bit on every target; never std's floats. Spec: membership 2.14.

/// How suspicious a silence of `silence_ms` is when intervals have the given mean and standard deviation (all
/// in milliseconds): minus the decimal logarithm of the probability that a heartbeat comes even later.
///
/// Uses the logistic approximation of the normal distribution, in two branches so that neither tail loses its
/// digits. The result is at least 0, never NaN and never -0; a silence far beyond the mean is
/// `f64::INFINITY`.
///
/// # Panics
/// If an argument is NaN or `std_deviation_ms` is not above 0: our own bug, as settings are checked before.
#[must_use]
pub fn phi(silence_ms: f64, mean_ms: f64, std_deviation_ms: f64) -> f64 {
    assert!(std_deviation_ms > 0.0, "a standard deviation of 0 has no phi");
    let y = (silence_ms - mean_ms) / std_deviation_ms;
    let e = libm::exp(-y * (1.5976 + 0.070_566 * y * y));
    // Above the mean the tail is the small number, below it the bulk is: each branch computes its small one
    // directly.
    let tail = if silence_ms > mean_ms {
        e / (1.0 + e)
    } else {
        1.0 - 1.0 / (1.0 + e)
    };
    let phi = -libm::log10(tail);
    assert!(!phi.is_nan(), "phi is a number");
    // `-log10(1)` is -0, which prints badly and orders below 0 in a total order.
    if phi > 0.0 { phi } else { 0.0 }
}

/// Square root of a variance; anything below 0 counts as 0.
#[must_use]
pub fn std_deviation(variance: f64) -> f64 {
    assert!(!variance.is_nan(), "variance is a number");
    if variance > 0.0 { libm::sqrt(variance) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        // The expected values are printed with six significant digits.
        assert!(
            (found - expected).abs() <= 6e-6 * expected.abs(),
            "found {found}, expected {expected}"
        );
    }

    #[test]
    fn m_246_to_m_257_phi_of_a_mean_of_1000_and_a_deviation_of_100() {
        assert_eq!(phi(0.0, 1000.0, 100.0), 0.0);
        let table = [
            (500.0, 2.176_89e-8),
            (900.0, 0.075_033),
            (1000.0, core::f64::consts::LOG10_2),
            (1100.0, 0.799_508),
            (1200.0, 1.642_830),
            (1300.0, 2.909_480),
            (1400.0, 4.736_690),
            (1500.0, 7.299_950),
            (1600.0, 10.782_60),
            (1700.0, 15.368_50),
            (2000.0, 37.584_70),
        ];
        for (silence, expected) in table {
            close(phi(silence, 1000.0, 100.0), expected);
        }
    }

    #[test]
    fn m_258_the_distribution_is_right_and_phi_strictly_increases() {
        let below = |silence: f64| 1.0 - libm::pow(10.0, -phi(silence, 0.0, 10.0));
        for (silence, expected) in [
            (0.0, 0.5),
            (6.0, 0.725_877),
            (15.0, 0.933_053),
            (20.0, 0.977_240),
            (25.0, 0.993_920),
            (35.0, 0.999_819),
            (40.0, 0.999_982),
        ] {
            close(below(silence), expected);
        }
        for step in 0..40 {
            assert!(
                phi(f64::from(step), 0.0, 10.0) < phi(f64::from(step + 1), 0.0, 10.0),
                "at {step}"
            );
        }
    }

    #[test]
    fn m_259_a_small_mean_and_deviation() {
        close(phi(22.0, 20.0, 3.0), 0.597_950);
        close(1.0 - libm::pow(10.0, -phi(22.0, 20.0, 3.0)), 0.747_623);
    }

    #[test]
    fn m_260_neither_tail_overflows_and_zero_has_no_sign() {
        close(phi(10.0, 0.0, 1.0), 37.5847);
        let early = phi(-25.0, 0.0, 1.0);
        assert_eq!(early.to_bits(), 0.0_f64.to_bits());
        assert_eq!(phi(f64::MAX, 0.0, 1.0), f64::INFINITY);
        assert_eq!(phi(-f64::MAX, 0.0, 1.0).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn m_261_a_larger_deviation_lowers_phi() {
        close(phi(1100.0, 1000.0, 500.0), 0.376_074);
        close(phi(1100.0, 1000.0, 100.0), 0.799_508);
    }

    #[test]
    fn a_negative_variance_counts_as_zero() {
        assert_eq!(std_deviation(-1e-9), 0.0);
        assert_eq!(std_deviation(62_500.0), 250.0);
    }
}
