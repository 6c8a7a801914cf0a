//! What a peer did wrong, as a type and a counter. Never a panic, never a state change.

use crate::ident::UniqueAddress;
use crate::wire::WireError;

/// What was wrong with a peer's message. Catalogue: reliability 3c.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The body could not be decoded.
    #[error("undecodable: {0}")]
    Wire(WireError),
    /// The message is for another incarnation of this address (B-40, B-49).
    #[error("meant for {to}, another incarnation")]
    WrongReceiver {
        /// Whom it was for.
        to: UniqueAddress,
    },
    /// The sender is not a member (B-41).
    #[error("the sender is not a member")]
    NotMember,
    /// I marked the sender unreachable myself and do not listen to it until it answers heartbeats again.
    #[error("the sender is unreachable from here")]
    SenderUnreachable,
    /// The state does not contain the receiver (B-42).
    #[error("the state does not contain the receiver")]
    NotInGossip,
    /// The state claims more of my own changes than I made (B-37).
    #[error("the state's clock has {claimed} changes of mine, I made {own}")]
    ForgedClock {
        /// Claimed.
        claimed: u64,
        /// Made.
        own: u64,
    },
    /// A message nobody asked for (B-48, B-50).
    #[error("unexpected {what}")]
    Unexpected {
        /// Which message.
        what: &'static str,
    },
    /// A join that cannot be accepted (B-43 to B-46).
    #[error("join refused: {0}")]
    JoinRefused(JoinRefusal),
    /// A coordinator of an older term (B-59).
    #[error("a coordinator of an older term")]
    StaleTerm,
    /// Who speaks is not who the message says (or not the coordinator).
    #[error("the sender may not say that")]
    WrongSender,
    /// An entity kind this node does not have (B-58).
    #[error("unknown entity kind")]
    UnknownKind,
    /// A shard number beyond the kind's shards, or an entity id of illegal length.
    #[error("{what} out of range")]
    OutOfRange {
        /// What.
        what: &'static str,
    },
}

/// Why a join was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinRefusal {
    /// The cluster is preparing to shut down.
    #[error("the cluster is shutting down")]
    ShuttingDown,
    /// The receiver is on its way out.
    #[error("the receiver is Down or Exiting")]
    ReceiverLeaving,
    /// The joiner has my own address (B-43).
    #[error("the joiner has the receiver's address")]
    AddressConflict,
    /// This incarnation was removed before (B-44).
    #[error("this incarnation was removed before")]
    UidRemoved,
    /// The cluster is full.
    #[error("the cluster has as many members as it may have")]
    TooManyMembers,
    /// The tombstone table is full.
    #[error("too many members were removed recently")]
    TooManyTombstones,
    /// The receiver's policy does not admit the joiner.
    #[error("the receiver's join policy does not admit this node")]
    NotAdmitted,
    /// With one more member the state might not fit a gossip frame.
    #[error("the cluster's state would become too large to be sent")]
    StateTooLarge,
    /// A reason this version does not know.
    #[error("reason {code} of a later version")]
    Other {
        /// Its number on the wire.
        code: u8,
    },
}

impl JoinRefusal {
    /// Whether this very incarnation can never be admitted, however often it asks.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::UidRemoved | Self::AddressConflict => true,
            Self::ShuttingDown
            | Self::NotAdmitted
            | Self::ReceiverLeaving
            | Self::TooManyMembers
            | Self::TooManyTombstones
            | Self::StateTooLarge
            | Self::Other { .. } => false,
        }
    }
}
