//! What peers do wrong. Types only. Catalogue: reliability 3c.

/// What was wrong with a peer's message to sharding. Catalogue: reliability 3c.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// A coordinator of an older term (B-59).
    #[error("the coordinator has an older term")]
    StaleTerm,
    /// Who speaks is not who the message says (or not the coordinator).
    #[error("the sender may not send this message")]
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

impl Rejection {
    /// The kind has no such shard.
    pub(crate) const NO_SHARD: Self = Self::OutOfRange { what: "shard" };
}
