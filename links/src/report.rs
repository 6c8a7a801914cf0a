//! What people may want to read about links: why one was refused or closed, as a type, a counter and a text
//! in which a peer's bytes are escaped. Writes no log. Spec: reliability 3b (logs), 3c, B-64.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::wire::WireError;
use quorate_core::wire::handshake::{LinkKind, RejectReason};

use crate::crowd::Source;
use crate::first_bytes::{is_noise, is_tls};
use crate::stats::LinkStats;

/// Reports that wait for a host to take them: more than a turn has, unless strangers make them.
const REPORTS_WAITING_MAX: usize = 1_024;

/// Most of a stranger's first bytes that a log line shows.
const SHOWN_BYTES_MAX: usize = 16;

/// Why a link was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkRefusal {
    /// Its first bytes are no handshake.
    #[error("no handshake: {error}; it began with \"{}\"{}", .begin.escape_ascii(), hint(.begin))]
    NoHandshake {
        /// What is wrong with them.
        error: WireError,
        /// The first of them.
        begin: Vec<u8>,
    },
    /// The handshake is well-formed and its content does not fit.
    #[error("{0}")]
    Rejected(RejectReason),
    /// The handshake was not complete in time (B-11, B-12).
    #[error("the handshake did not complete in time")]
    Timeout,
    /// The link ended in the middle of its handshake (B-02).
    #[error("the link ended before its handshake was complete")]
    Incomplete,
    /// The transport does not believe the dialer, or the dialer does not believe this node.
    #[error("{0}")]
    Unproved(String),
    /// The transport did not let it come as far as a link.
    #[error("{0}")]
    TurnedAway(String),
    /// Too many links in their handshake: this one was chosen to go (B-52).
    #[error("too many links are in the handshake")]
    TooManyPending,
    /// Strangers from this source have broken the protocol too often.
    #[error("too many protocol violations from this source")]
    Unruly,
    /// Bytes came behind the handshake before it was answered.
    #[error("bytes came before the handshake was answered")]
    TooEager,
    /// The node in whose name it came has another link of its kind, and did not say that this one is its own.
    #[error("the peer has another link, and did not confirm this one")]
    Unconfirmed,
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

impl LinkRefusal {
    pub(crate) fn no_handshake(error: WireError, bytes: &[u8]) -> Self {
        Self::NoHandshake {
            error,
            begin: bytes.iter().copied().take(SHOWN_BYTES_MAX).collect(),
        }
    }

    pub(crate) fn count(&self, stats: &mut LinkStats) {
        stats.handshakes_refused += 1;
        let counter = match self {
            Self::NoHandshake { error, .. } => match error {
                WireError::BadMagic => &mut stats.refused_bad_magic,
                WireError::TooLarge { .. } => &mut stats.refused_too_large,
                WireError::UnsupportedVersion { .. }
                | WireError::UnknownKind { .. }
                | WireError::Checksum
                | WireError::Incomplete
                | WireError::Malformed { .. }
                | WireError::NonCanonical { .. }
                | WireError::TrailingBytes
                | WireError::LimitExceeded { .. }
                | WireError::DanglingIndex { .. }
                | WireError::Duplicate { .. }
                | WireError::Compression
                | WireError::BadEntityId { .. }
                | WireError::Unencodable { .. } => &mut stats.refused_malformed,
                // What a later version of the core finds.
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
                RejectReason::Features
                | RejectReason::NotOpening
                | RejectReason::ShuttingDown
                | RejectReason::Other { .. } => &mut stats.refused_other,
                // What a later version of the core refuses.
                _ => &mut stats.refused_other,
            },
            Self::Unproved(_) | Self::TurnedAway(_) => &mut stats.refused_unauthenticated,
            Self::Timeout => &mut stats.refused_timeout,
            Self::Incomplete | Self::TooEager => &mut stats.refused_malformed,
            Self::TooManyPending => &mut stats.refused_too_many,
            Self::Unruly => &mut stats.refused_unruly,
            Self::Unconfirmed => &mut stats.refused_unconfirmed,
            Self::OldEpoch => &mut stats.refused_other,
        };
        *counter += 1;
    }
}

/// Whom a report is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReportParty {
    /// A node that has said who it is.
    Node(UniqueAddress),
    /// Whoever lives there.
    Address(Address),
    /// Somebody from there who has said nothing yet.
    Source(Source),
    /// Somebody whom the transport has turned away.
    Unknown,
}

impl fmt::Display for ReportParty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => node.fmt(f),
            Self::Address(address) => address.fmt(f),
            Self::Source(source) => source.fmt(f),
            Self::Unknown => f.write_str("the port"),
        }
    }
}

/// Something that people may want to read about a link. Strangers can cause as many as they like: a host that
/// writes them down limits how many lines it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkReport {
    /// A link that somebody opened was refused.
    Refused {
        /// Who opened it.
        from: ReportParty,
        /// Why.
        refusal: LinkRefusal,
    },
    /// An open link was closed because of what the peer did.
    Closed {
        /// The peer.
        peer: ReportParty,
        /// What it did.
        why: String,
    },
    /// A dial was refused by either side, and somebody has to set something right.
    DialRefused {
        /// Whom this node dialed.
        to: Address,
        /// What for.
        kind: LinkKind,
        /// Why.
        why: String,
    },
    /// A dial failed; it is tried again while there is something to send.
    DialFailed {
        /// Whom this node dialed.
        to: Address,
        /// What for.
        kind: LinkKind,
        /// How many in a row.
        failures: u32,
        /// Why.
        why: String,
    },
    /// The successor of a link could not be opened; the link goes on, and it is tried again.
    RenewalFailed {
        /// Whom this node dialed.
        to: Address,
        /// What for.
        kind: LinkKind,
        /// Why.
        why: String,
    },
    /// A link that this node dialed is open.
    Opened {
        /// The peer.
        peer: UniqueAddress,
        /// What for.
        kind: LinkKind,
        /// Its number among the links of this node.
        epoch: u32,
    },
    /// A link that a peer dialed is open.
    Accepted {
        /// The peer.
        peer: UniqueAddress,
        /// What for.
        kind: LinkKind,
        /// Its number among the links of the peer.
        epoch: u32,
    },
    /// A link has a successor.
    Renewed {
        /// Whom this node dialed.
        to: Address,
        /// What for.
        kind: LinkKind,
        /// The successor's number.
        epoch: u32,
    },
    /// A link was not renewed in time, and goes on because what its peer proved still holds.
    Kept {
        /// The peer.
        peer: UniqueAddress,
        /// What for.
        kind: LinkKind,
    },
    /// A link was not renewed in time, and has ended.
    Expired {
        /// The peer.
        peer: UniqueAddress,
        /// What for.
        kind: LinkKind,
        /// Why it may not go on.
        why: String,
    },
    /// Links from and to this incarnation are refused from now on.
    Quarantined {
        /// Who.
        node: UniqueAddress,
    },
}

/// What waits to be taken. Past its bound the newest is left out and counted: a host that never looks holds
/// little.
#[derive(Debug, Default)]
pub(crate) struct LinkReports(VecDeque<LinkReport>);

impl LinkReports {
    pub(crate) fn push(&mut self, report: LinkReport, stats: &mut LinkStats) {
        if self.0.len() < REPORTS_WAITING_MAX {
            self.0.push_back(report);
        } else {
            stats.reports_left_out += 1;
        }
    }

    pub(crate) fn pop(&mut self) -> Option<LinkReport> {
        self.0.pop_front()
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
        | RejectReason::NotOpening
        | RejectReason::Features => false,
        // What a later version refuses.
        RejectReason::Other { .. } => false,
        _ => false,
    }
}

/// Whether somebody has to set something right. The other reasons are a cluster's life: restarts, departures,
/// races.
pub(crate) const fn is_mistake(reason: RejectReason) -> bool {
    match reason {
        RejectReason::WrongIncarnation { .. }
        | RejectReason::Quarantined
        | RejectReason::TooManyLinks
        | RejectReason::NotOpening
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
        RejectReason::Other { .. } => true,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn b_64_a_strangers_bytes_are_escaped_and_cut() {
        let refusal = LinkRefusal::no_handshake(WireError::BadMagic, b"\x1b[2J\nroot logged in: all is well");
        let line = refusal.to_string();
        assert!(line.contains("\\x1b[2J\\n"), "{line}");
        assert!(
            line.bytes().all(|b| (b' '..0x7f).contains(&b)) && line.len() < 120,
            "{line}"
        );
    }

    #[test]
    fn b_04_the_usual_strangers_are_named() {
        let shown = |bytes: &[u8]| LinkRefusal::no_handshake(WireError::BadMagic, bytes).to_string();
        assert!(shown(b"GET / HTTP/1.1\r\n").contains("(an HTTP client)"));
        assert!(shown(&[0x16, 0x03, 0x01, 0x02]).contains("(a TLS client)"));
        assert!(shown(b"Qrn1").contains("(a node with a pre-shared key)"));
    }
}
