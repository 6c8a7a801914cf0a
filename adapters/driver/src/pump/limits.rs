//! Every bound of the pump, with its reason. Spec: reliability 3b.

use std::time::Duration;

/// Links a node holds at once, handshakes included: two each way to a thousand peers. Anchor: reliability 3b.
pub(crate) const LINKS_MAX: usize = 4_096;

/// Links from one source that have not finished their handshake: a node behind an address translator restarts with its
/// neighbours; more than that is a flood.
pub(crate) const PENDING_PER_SOURCE_MAX: usize = 16;

/// Messages on the control lane that wait for one peer: minutes of heartbeats, or the shard traffic of a full
/// registration. A peer that lets more pile up is not keeping up with membership: its link is closed.
pub(crate) const CONTROL_QUEUE_MAX: usize = 20_000;

/// Gossip messages that wait for one peer. A newer state makes an older one worthless, so the oldest goes.
pub(crate) const GOSSIP_QUEUE_MAX: usize = 16;

/// Answers that wait for one peer: as many asks as one node may have open.
pub(crate) const REPLY_QUEUE_MAX: usize = 100_000;

/// Payload bytes of answers that wait for one peer.
pub(crate) const REPLY_QUEUE_BYTES_MAX: usize = 64 << 20;

/// Messages to entities that wait for one peer. Past it the newest is rejected. Anchor: reliability 3b.
pub(crate) const USER_QUEUE_MAX: usize = 3_072;

/// Payload bytes of messages to entities that wait for one peer: four frames of the largest size.
pub(crate) const USER_QUEUE_BYTES_MAX: usize = 16 << 20;

/// From this length on the queue slows this node's own senders down instead of filling up.
pub(crate) const USER_QUEUE_SLOW: usize = USER_QUEUE_MAX / 2;

/// The same in bytes.
pub(crate) const USER_QUEUE_BYTES_SLOW: usize = USER_QUEUE_BYTES_MAX / 2;

/// A peer that took nothing for so long loses the right to slow this node's senders down; its queue fills and rejects.
pub(crate) const SLOW_PEER_PATIENCE: Duration = Duration::from_millis(250);

/// Encoded bytes that one link gathers while the bytes before them are being written. Beyond it messages wait unencoded,
/// where they can still be shed or rejected, and a heartbeat never has more than twice this in front of it.
pub(crate) const OUT_BYTES_MAX: usize = 256 << 10;

/// A write buffer larger than this is not kept.
pub(crate) const BUFFER_BYTES_KEPT_MAX: usize = 1 << 20;

/// Dials in a row that may fail before messages come back as unreachable: a restarting process misses two.
pub(crate) const DIALS_BEFORE_UNREACHABLE: u32 = 3;

/// Pause after the first failed dial; doubled by each further one.
pub(crate) const DIAL_BACKOFF_MIN: Duration = Duration::from_millis(50);

/// Longest pause between two dials: a healed network is noticed within a second.
pub(crate) const DIAL_BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Incarnations refused for good. The core keeps as many tombstones; the oldest is forgotten first.
pub(crate) const QUARANTINE_MAX: usize = 10_000;

/// A link of a node that is no member is closed after so long without a byte. Anchor: reliability 3b.
pub(crate) const STRANGER_IDLE: Duration = Duration::from_secs(60);

/// How often idle links of strangers are looked for.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Bytes by which an unfinished frame must grow within the handshake limit; a slower one is a peer that dribbles.
pub(crate) const STALL_PROGRESS_BYTES: u64 = 16 << 10;

/// Frames with a wrong checksum within [`CHECKSUM_WINDOW`] that close a link (B-14).
pub(crate) const CHECKSUM_FAILURES_MAX: u32 = 3;

/// See [`CHECKSUM_FAILURES_MAX`].
pub(crate) const CHECKSUM_WINDOW: Duration = Duration::from_secs(10);

/// Things a node hears back about one drained batch of effects before it turns to the sockets again.
pub(crate) const FEEDBACK_PER_TURN: usize = 1_024;

/// Reports of entities in one turn: about as long as a batch of messages takes.
pub(crate) const REPORTS_PER_TURN: usize = 1_024;

/// Frames of one user link before the next one has its turn.
pub(crate) const FRAMES_PER_LINK_TURN: usize = 64;

/// Log lines per second about peers that do wrong (reliability 3b).
pub(crate) const LOG_LINES_PER_SECOND: u32 = 10;
