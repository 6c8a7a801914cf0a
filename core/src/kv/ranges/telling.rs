//! Who is told what: every store that is concerned by a configuration, until it has adopted it. Spec:
//! sharding 10.16, 10.19 b.

use super::{RangeCoordinator, RangeEffect};
use crate::journal::state::StoreId;
use crate::kv::state::configuration::Configuration;
use crate::kv::state::table::RangeId;
use crate::ordered::OrderedMap;
use crate::time::Instant;
use alloc::vec::Vec;

/// Ranges that one store is told of at a time: a few tens of kilobytes, which every link takes at once.
const TOLD_MAX: usize = 256;

impl RangeCoordinator {
    /// Tells what is decided to those that have not adopted it, and a newcomer once more until its move is
    /// over.
    pub(super) fn tell(&mut self, now: Instant) {
        let again = self.settings.tell_again;
        let mut told: OrderedMap<StoreId, Vec<(RangeId, Configuration)>> = OrderedMap::new();
        let ranges: Vec<RangeId> = self.steps.keys().copied().collect();
        for range in ranges {
            let (Some(entry), Some(step)) = (self.table.get(range), self.steps.get_mut(&range)) else {
                continue;
            };
            if step.told_at.is_some_and(|at| now.since(at) < again) {
                continue;
            }
            step.told_at = Some(now);
            let newcomer = entry.configuration.owners.newcomer();
            let waiting = step.adopting.waiting().copied();
            let concerned = waiting.filter(|store| Some(*store) != newcomer).chain(newcomer);
            for store in concerned.filter(|store| self.stores.contains_key(store)) {
                let ranges = told.entry(store).or_default();
                if ranges.len() < TOLD_MAX {
                    ranges.push((range, entry.configuration.clone()));
                }
            }
        }
        for (store, ranges) in told {
            self.effects.push(RangeEffect::Tell { store, ranges });
        }
    }
}
