//! Limits on what peers and callers may send, each with its reason. Those on links and queues are the host's to keep: the
//! core holds neither. Spec: reliability 3b; what counts against each: `docs/limits.md`.

use core::time::Duration;

/// Bounds that protect this node's memory and time. All are checked before anything is believed or allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Body bytes of a frame on the control lane (default 256 KiB, 1 KiB to 16 MiB): a full registration of 65,536
    /// shards still fits.
    pub control_frame_bytes_max: usize,
    /// Body bytes of a frame on the gossip lane (default 4 MiB, 8 KiB to 16 MiB): a state of `members_max` members fits. In the
    /// least, about fifteen members fit beside the room for one more.
    pub gossip_frame_bytes_max: usize,
    /// Body bytes of a frame on the user and reply lanes (default 4 MiB, 1 KiB to 16 MiB).
    pub user_frame_bytes_max: usize,
    /// Body bytes of a frame on the bulk lane (default 4 MiB, 1 KiB to 16 MiB): replicated values and parts of a state.
    pub bulk_frame_bytes_max: usize,
    /// Bytes a compressed gossip state may inflate to (default 4 MiB, 64 KiB to 64 MiB).
    pub decompressed_bytes_max: usize,
    /// Gossip states from this size on are compressed for sending, where that saves bytes (default 4096 bytes, any number;
    /// more than `decompressed_bytes_max` means never): below, deflate costs more than the bytes it saves.
    pub compress_from_bytes: usize,
    /// Members of a cluster (default 10,000, 1 to 10,000).
    pub members_max: usize,
    /// Tombstones kept; at the cap the leader admits nobody (default 10,000, 1 to 10,000).
    pub tombstones_max: usize,
    /// Reachability records per member of the cluster, on average (default 16, >= 1).
    pub reachability_records_per_member_max: usize,
    /// Bytes of an entity's id (default 1024, 1 to 4096).
    pub entity_id_bytes_max: usize,
    /// How long a new link may take to finish its handshake (default 5 s, > 0); then, how long the link of a node that is no
    /// member stays open if it does not ask to join.
    pub handshake_timeout: Duration,
    /// Links that members may open to this node (default 4,096, 16 to 65,536): two of a thousand peers, twice over, or
    /// three each of 680 that send bulk data. Only members
    /// take these places.
    pub links_max: usize,
    /// Links of all sources that have not finished their handshake (default 512, 16 to 65,536). They take no place from
    /// members; past it one of the source with the most of them goes, at random.
    pub pending_handshakes_max: usize,
    /// Links from one source that have not finished their handshake (default 16, 1 to 4,096): a node behind an address
    /// translator restarts with its neighbours; more is a flood, and one of them goes, at random. Not for a source from which a
    /// member has a link: who is behind it is judged by what it proves.
    pub pending_handshakes_per_source_max: usize,
    /// Links of nodes that have finished their handshake and are no members (default 256, 16 to 65,536): joiners, above all.
    /// Past it one of the source with the most of them goes, at random.
    pub stranger_links_max: usize,
    /// The same from one source (default 8, 1 to 4,096), unless a member has a link from there.
    pub stranger_links_per_source_max: usize,
    /// The link of a joiner that is not taken in is closed after so long without a byte (default 60 s, > 0).
    pub stranger_idle_timeout: Duration,
    /// How old a link with certificates or keys may become (default 1 h, 1 s to 30 days). Before that its dialer replaces it,
    /// with what both ends prove themselves with at that time, and no message is lost; one that could not be replaced goes on only
    /// while what its peer proved holds, checked again as it stands then, and is cut by both ends otherwise, `handshake_timeout`
    /// later. Costs a handshake per link and age. Links that prove nothing live on.
    pub max_link_age: Duration,
    /// Bytes that all accepted links together hold of what they received and nobody has used: read buffers and frames whose
    /// end has not come (default 48 MiB, 1 MiB to 1 GiB, and at least twice the largest frame). A link that finds nothing
    /// left is not read until there is room.
    pub inbound_bytes_max: usize,
    /// Gossip frames per second from one peer, in bursts of at most one second's (default 200, 10 to 1,000,000). What is
    /// beyond is dropped.
    pub gossip_frames_per_second_max: u32,
    /// Control frames per second from one peer, in bursts of at most ten seconds' (default 2,000, 100 to 1,000,000): a
    /// sender's whole control queue passes. What is beyond is dropped; the last tenth is for heartbeats.
    pub control_frames_per_second_max: u32,
    /// Bytes of control and gossip frames per second from one peer, in bursts of at most one second's (default 64 MiB, 16 MiB
    /// to 1 GiB). What is beyond is dropped. Entity messages have back-pressure instead.
    pub control_bytes_per_second_max: usize,
    /// A peer that has been beyond one of its rates for so long, without a second's pause, loses its link (default 10 s, > 0).
    pub rate_exceeded_patience: Duration,
    /// Frames with a wrong checksum within ten seconds that close a link (default 3, 1 to 1,000).
    pub checksum_failures_max: u32,
    /// Control messages that wait for one peer (default 20,000, >= 100): minutes of heartbeats, or the shard traffic of a full
    /// registration. Past it the peer does not keep up with membership, and its link is closed.
    pub control_queue_messages_max: usize,
    /// Gossip messages that wait for one peer (default 16, >= 1). Past it the oldest is dropped: a newer state is worth more.
    pub gossip_queue_messages_max: usize,
    /// Answers that wait for one peer (default 100,000, >= 1): as many as asks may be open. Past it the newest is dropped.
    pub reply_queue_messages_max: usize,
    /// Payload bytes of answers that wait for one peer (default 64 MiB, >= 1).
    pub reply_queue_bytes_max: usize,
    /// Messages to entities that wait for one peer (default 3,072, >= 2). From half of it senders are slowed down; past it the
    /// newest is rejected.
    pub user_queue_messages_max: usize,
    /// Payload bytes of messages to entities that wait for one peer (default 16 MiB, >= 2): four frames of the largest size.
    pub user_queue_bytes_max: usize,
    /// Bulk messages that wait for one peer (default 1,024, >= 2): a round of replicated data. Past it the newest is given
    /// back to the machine that sent it, which sends it again later: what waits longer than a round is overtaken anyway.
    pub bulk_queue_messages_max: usize,
    /// Payload bytes of bulk messages that wait for one peer (default 16 MiB, >= 2): four frames of the largest size, a
    /// second's worth of a slow line.
    pub bulk_queue_bytes_max: usize,
    /// Log lines per second about peers that do wrong (default 10, 1 to 10,000). The next line says how many were left out.
    pub log_lines_per_second_max: u32,
}

/// Bytes of a frame around an envelope's payload and entity id (kind, shard, asker with its longest host name, numbers), or
/// around an answer's payload, which has fewer.
const ENVELOPE_BYTES_MAX: usize = 256;

impl Limits {
    /// Most payload bytes of a message, its entity's id included, or of an answer, that surely fit into a user frame.
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
            handshake_timeout: Duration::from_secs(5),
            links_max: 4_096,
            pending_handshakes_max: 512,
            pending_handshakes_per_source_max: 16,
            stranger_links_max: 256,
            stranger_links_per_source_max: 8,
            stranger_idle_timeout: Duration::from_secs(60),
            max_link_age: Duration::from_secs(3_600),
            inbound_bytes_max: 48 << 20,
            gossip_frames_per_second_max: 200,
            control_frames_per_second_max: 2_000,
            control_bytes_per_second_max: 64 << 20,
            rate_exceeded_patience: Duration::from_secs(10),
            checksum_failures_max: 3,
            control_queue_messages_max: 20_000,
            gossip_queue_messages_max: 16,
            reply_queue_messages_max: 100_000,
            reply_queue_bytes_max: 64 << 20,
            user_queue_messages_max: 3_072,
            user_queue_bytes_max: 16 << 20,
            bulk_queue_messages_max: 1_024,
            bulk_queue_bytes_max: 16 << 20,
            log_lines_per_second_max: 10,
        }
    }
}
