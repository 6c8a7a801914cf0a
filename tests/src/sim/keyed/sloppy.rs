//! In some seeds one of the buckets is sloppy: others stand in for owners that are away, and no get is sure
//! to see the puts before it. What is judged there is what everybody is given once all has come to rest,
//! hints included: what was acknowledged, and nothing that was overwritten. Where hints, or stores in
//! memory, were lost nothing is. Spec: sharding 5.6, 10.19 e, g; reliability I-70, I-75.

use quorate_core::kv::hosting::BucketStore;

use super::BUCKETS;
use crate::sim::engine::Sim;

/// The sloppy bucket of a seed.
pub(super) const fn sloppy(seed: u64) -> Option<usize> {
    if seed % 5 == 4 {
        Some((seed / 10 % 2) as usize)
    } else {
        None
    }
}

impl Sim {
    pub(super) fn is_sloppy(&self, bucket: usize) -> bool {
        self.keyed.sloppy == Some(bucket)
    }

    /// Hints that stores of running nodes keep.
    pub(super) fn hints(&self, bucket: usize) -> usize {
        let running = self.running_processes();
        let stores = running.filter_map(|process| self.store_of(process, bucket));
        stores.map(BucketStore::hints).sum()
    }

    /// Hints that were dropped, or not kept.
    pub(crate) fn lost_hints(&self) -> u64 {
        self.sum(|stats| stats.kv.hints_expired + stats.kv.hints_refused)
    }

    /// All is at rest: what everybody gets from now on is judged, unless something was lost.
    pub(super) fn judge_sloppy_from_now(&mut self) {
        let Some(bucket) = self.keyed.sloppy else { return };
        let left = self.hints(bucket);
        if left > 0 && self.is_promised(bucket) && self.violation.is_none() {
            let what = format!("{left} hints of {} are left at rest", BUCKETS[bucket].name);
            return self.violated("hints", 0, what);
        }
        let (now, is_lost) = (self.now, self.keyed.is_hint_lost || self.lost_hints() > 0);
        let from = if is_lost { u64::MAX } else { now };
        let keys = self.keyed.books.keys.iter_mut().zip(&self.keyed.buckets);
        for (book, _) in keys.filter(|(_, of)| **of == bucket) {
            book.gets_from = Some(from);
        }
    }
}
