//! How often the entities of a node failed. Counted by their tasks, read by the loop.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::stats::HostStats;

/// See [`HostStats`], where each of these stands.
#[derive(Debug, Default)]
pub(crate) struct FailureCounters {
    failed: AtomicU64,
    restarted: AtomicU64,
}

impl FailureCounters {
    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn restarted(&self) {
        self.restarted.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds them to what users read: entities and instances of singletons count apart.
    pub(crate) fn show(&self, stats: &mut HostStats) {
        stats.entities_failed += self.failed.load(Ordering::Relaxed);
        stats.entities_restarted += self.restarted.load(Ordering::Relaxed);
    }
}
