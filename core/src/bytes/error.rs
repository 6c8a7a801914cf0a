//! Why bytes were refused, and what the link does about it. Never says what the bytes meant. Spec:
//! reliability 3c.

/// What a link does about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Drop the message, count it, keep the link.
    Drop,
    /// Close the link.
    Close,
    /// Close the link and count it towards the peer's quarantine: no honest peer of any version sends this.
    CloseAndCount,
}

/// What was wrong with bytes from a peer, or (the last variant) with a message of our own. Catalogue:
/// reliability 3c.
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
    /// The body ends before its last field.
    #[error("the body ends too early")]
    Incomplete,
    /// A part of the body is not what its place requires.
    #[error("malformed {what}")]
    Malformed {
        /// Which part.
        what: &'static str,
    },
    /// A part that has one legal form was written in another.
    #[error("{what} not in canonical form")]
    NonCanonical {
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
    /// An entity id that is empty or longer than its limit.
    #[error("an entity id of {bytes} bytes")]
    BadEntityId {
        /// Its length.
        bytes: usize,
    },
    /// A message of our own that no frame can express.
    #[error("{what} cannot be encoded")]
    Unencodable {
        /// Which part.
        what: &'static str,
    },
}

impl WireError {
    /// Whether the bytes were well-formed as far as they were read, and more than is allowed.
    #[must_use]
    pub const fn is_beyond_a_limit(&self) -> bool {
        matches!(
            self,
            Self::TooLarge { .. } | Self::LimitExceeded { .. } | Self::BadEntityId { .. }
        )
    }

    /// What the link that brought these bytes does.
    #[must_use]
    pub const fn reaction(&self) -> Reaction {
        match self {
            Self::UnknownKind { .. }
            | Self::Checksum
            | Self::Compression
            | Self::BadEntityId { .. }
            | Self::Unencodable { .. } => Reaction::Drop,
            Self::BadMagic | Self::UnsupportedVersion { .. } | Self::TooLarge { .. } => Reaction::Close,
            Self::Incomplete
            | Self::Malformed { .. }
            | Self::NonCanonical { .. }
            | Self::TrailingBytes
            | Self::LimitExceeded { .. }
            | Self::DanglingIndex { .. }
            | Self::Duplicate { .. } => Reaction::CloseAndCount,
        }
    }
}
