//! Why nothing comes of a stream of changes of a bucket.

use quorate_core::effect::CommandError;

/// Why a stream of changes ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KvChangesError {
    /// The key has not 1 to 255 bytes, or no key can begin with the prefix.
    #[error("a key has 1 to 255 bytes")]
    BadKey,
    /// This node has as many streams of changes as it may (`ddata.subscribers_max`).
    #[error("this node has too many change streams; raise `ddata.subscribers_max` or drop some")]
    TooManySubscribers,
    /// An owner has as many subscriptions of the bucket as it may.
    #[error("an owner of the keys has too many subscriptions")]
    OwnerFull,
    /// This node does not subscribe.
    #[error(transparent)]
    Refused(#[from] CommandError),
}
