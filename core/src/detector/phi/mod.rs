//! The phi accrual failure detector of one peer: grades its silence against the intervals it has kept so far.
//! Counts in whole milliseconds; never reads a clock and never decides what a silence leads to. Spec:
//! membership 2.14.

use core::time::Duration;

use crate::detector::history::{HeartbeatHistory, SAMPLES_MAX};
use crate::math;
use crate::time::{Instant, micros};

/// Settings of a [`PhiAccrual`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhiSettings {
    /// Phi from which a peer counts as silent. Above 0 and finite; default 8. Each step of 1 makes a false
    /// alarm ten times rarer and detection a little slower. Mirrors `failure-detector.threshold`.
    pub threshold: f64,
    /// Intervals remembered, 1..=[`SAMPLES_MAX`]; default 1000. Costs 4 bytes each. Mirrors
    /// `max-sample-size`.
    pub max_sample_size: usize,
    /// Lower limit of the standard deviation, so that a very regular peer is not declared silent at the first
    /// hiccup. Above 0; default 100 ms. Mirrors `min-std-deviation`.
    pub min_std_deviation: Duration,
    /// Upper limit of the standard deviation, unless the lower one is higher: a peer that comes and goes does
    /// not teach one observer a patience that the others have not. Default 1 s; a node takes the heartbeat
    /// interval.
    pub max_std_deviation: Duration,
    /// Silence that is always tolerated on top of the mean interval (a collection, a scheduling gap). Default
    /// 3 s. Mirrors `acceptable-heartbeat-pause`.
    pub acceptable_heartbeat_pause: Duration,
    /// Interval assumed until there are real ones: usually the heartbeat interval. At least 1 ms; default 1
    /// s.
    pub first_heartbeat_estimate: Duration,
}

impl Default for PhiSettings {
    fn default() -> Self {
        Self {
            threshold: 8.0,
            max_sample_size: 1000,
            min_std_deviation: Duration::from_millis(100),
            max_std_deviation: Duration::from_secs(1),
            acceptable_heartbeat_pause: Duration::from_secs(3),
            first_heartbeat_estimate: Duration::from_secs(1),
        }
    }
}

/// Why [`PhiSettings`] were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PhiSettingsError {
    /// The threshold is not above 0, or not finite.
    #[error("threshold must be a finite number above 0")]
    Threshold,
    /// The window is empty or larger than [`SAMPLES_MAX`].
    #[error("max-sample-size must be 1 to {SAMPLES_MAX}")]
    MaxSampleSize,
    /// The lower limit of the standard deviation is 0.
    #[error("min-std-deviation must be above 0")]
    MinStdDeviation,
    /// The first estimate is below a millisecond.
    #[error("first-heartbeat-estimate must be at least 1 ms")]
    FirstHeartbeatEstimate,
}

impl PhiSettings {
    /// Whether a detector can run with these settings. (A pause below 0 cannot be written as a `Duration`.)
    ///
    /// # Errors
    /// The first setting out of range.
    pub fn validate(&self) -> Result<(), PhiSettingsError> {
        if !(self.threshold.is_finite() && self.threshold > 0.0) {
            return Err(PhiSettingsError::Threshold);
        }
        if self.max_sample_size == 0 || self.max_sample_size > SAMPLES_MAX {
            return Err(PhiSettingsError::MaxSampleSize);
        }
        if micros(self.min_std_deviation) == 0 {
            return Err(PhiSettingsError::MinStdDeviation);
        }
        if self.first_heartbeat_estimate < Duration::from_millis(1) {
            return Err(PhiSettingsError::FirstHeartbeatEstimate);
        }
        Ok(())
    }
}

/// The detector of one peer.
#[derive(Clone, Debug)]
pub struct PhiAccrual {
    settings: PhiSettings,
    history: HeartbeatHistory,
    last: Option<Instant>,
}

impl PhiAccrual {
    /// A detector that has heard nothing yet.
    ///
    /// # Panics
    /// If the settings do not pass [`PhiSettings::validate`].
    #[must_use]
    pub fn new(settings: PhiSettings) -> Self {
        assert!(
            settings.validate().is_ok(),
            "phi settings are validated before use"
        );
        Self {
            settings,
            history: HeartbeatHistory::new(settings.max_sample_size),
            last: None,
        }
    }

    /// Records a heartbeat. The interval before it joins the history only if the peer was available until
    /// now: a long outage must not teach the detector to be patient. O(1).
    ///
    /// Returns the interval if it took two thirds of the acceptable pause or more: worth a warning.
    pub fn heartbeat(&mut self, now: Instant) -> Option<Duration> {
        let mut late = None;
        match self.last {
            None => {
                let estimate = millis(self.settings.first_heartbeat_estimate);
                self.history.push(estimate - estimate / 4);
                self.history.push(estimate.saturating_add(estimate / 4));
            }
            Some(last) => {
                let interval_ms = now.as_millis().saturating_sub(last.as_millis());
                let pause_ms = millis(self.settings.acceptable_heartbeat_pause);
                if pause_ms > 0 && interval_ms >= pause_ms / 3 * 2 {
                    late = Some(Duration::from_millis(interval_ms));
                }
                if self.is_available(now) {
                    self.history.push(interval_ms);
                }
            }
        }
        self.last = Some(now);
        late
    }

    /// Moves the last heartbeat later: compensates a pause of this process, which must not be blamed on the
    /// peer.
    pub fn shift(&mut self, by: Duration) {
        self.last = self.last.map(|last| last + by);
    }

    /// The suspicion at `now`: 0 before the first heartbeat, at most `f64::INFINITY`, never NaN. O(1).
    #[must_use]
    pub fn phi(&self, now: Instant) -> f64 {
        let Some(last) = self.last else {
            return 0.0;
        };
        let silence_ms = now.as_millis().saturating_sub(last.as_millis());
        let mean_ms = self.history.mean_ms() + millis_f64(self.settings.acceptable_heartbeat_pause);
        let floor_ms = millis_f64(self.settings.min_std_deviation);
        let most_ms = millis_f64(self.settings.max_std_deviation);
        let std_deviation_ms = self.history.std_deviation_ms().min(most_ms).max(floor_ms);
        math::phi(silence_ms as f64, mean_ms, std_deviation_ms)
    }

    /// Whether phi is below the threshold at `now`; true before the first heartbeat.
    #[must_use]
    pub fn is_available(&self, now: Instant) -> bool {
        self.phi(now) < self.settings.threshold
    }

    /// Whether a heartbeat was ever recorded.
    #[must_use]
    pub const fn is_monitoring(&self) -> bool {
        self.last.is_some()
    }

    /// Mean interval in milliseconds, without the acceptable pause; 0 before the first heartbeat.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        self.history.mean_ms()
    }

    /// Standard deviation of the intervals in milliseconds, without the configured lower limit.
    #[must_use]
    pub fn std_deviation_ms(&self) -> f64 {
        self.history.std_deviation_ms()
    }

    /// When the last heartbeat was recorded, moved by [`PhiAccrual::shift`].
    #[must_use]
    pub const fn last_heartbeat(&self) -> Option<Instant> {
        self.last
    }

    /// The intervals behind the verdict.
    #[must_use]
    pub const fn history(&self) -> &HeartbeatHistory {
        &self.history
    }
}

fn millis(duration: Duration) -> u64 {
    micros(duration) / 1_000
}

fn millis_f64(duration: Duration) -> f64 {
    micros(duration) as f64 / 1_000.0
}

#[cfg(test)]
mod tests;
