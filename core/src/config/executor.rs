//! Settings of what a host watches about the executor of the application's handlers, and their check. Spec:
//! reliability I-97.

use core::time::Duration;

use super::ConfigError;
use super::ranges::ensure;

/// Settings of what a host watches about the executor that runs the application's handlers. The core does not
/// read them.
#[derive(Clone, Debug)]
pub struct ExecutorConfig {
    /// After how long without progress of the executor, while the node itself runs, the node leaves (default
    /// 30 s, 1 s to 24 h; `None`: never). It reports that it is not ready after one to two seconds. Pauses of
    /// the whole process do not count.
    pub stall_timeout: Option<Duration>,
}

impl Default for ExecutorConfig {
    fn default() -> Self {
        Self {
            // As long as container platforms look on by default: three probes, ten seconds apart.
            stall_timeout: Some(Duration::from_secs(30)),
        }
    }
}

impl ExecutorConfig {
    /// Timings for one machine; see [`super::Config::fast`].
    pub(super) fn fast() -> Self {
        Self {
            stall_timeout: Some(Duration::from_millis(10_000)),
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        const RANGE: core::ops::RangeInclusive<Duration> =
            Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
        let legal = |timeout: &Duration| RANGE.contains(timeout);
        let timeout = self.stall_timeout;
        ensure(
            timeout.as_ref().is_none_or(legal),
            "executor.stall_timeout",
            &timeout,
            "1 s to 24 h, or none",
        )
    }
}
