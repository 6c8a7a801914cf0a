//! What reliable delivery counts on a node. Counted by its tasks, read with the node's statistics.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::stats::HostStats;

/// See [`HostStats`], where each of these stands.
#[derive(Debug, Default)]
pub(crate) struct DeliveryCounters {
    sent: AtomicU64,
    resent: AtomicU64,
    confirmed: AtomicU64,
    dropped: AtomicU64,
    undecodable: AtomicU64,
}

impl DeliveryCounters {
    pub(crate) fn sent(&self, is_again: bool) {
        let counter = if is_again { &self.resent } else { &self.sent };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn confirmed(&self) {
        self.confirmed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn undecodable(&self) {
        self.undecodable.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes them where users read them.
    pub(crate) fn show(&self, stats: &mut HostStats) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        stats.deliveries_sent = read(&self.sent);
        stats.deliveries_resent = read(&self.resent);
        stats.deliveries_confirmed = read(&self.confirmed);
        stats.deliveries_dropped = read(&self.dropped);
        stats.deliveries_undecodable = read(&self.undecodable);
    }
}
