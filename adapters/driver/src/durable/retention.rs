//! When a snapshot is kept, and what becomes of what it covers. Values only.

use quorate_core::durable::{self, RetentionKeeps};

/// What an [`EventSourced`](super::EventSourced) entity keeps beside its events. Mirrors `RetentionCriteria`
/// of Akka.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention(durable::LogRetention);

impl Retention {
    /// A snapshot every so many events (at least 1), or 256 KiB of them, whichever comes first. By default
    /// every 100.
    #[must_use]
    pub fn snapshot_every(events: u64) -> Self {
        Self(durable::LogRetention {
            events: events.max(1),
            ..durable::LogRetention::default()
        })
    }

    /// No snapshots: a recovery reads all events there ever were.
    #[must_use]
    pub const fn events_only() -> Self {
        Self(durable::LogRetention {
            events: u64::MAX,
            bytes: usize::MAX,
            keeps: RetentionKeeps::Everything,
        })
    }

    /// A snapshot after so many bytes of events too (default 256 KiB, at least 1).
    #[must_use]
    pub fn or_bytes(mut self, bytes: usize) -> Self {
        self.0.bytes = bytes.max(1);
        self
    }

    /// Deletes the events that a snapshot covers. The log stays small, and its history is gone: a snapshot
    /// whose version can no longer be read has no events to fall back on.
    #[must_use]
    pub const fn delete_covered_events(mut self) -> Self {
        self.0.keeps = RetentionKeeps::BehindSnapshot;
        self
    }

    /// Each record is the whole state.
    pub(super) const fn newest_state() -> Self {
        Self(durable::LogRetention::newest_state())
    }

    /// The same as the core knows it.
    pub(super) const fn settings(self) -> durable::LogRetention {
        self.0
    }
}
