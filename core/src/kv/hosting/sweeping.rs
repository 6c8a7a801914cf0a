//! Which keys of this store have something that nobody needs any more: tombstones, and actors that give no
//! dots. Looks at some keys at a time, and only where this store is the first owner of a range that is not
//! being moved. What is done about them is `requests::Settling`'s. Spec: sharding 10.19 c, g.

use alloc::vec::Vec;
use core::ops::Bound;

use super::{BucketStore, HostedRange};
use crate::ddata::state::key::Key;
use crate::kv::state::configuration::{Configuration, Owners};
use crate::kv::state::exchange::SettleStep;
use crate::kv::state::pruning::ClockPruning;
use crate::kv::state::table::RangeId;

/// A key of which something may be forgotten.
#[derive(Clone, Debug)]
pub(in crate::kv) struct SweptKey {
    pub(in crate::kv) range: RangeId,
    pub(in crate::kv) key: Key,
    pub(in crate::kv) configuration: Configuration,
    /// What stands for what is held of it.
    pub(in crate::kv) digest: u64,
    pub(in crate::kv) step: SettleStep,
}

/// Where the next look begins.
pub(in crate::kv) type SweepPlace = (RangeId, Option<Key>);

impl BucketStore {
    /// Whether there is anything to look at.
    pub(in crate::kv) fn holds_anything(&self) -> bool {
        self.ranges.values().any(|held| held.entries().len() > 0)
    }

    /// Looks at so many keys from a place on; where to go on, if there are more.
    pub(in crate::kv) fn sweep(
        &self,
        (first, after): SweepPlace,
        count: usize,
        now_ms: u64,
    ) -> (Vec<SweptKey>, Option<SweepPlace>) {
        let mut found = Vec::new();
        let mut left = count;
        for (range, held) in self.ranges.range(first..) {
            let after = after.as_ref().filter(|_| *range == first);
            let Some(configuration) = self.swept_configuration(held) else {
                continue;
            };
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            for key in held.keys_behind(from) {
                if left == 0 {
                    return (found, Some((*range, after_key(held, key))));
                }
                left -= 1;
                if let Some((digest, step)) = swept(held, key, now_ms) {
                    found.push(SweptKey {
                        range: *range,
                        key: key.clone(),
                        configuration: configuration.clone(),
                        digest,
                        step,
                    });
                }
            }
        }
        (found, None)
    }

    fn swept_configuration<'h>(&self, held: &'h HostedRange) -> Option<&'h Configuration> {
        let known = held.configuration()?;
        match &known.owners {
            Owners::Stable(stores) if stores.first() == Some(&self.id) => Some(known),
            Owners::Stable(_) | Owners::Joint { .. } => None,
        }
    }
}

/// The key before this one: the next look begins behind it.
fn after_key(held: &HostedRange, key: &Key) -> Option<Key> {
    held.key_before(key).cloned()
}

fn swept(held: &HostedRange, key: &Key, now_ms: u64) -> Option<(u64, SettleStep)> {
    let mut entry = held.entry(key)?.clone();
    entry.expire(now_ms);
    let step = if entry.is_dead_for(0, now_ms) {
        SettleStep::Reap
    } else {
        let is_over = |actor| held.replica().is_over(actor);
        let actors = ClockPruning::default().of(entry.siblings.clock(), now_ms, is_over);
        if actors.is_empty() {
            return None;
        }
        SettleStep::Prune(actors)
    };
    Some((entry.digest(key), step))
}
