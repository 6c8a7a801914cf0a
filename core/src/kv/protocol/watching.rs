//! What nodes say to each other about changes of keys, and what subscribers hear. Types only. Spec: sharding
//! 5.6.

use alloc::vec::Vec;

use crate::ddata::state::key::{Key, Pattern};
use crate::journal::state::StoreId;

/// Keys of a notice at most.
pub const NOTICE_KEYS_MAX: usize = 256;

/// What a node with a subscriber says to an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyWatchStatement {
    /// It is to tell of changes of these keys. Said again as long as somebody wants to hear.
    Watch {
        /// Which store is meant.
        store: StoreId,
        /// The node's number of the subscription.
        watch: u64,
        /// Which keys.
        pattern: Pattern,
    },
    /// Nobody wants to hear any more.
    Unwatch {
        /// Which store is meant.
        store: StoreId,
        /// The node's number of the subscription.
        watch: u64,
    },
}

/// What an owner says to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeStatement {
    /// These keys have changed. None: the answer to [`KeyWatchStatement::Watch`].
    Changed {
        /// Which store tells.
        store: StoreId,
        /// The node's number of the subscription.
        watch: u64,
        /// Another one where the owner had forgotten the subscription.
        session: u64,
        /// So many notices with keys came before it in this session.
        number: u64,
        /// Ascending.
        keys: Vec<Key>,
    },
    /// It has as many subscriptions as it may.
    Refused {
        /// Which store.
        store: StoreId,
        /// The node's number of the subscription.
        watch: u64,
    },
}

/// What a subscriber hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchNews {
    /// These keys have changed.
    Changed(Vec<Key>),
    /// Changes may have been missed up to now; from now on they are heard.
    Lagged,
    /// An owner has too many subscriptions: nothing more comes.
    Refused,
}

impl NoticeStatement {
    /// Bytes of its keys. Linear.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Changed { keys, .. } => keys.iter().map(|key| key.as_str().len()).sum(),
            Self::Refused { .. } => 0,
        }
    }
}
