//! What the durable entities of a node have done. Counted by their tasks, read by the loop.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Recovery;
use crate::stats::HostStats;

/// See [`HostStats`], where each of these stands.
#[derive(Debug, Default)]
pub(crate) struct DurableCounters {
    recovered: AtomicU64,
    replayed: AtomicU64,
    stored: AtomicU64,
    not_durable: AtomicU64,
    fenced: AtomicU64,
}

impl DurableCounters {
    pub(crate) fn recovered(&self, recovery: &Recovery) {
        self.recovered.fetch_add(1, Ordering::Relaxed);
        self.replayed.fetch_add(recovery.replayed, Ordering::Relaxed);
    }

    pub(crate) fn stored(&self, events: usize) {
        self.stored.fetch_add(events as u64, Ordering::Relaxed);
    }

    pub(crate) fn not_durable(&self) {
        self.not_durable.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn fenced(&self) {
        self.fenced.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes them where users read them.
    pub(crate) fn show(&self, stats: &mut HostStats) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        stats.entities_recovered = read(&self.recovered);
        stats.events_replayed = read(&self.replayed);
        stats.events_stored = read(&self.stored);
        stats.commands_not_durable = read(&self.not_durable);
        stats.entities_fenced = read(&self.fenced);
    }
}
