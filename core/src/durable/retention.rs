//! When a snapshot is kept, and what becomes of what it covers. Values only.

use super::RECOVERY_PAGE_BYTES;

/// After so many events a snapshot is kept, unless something else is said: a recovery reads one page of a log
/// then.
const EVENTS_DEFAULT: u64 = 100;

/// After so many states the older ones are deleted: each costs an order of its own.
const STATES_KEPT_MAX: u64 = 16;

/// What an entity keeps beside its events. Mirrors `RetentionCriteria` of Akka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRetention {
    /// Records after which a snapshot is due, at least 1.
    pub events: u64,
    /// Bytes of records after which it is due as well, at least 1: what a recovery reads at once.
    pub bytes: usize,
    /// What becomes of what it covers.
    pub keeps: RetentionKeeps,
}

/// What stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionKeeps {
    /// All events.
    Everything,
    /// The newest snapshot and the events behind it.
    BehindSnapshot,
    /// The last record alone: it says everything, and there are no snapshots.
    Last,
}

impl Default for LogRetention {
    /// A snapshot every 100 events or 256 KiB of them, whichever comes first; all events stay.
    fn default() -> Self {
        Self {
            events: EVENTS_DEFAULT,
            bytes: RECOVERY_PAGE_BYTES,
            keeps: RetentionKeeps::Everything,
        }
    }
}

impl LogRetention {
    /// Of an entity each of whose records is its whole state.
    #[must_use]
    pub const fn newest_state() -> Self {
        Self {
            events: STATES_KEPT_MAX,
            bytes: RECOVERY_PAGE_BYTES,
            keeps: RetentionKeeps::Last,
        }
    }
}
