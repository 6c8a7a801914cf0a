//! Anti-entropy: has this node's stores compare what they hold of each range with what the range's other
//! owners hold, one range after the other, and take over what they lack. Each owner takes over; nobody sends
//! what was not asked for, so after a round of all owners all hold the same. What is said and merged is the
//! stores' to decide. Spec: sharding 10.19 f, g; reliability I-74, I-75.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::hosting::BucketStore;
use super::merkle::MerkleComparison;
use super::protocol::trees::{LEAVES_ASKED_MAX, TreeAnswer, TreeAsk, TreeStatement};
use super::protocol::{BucketBody, Rejection, Timer};
use super::state::bucket::BucketName;
use super::state::configuration::Configuration;
use super::state::node::MerkleNode;
use super::state::outcome::CallGoal;
use super::state::part::{RangeItem, RangePart};
use super::state::table::RangeId;
use super::sweeping::ANSWERS_WITHIN;
use super::{Cx, KeyedStore, send};
use crate::ident::UniqueAddress;
use crate::journal::state::StoreId;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::store::Bytes;
use crate::time::Instant;

/// Comparisons of a node that are under way at once.
const COMPARISONS_MAX: usize = 4;

/// What is to be compared: a range with another owner.
type ComparedWith = (BucketName, RangeId, StoreId);

/// How far a comparison is.
#[derive(Clone, Debug)]
enum Progress {
    /// It is being found out which leaves differ.
    Sums(MerkleComparison),
    /// What the other one holds in them is taken over.
    Keys {
        /// Leaves that are left, ascending; those of the question first.
        leaves: Vec<MerkleNode>,
        /// Behind which key the question begins.
        after: Option<Bytes>,
    },
}

#[derive(Clone, Debug)]
struct OpenComparison {
    of: ComparedWith,
    owners: Configuration,
    progress: Progress,
    /// When it is given up, unless there is an answer.
    due: Instant,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparisons {
    /// When the next round begins, if all of this one have begun.
    round: Option<Instant>,
    waiting: OrderedSet<ComparedWith>,
    /// Those that do not wait for their turn: commanded ones, and those of stores that were away.
    first: OrderedSet<ComparedWith>,
    open: OrderedMap<u64, OpenComparison>,
}

impl Comparisons {
    fn begin_next(&mut self) -> Option<ComparedWith> {
        if self.open.len() >= COMPARISONS_MAX {
            return None;
        }
        self.first.pop_first().or_else(|| self.waiting.pop_first())
    }

    fn is_open(&self, of: &ComparedWith) -> bool {
        self.open.values().any(|open| open.of == *of)
    }
}

impl KeyedStore {
    /// Begins what is due, and gives up what was not answered.
    pub(super) fn compare(&mut self, cx: &mut Cx<'_>) {
        let now = cx.mono();
        self.comparisons.open.retain(|_, open| open.due > now);
        let stores = self.buckets.iter();
        let stores = stores.filter_map(|(bucket, open)| Some((bucket, open.store.as_ref()?)));
        let is_round = self.comparisons.round.is_none_or(|at| at <= now);
        let mut round = OrderedSet::new();
        let mut first = OrderedSet::new();
        for (bucket, store) in stores {
            if is_round && self.comparisons.waiting.is_empty() {
                let ranges = store.compared();
                let all = ranges.flat_map(|(range, owners)| others(store, range, owners));
                round.extend(all.map(|(range, owner)| (bucket.clone(), range, owner)));
            }
            let behind = store.behind_of();
            first.extend(behind.map(|(range, owner)| (bucket.clone(), range, owner)));
        }
        let comparisons = &mut self.comparisons;
        if is_round && comparisons.waiting.is_empty() {
            comparisons.waiting = round;
            comparisons.round = Some(now + cx.config().kv.compare_interval);
        }
        first.retain(|of| !comparisons.is_open(of));
        comparisons.first.extend(first);
        self.compare_next(cx);
    }

    /// The owners of a range are to compare what they hold: this node's store takes over what it lacks.
    pub(super) fn repair_range(&mut self, cx: &mut Cx<'_>, bucket: &BucketName, range: RangeId) {
        let store = self.buckets.get(bucket).and_then(|open| open.store.as_ref());
        let Some(store) = store else { return };
        let all = store.compared().filter(|(compared, _)| *compared == range);
        let all = all.flat_map(|(range, owners)| others(store, range, owners));
        let all: Vec<_> = all.map(|(range, owner)| (bucket.clone(), range, owner)).collect();
        self.comparisons.first.extend(all);
        self.compare_next(cx);
    }

    /// Waits for the next round. A store that holds something looks more often.
    pub(super) fn await_round(&self, cx: &mut Cx<'_>) {
        let mut stores = self.buckets.values().filter_map(|open| open.store.as_ref());
        if !cx.is_set(Timer::Compare) && stores.any(BucketStore::owns_anything) {
            let now = cx.mono();
            let next = self.comparisons.round.filter(|at| *at > now);
            let at = next.unwrap_or(now + cx.config().kv.compare_interval);
            cx.wake(Timer::Compare, at);
        }
    }

    /// Whether a store was away, and asks until it has what it lacks.
    pub(super) fn is_behind(&self) -> bool {
        let mut stores = self.buckets.values().filter_map(|open| open.store.as_ref());
        stores.any(BucketStore::is_behind)
    }

    fn compare_next(&mut self, cx: &mut Cx<'_>) {
        while let Some(of) = self.comparisons.begin_next() {
            let store = self.buckets.get(&of.0).and_then(|open| open.store.as_ref());
            let mut ranges = store.into_iter().flat_map(BucketStore::compared);
            let Some((_, owners)) = ranges.find(|(range, _)| *range == of.1) else {
                continue;
            };
            let owners = owners.clone();
            drop(ranges);
            let number = self.calls.draw_number();
            let begun = OpenComparison {
                owners,
                of,
                progress: Progress::Sums(MerkleComparison::default()),
                due: cx.mono() + ANSWERS_WITHIN,
            };
            self.comparisons.open.insert(number, begun);
            self.ask_owner(cx, number);
        }
    }

    /// Asks the other owner what is to be asked next.
    fn ask_owner(&mut self, cx: &mut Cx<'_>, number: u64) {
        let Some(open) = self.comparisons.open.get_mut(&number) else {
            return;
        };
        let (bucket, range, owner) = &open.of;
        let view = Arc::clone(cx.view());
        let place = self
            .buckets
            .get_mut(bucket)
            .and_then(|open| open.place_of(*owner, &view));
        let Some(node) = place.filter(|node| view.is_reachable(node)) else {
            self.comparisons.open.remove(&number);
            return;
        };
        open.due = cx.mono() + ANSWERS_WITHIN;
        let asked = TreeAsk {
            store: *owner,
            range: *range,
            configuration: open.owners.clone(),
            comparison: number,
        };
        let statement = match &open.progress {
            Progress::Sums(comparison) => TreeStatement::Compare {
                asked,
                nodes: comparison.question().to_vec(),
            },
            Progress::Keys { leaves, after } => TreeStatement::Fetch {
                asked,
                leaves: leaves.iter().take(LEAVES_ASKED_MAX).copied().collect(),
                after: after.clone(),
            },
        };
        send(cx, &node, bucket, BucketBody::Trees(Box::new(statement)));
    }

    /// Another owner asks about a tree, or answers.
    pub(super) fn on_tree(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        bucket: &BucketName,
        statement: TreeStatement,
    ) -> Result<(), Rejection> {
        let now = cx.now();
        match statement {
            TreeStatement::Compare { asked, nodes } => match self.store_of(bucket, asked.store) {
                Some(store) => store.on_compare(from, &asked, &nodes, now),
                None => Ok(()),
            },
            TreeStatement::Fetch { asked, leaves, after } => match self.store_of(bucket, asked.store) {
                Some(store) => store.on_fetch(from, &asked, (&leaves, after), now),
                None => Ok(()),
            },
            TreeStatement::Sums { said, sums } => {
                let Some(open) = self.answered(cx, from, said) else {
                    return Ok(());
                };
                self.on_sums(cx, (said.comparison, open), &sums)
            }
            TreeStatement::Held { said, items, next } => {
                let Some(open) = self.answered(cx, from, said) else {
                    return Ok(());
                };
                self.on_held(cx, (said.comparison, open), items, next)
            }
        }
    }

    /// The comparison that an answer is about, taken out: it goes on only if the answer is right.
    fn answered(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        said: TreeAnswer,
    ) -> Option<OpenComparison> {
        let open = self.comparisons.open.get(&said.comparison);
        let is_its = open.is_some_and(|open| {
            let bucket = self.buckets.get(&open.of.0);
            let node = bucket.and_then(|bucket| bucket.node_of(said.store));
            open.of.2 == said.store && node == Some(from)
        });
        if !is_its {
            cx.counters().ignored += 1;
            return None;
        }
        self.comparisons.open.remove(&said.comparison)
    }

    fn on_sums(
        &mut self,
        cx: &mut Cx<'_>,
        (number, mut open): (u64, OpenComparison),
        sums: &[u64],
    ) -> Result<(), Rejection> {
        let store = self.buckets.get(&open.of.0).and_then(|open| open.store.as_ref());
        let tree = store.and_then(|store| store.tree(open.of.1, &open.owners));
        let (Progress::Sums(comparison), Some(tree)) = (&mut open.progress, tree) else {
            // It has other owners now.
            return Ok(());
        };
        if !comparison.on_children(tree, sums) {
            return Err(Rejection::Tree);
        }
        if comparison.question().is_empty() {
            let mut leaves = comparison.leaves().to_vec();
            leaves.sort_unstable();
            let counters = cx.counters();
            counters.trees_compared += 1;
            counters.leaves_differing += leaves.len() as u64;
            open.progress = Progress::Keys { leaves, after: None };
        }
        self.go_on(cx, number, open);
        Ok(())
    }

    fn on_held(
        &mut self,
        cx: &mut Cx<'_>,
        (number, mut open): (u64, OpenComparison),
        items: Vec<RangeItem>,
        next: Option<Bytes>,
    ) -> Result<(), Rejection> {
        let (bucket, range, _) = &open.of;
        let Progress::Keys { leaves, after } = &mut open.progress else {
            return Err(Rejection::Tree);
        };
        let is_last = true;
        let part = RangePart { items, is_last };
        part.check(after.as_deref(), super::hosting::PART_LIMITS)?;
        let last = part.items.last().map(|item| &item.key).or(after.as_ref());
        if next.is_some() && next.as_ref() < last {
            return Err(Rejection::Tree);
        }
        let store = self.buckets.get_mut(bucket).and_then(|open| open.store.as_mut());
        let store = store.filter(|store| store.tree(*range, &open.owners).is_some());
        let Some(store) = store else { return Ok(()) };
        let taken = store.on_held(*range, &open.owners, &part.items, cx.now())?;
        cx.counters().keys_repaired += taken.changed;
        if next.is_some() && next == *after {
            return Err(Rejection::Tree);
        }
        if next.is_none() {
            leaves.drain(..leaves.len().min(LEAVES_ASKED_MAX));
        }
        *after = next;
        let open_keys = taken.open.into_iter().map(|key| (bucket.clone(), key));
        for of in open_keys.collect::<Vec<_>>() {
            self.begin_repair(cx, of, CallGoal::Resolve, ANSWERS_WITHIN);
        }
        self.go_on(cx, number, open);
        Ok(())
    }

    /// Asks on, or ends a comparison after which nothing is left to be asked.
    fn go_on(&mut self, cx: &mut Cx<'_>, number: u64, open: OpenComparison) {
        let is_over = matches!(&open.progress, Progress::Keys { leaves, .. } if leaves.is_empty());
        if !is_over {
            self.comparisons.open.insert(number, open);
            return self.ask_owner(cx, number);
        }
        let (bucket, range, owner) = &open.of;
        let store = self.buckets.get_mut(bucket).and_then(|open| open.store.as_mut());
        if let Some(store) = store {
            store.on_compared(*range, &open.owners, *owner);
        }
        self.compare_next(cx);
    }

    /// This process stood still for so long that others may have forgotten what was deleted meanwhile.
    pub(super) fn note_absence(&mut self, cx: &Cx<'_>, since: Instant) {
        if cx.mono().since(since) > cx.config().kv.tombstone_grace {
            for open in self.buckets.values_mut() {
                if let Some(store) = open.store.as_mut() {
                    store.set_behind();
                }
            }
        }
    }
}

/// A range's owners but this store.
fn others(
    store: &BucketStore,
    range: RangeId,
    owners: &Configuration,
) -> impl Iterator<Item = (RangeId, StoreId)> {
    let own = store.id();
    let all = owners.owners.all().filter(move |owner| *owner != own);
    all.map(move |owner| (range, owner))
}
