//! Ends what nobody needs any more: has the owners of a key say whether they hold the same, waits until what
//! was sent before is gone, then has each forget. Where they do not hold the same the key is read, which
//! gives each what it lacks. Spec: sharding 10.19 c, f, g; reliability I-75.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::hosting::{SweepPlace, SweptKey};
use super::protocol::{BucketBody, OwnerAnswer, OwnerAsk};
use super::requests::{CallOutput, Settling, SettlingAnswer};
use super::state::bucket::BucketName;
use super::state::configuration::Configuration;
use super::state::exchange::{KvAnswer, KvRefusal};
use super::state::level::Level;
use super::state::outcome::CallGoal;
use super::state::table::RangeId;
use super::{Cx, KeyedStore, send};
use crate::ddata::state::key::Key;
use crate::ident::UniqueAddress;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::time::Instant;

/// Keys that are looked at in one interval: a fraction of a millisecond of work.
const SWEPT_MAX: usize = 256;

/// Keys whose end is under way at once, at most.
const SETTLING_MAX: usize = 65_536;

/// How long the owners of a key are waited for.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
struct SettlingKey {
    bucket: BucketName,
    range: RangeId,
    key: Key,
    configuration: Configuration,
    settling: Settling,
    /// All hold the same: the grace runs.
    is_alike: bool,
    due: Instant,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Sweep {
    places: OrderedMap<BucketName, SweepPlace>,
    keys: OrderedSet<(BucketName, Key)>,
    settling: OrderedMap<u64, SettlingKey>,
    due: OrderedSet<(Instant, u64)>,
}

impl Sweep {
    fn remove(&mut self, number: u64) -> Option<SettlingKey> {
        let ended = self.settling.remove(&number)?;
        self.due.remove(&(ended.due, number));
        self.keys.remove(&(ended.bucket.clone(), ended.key.clone()));
        Some(ended)
    }

    fn insert(&mut self, number: u64, begun: SettlingKey) {
        self.due.insert((begun.due, number));
        self.keys.insert((begun.bucket.clone(), begun.key.clone()));
        self.settling.insert(number, begun);
    }
}

impl KeyedStore {
    /// Looks at some keys of each bucket, and ends what has waited for long enough.
    pub(super) fn sweep(&mut self, cx: &mut Cx<'_>) {
        let now = cx.mono();
        while let Some((_, number)) = self.sweep.due.first().copied().filter(|(at, _)| *at <= now) {
            if let Some(ended) = self.sweep.remove(number).filter(|ended| ended.is_alike) {
                cx.counters().keys_settled += 1;
                let mut out = Vec::new();
                let asks = (ended.bucket, ended.range, ended.key, ended.configuration);
                ended.settling.end(&mut out);
                self.ask_to_settle(cx, number, &asks, out);
            }
        }
        let buckets: Vec<BucketName> = self.buckets.keys().cloned().collect();
        for bucket in buckets {
            let place = self.sweep.places.remove(&bucket);
            let store = self.buckets.get(&bucket).and_then(|open| open.store.as_ref());
            let Some(store) = store else { continue };
            let (found, next) = store.sweep(place.unwrap_or((RangeId(0), None)), SWEPT_MAX, cx.now().unix_ms);
            if let Some(next) = next {
                self.sweep.places.insert(bucket.clone(), next);
            }
            for swept in found {
                self.settle(cx, &bucket, swept);
            }
        }
    }

    fn settle(&mut self, cx: &mut Cx<'_>, bucket: &BucketName, swept: SweptKey) {
        let is_full = self.sweep.settling.len() >= SETTLING_MAX;
        let is_known = self.sweep.keys.contains(&(bucket.clone(), swept.key.clone()));
        let copies = self.buckets.get(bucket).map(|open| open.levels().copies());
        let Some(copies) = copies.filter(|_| !is_full && !is_known) else {
            return;
        };
        let number = self.calls.draw_number();
        let mut out = Vec::new();
        let configuration = swept.configuration.clone();
        let settling = Settling::begin(swept.configuration, copies, swept.digest, swept.step, &mut out);
        let begun = SettlingKey {
            bucket: bucket.clone(),
            range: swept.range,
            key: swept.key.clone(),
            configuration: configuration.clone(),
            settling,
            is_alike: false,
            due: cx.mono() + ANSWERS_WITHIN,
        };
        self.sweep.insert(number, begun);
        let asks = (bucket.clone(), swept.range, swept.key, configuration);
        self.ask_to_settle(cx, number, &asks, out);
    }

    fn ask_to_settle(
        &self,
        cx: &mut Cx<'_>,
        number: u64,
        (bucket, range, key, configuration): &(BucketName, RangeId, Key, Configuration),
        out: Vec<CallOutput>,
    ) {
        let Some(open) = self.buckets.get(bucket) else {
            return;
        };
        for output in out {
            let CallOutput::Ask { to, step, ask } = output else {
                continue;
            };
            let Some(node) = open.node_of(to) else { continue };
            let asked = OwnerAsk {
                store: to,
                range: *range,
                configuration: configuration.clone(),
                key: key.clone(),
                call: number,
                step,
                ask,
            };
            send(cx, node, bucket, BucketBody::Ask(Box::new(asked)));
        }
    }

    /// An owner says whether it holds the same; whether it was asked that.
    pub(super) fn on_settled(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, said: &OwnerAnswer) -> bool {
        let Some(asked) = self.sweep.settling.get_mut(&said.call) else {
            return false;
        };
        let bucket = self.buckets.get(&asked.bucket);
        let is_owner = bucket.is_some_and(|open| open.node_of(said.store) == Some(from));
        if !is_owner || asked.is_alike {
            return true;
        }
        match asked.settling.on_answer((said.store, said.epoch), &said.answer) {
            SettlingAnswer::Open => {}
            SettlingAnswer::Alike => {
                if let Some(mut asked) = self.sweep.remove(said.call) {
                    asked.is_alike = true;
                    asked.due = cx.mono() + cx.config().kv.tombstone_grace;
                    self.sweep.insert(said.call, asked);
                }
            }
            SettlingAnswer::NotAlike => {
                let asked = self.sweep.remove(said.call);
                if let Some(asked) = asked
                    && said.answer == KvAnswer::Refused(KvRefusal::NotAlike)
                {
                    cx.counters().keys_repaired += 1;
                    let level = Level::Quorum;
                    self.begin_repair(
                        cx,
                        (asked.bucket, asked.key),
                        CallGoal::Get { level },
                        ANSWERS_WITHIN,
                    );
                }
            }
        }
        true
    }

    /// Keys whose end is under way.
    #[must_use]
    pub fn keys_ending(&self) -> usize {
        self.sweep.settling.len()
    }

    /// Whether it has something to look at.
    pub(super) fn has_to_sweep(&self) -> bool {
        let stores = self.buckets.values().filter_map(|open| open.store.as_ref());
        !self.sweep.settling.is_empty()
            || stores
                .into_iter()
                .any(super::hosting::BucketStore::holds_anything)
    }
}
