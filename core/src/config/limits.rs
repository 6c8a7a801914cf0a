//! Limits on what peers and callers may send, each with its reason. Those on links and their queues are in
//! `quorate-links`. Spec: reliability 3b; what counts against each: `docs/limits.md`.

/// Bounds that protect this node's memory and time. All are checked before anything is believed or allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Body bytes of a frame on the control lane (default 256 KiB, 1 KiB to 16 MiB): a full registration of
    /// 65,536 shards still fits.
    pub control_frame_bytes_max: usize,
    /// Body bytes of a frame on the gossip lane (default 4 MiB, 8 KiB to 16 MiB): a state of `members_max`
    /// members fits. The least value fits about fifteen members.
    pub gossip_frame_bytes_max: usize,
    /// Body bytes of a frame on the user and reply lanes (default 4 MiB, 1 KiB to 16 MiB).
    pub user_frame_bytes_max: usize,
    /// Body bytes of a frame on the bulk lane (default 4 MiB, 1 KiB to 16 MiB): replicated values and parts
    /// of a state.
    pub bulk_frame_bytes_max: usize,
    /// Bytes a compressed gossip state may inflate to (default 4 MiB, 64 KiB to 64 MiB).
    pub decompressed_bytes_max: usize,
    /// Gossip states from this size on are compressed for sending, where that saves bytes (default 4096
    /// bytes, any number; more than `decompressed_bytes_max` means never).
    pub compress_from_bytes: usize,
    /// Members of a cluster (default 10,000, 1 to 10,000).
    pub members_max: usize,
    /// Tombstones kept; at the cap the leader admits nobody (default 10,000, 1 to 10,000).
    pub tombstones_max: usize,
    /// Reachability records per member of the cluster, on average (default 16, >= 1).
    pub reachability_records_per_member_max: usize,
    /// Bytes of an entity's id (default 1024, 1 to 4096).
    pub entity_id_bytes_max: usize,
    /// Log lines per second about misbehaving peers (default 10, 1 to 10,000). The next line says how many
    /// were left out.
    pub log_lines_per_second_max: u32,
}

/// Bytes of a frame around an envelope's payload and entity id (kind, shard, asker with its longest host
/// name, numbers, the names of those who wait), or around an answer's payload, which has fewer.
const ENVELOPE_BYTES_MAX: usize = 384;

impl Limits {
    /// Most payload bytes of a message, its entity's id included, or of an answer, that surely fit into a
    /// user frame.
    #[must_use]
    pub const fn payload_bytes_max(&self) -> usize {
        self.user_frame_bytes_max.saturating_sub(ENVELOPE_BYTES_MAX)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            control_frame_bytes_max: 256 << 10,
            gossip_frame_bytes_max: 4 << 20,
            user_frame_bytes_max: 4 << 20,
            bulk_frame_bytes_max: 4 << 20,
            decompressed_bytes_max: 4 << 20,
            compress_from_bytes: 4096,
            members_max: 10_000,
            tombstones_max: 10_000,
            reachability_records_per_member_max: 16,
            entity_id_bytes_max: 1024,
            log_lines_per_second_max: 10,
        }
    }
}
