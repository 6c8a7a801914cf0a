//! When a snapshot is kept, and what becomes of what it covers. Values only.

/// After so many events a snapshot is kept, unless [`Retention`] says otherwise: a recovery reads one page of a log then.
const EVENTS_DEFAULT: u64 = 100;

/// After so many bytes of events as well: what a recovery reads at once.
const BYTES_DEFAULT: usize = crate::journal::RECOVERY_PAGE_BYTES;

/// After so many states the older ones are deleted: each costs an order of its own.
const STATES_KEPT_MAX: u64 = 16;

/// What an [`EventSourced`](super::EventSourced) entity keeps beside its events. Mirrors `RetentionCriteria` of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub(super) events: u64,
    pub(super) bytes: usize,
    pub(super) keeps: Keeps,
}

/// What stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeps {
    /// All events.
    Everything,
    /// The newest snapshot and the events behind it.
    BehindSnapshot,
    /// The last record alone: it says everything.
    Last,
}

impl Default for Retention {
    /// A snapshot every 100 events or 256 KiB of them, whichever comes first; all events stay.
    fn default() -> Self {
        Self {
            events: EVENTS_DEFAULT,
            bytes: BYTES_DEFAULT,
            keeps: Keeps::Everything,
        }
    }
}

impl Retention {
    /// A snapshot every so many events (at least 1), or 256 KiB of them, whichever comes first.
    #[must_use]
    pub fn snapshot_every(events: u64) -> Self {
        Self {
            events: events.max(1),
            ..Self::default()
        }
    }

    /// No snapshots: a recovery reads all events there ever were.
    #[must_use]
    pub const fn events_only() -> Self {
        Self {
            events: u64::MAX,
            bytes: usize::MAX,
            keeps: Keeps::Everything,
        }
    }

    /// A snapshot after so many bytes of events too (default 256 KiB, at least 1).
    #[must_use]
    pub fn or_bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes.max(1);
        self
    }

    /// Deletes the events that a snapshot covers. The log stays small, and its history is gone: a snapshot whose version can no
    /// longer be read has no events to fall back on.
    #[must_use]
    pub const fn delete_covered_events(mut self) -> Self {
        self.keeps = Keeps::BehindSnapshot;
        self
    }

    /// Each record is the whole state.
    pub(super) const fn newest_state() -> Self {
        Self {
            events: STATES_KEPT_MAX,
            bytes: BYTES_DEFAULT,
            keeps: Keeps::Last,
        }
    }
}
