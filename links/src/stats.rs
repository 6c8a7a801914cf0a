//! What links show of themselves: counters, and the links that this node dials. Decides nothing.

use quorate_core::ident::Address;
use quorate_core::wire::handshake::LinkKind;

/// What has been counted since the links were made; gauges say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name says what is counted")]
#[non_exhaustive]
pub struct LinkStats {
    pub handshakes_completed: u64,
    pub handshakes_refused: u64,
    pub refused_bad_magic: u64,
    pub refused_malformed: u64,
    pub refused_too_large: u64,
    pub refused_version: u64,
    pub refused_cluster: u64,
    pub refused_address: u64,
    pub refused_incarnation: u64,
    pub refused_quarantined: u64,
    pub refused_too_many: u64,
    pub refused_auth_method: u64,
    pub refused_unauthenticated: u64,
    pub refused_timeout: u64,
    pub refused_other: u64,
    /// Strangers from a source whose strangers broke the protocol too often within the last minute.
    pub refused_unruly: u64,
    /// Second links of a peer and kind that the peer did not confirm.
    pub refused_unconfirmed: u64,
    /// Those that it did.
    pub links_confirmed: u64,
    /// Links that were replaced before they were too old.
    pub links_renewed: u64,
    /// Successors that could not be opened; their links went on.
    pub renewals_failed: u64,
    /// Links whose last bytes the peer did not read in time when they were replaced; those may be lost.
    pub renewals_cut_short: u64,
    /// Links that could not be renewed in time, at either end, and went on because what the peer had proved
    /// still held.
    pub links_kept: u64,
    /// Links that ended, at either end, because they were too old, had no successor and what the peer had
    /// proved held no longer.
    pub links_expired: u64,
    /// Heartbeats sent beside the control link's stream, where the transport has a way for that.
    pub heartbeats_in_datagrams: u64,
    /// Heartbeats that would not fit there, or whose receiver takes no datagrams: sent over the stream.
    pub heartbeats_over_stream: u64,
    pub dials: u64,
    pub dials_failed: u64,
    /// Dials that reached somebody who refused this node, or whom this node refused.
    pub dials_refused: u64,
    pub links_closed_for_violation: u64,
    pub links_closed_for_stalled_frame: u64,
    pub links_closed_for_control_overflow: u64,
    pub links_closed_for_checksums: u64,
    pub links_closed_for_rate: u64,
    pub frames_too_large: u64,
    pub gossip_frames_beyond_rate: u64,
    pub control_frames_beyond_rate: u64,
    /// Gossip that had waited for longer than its time to live when it would have been handled.
    pub gossip_frames_stale: u64,
    /// How often a link had to wait for room in the budget of inbound bytes.
    pub inbound_waits: u64,
    pub strangers_closed_for_idling: u64,
    /// Links of nodes that are no members and did not ask to join in time.
    pub strangers_closed_unasked: u64,
    /// Links of nodes that are no members, closed to make room for others of them.
    pub strangers_displaced: u64,
    /// Frames of nodes that are no members, too large for what they may say: thrown away as they came.
    pub stranger_frames_skipped: u64,
    pub frames_received: u64,
    pub frames_sent: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    pub frames_skipped: u64,
    pub frames_of_old_epoch: u64,
    pub gossip_shed: u64,
    pub dropped_queue_full: u64,
    pub dropped_unreachable: u64,
    pub dropped_too_large: u64,
    /// Messages that went on waiting in the node because a queue was full.
    pub offers_refused: u64,
    pub user_reads_paused: u64,
    /// Reports that nobody took in time.
    pub reports_left_out: u64,
    /// Gauge: bytes drawn from the budget of inbound bytes.
    pub inbound_bytes_held: u64,
    /// Gauge: links that are open, handshakes included.
    pub links_open: u64,
    /// Gauge: links that peers opened and that have not finished their handshake.
    pub handshakes_pending: u64,
    /// Gauge: links that nodes opened which are no members.
    pub stranger_links: u64,
}

/// One of the links that this node dials, two per peer. A copy of the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkState {
    /// Where to.
    pub peer: Address,
    /// What it is for.
    pub kind: LinkKind,
    /// Whether it is open.
    pub is_open: bool,
    /// Handshakes that have opened it, its renewals included.
    pub handshakes: u64,
}
