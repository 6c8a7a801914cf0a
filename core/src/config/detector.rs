//! Settings of heartbeats and the accrual detector, and their check. Spec: membership 2.11 to 2.14, 4.

use core::time::Duration;

use super::ConfigError;
use super::ranges::{at_least_one, bounded, ensure, positive, within};

/// Settings of heartbeats and the accrual detector.
#[derive(Clone, Debug)]
pub struct FailureDetectorConfig {
    /// Which detector judges silence (default phi accrual). With the deadline detector `threshold`,
    /// `max_sample_size` and `min_std_deviation` mean nothing. Mirrors `failure-detector.implementation`.
    pub implementation: DetectorImplementation,
    /// Time between heartbeats; also the first estimate of their interval (default 1 s). Mirrors
    /// `failure-detector.heartbeat-interval`.
    pub heartbeat_interval: Duration,
    /// Suspicion level from which a member counts as unreachable (default 8.0, > 0). Mirrors `.threshold`.
    pub threshold: f64,
    /// Heartbeat intervals remembered per member (default 1000, 1 to 10,000). Mirrors `.max-sample-size`.
    pub max_sample_size: usize,
    /// Least standard deviation assumed (default 100 ms). Mirrors `.min-std-deviation`.
    pub min_std_deviation: Duration,
    /// Silence beyond the expected interval that is forgiven (default 3 s). Mirrors
    /// `.acceptable-heartbeat-pause`.
    pub acceptable_heartbeat_pause: Duration,
    /// How many members watch each member (default 9, >= 1). Mirrors `.monitored-by-nr-of-members`.
    pub monitored_by_nr_of_members: usize,
    /// Silence of a member that never answered starts to count after this (default 1 s). Mirrors
    /// `.expected-response-after`.
    pub expected_response_after: Duration,
    /// Time between two looks at the detector (default 1 s). Mirrors `unreachable-nodes-reaper-interval`.
    pub unreachable_nodes_reaper_interval: Duration,
}

/// A failure detector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DetectorImplementation {
    /// Grades silence against the intervals a peer has kept so far.
    #[default]
    PhiAccrual,
    /// Silent after the heartbeat interval and the acceptable pause, however regular the peer was.
    Deadline,
}

impl Default for FailureDetectorConfig {
    fn default() -> Self {
        Self {
            implementation: DetectorImplementation::PhiAccrual,
            heartbeat_interval: Duration::from_secs(1),
            threshold: 8.0,
            max_sample_size: 1000,
            min_std_deviation: Duration::from_millis(100),
            acceptable_heartbeat_pause: Duration::from_secs(3),
            monitored_by_nr_of_members: 9,
            expected_response_after: Duration::from_secs(1),
            unreachable_nodes_reaper_interval: Duration::from_secs(1),
        }
    }
}

impl FailureDetectorConfig {
    /// See [`super::Config::one_data_center`].
    pub(super) fn one_data_center() -> Self {
        Self {
            heartbeat_interval: Duration::from_millis(500),
            min_std_deviation: Duration::from_millis(50),
            acceptable_heartbeat_pause: Duration::from_millis(1_000),
            expected_response_after: Duration::from_millis(500),
            unreachable_nodes_reaper_interval: Duration::from_millis(250),
            ..Self::default()
        }
    }

    /// Timings for one machine; see [`super::Config::fast`].
    pub(super) fn fast() -> Self {
        Self {
            heartbeat_interval: Duration::from_millis(200),
            min_std_deviation: Duration::from_millis(50),
            acceptable_heartbeat_pause: Duration::from_millis(800),
            expected_response_after: Duration::from_millis(400),
            unreachable_nodes_reaper_interval: Duration::from_millis(200),
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        positive("failure_detector.heartbeat_interval", self.heartbeat_interval)?;
        positive("failure_detector.min_std_deviation", self.min_std_deviation)?;
        positive(
            "failure_detector.expected_response_after",
            self.expected_response_after,
        )?;
        let pause = self.acceptable_heartbeat_pause;
        bounded("failure_detector.acceptable_heartbeat_pause", pause)?;
        let reaper = self.unreachable_nodes_reaper_interval;
        positive("failure_detector.unreachable_nodes_reaper_interval", reaper)?;
        let legal = self.threshold.is_finite() && self.threshold > 0.0;
        ensure(
            legal,
            "failure_detector.threshold",
            &self.threshold,
            "a finite number above 0",
        )?;
        within(
            "failure_detector.max_sample_size",
            self.max_sample_size,
            (1, 10_000),
            "1 to 10000",
        )?;
        at_least_one(
            "failure_detector.monitored_by_nr_of_members",
            self.monitored_by_nr_of_members,
        )
    }
}
