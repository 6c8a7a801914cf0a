//! Limits on what peers and callers may send, each with its reason. Spec: reliability 3b.

use core::time::Duration;

/// Bounds that protect this node's memory and time. All are checked before anything is believed or allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Body bytes of a frame on the control lane (default 256 KiB, 1 KiB to 16 MiB): a full registration of 65,536
    /// shards still fits.
    pub control_frame_bytes_max: usize,
    /// Body bytes of a frame on the gossip lane (default 4 MiB, 1 KiB to 16 MiB): a state of `members_max` members fits.
    pub gossip_frame_bytes_max: usize,
    /// Body bytes of a frame on the user and reply lanes (default 4 MiB, 1 KiB to 16 MiB).
    pub user_frame_bytes_max: usize,
    /// Bytes a compressed gossip state may inflate to (default 4 MiB, 64 KiB to 64 MiB).
    pub decompressed_bytes_max: usize,
    /// Members of a cluster (default 10,000, 1 to 10,000).
    pub members_max: usize,
    /// Tombstones kept; at the cap the leader admits nobody (default 10,000, 1 to 10,000).
    pub tombstones_max: usize,
    /// Reachability records per member of the cluster, on average (default 16, >= 1).
    pub reachability_records_per_member_max: usize,
    /// Bytes of an entity's id (default 1024, 1 to 4096).
    pub entity_id_bytes_max: usize,
    /// How long a new link may take to finish its handshake (default 5 s, > 0).
    pub handshake_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            control_frame_bytes_max: 256 << 10,
            gossip_frame_bytes_max: 4 << 20,
            user_frame_bytes_max: 4 << 20,
            decompressed_bytes_max: 4 << 20,
            members_max: 10_000,
            tombstones_max: 10_000,
            reachability_records_per_member_max: 16,
            entity_id_bytes_max: 1024,
            handshake_timeout: Duration::from_secs(5),
        }
    }
}
