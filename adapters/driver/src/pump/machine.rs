//! The node as the pump sees it, so that tests can put a scripted one in its place.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::explain::Explanation;
use quorate_core::journal::state::StoreId;
use quorate_core::kv::KeyedStore;
use quorate_core::kv::bucket::OpenBucket;
use quorate_core::kv::hosting::BucketStore;
use quorate_core::kv::leading::LeadBucket;
use quorate_core::kv::state::bucket::BucketName;
use quorate_core::kv::state::table::RangeId;
use quorate_core::load::state::sample::LoadSample;
use quorate_core::node::Node;
use quorate_core::ordered::OrderedMap;
use quorate_core::paths::state::table::PathEntry;
use quorate_core::sharding::ids::KindId;
use quorate_core::singleton::state::{SingletonId, SingletonState};
use quorate_core::stats::Stats;
use quorate_core::time::{Instant, Now};
use quorate_core::view::View;
use quorate_links::LinkRecipient;
use rand_core::Rng;

use crate::stats::{BucketState, KindState, PathSlotState, PathState, RangeState};

/// What the pump asks of a node beside what its links do. See [`Node`].
pub(crate) trait Machine: LinkRecipient {
    /// See [`Node::stop`].
    fn stop(&mut self, now: Now);
    fn stats(&self) -> &Stats;
    fn kinds(&self) -> Vec<KindState>;
    /// The paths of the cluster, and what runs here of them.
    fn paths(&self) -> Vec<PathState>;
    /// The buckets that are open here.
    fn buckets(&self, now: Instant) -> Vec<BucketState>;
    /// How many shards of each kind run here.
    fn hosted_shards(&self) -> Vec<(KindId, u32)>;
    /// How loaded it is, smoothed.
    fn own_load(&self) -> LoadSample;
    /// See [`Node::singletons`].
    fn singleton(&self, singleton: SingletonId) -> Option<SingletonState>;
    fn explain(&self) -> Explanation;
}

impl<R: Rng> Machine for Node<R> {
    fn stop(&mut self, now: Now) {
        Self::stop(self, now);
    }

    fn stats(&self) -> &Stats {
        Self::stats(self)
    }

    fn explain(&self) -> Explanation {
        Self::explain(self)
    }

    fn hosted_shards(&self) -> Vec<(KindId, u32)> {
        self.sharding().hosted_shards().collect()
    }

    fn own_load(&self) -> LoadSample {
        let own = self.loads().get(self.me());
        own.map_or_else(LoadSample::default, |known| known.sample)
    }

    fn singleton(&self, singleton: SingletonId) -> Option<SingletonState> {
        self.singletons().state(singleton)
    }

    fn paths(&self) -> Vec<PathState> {
        let table = self.view().gossip().paths();
        let running = self.paths().running();
        let running = running.map(|(name, slot, token)| ((name, usize::from(slot)), token));
        let running: OrderedMap<_, _> = running.collect();
        let state = |entry: &Arc<PathEntry>| PathState {
            name: entry.name.clone(),
            settings: entry.settings().cloned(),
            epoch: entry.record.epoch.clone(),
            slots: (0..entry.slots())
                .map(|at| PathSlotState {
                    host: entry.host(at).cloned(),
                    last_move: entry.last_move(at).cloned(),
                    running: running.get(&(&entry.name, at)).copied(),
                })
                .collect(),
        };
        table.entries().iter().map(state).collect()
    }

    fn buckets(&self, now: Instant) -> Vec<BucketState> {
        let (kv, view) = (self.kv(), self.view());
        let all = kv.buckets();
        all.map(|(name, open)| bucket_state((kv, view), (name, open), now))
            .collect()
    }

    fn kinds(&self) -> Vec<KindState> {
        let sharding = self.sharding();
        let state = |(kind, name): (_, &str)| {
            Some(KindState {
                kind,
                name: name.to_owned(),
                region: sharding.region(kind)?,
                coordinator: sharding.coordinator(kind),
            })
        };
        sharding.kinds().filter_map(state).collect()
    }
}

/// What this node knows of one bucket.
fn bucket_state(
    (kv, view): (&KeyedStore, &View),
    (name, open): (&BucketName, &OpenBucket),
    now: Instant,
) -> BucketState {
    let lead = kv.lead(name).filter(|lead| lead.is_active());
    // Who decides knows; everybody else hears of it when it matters to a call.
    let owners = |range| match lead {
        Some(lead) => lead.table().get(range).map(|entry| &entry.configuration),
        None => open.configuration(range),
    };
    let numbers = || (0..open.settings().ranges).map(RangeId);
    let named = numbers().filter_map(owners).flat_map(|range| range.owners.all());
    let at = |store| Some((store, open.node_of(store)?.clone()));
    let mut stores: OrderedMap<_, _> = named.filter_map(at).collect();
    stores.extend(
        lead.into_iter()
            .flat_map(LeadBucket::stores)
            .map(|(store, node)| (store, node.clone())),
    );
    let is_there = |store: &&StoreId| {
        let node = stores.get(store);
        node.is_some_and(|node| view.member(node).is_some() && view.is_reachable(node))
    };
    let copies = usize::from(open.settings().copies);
    let hints = open.store().map(BucketStore::hints_by_range).unwrap_or_default();
    let waiting = kv.calls_waiting(name);
    let state = |range: RangeId| {
        let configuration = owners(range);
        let owners = configuration.map_or(&[][..], |known| known.owners.sets().0);
        let there = owners.iter().filter(is_there).count();
        let (calls_waiting, since) = waiting.get(&range).copied().unwrap_or((0, now));
        RangeState {
            configuration: configuration.cloned(),
            copies_missing: copies.saturating_sub(there),
            hints: hints.get(&range).copied().unwrap_or(0),
            calls_waiting,
            longest_wait: now.since(since),
        }
    };
    let ranges: Vec<RangeState> = numbers().map(state).collect();
    let longest_wait = ranges.iter().map(|range| range.longest_wait).max();
    BucketState {
        copies_missing: ranges.iter().map(|range| range.copies_missing).sum(),
        calls_waiting: ranges.iter().map(|range| range.calls_waiting).sum(),
        longest_wait: longest_wait.unwrap_or(Duration::ZERO),
        name: name.to_string(),
        settings: open.settings().clone(),
        is_accepted: open.is_accepted(),
        store: open.store().map(BucketStore::id),
        keys_repaired: open.store().map_or(0, BucketStore::keys_repaired),
        hints: open.store().map_or(0, BucketStore::hints),
        is_behind: open.store().is_some_and(BucketStore::is_behind),
        coordinates: lead.map(LeadBucket::term),
        stores,
        ranges,
    }
}
