//! Why a message to an entity failed, always with the one thing a caller needs to know: whether it may have been
//! handled.

/// Why an ask has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskFailure {
    /// The deadline passed while the message waited for its entity's home: not handled.
    #[error("timed out before the entity's home was known; the message was not handled")]
    TimeoutBuffered,
    /// The deadline passed after the message had been sent: it may have been handled.
    #[error("timed out; the message may have been handled")]
    TimeoutSent,
    /// The node the message was sent to is lost: it may have been handled.
    #[error("the entity's node was lost; the message may have been handled")]
    PeerLost,
    /// This region's buffer is full: not handled.
    #[error("the region's buffer is full; the message was not handled")]
    BufferFull,
    /// The entity's mailbox or the way to its node is full: not handled.
    #[error("the entity's mailbox or the queue to its node is full; the message was not handled")]
    MailboxFull,
    /// The shard moved away while the message waited at its old owner: not handled.
    #[error("the shard was handed off; the message was not handled")]
    HandedOff,
    /// The kind is not registered where the message arrived: not handled.
    #[error("the entity kind is not known here; the message was not handled")]
    UnknownKind,
    /// This node's shard count differs from the cluster's: not handled.
    #[error("the number of shards differs from the cluster's; the message was not handled")]
    ShardCountMismatch,
    /// The entity id is empty or too long: not handled.
    #[error("the entity id is empty or too long; the message was not handled")]
    BadEntityId,
    /// The payload does not fit into a frame: not handled.
    #[error("the message is too large; it was not handled")]
    TooLarge,
    /// Too many asks of this node are open: not handled.
    #[error("too many open asks; the message was not handled")]
    TooManyOpenAsks,
    /// The entity stopped or failed before it answered: it may have been handled.
    #[error("the entity stopped before it answered; the message may have been handled")]
    EntityStopped,
    /// This node is shutting down: it may have been handled.
    #[error("this node stopped; the message may have been handled")]
    NodeStopped,
}

impl AskFailure {
    /// Whether the entity may have received the message. `false` means that asking again cannot do it twice.
    #[must_use]
    pub const fn may_have_been_handled(self) -> bool {
        match self {
            Self::TimeoutSent | Self::PeerLost | Self::EntityStopped | Self::NodeStopped => true,
            Self::TimeoutBuffered
            | Self::BufferFull
            | Self::MailboxFull
            | Self::HandedOff
            | Self::UnknownKind
            | Self::ShardCountMismatch
            | Self::BadEntityId
            | Self::TooLarge
            | Self::TooManyOpenAsks => false,
        }
    }
}
