//! What the durable entities of a node have done. Counted by their tasks, read by the loop. And how many
//! lines they may write about their troubles: a store that is away troubles all of them at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant as Clock;

use quorate_core::time::Instant;

use crate::log_limit::LogLimit;
use crate::stats::HostStats;
use crate::sync::lock;

/// Lines per second: enough to say what is wrong, whoever else is concerned.
const LINES_PER_SECOND_MAX: u32 = 5;

/// See [`HostStats`], where each of these stands.
#[derive(Debug)]
pub(crate) struct DurableCounters {
    since: Clock,
    log: Mutex<LogLimit>,
    recovered: AtomicU64,
    replayed: AtomicU64,
    stored: AtomicU64,
    not_durable: AtomicU64,
    fenced: AtomicU64,
    posted: AtomicU64,
    posted_again: AtomicU64,
    confirmed: AtomicU64,
    woken: AtomicU64,
}

impl Default for DurableCounters {
    fn default() -> Self {
        Self {
            since: Clock::now(),
            log: Mutex::new(LogLimit::new(LINES_PER_SECOND_MAX)),
            recovered: AtomicU64::default(),
            replayed: AtomicU64::default(),
            stored: AtomicU64::default(),
            not_durable: AtomicU64::default(),
            fenced: AtomicU64::default(),
            posted: AtomicU64::default(),
            posted_again: AtomicU64::default(),
            confirmed: AtomicU64::default(),
            woken: AtomicU64::default(),
        }
    }
}

impl DurableCounters {
    /// Whether a line may be written, and how many were left out before it.
    pub(crate) fn take_line(&self) -> Option<u64> {
        let micros = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        lock(&self.log).take_line(Instant::from_micros(micros))
    }

    /// An entity is back, from so many events.
    pub(crate) fn recovered(&self, replayed: u64) {
        self.recovered.fetch_add(1, Ordering::Relaxed);
        self.replayed.fetch_add(replayed, Ordering::Relaxed);
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

    pub(crate) fn posted(&self, messages: usize, is_again: bool) {
        let counter = if is_again {
            &self.posted_again
        } else {
            &self.posted
        };
        counter.fetch_add(messages as u64, Ordering::Relaxed);
    }

    pub(crate) fn confirmed(&self) {
        self.confirmed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn woken(&self) {
        self.woken.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes them where users read them.
    pub(crate) fn show(&self, stats: &mut HostStats) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        stats.entities_recovered = read(&self.recovered);
        stats.events_replayed = read(&self.replayed);
        stats.events_stored = read(&self.stored);
        stats.commands_not_durable = read(&self.not_durable);
        stats.entities_fenced = read(&self.fenced);
        stats.entity_messages_sent = read(&self.posted);
        stats.entity_messages_resent = read(&self.posted_again);
        stats.entity_messages_confirmed = read(&self.confirmed);
        stats.entities_woken = read(&self.woken);
        stats.log_lines_left_out += lock(&self.log).left_out_ever;
    }
}
