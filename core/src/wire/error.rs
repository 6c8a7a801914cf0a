//! Why bytes were refused, and what the link does about it.

/// What was wrong with bytes from a peer. Catalogue: reliability 3c.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes do not start a frame of this protocol.
    #[error("bad magic")]
    BadMagic,
    /// A version outside the supported range.
    #[error("unsupported version {found}")]
    UnsupportedVersion {
        /// The version found.
        found: u8,
    },
    /// A message kind this version does not know; the message is dropped, the link stays.
    #[error("unknown message kind {kind}")]
    UnknownKind {
        /// The kind found.
        kind: u16,
    },
    /// A length above the lane's limit, refused before the body is read.
    #[error("{bytes} bytes, at most {max} are allowed")]
    TooLarge {
        /// Bytes claimed.
        bytes: u64,
        /// Bytes allowed.
        max: u64,
    },
    /// The checksum does not match.
    #[error("checksum mismatch")]
    Checksum,
    /// A part of the body is not what its place requires.
    #[error("malformed {what}")]
    Malformed {
        /// Which part.
        what: &'static str,
    },
    /// Bytes are left after the last field.
    #[error("trailing bytes")]
    TrailingBytes,
    /// A count above its limit.
    #[error("too many {what}")]
    LimitExceeded {
        /// Of what.
        what: &'static str,
    },
    /// An index beyond its table.
    #[error("dangling index in {what}")]
    DanglingIndex {
        /// Where.
        what: &'static str,
    },
    /// The same thing twice.
    #[error("duplicate {what}")]
    Duplicate {
        /// What.
        what: &'static str,
    },
    /// The compressed part cannot be inflated.
    #[error("corrupt compression")]
    Compression,
}
