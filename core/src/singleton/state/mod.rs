//! Names of singletons, and what this node knows of one at a moment. Values only. Spec: sharding 1.10, 10.5.

pub mod fields;

use core::fmt;
use core::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::ident::UniqueAddress;
use crate::token::Token;

/// Keys of the hash that names singletons; published, because every node must agree.
const HASH_KEYS: (u64, u64) = (0x5175_6f72_6174_6531, 0x5369_6e67_6c65_746f);

/// A singleton: the hash of its name. Two names with one hash are refused when the second is registered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SingletonId(u64);

impl SingletonId {
    /// The id of a singleton's name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let mut hasher = SipHasher13::new_with_keys(HASH_KEYS.0, HASH_KEYS.1);
        hasher.write(name.as_bytes());
        Self(hasher.finish())
    }

    /// From the wire.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// To the wire.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for SingletonId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What a voter has promised of a singleton, as its store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredPromise {
    /// The highest term.
    pub(crate) term: u64,
    /// To whom. Without it a member that comes back would refuse the owner its own term, and the owner would
    /// have to begin anew under a higher one. `None`: the term was lowered by hand.
    pub(crate) to: Option<UniqueAddress>,
}

/// Where the manager of a singleton is, on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SingletonPhase {
    /// This node is not Up yet, or waits until nobody older can be running.
    Start,
    /// Somebody older is responsible.
    Younger,
    /// This node is the oldest and asks its predecessor to hand over.
    BecomingOldest,
    /// It waits for the lease.
    AcquiringLease,
    /// It is responsible; there may be an instance.
    Oldest,
    /// Somebody else is the oldest now, and is asked to ask for the hand-over.
    WasOldest,
    /// The instance stops; then its successor may start.
    HandingOver,
    /// The instance stops, and nobody waits for it.
    Stopping,
    /// Handed over; this node leaves.
    End,
    /// Finished.
    Stopped,
}

/// A singleton on one node at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SingletonState {
    /// Where its manager is; `None` on a node that only reaches it.
    pub phase: Option<SingletonPhase>,
    /// The token of the instance that runs or stops here.
    pub running: Option<Token>,
    /// The member where it should be.
    pub head: Option<UniqueAddress>,
    /// Where messages go, and to which instance; `None` while they wait.
    pub target: Option<(UniqueAddress, Token)>,
    /// Messages of this node that wait.
    pub waiting: usize,
    /// The downing strategy, if it lets both sides of a partition go on: then each may run an instance.
    /// `None` with a lease, and on a node that only reaches it and cannot know of one.
    pub may_run_twice: Option<&'static str>,
}
