//! Ends turns about keys that nobody goes on with: whoever took one has ended, or has given up, and an owner
//! that promised it would remember that for ever. Where an owner sees the same turn open for longer than it
//! takes, its node takes the next one, which decides for what was found, or for nothing: then the key is
//! forgotten as others are (`sweeping`). Spec: sharding 10.7, 10.19 g.

use alloc::vec::Vec;
use core::time::Duration;

use super::hosting::{BucketStore, OpenTurn, SweepPlace};
use super::state::bucket::BucketName;
use super::state::call::Ballot;
use super::state::outcome::CallGoal;
use super::state::table::RangeId;
use super::{Cx, KeyedStore};
use crate::ddata::state::key::Key;
use crate::ordered::OrderedMap;
use crate::time::Instant;

/// Keys that are looked at in one interval.
const LOOKED_MAX: usize = 256;

/// Open turns that are watched at once; others are met again.
const WATCHED_MAX: usize = 256;

/// Longer than a turn is open that somebody goes on with.
const OPEN_FOR: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenTurns {
    places: OrderedMap<BucketName, SweepPlace>,
    /// Which turn was open, and when that is looked at again.
    watched: OrderedMap<(BucketName, RangeId, Key), (Ballot, Instant)>,
}

impl KeyedStore {
    /// Looks at some keys of each bucket, and ends turns that have been open for too long.
    pub(super) fn end_turns(&mut self, cx: &mut Cx<'_>) {
        let now = cx.mono();
        let mut due = Vec::new();
        self.turns.watched.retain(|of, (ballot, at)| {
            let is_due = *at <= now;
            if is_due {
                due.push((of.clone(), *ballot));
            }
            !is_due
        });
        for ((bucket, range, key), ballot) in due {
            let store = self.buckets.get(&bucket).and_then(|open| open.store.as_ref());
            if store.and_then(|store| store.open_turn(range, &key)) == Some(ballot) {
                cx.counters().turns_resolved += 1;
                self.begin_repair(cx, (bucket, key), CallGoal::Resolve, OPEN_FOR);
            }
        }
        let stores = self.buckets.iter();
        let stores = stores.filter_map(|(bucket, open)| Some((bucket, open.store.as_ref()?)));
        for (bucket, store) in stores {
            self.turns.watch(bucket, store, now);
        }
    }
}

impl OpenTurns {
    fn watch(&mut self, bucket: &BucketName, store: &BucketStore, now: Instant) {
        let place = self.places.remove(bucket).unwrap_or((RangeId(0), None));
        let (found, next) = store.open_turns(place, LOOKED_MAX);
        if let Some(next) = next {
            self.places.insert(bucket.clone(), next);
        }
        for OpenTurn { range, key, ballot } in found {
            let of = (bucket.clone(), range, key);
            if self.watched.len() < WATCHED_MAX && !self.watched.contains_key(&of) {
                self.watched.insert(of, (ballot, now + OPEN_FOR));
            }
        }
    }
}
