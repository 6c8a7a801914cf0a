//! Settings of the replicator, and their check. Spec: sharding 4.3; limits: reliability 3b.

use alloc::vec::Vec;
use core::time::Duration;

use super::ConfigError;
use super::ranges::{at_least_one, bounded, ensure, positive};
use crate::ddata::crdt::CustomTypes;
use crate::ddata::state::key::{Key, Pattern};
use crate::ident::Role;

/// Deltas follow gossip at a fifth of its interval, but never more often than this.
const DELTA_INTERVAL_MIN: Duration = Duration::from_millis(200);

/// Settings of replicated data.
#[derive(Clone, Debug)]
pub struct DdataConfig {
    /// Members with this role hold replicas; all members if `None` (the default). The same on every node.
    /// Mirrors `role`.
    pub role: Option<Role>,
    /// Time between two comparisons with another replica (default 2 s). Mirrors `gossip-interval`.
    pub gossip_interval: Duration,
    /// Time between two rounds of changes to subscribers (default 500 ms). Mirrors
    /// `notify-subscribers-interval`.
    pub notify_subscribers_interval: Duration,
    /// Keys compared in one message (default 500, 1 to 10,000); more are compared in chunks. Mirrors
    /// `max-delta-elements`.
    pub max_delta_elements: usize,
    /// Time between two looks at contributions of removed nodes (default 120 s; `None`: they stay). Mirrors
    /// `pruning-interval`.
    pub pruning_interval: Option<Duration>,
    /// How long a removed node's last changes may take to reach everybody, counted while nobody is
    /// unreachable (default 300 s). Mirrors `max-pruning-dissemination`.
    pub max_pruning_dissemination: Duration,
    /// How long late data of a pruned node is recognised (default 6 h). Mirrors
    /// `pruning-marker-time-to-live`.
    pub pruning_marker_time_to_live: Duration,
    /// The same for durable keys, whose data may lie on the disk of a node that is down (default 10 days, >
    /// 0). Mirrors `durable.pruning-marker-time-to-live`.
    pub durable_pruning_marker_time_to_live: Duration,
    /// Whether operations ask the oldest members first instead of any (default false). Mirrors
    /// `prefer-oldest`.
    pub prefer_oldest: bool,
    /// Whether changes travel as deltas instead of whole values (default true). Mirrors `delta-crdt.enabled`.
    pub deltas: bool,
    /// Operations in one key's delta from which on gossip sends the whole value instead (default 50, 1 to
    /// 10,000). Mirrors `delta-crdt.max-delta-size`.
    pub max_delta_size: usize,
    /// Time between two rounds of deltas (default `None`: a fifth of the gossip interval, at least 200 ms; >
    /// 0).
    pub delta_interval: Option<Duration>,
    /// Keys, or prefixes, that are forgotten everywhere after so long without use (default none; above 0).
    /// The first that matches counts. Mirrors `expire-keys-after-inactivity`.
    pub expire_keys_after_inactivity: Vec<(Pattern, Duration)>,
    /// Keys, or prefixes, that the store keeps (default none). The same on every node. Mirrors
    /// `durable.keys`.
    pub durable_keys: Vec<Pattern>,
    /// How long changes of durable keys are gathered before they are stored (default `None`: stored at once;
    /// above 0). With it, writes are confirmed before they are on disk. Mirrors
    /// `durable.lmdb.write-behind-interval`.
    pub write_behind_interval: Option<Duration>,
    /// Whether a store is loaded whose replica was away for longer than `durable_pruning_marker_time_to_live`
    /// (default false). Set it only after the whole cluster was stopped for so long; if others ran on, what
    /// they settled of removed nodes would be counted twice.
    pub load_outdated: bool,
    /// The user's own types (default none). The same on every node.
    pub custom_types: CustomTypes,
    /// Size from which on a value is reported as large (default 10 KiB, >= 1). Mirrors
    /// `log-data-size-exceeding`.
    pub log_data_size_exceeding: usize,
    /// Least replicas of a majority (default 0). Mirrors `majority-min-cap`.
    pub majority_min_cap: usize,
    /// How far ahead of this node's clock a last-writer-wins stamp of a peer may be (default 1 h): a stamp
    /// beyond that would win over every later write.
    pub clock_skew_max: Duration,
    /// Keys held (default 100,000, 1 to 1,000,000), deleted ones included: their tombstones stay.
    pub keys_max: usize,
    /// Bytes of one value, encoded, from which on updates are refused (default 1 MiB, 1 KiB to 8 MiB, and at
    /// most half of what fits a frame, so that two replicas at the limit can still be merged and sent).
    pub value_bytes_max: usize,
    /// Bytes of all values, encoded, with 200 per key (default 256 MiB, >= `value_bytes_max`). Memory is
    /// about three times that for sets of short elements, and four times for many small counters.
    pub bytes_max: usize,
    /// Subscriptions (default 10,000, >= 1).
    pub subscribers_max: usize,
    /// Operations that wait for other replicas or for the store (default 10,000, >= 1): each holds its value
    /// beyond `bytes_max`.
    pub open_operations_max: usize,
}

impl Default for DdataConfig {
    fn default() -> Self {
        Self {
            role: None,
            gossip_interval: Duration::from_secs(2),
            notify_subscribers_interval: Duration::from_millis(500),
            max_delta_elements: 500,
            pruning_interval: Some(Duration::from_secs(120)),
            max_pruning_dissemination: Duration::from_secs(300),
            pruning_marker_time_to_live: Duration::from_secs(6 * 3600),
            durable_pruning_marker_time_to_live: Duration::from_secs(10 * 24 * 3600),
            prefer_oldest: false,
            deltas: true,
            max_delta_size: 50,
            delta_interval: None,
            expire_keys_after_inactivity: Vec::new(),
            durable_keys: Vec::new(),
            write_behind_interval: None,
            load_outdated: false,
            custom_types: CustomTypes::new(),
            log_data_size_exceeding: 10 << 10,
            majority_min_cap: 0,
            clock_skew_max: Duration::from_secs(3600),
            keys_max: 100_000,
            value_bytes_max: 1 << 20,
            bytes_max: 256 << 20,
            subscribers_max: 10_000,
            open_operations_max: 10_000,
        }
    }
}

impl DdataConfig {
    /// Timings for one machine; see [`super::Config::fast`].
    pub(super) fn fast() -> Self {
        Self {
            gossip_interval: Duration::from_millis(200),
            notify_subscribers_interval: Duration::from_millis(50),
            delta_interval: Some(Duration::from_millis(50)),
            pruning_interval: Some(Duration::from_millis(2_000)),
            max_pruning_dissemination: Duration::from_millis(3_000),
            ..Self::default()
        }
    }

    /// The interval that [`Self::delta_interval`] means.
    #[must_use]
    pub fn delta_propagation_interval(&self) -> Duration {
        let default = (self.gossip_interval / 5).max(DELTA_INTERVAL_MIN);
        self.delta_interval.unwrap_or(default)
    }

    /// The time that a marker of a removed node lives at least.
    #[must_use]
    pub fn marker_life_min(&self) -> Duration {
        if self.durable_keys.is_empty() {
            return self.pruning_marker_time_to_live;
        }
        let durable = self.durable_pruning_marker_time_to_live;
        self.pruning_marker_time_to_live.min(durable)
    }

    /// Whether the store keeps the key.
    #[must_use]
    pub fn is_durable(&self, key: &Key) -> bool {
        self.durable_keys.iter().any(|pattern| pattern.matches(key))
    }

    /// After how long without use the key is forgotten; `None`: never.
    #[must_use]
    pub fn expires_after(&self, key: &Key) -> Option<Duration> {
        let rules = &self.expire_keys_after_inactivity;
        rules
            .iter()
            .find(|(pattern, _)| pattern.matches(key))
            .map(|(_, after)| *after)
    }

    pub(super) fn check(&self, frame_bytes_max: usize) -> Result<(), ConfigError> {
        positive("ddata.gossip_interval", self.gossip_interval)?;
        positive(
            "ddata.notify_subscribers_interval",
            self.notify_subscribers_interval,
        )?;
        if let Some(interval) = self.pruning_interval {
            positive("ddata.pruning_interval", interval)?;
        }
        bounded("ddata.max_pruning_dissemination", self.max_pruning_dissemination)?;
        positive(
            "ddata.pruning_marker_time_to_live",
            self.pruning_marker_time_to_live,
        )?;
        let durable = self.durable_pruning_marker_time_to_live;
        positive("ddata.durable_pruning_marker_time_to_live", durable)?;
        if let Some(interval) = self.delta_interval {
            positive("ddata.delta_interval", interval)?;
        }
        for (_, after) in &self.expire_keys_after_inactivity {
            positive("ddata.expire_keys_after_inactivity", *after)?;
        }
        if let Some(interval) = self.write_behind_interval {
            positive("ddata.write_behind_interval", interval)?;
        }
        bounded("ddata.clock_skew_max", self.clock_skew_max)?;
        at_least_one("ddata.log_data_size_exceeding", self.log_data_size_exceeding)?;
        at_least_one("ddata.subscribers_max", self.subscribers_max)?;
        at_least_one("ddata.open_operations_max", self.open_operations_max)?;
        self.check_sizes(frame_bytes_max)
    }

    fn check_sizes(&self, frame_bytes_max: usize) -> Result<(), ConfigError> {
        let few = 1..=10_000;
        let range = "1 to 10000";
        let elements = self.max_delta_elements;
        ensure(
            few.contains(&elements),
            "ddata.max_delta_elements",
            &elements,
            range,
        )?;
        let size = self.max_delta_size;
        ensure(few.contains(&size), "ddata.max_delta_size", &size, range)?;
        let keys = self.keys_max;
        ensure(
            (1..=1_000_000).contains(&keys),
            "ddata.keys_max",
            &keys,
            "1 to 1000000",
        )?;
        let value = self.value_bytes_max;
        ensure(
            (1 << 10..=8 << 20).contains(&value) && value <= frame_bytes_max / 2,
            "ddata.value_bytes_max",
            &value,
            "1024 to 8388608 bytes, and at most half of limits.bulk_frame_bytes_max",
        )?;
        ensure(
            self.bytes_max >= value,
            "ddata.bytes_max",
            &self.bytes_max,
            "at least ddata.value_bytes_max",
        )
    }
}
