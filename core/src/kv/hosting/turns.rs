//! Which keys of this store have a turn open. Looks at some keys at a time, of ranges that this store owns
//! and that are not being moved. Spec: sharding 10.7.

use alloc::vec::Vec;
use core::ops::Bound;

use super::{BucketStore, HostedRange, SweepPlace};
use crate::ddata::state::key::Key;
use crate::kv::state::call::Ballot;
use crate::kv::state::configuration::Owners;
use crate::kv::state::table::RangeId;

/// A key about which a turn is open.
#[derive(Clone, Debug)]
pub(in crate::kv) struct OpenTurn {
    pub(in crate::kv) range: RangeId,
    pub(in crate::kv) key: Key,
    pub(in crate::kv) ballot: Ballot,
}

impl BucketStore {
    /// The turn about a key that was promised here and not ended.
    pub(in crate::kv) fn open_turn(&self, range: RangeId, key: &Key) -> Option<Ballot> {
        self.ranges.get(&range)?.entry(key)?.open_turn()
    }

    /// Looks at so many keys from a place on; where to go on, if there are more.
    pub(in crate::kv) fn open_turns(
        &self,
        (first, after): SweepPlace,
        count: usize,
    ) -> (Vec<OpenTurn>, Option<SweepPlace>) {
        let mut found = Vec::new();
        let mut left = count;
        for (range, held) in self.ranges.range(first..) {
            if !self.owns_alone(held) {
                continue;
            }
            let after = after.as_ref().filter(|_| *range == first);
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            for key in held.keys_behind(from) {
                if left == 0 {
                    return (found, Some((*range, held.key_before(key).cloned())));
                }
                left -= 1;
                found.extend(self.open_turn(*range, key).map(|ballot| OpenTurn {
                    range: *range,
                    key: key.clone(),
                    ballot,
                }));
            }
        }
        (found, None)
    }

    fn owns_alone(&self, held: &HostedRange) -> bool {
        let known = held.configuration();
        known
            .is_some_and(|known| matches!(&known.owners, Owners::Stable(stores) if stores.contains(&self.id)))
    }
}
