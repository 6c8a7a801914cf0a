//! Settings of the keyed store, and their check. Spec: sharding 5.6, 10.19.

use core::time::Duration;

use super::ConfigError;
use super::ranges::{at_least_one, positive};

/// Settings of the keyed store.
#[derive(Clone, Debug)]
pub struct KvConfig {
    /// After which time what an owner or the coordinator of ranges has not answered is said again (default
    /// 500 ms, > 0).
    pub repeat_interval: Duration,
    /// How long a range may take to get a new owner; then the move is undone, and that owner is not chosen
    /// for it again for as long (default 5 min, > 0).
    pub move_timeout: Duration,
    /// How long an owner of a durable bucket that is away keeps its ranges, after its removal too (default
    /// 10 min, > 0): longer than a restart takes, so that one moves nothing.
    pub away_max: Duration,
    /// How long what was deleted or has expired is remembered (default 24 h, > 0): longer than any message,
    /// call or pause of a process lasts, and than the clocks of nodes differ.
    pub tombstone_grace: Duration,
    /// How long a round takes at least in which this node compares what it holds of each range with what the
    /// range's other owners hold, one range after the other (default 60 s, > 0).
    pub compare_interval: Duration,
    /// How long a leaving node waits until its ranges have gone to other members (default 60 s, > 0).
    pub exit_timeout: Duration,
    /// Calls of this node that may be open at once (default 10,000, >= 1).
    pub open_calls_max: usize,
    /// Bytes of keys and values of one bucket that this node holds in memory before it refuses new values
    /// (default 1 GiB, >= 1). Deletes and other owners' copies still come in.
    pub store_bytes_max: usize,
}

impl Default for KvConfig {
    fn default() -> Self {
        Self {
            repeat_interval: Duration::from_millis(500),
            move_timeout: Duration::from_secs(300),
            away_max: Duration::from_secs(600),
            tombstone_grace: Duration::from_secs(86_400),
            compare_interval: Duration::from_secs(60),
            exit_timeout: Duration::from_secs(60),
            open_calls_max: 10_000,
            store_bytes_max: 1 << 30,
        }
    }
}

impl KvConfig {
    /// Timings for one machine; see [`super::Config::fast`].
    pub(super) fn fast() -> Self {
        Self {
            repeat_interval: Duration::from_millis(50),
            move_timeout: Duration::from_secs(30),
            away_max: Duration::from_secs(60),
            tombstone_grace: Duration::from_secs(600),
            compare_interval: Duration::from_secs(6),
            exit_timeout: Duration::from_secs(6),
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        positive("kv.repeat_interval", self.repeat_interval)?;
        positive("kv.move_timeout", self.move_timeout)?;
        positive("kv.away_max", self.away_max)?;
        positive("kv.tombstone_grace", self.tombstone_grace)?;
        positive("kv.compare_interval", self.compare_interval)?;
        positive("kv.exit_timeout", self.exit_timeout)?;
        at_least_one("kv.open_calls_max", self.open_calls_max)?;
        at_least_one("kv.store_bytes_max", self.store_bytes_max)
    }
}
