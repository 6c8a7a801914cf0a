//! The bounds of links that nobody needs to change, with their reasons. The others are settings,
//! [`LinkLimits`](crate::LinkLimits), and what counts against each is in `docs/limits.md`. Spec: reliability
//! 3b.

use core::time::Duration;

/// A peer that took nothing for so long loses the right to slow this node's senders down; its queue fills and
/// rejects.
pub const SLOW_PEER_PATIENCE: Duration = Duration::from_millis(250);

/// Encoded bytes that one link gathers while the bytes before them are being written. Beyond it messages wait
/// unencoded, where they can still be shed or rejected, and a heartbeat never has more than twice this in
/// front of it. A host on slow lines takes less: [`Links::gathering`](crate::Links::gathering).
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

/// How often one address is asked at once about second links in its node's name: about one of each kind, and
/// one more for somebody who lies.
pub(crate) const QUESTIONS_MAX: usize = 4;

/// How often idle links of strangers are looked for.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Bytes by which an unfinished frame must grow within the handshake limit; a slower one is a peer that
/// dribbles.
pub(crate) const STALL_PROGRESS_BYTES: u64 = 16 << 10;

/// Frames with a wrong checksum are counted for so long (B-14).
pub(crate) const CHECKSUM_WINDOW: Duration = Duration::from_secs(10);

/// Frames of one user link before the next one has its turn.
pub(crate) const FRAMES_PER_LINK_TURN: usize = 64;

/// Frames of user links in one turn of a [`LinkedNode`](crate::LinkedNode): a quarter of a millisecond, so
/// that a heartbeat never waits longer than that for its turn.
pub(crate) const FRAMES_PER_TURN: usize = 256;

/// A reader's buffer at first: a handshake and a few heartbeats.
pub const READ_BYTES_MIN: usize = 4 << 10;

/// A reader's buffer at most; it doubles whenever a read fills it and there is room. Anchor: I-91 allows 64
/// KiB beside two frames.
pub const READ_BYTES_MAX: usize = 64 << 10;
