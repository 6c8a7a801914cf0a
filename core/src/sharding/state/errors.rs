//! Why a message to an entity failed, always with the one thing a caller needs to know: whether it may have
//! been handled.

/// Why an ask has no answer of the cluster's, as the nodes say it to each other.
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
    /// The entity's node could not be reached, and the message came back unsent: not handled.
    #[error("the entity's node could not be reached; the message was not sent and not handled")]
    Unreachable,
    /// This region's buffer is full: not handled.
    #[error("the region's buffer is full; the message was not handled")]
    BufferFull,
    /// The entity's mailbox or the way to its node is full: not handled.
    #[error("the entity's mailbox or the queue to its node is full; the message was not handled")]
    MailboxFull,
    /// The shard moved, and the nodes it was said to live on gave the message back, several times: not
    /// handled.
    #[error("the entity's shard kept moving and the message came back each time; it was not handled")]
    HandedOff,
    /// The kind is not registered where the message arrived: not handled.
    #[error("the entity kind is not known here; the message was not handled")]
    UnknownKind,
    /// The kind or singleton as it is on this node differs from the cluster's; an event says in what: not
    /// handled.
    #[error("the kind or singleton differs from the cluster's; the message was not handled")]
    KindRefused,
    /// This node's shard count differs from the cluster's: not handled.
    #[error("the number of shards differs from the cluster's; the message was not handled")]
    ShardCountMismatch,
    /// The entity id is empty or too long: not handled.
    #[error("the entity id is empty or too long; the message was not handled")]
    BadEntityId,
    /// No node hosts the kind: none with its role is a member, or none of those has registered it. Said when
    /// the ask's time is over, because a node that hosts it may start until then: not handled.
    #[error("this node knows no member that hosts the entity kind; the message was not handled")]
    NobodyHosts,
    /// The payload does not fit into a frame: not handled.
    #[error("the message is too large; it was not handled")]
    TooLarge,
    /// The entity answered with more than fits into a frame: the message was handled, the answer is lost.
    #[error("the entity's answer is too large to be sent; the message was handled")]
    ReplyTooLarge,
    /// Too many asks of this node are open: not handled.
    #[error("too many open asks; the message was not handled")]
    TooManyOpenAsks,
    /// The entity stopped or failed before it answered: it may have been handled.
    #[error("the entity stopped before it answered; the message may have been handled")]
    EntityStopped,
    /// The entity stopped, or failed over an earlier message, before it began with this one: not handled.
    #[error("the entity stopped before it began with the message; the message was not handled")]
    EntityStoppedUnhandled,
    /// This node stopped while it waited for the answer: the message may have been handled.
    #[error("this node stopped; the message may have been handled")]
    NodeStopped,
    /// The node that held the message stopped before it sent or delivered it, or had stopped when it was
    /// asked: not handled.
    #[error("the node stopped before it sent the message; the message was not handled")]
    NodeStoppedUnsent,
    /// No path of this name is registered in the cluster, as far as this node knows: not handled.
    #[error("no path of this name is registered; the message was not handled")]
    UnknownPath,
    /// The path has no running instance at the moment: not handled.
    #[error("the path has no running instance at the moment; the message was not handled")]
    NoInstance,
}

impl AskFailure {
    /// Whether the ask's time was over before there was an answer.
    #[must_use]
    pub const fn is_timeout(self) -> bool {
        matches!(self, Self::TimeoutBuffered | Self::TimeoutSent)
    }

    /// Whether the entity may have received the message. `false`: a retry cannot make it handled twice.
    #[must_use]
    pub const fn may_have_been_handled(self) -> bool {
        match self {
            Self::TimeoutSent
            | Self::PeerLost
            | Self::EntityStopped
            | Self::NodeStopped
            | Self::ReplyTooLarge => true,
            Self::TimeoutBuffered
            | Self::Unreachable
            | Self::NobodyHosts
            | Self::EntityStoppedUnhandled
            | Self::NodeStoppedUnsent
            | Self::UnknownPath
            | Self::NoInstance
            | Self::BufferFull
            | Self::MailboxFull
            | Self::HandedOff
            | Self::UnknownKind
            | Self::ShardCountMismatch
            | Self::KindRefused
            | Self::BadEntityId
            | Self::TooLarge
            | Self::TooManyOpenAsks => false,
        }
    }
}
