//! What a peer's replicator did wrong. Names and values only. Spec: sharding 1.12; reliability I-65, I-68.

use crate::ddata::crdt::{FutureStamp, MergeError};
use crate::ddata::state::key::Key;

/// What a peer's replicator did wrong; nothing was changed by it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The value for a key is of another type than the one that is held: two programs use one key, and
    /// neither value spreads to where the other one is. The sender hears the same of this node's value.
    #[error("{key} has another type elsewhere: {error}")]
    WrongType {
        /// The key.
        key: Key,
        /// Both types, or both names of users' types.
        error: MergeError,
    },
    /// The value with what is held would pass the size that can be sent.
    #[error("the value of {key} is too large")]
    TooLarge {
        /// The key.
        key: Key,
    },
    /// More keys or bytes than this node holds.
    #[error("no room for {key}")]
    Full {
        /// The key.
        key: Key,
    },
    /// The value names more nodes than a cluster and its past could have.
    #[error("{key} has {nodes} contributors, which are too many")]
    TooManyContributors {
        /// The key.
        key: Key,
        /// How many.
        nodes: usize,
    },
    /// A time stamp further ahead than `ddata.clock_skew_max` (I-68).
    #[error("a time stamp of {key} is {ahead_ms} ms in the future")]
    StampAhead {
        /// The key.
        key: Key,
        /// So far ahead of this node's clock.
        ahead_ms: u64,
    },
    /// More digests than a correct peer would send in the time.
    #[error("too many digests")]
    TooManyStatuses,
    /// A part of the message contradicts another.
    #[error("{what} out of range")]
    OutOfRange {
        /// What.
        what: &'static str,
    },
    /// A delta or value that cannot be merged.
    #[error("the value of {key} cannot be merged: {error}")]
    Unmergeable {
        /// The key.
        key: Key,
        /// Why.
        error: MergeError,
    },
    /// The value names changes of this node that it never made.
    #[error("the value of {key} has {claimed} changes of this node, which made {own}")]
    Forged {
        /// The key.
        key: Key,
        /// Claimed.
        claimed: u64,
        /// Made.
        own: u64,
    },
}

impl Rejection {
    pub(crate) fn stamp(key: &Key, ahead: FutureStamp) -> Self {
        Self::StampAhead {
            key: key.clone(),
            ahead_ms: ahead.ahead_ms.unsigned_abs(),
        }
    }

    pub(crate) fn merge(key: &Key, error: MergeError) -> Self {
        let key = key.clone();
        match error {
            MergeError::TypeMismatch { .. } | MergeError::CustomMismatch { .. } => {
                Self::WrongType { key, error }
            }
            MergeError::CloudFull | MergeError::TooManyNodes | MergeError::Custom(_) => {
                Self::Unmergeable { key, error }
            }
        }
    }
}
