//! What a peer did wrong, as a type and a counter. Never a panic, never a state change. What only one machine
//! can refuse is in its `protocol`.

pub use crate::ddata::protocol::Rejection as DdataRejection;
use crate::ident::UniqueAddress;
pub use crate::journal::protocol::Rejection as JournalRejection;
pub use crate::kv::protocol::Rejection as KvRejection;
pub use crate::membership::protocol::{JoinRefusal, Rejection as MembershipRejection};
pub use crate::paths::protocol::Rejection as PathRejection;
pub use crate::sharding::protocol::Rejection as ShardingRejection;
pub use crate::singleton::protocol::Rejection as SingletonRejection;
use crate::wire::WireError;

/// What was wrong with a peer's message. Catalogue: reliability 3c.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The body could not be decoded.
    #[error("cannot decode the message: {0}")]
    Wire(WireError),
    /// The message is for another incarnation of this address (B-40, B-49).
    #[error("the message is for {to}, another incarnation")]
    WrongReceiver {
        /// Whom it was for.
        to: UniqueAddress,
    },
    /// A message nobody asked for (B-48, B-50).
    #[error("unexpected {what}")]
    Unexpected {
        /// Which message.
        what: &'static str,
    },
    /// Membership refused it.
    #[error(transparent)]
    Membership(MembershipRejection),
    /// Sharding refused it.
    #[error(transparent)]
    Sharding(#[from] ShardingRejection),
    /// The replicator refused it.
    #[error(transparent)]
    Ddata(DdataRejection),
    /// Singletons refused it.
    #[error(transparent)]
    Singleton(SingletonRejection),
    /// Quorum logs refused it.
    #[error(transparent)]
    Journal(JournalRejection),
    /// Paths refused it.
    #[error(transparent)]
    Path(#[from] PathRejection),
    /// The keyed store refused it.
    #[error(transparent)]
    Kv(#[from] KvRejection),
}
