//! Settings of quorum logs, and their check. Spec: sharding 10.7, 10.16.

use core::time::Duration;

use super::ConfigError;
use super::ranges::{ensure, positive, within};
use crate::journal::protocol::VOTERS_MAX;

/// Settings of quorum logs: logs that a majority of fixed stores keeps, each a node's own.
#[derive(Clone, Debug)]
pub struct JournalConfig {
    /// How many stores vote about every log, the same on every node (default 0: no such logs; to 9). The
    /// stores of the oldest members become the voters, for good, once there are so many; an append waits for
    /// more than half of them. More than half of all stores should vote.
    pub voters: usize,
    /// How often an unanswered request to a store is repeated (default 1 s).
    pub retry_interval: Duration,
    /// Bytes of a log that are sent at once (default 256 KiB, 1 KiB to 1 MiB, and at most half of
    /// `limits.bulk_frame_bytes_max`). A single append may be larger: up to that limit, or 4 MiB.
    pub page_bytes: usize,
    /// Bytes of a log behind its newest snapshot (default 64 MiB, 64 KiB to 1 GiB): as much as the next owner
    /// reads, writes back and holds. Past it appends are refused until a snapshot is kept or records are
    /// forgotten.
    pub log_bytes_max: usize,
    /// Logs that this node may own at once (default 100,000, 1 to 10,000,000): some hundred bytes each while
    /// idle.
    pub open_logs_max: usize,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self {
            voters: 0,
            retry_interval: Duration::from_secs(1),
            page_bytes: 256 << 10,
            log_bytes_max: 64 << 20,
            open_logs_max: 100_000,
        }
    }
}

impl JournalConfig {
    /// Timings for one machine; see [`super::Config::fast`].
    pub(super) fn fast() -> Self {
        Self {
            retry_interval: Duration::from_millis(100),
            ..Self::default()
        }
    }

    pub(super) fn check(&self, frame_bytes_max: usize) -> Result<(), ConfigError> {
        within("journal.voters", self.voters, (0, VOTERS_MAX), "0 to 9")?;
        positive("journal.retry_interval", self.retry_interval)?;
        // Without voters nothing is sent: a host with small frames keeps the default.
        ensure(
            (1 << 10..=1 << 20).contains(&self.page_bytes)
                && (self.voters == 0 || self.page_bytes <= frame_bytes_max / 2),
            "journal.page_bytes",
            &self.page_bytes,
            "1024 to 1048576 bytes, and at most half of limits.bulk_frame_bytes_max",
        )?;
        within(
            "journal.log_bytes_max",
            self.log_bytes_max,
            (64 << 10, 1 << 30),
            "65536 to 1073741824 bytes",
        )?;
        within(
            "journal.open_logs_max",
            self.open_logs_max,
            (1, 10_000_000),
            "1 to 10000000",
        )
    }
}
