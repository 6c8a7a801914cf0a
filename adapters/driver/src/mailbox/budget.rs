//! The bytes that may wait in all mailboxes of a node. Never waits: a mailbox asks and gives back.
//! Spec: reliability 3b.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that may wait in all mailboxes of a node before its user links are paused. As much as the core's
/// region buffers while a shard moves (`sharding.buffer_bytes_max`).
const MAILBOX_BYTES_SOFT_MAX: usize = 64 << 20;

/// Bytes from which every mailbox refuses: what was already read from the user links when they were paused,
/// and what this node's own callers send, still fits in between.
const MAILBOX_BYTES_HARD_MAX: usize = 2 * MAILBOX_BYTES_SOFT_MAX;

/// The bytes waiting in all mailboxes of a node.
#[derive(Debug)]
pub(crate) struct MailboxBudget {
    used: AtomicUsize,
    soft_max: usize,
    hard_max: usize,
}

impl Default for MailboxBudget {
    fn default() -> Self {
        Self::new(MAILBOX_BYTES_SOFT_MAX, MAILBOX_BYTES_HARD_MAX)
    }
}

impl MailboxBudget {
    pub(crate) const fn new(soft_max: usize, hard_max: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            soft_max,
            hard_max,
        }
    }

    /// The bytes that wait, of those from which user links are paused.
    pub(crate) fn used(&self) -> f64 {
        self.used.load(Ordering::Relaxed) as f64 / self.soft_max.max(1) as f64
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.used.load(Ordering::Relaxed) == 0
    }

    /// Whether user links may be read.
    pub(crate) fn has_room(&self) -> bool {
        self.used.load(Ordering::Relaxed) < self.soft_max
    }

    pub(super) fn take(&self, bytes: usize) -> bool {
        if self
            .used
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes)
            <= self.hard_max
        {
            return true;
        }
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        false
    }

    /// Whether this release made room again.
    pub(super) fn give_back(&self, bytes: usize) -> bool {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        before >= self.soft_max && before.saturating_sub(bytes) < self.soft_max
    }
}
