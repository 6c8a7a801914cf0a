//! Settings of singletons and their proxies, and their check. Spec: sharding 4.2.

use core::time::Duration;

use super::ConfigError;
use super::ranges::{at_least_one, ensure, positive, within};

/// Settings of singletons and their proxies.
#[derive(Clone, Debug)]
pub struct SingletonConfig {
    /// How often an unanswered question of a hand-over is repeated (default 1 s). Mirrors
    /// `hand-over-retry-interval`.
    pub hand_over_retry_interval: Duration,
    /// How often it is repeated at least (default 15, >= 1); more if the removal margin is longer. Mirrors
    /// `min-number-of-hand-over-retries`.
    pub hand_over_retries_min: u32,
    /// How long an instance may take to stop before its handler is dropped (default 10 s).
    pub stop_timeout: Duration,
    /// How long an instance that failed rests before the next one is started (default 1 s); twice as long
    /// after each failure.
    pub restart_backoff_min: Duration,
    /// The longest such rest (default 30 s, >= `restart_backoff_min`). A failure after a run of that length
    /// counts as the first.
    pub restart_backoff_max: Duration,
    /// How often a denied lease is requested again (default 5 s). Mirrors `lease-retry-interval`.
    pub lease_retry_interval: Duration,
    /// Silence of its owner after which another node may have the lease (default 120 s). Mirrors
    /// `heartbeat-timeout`.
    pub lease_time_to_live: Duration,
    /// How often a proxy asks where the instance is until it knows (default 1 s). Mirrors
    /// `singleton-identification-interval`.
    pub identification_interval: Duration,
    /// Messages a proxy keeps until it knows where the instance is (default 1,000, 0 to 10,000); past it the
    /// oldest is dropped, with 0 every one. Mirrors `buffer-size`.
    pub buffer_messages_max: usize,
    /// Their payload bytes (default 16 MiB, >= 1).
    pub buffer_bytes_max: usize,
    /// Asks of this node to singletons that may wait for an answer at once (default 10,000, >= 1).
    pub open_asks_max: usize,
}

impl Default for SingletonConfig {
    fn default() -> Self {
        Self {
            hand_over_retry_interval: Duration::from_secs(1),
            hand_over_retries_min: 15,
            stop_timeout: Duration::from_secs(10),
            restart_backoff_min: Duration::from_secs(1),
            restart_backoff_max: Duration::from_secs(30),
            lease_retry_interval: Duration::from_secs(5),
            lease_time_to_live: Duration::from_secs(120),
            identification_interval: Duration::from_secs(1),
            buffer_messages_max: 1_000,
            buffer_bytes_max: 16 << 20,
            open_asks_max: 10_000,
        }
    }
}

impl SingletonConfig {
    /// Timings for one machine; see [`super::Config::fast`].
    pub(super) fn fast() -> Self {
        Self {
            hand_over_retry_interval: Duration::from_millis(100),
            stop_timeout: Duration::from_millis(2_000),
            restart_backoff_min: Duration::from_millis(100),
            restart_backoff_max: Duration::from_millis(3_000),
            lease_retry_interval: Duration::from_millis(500),
            identification_interval: Duration::from_millis(100),
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        positive(
            "singleton.hand_over_retry_interval",
            self.hand_over_retry_interval,
        )?;
        positive("singleton.stop_timeout", self.stop_timeout)?;
        positive("singleton.restart_backoff_min", self.restart_backoff_min)?;
        positive("singleton.lease_retry_interval", self.lease_retry_interval)?;
        positive("singleton.lease_time_to_live", self.lease_time_to_live)?;
        positive("singleton.identification_interval", self.identification_interval)?;
        at_least_one("singleton.buffer_bytes_max", self.buffer_bytes_max)?;
        at_least_one("singleton.open_asks_max", self.open_asks_max)?;
        positive("singleton.restart_backoff_max", self.restart_backoff_max)?;
        ensure(
            self.restart_backoff_max >= self.restart_backoff_min,
            "singleton.restart_backoff_max",
            &self.restart_backoff_max,
            "at least singleton.restart_backoff_min",
        )?;
        ensure(
            self.hand_over_retries_min >= 1,
            "singleton.hand_over_retries_min",
            &self.hand_over_retries_min,
            "at least 1",
        )?;
        within(
            "singleton.buffer_messages_max",
            self.buffer_messages_max,
            (0, 10_000),
            "0 to 10000",
        )
    }
}
