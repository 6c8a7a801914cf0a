//! Why a link was refused or closed, as a type, a counter and a log line in which a peer's bytes are escaped.
//! Spec: reliability 3b (logs), 3c, B-64.

use std::fmt;

use quorate_core::time::Instant;
use quorate_core::wire::WireError;
use quorate_core::wire::handshake::RejectReason;

use super::base::Base;
use crate::first_bytes::{is_noise, is_tls};
use crate::stats::LinkStats;
use crate::transport::{LinkKind, Unproved};

/// Most of a stranger's first bytes that a log line shows.
const SHOWN_BYTES_MAX: usize = 16;

/// Why a link was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// Its first bytes are no handshake.
    #[error("no handshake: {error}; it began with \"{}\"{}", .begin.escape_ascii(), hint(.begin))]
    NoHandshake { error: WireError, begin: Vec<u8> },
    /// The handshake is well-formed and its content does not fit.
    #[error("{0}")]
    Rejected(RejectReason),
    /// The handshake was not complete in time (B-11, B-12).
    #[error("the handshake was not complete in time")]
    Timeout,
    /// The link ended in the middle of its handshake (B-02).
    #[error("the link ended before its handshake was complete")]
    Incomplete,
    /// The transport does not believe the dialer, or the dialer does not believe this node.
    #[error("{0}")]
    Unproved(Unproved),
    /// The transport did not let it come as far as a link.
    #[error("{0}")]
    TurnedAway(String),
    /// Too many links in their handshake: this one was chosen to go (B-52).
    #[error("too many links are in their handshake")]
    TooManyPending,
    /// Strangers from this source have broken the protocol too often.
    #[error("strangers from there break the protocol")]
    Unruly,
    /// Bytes came behind the handshake before it was answered.
    #[error("bytes came before the handshake was answered")]
    TooEager,
    /// A link of the same peer and kind with a newer epoch is already there.
    #[error("a newer link of this peer is open")]
    OldEpoch,
}

/// Names the usual strangers (B-04).
fn hint(begin: &[u8]) -> &'static str {
    const METHODS: [&[u8]; 5] = [b"GET ", b"POST", b"HEAD", b"PUT ", b"PRI "];
    if is_tls(begin) {
        return " (a TLS client)";
    }
    if is_noise(begin) {
        return " (a node with a pre-shared key)";
    }
    if METHODS.iter().any(|method| begin.starts_with(method)) {
        return " (an HTTP client)";
    }
    ""
}

impl Refusal {
    pub(crate) fn no_handshake(error: WireError, bytes: &[u8]) -> Self {
        Self::NoHandshake {
            error,
            begin: bytes.iter().copied().take(SHOWN_BYTES_MAX).collect(),
        }
    }

    fn count(&self, stats: &mut LinkStats) {
        stats.handshakes_refused += 1;
        let counter = match self {
            Self::NoHandshake { error, .. } => match error {
                WireError::BadMagic => &mut stats.refused_bad_magic,
                WireError::TooLarge { .. } => &mut stats.refused_too_large,
                _ => &mut stats.refused_malformed,
            },
            Self::Rejected(reason) => match reason {
                RejectReason::Version => &mut stats.refused_version,
                RejectReason::WrongCluster => &mut stats.refused_cluster,
                RejectReason::WrongAddress | RejectReason::DuplicateUid => &mut stats.refused_address,
                RejectReason::WrongIncarnation { .. } => &mut stats.refused_incarnation,
                RejectReason::Quarantined => &mut stats.refused_quarantined,
                RejectReason::TooManyLinks => &mut stats.refused_too_many,
                RejectReason::AuthMethod => &mut stats.refused_auth_method,
                RejectReason::Unauthenticated | RejectReason::WrongIdentity => {
                    &mut stats.refused_unauthenticated
                }
                _ => &mut stats.refused_other,
            },
            Self::Unproved(_) | Self::TurnedAway(_) => &mut stats.refused_unauthenticated,
            Self::Timeout => &mut stats.refused_timeout,
            Self::Incomplete | Self::TooEager => &mut stats.refused_malformed,
            Self::TooManyPending => &mut stats.refused_too_many,
            Self::Unruly => &mut stats.refused_unruly,
            Self::OldEpoch => &mut stats.refused_other,
        };
        *counter += 1;
    }
}

/// Lets a few lines per second through: whoever can make a node log can otherwise fill its disk.
#[derive(Debug)]
pub(crate) struct LogLimit {
    lines_max: u32,
    second: u64,
    lines: u32,
    left_out: u64,
    /// Lines that were left out since the node started.
    pub(crate) left_out_ever: u64,
}

impl LogLimit {
    pub(crate) const fn new(lines_max: u32) -> Self {
        Self {
            lines_max,
            second: 0,
            lines: 0,
            left_out: 0,
            left_out_ever: 0,
        }
    }

    /// Whether a line may be written, and how many were left out before it.
    pub(crate) fn take_line(&mut self, now: Instant) -> Option<u64> {
        let second = now.as_micros() / 1_000_000;
        if second != self.second {
            (self.second, self.lines) = (second, 0);
        }
        if self.lines >= self.lines_max {
            self.left_out += 1;
            self.left_out_ever += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Counts a refusal and says it in the log.
pub(crate) fn refuse(
    refusal: &Refusal,
    from: &dyn fmt::Display,
    stats: &mut LinkStats,
    log: &mut LogLimit,
    now: Instant,
) {
    refusal.count(stats);
    let Some(left_out) = log.take_line(now) else {
        return;
    };
    // A peer that has not heard of a restart: a cluster's life, and nobody's fault.
    if let Refusal::Rejected(RejectReason::WrongIncarnation { .. }) = refusal {
        tracing::info!(
            target: "cluster::transport", event = "handshake_refused", %from, left_out, "{refusal}"
        );
    } else {
        tracing::warn!(
            target: "cluster::transport", event = "handshake_refused", %from, left_out, "{refusal}"
        );
    }
}

/// Says in the log that an open link was closed because of what the peer did.
pub(crate) fn violation(what: &dyn fmt::Display, peer: &dyn fmt::Display, log: &mut LogLimit, now: Instant) {
    if let Some(left_out) = log.take_line(now) {
        tracing::warn!(target: "cluster::transport", event = "link_closed", %peer, left_out, "{what}");
    }
}

/// Counts an open link that could not be renewed in time and goes on, and says it in the log.
pub(crate) fn kept(base: &mut Base, peer: &dyn fmt::Display, kind: LinkKind) {
    base.stats.links_kept += 1;
    if let Some(left_out) = base.log.take_line(base.now.mono) {
        tracing::warn!(
            target: "cluster::transport", event = "link_kept", %peer, ?kind, left_out,
            "a link was not renewed in time, and goes on because what its peer proved still holds"
        );
    }
}

/// Counts an open link that was not renewed in time and ends, and says it in the log.
pub(crate) fn expired(base: &mut Base, peer: &dyn fmt::Display, kind: LinkKind, why: &str) {
    base.stats.links_expired += 1;
    if let Some(left_out) = base.log.take_line(base.now.mono) {
        tracing::warn!(
            target: "cluster::transport", event = "link_expired", %peer, ?kind, left_out,
            "a link was not renewed in time: {why}"
        );
    }
}

/// Whether a peer that says this does not want this node, as it is, any more.
pub(crate) const fn is_final(reason: RejectReason) -> bool {
    match reason {
        RejectReason::WrongIncarnation { .. }
        | RejectReason::Quarantined
        | RejectReason::WrongCluster
        | RejectReason::WrongAddress
        | RejectReason::Unauthenticated
        | RejectReason::WrongIdentity
        | RejectReason::DuplicateUid => true,
        RejectReason::TooManyLinks
        | RejectReason::ShuttingDown
        | RejectReason::Version
        | RejectReason::AuthMethod
        | RejectReason::Features => false,
        // What a later version refuses.
        _ => false,
    }
}

/// Whether somebody has to set something right. The other reasons are a cluster's life: restarts, departures, races.
pub(crate) const fn is_mistake(reason: RejectReason) -> bool {
    match reason {
        RejectReason::WrongIncarnation { .. }
        | RejectReason::Quarantined
        | RejectReason::TooManyLinks
        | RejectReason::ShuttingDown => false,
        RejectReason::Version
        | RejectReason::WrongCluster
        | RejectReason::WrongAddress
        | RejectReason::AuthMethod
        | RejectReason::Unauthenticated
        | RejectReason::WrongIdentity
        | RejectReason::DuplicateUid
        | RejectReason::Features => true,
        // What a later version refuses.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_64_a_strangers_bytes_are_escaped_and_cut() {
        let refusal = Refusal::no_handshake(WireError::BadMagic, b"\x1b[2J\nroot logged in: all is well");
        let line = refusal.to_string();
        assert!(line.contains("\\x1b[2J\\n"), "{line}");
        assert!(
            line.bytes().all(|b| (b' '..0x7f).contains(&b)) && line.len() < 120,
            "{line}"
        );
    }

    #[test]
    fn b_04_the_usual_strangers_are_named() {
        let shown = |bytes: &[u8]| Refusal::no_handshake(WireError::BadMagic, bytes).to_string();
        assert!(shown(b"GET / HTTP/1.1\r\n").contains("(an HTTP client)"));
        assert!(shown(&[0x16, 0x03, 0x01, 0x02]).contains("(a TLS client)"));
        assert!(shown(b"Qrn1").contains("(a node with a pre-shared key)"));
    }

    #[test]
    fn the_log_gets_ten_lines_per_second_and_the_number_left_out() {
        let mut log = LogLimit::new(10);
        let lines = (0..100)
            .filter(|_| log.take_line(Instant::from_millis(1)).is_some())
            .count();
        assert_eq!(lines, 10);
        assert_eq!(log.take_line(Instant::from_millis(1_001)), Some(90));
        assert_eq!(log.left_out_ever, 90);
    }
}
