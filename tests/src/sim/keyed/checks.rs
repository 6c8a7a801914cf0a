//! What must hold of the buckets of all nodes together, seen from outside: one set of owners for each epoch
//! of a range, W copies of what was acknowledged, whatever moves, and in the end as many copies as there
//! should be, all alike, that everybody is given. Spec: sharding 10.19 b; reliability I-70, I-74.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use quorate_core::journal::state::StoreId;
use quorate_core::kv::hosting::{BucketStore, HostedRange};
use quorate_core::kv::state::configuration::{Configuration, Owners};
use quorate_core::kv::state::entry::KvEntry;
use quorate_core::kv::state::level::Level;
use quorate_core::kv::state::node::MerkleNode;
use quorate_core::kv::state::outcome::CallGoal;
use quorate_core::kv::state::table::RangeId;

use super::{BUCKETS, COPIES, ending, ranges};
use crate::histories::books::Asked;
use crate::sim::engine::Sim;
use crate::sim::history::ProcessId;
use crate::sim::plan::SECOND;

/// How long ranges may take to have all their owners again: a removal, its margin, and a move after another.
const WHOLE_MAX: u64 = 40 * SECOND;
/// Ranges are at rest when no owner has changed for so long.
const QUIET: u64 = 3 * SECOND;
/// How long owners may take to find out by themselves in what they differ, and to take it over: several
/// rounds, and the wait for an answer that was lost before.
const ALIKE_MAX: u64 = 30 * SECOND;
/// How long a call may take at rest.
const CALL_MAX: Duration = Duration::from_secs(5);
/// W.
const WRITES: usize = 2;

/// What is known of all nodes together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    /// The owners of each epoch of a range, and who was seen to have adopted them first.
    owners: BTreeMap<(usize, RangeId, u64), (Configuration, ProcessId)>,
    /// The store of each process for each bucket.
    stores: BTreeMap<(ProcessId, usize), StoreId>,
    /// When owners were last seen to change.
    changed_at: u64,
    /// Owners of a range in memory that were lost since it had all its copies.
    lost: BTreeMap<(usize, RangeId), BTreeSet<StoreId>>,
    pub(crate) counts: WatchedCounts,
}

/// What happened, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchedCounts {
    pub(crate) epochs: u64,
    pub(crate) copies_looked_at: u64,
    pub(crate) whole_again: u64,
    pub(crate) alike: u64,
    pub(crate) behind: u64,
    pub(crate) rested: u64,
}

/// One range at one store.
pub(super) struct Copy<'a> {
    pub(super) process: ProcessId,
    pub(super) store: StoreId,
    configuration: &'a Configuration,
    pub(super) hosted: &'a HostedRange,
}

impl Watched {
    /// The owners of the highest epoch that anybody has adopted.
    pub(super) fn latest(&self, bucket: usize, range: RangeId) -> Option<&Configuration> {
        let all = self.owners.range((bucket, range, 0)..=(bucket, range, u64::MAX));
        all.last().map(|(_, (configuration, _))| configuration)
    }
}

impl Sim {
    /// Whether one table counts in this run: where nobody keeps it, in the safe shapes.
    pub(super) fn has_one_table(&self) -> bool {
        self.assumptions.safe() || self.config.journal.voters > 0
    }

    /// Until when a bucket's answers have to keep what it promises. Who is removed has lost what it held in
    /// memory: outside of the safe shapes that may be more than one.
    fn promised_until(&self, bucket: usize) -> u64 {
        match self.assumptions.broken {
            Some((at, _)) if !(BUCKETS[bucket].is_durable && self.has_one_table()) => at,
            Some(_) | None => u64::MAX,
        }
    }

    pub(super) fn is_promised(&self, bucket: usize) -> bool {
        self.promised_until(bucket) == u64::MAX
    }

    /// The store that a process has for a bucket, while its node keeps it.
    pub(super) fn store_of(&self, process: ProcessId, bucket: usize) -> Option<&BucketStore> {
        let node = &self.processes[process as usize].node;
        node.kv().bucket(&BUCKETS[bucket].bucket())?.store()
    }

    /// Processes that run, by address.
    pub(super) fn running_processes(&self) -> impl Iterator<Item = ProcessId> {
        let last = self.last_at.iter().flatten().copied();
        last.filter(|at| self.processes[*at as usize].runs())
    }

    /// The copies of a range at processes that run.
    pub(super) fn copies(&self, bucket: usize, range: RangeId) -> Vec<Copy<'_>> {
        let copies = self.running_processes().filter_map(|process| {
            let store = self.store_of(process, bucket)?;
            let (_, hosted) = store.ranges().find(|(hosted, _)| *hosted == range)?;
            Some(Copy {
                process,
                store: store.id(),
                configuration: hosted.configuration()?,
                hosted,
            })
        });
        copies.collect()
    }

    /// What a copy holds of a key once every clock agrees on what has ended.
    fn entry_at(&self, copy: &Copy<'_>, at: usize) -> KvEntry {
        let mut entry = copy.hosted.entry(&self.key_of(at)).cloned().unwrap_or_default();
        entry.expire(ending::ended_everywhere(self.now));
        entry
    }

    /// The range of a key.
    pub(super) fn range_of(&self, at: usize) -> (usize, RangeId) {
        let bucket = self.keyed.buckets[at];
        (bucket, BUCKETS[bucket].settings().range_of(&self.key_of(at)))
    }

    /// The keys of a range.
    fn keys_in(&self, bucket: usize, range: RangeId) -> impl Iterator<Item = usize> {
        let keys = 0..self.keyed.books.keys.len();
        keys.filter(move |at| self.range_of(*at) == (bucket, range))
    }

    /// Who coordinates a bucket, and who owns a range of it as that one has decided.
    pub(super) fn coordinated(&self, bucket: usize, range: RangeId) -> Option<(ProcessId, Configuration)> {
        let name = BUCKETS[bucket].bucket();
        self.running_processes().find_map(|process| {
            let node = &self.processes[process as usize].node;
            let lead = node.kv().lead(&name).filter(|lead| lead.is_active())?;
            Some((process, lead.table().get(range)?.configuration.clone()))
        })
    }

    /// Stores of running nodes.
    pub(super) fn stores_of(&self, bucket: usize) -> Vec<StoreId> {
        let stores = self
            .running_processes()
            .filter_map(|process| self.store_of(process, bucket));
        stores.map(BucketStore::id).collect()
    }

    /// Looks at all ranges.
    pub(crate) fn look_at_ranges(&mut self) {
        if !self.keyed.enabled || self.violation.is_some() {
            return;
        }
        for process in self.running_processes().collect::<Vec<_>>() {
            for bucket in 0..BUCKETS.len() {
                let found = self.store_of(process, bucket);
                let found = found.map(|store| (store.id(), store.is_behind()));
                if let Some((store, is_behind)) = found {
                    let watched = &mut self.keyed.watched;
                    let is_new = watched.stores.insert((process, bucket), store).is_none();
                    watched.counts.behind += u64::from(is_new && is_behind);
                }
            }
        }
        for (bucket, range) in ranges() {
            // First: nobody may have looked since the range was given anew.
            self.forget_if_gone(bucket, range);
            if let Err((process, what)) = self.note_owners(bucket, range) {
                return self.violated("owners", process, what);
            }
            if self.keyed.watched.lost.contains_key(&(bucket, range)) && self.is_whole(bucket, range) {
                self.keyed.watched.lost.remove(&(bucket, range));
                self.keyed.watched.counts.whole_again += 1;
            }
        }
        if let Err(what) = self.check_copies() {
            return self.violated("copies", 0, what);
        }
        if let Err((process, what)) = self.look_at_ends() {
            self.violated("I-75", process, what);
        }
    }

    /// If no owner of a range in memory is left, it may be given anew, from the first epoch on.
    fn forget_if_gone(&mut self, bucket: usize, range: RangeId) {
        let stores = self.stores_of(bucket);
        let latest = self.keyed.watched.latest(bucket, range);
        let is_held = latest.is_none_or(|latest| latest.owners.all().any(|owner| stores.contains(&owner)));
        if !(is_held || BUCKETS[bucket].is_durable) {
            let all = (bucket, range, 0)..=(bucket, range, u64::MAX);
            self.keyed.watched.owners.retain(|at, _| !all.contains(at));
        }
    }

    /// No two sets of owners have one epoch.
    fn note_owners(&mut self, bucket: usize, range: RangeId) -> Result<(), (ProcessId, String)> {
        let adopted: Vec<(ProcessId, Configuration)> = self
            .copies(bucket, range)
            .into_iter()
            .map(|copy| (copy.process, copy.configuration.clone()))
            .collect();
        let (is_promised, now) = (self.has_one_table(), self.now);
        for (process, configuration) in adopted {
            let watched = &mut self.keyed.watched;
            let at = (bucket, range, configuration.epoch);
            let (first, by) = watched.owners.entry(at).or_insert_with(|| {
                watched.counts.epochs += 1;
                watched.changed_at = now;
                (configuration.clone(), process)
            });
            if *first != configuration && is_promised {
                let what = format!("range {range:?} has {configuration:?} here, and {first:?} at p{by}");
                return Err((process, what));
            }
        }
        Ok(())
    }

    /// The owners of the highest epoch that somebody knows who runs: what was told only to those who have
    /// ended counts no more.
    pub(super) fn present(&self, bucket: usize, range: RangeId) -> Option<Configuration> {
        let copies = self.copies(bucket, range);
        let latest = copies.iter().max_by_key(|copy| copy.configuration.epoch);
        latest.map(|copy| copy.configuration.clone())
    }

    /// Whether all owners are there, and hold the same.
    fn is_whole(&self, bucket: usize, range: RangeId) -> bool {
        let Some(latest) = self.present(bucket, range) else {
            return false;
        };
        let Owners::Stable(owners) = &latest.owners else {
            return false;
        };
        let copies = self.copies(bucket, range);
        let copies: Vec<&Copy<'_>> = copies
            .iter()
            .filter(|copy| owners.contains(&copy.store))
            .collect();
        copies.len() == usize::from(COPIES)
            && copies.iter().all(|copy| *copy.configuration == latest)
            && self.keys_in(bucket, range).all(|at| {
                let first = self.entry_at(copies[0], at);
                // What is deleted is forgotten by one owner after the other.
                let is_dead = |entry: &KvEntry| entry.is_dead_for(0, u64::MAX);
                let is_going = |entry: &KvEntry| self.keyed.forgets && is_dead(entry) && is_dead(&first);
                let is_same = |entry: &KvEntry| are_alike(entry, &first) || is_going(entry);
                copies.iter().all(|copy| is_same(&self.entry_at(copy, at)))
            })
    }

    /// What was acknowledged has as many copies as W says, those that were lost aside.
    fn check_copies(&mut self) -> Result<(), String> {
        let mut looked = 0;
        for (at, book) in self.keyed.books.keys.iter().enumerate() {
            let (bucket, range) = self.range_of(at);
            if !book.is_promised(self.now) || !self.is_promised(bucket) || self.is_sloppy(bucket) {
                continue;
            }
            let Some(latest) = self.keyed.watched.latest(bucket, range) else {
                continue;
            };
            let (owners, _) = latest.owners.sets();
            let lost = self
                .keyed
                .watched
                .lost
                .get(&(bucket, range))
                .map_or(0, BTreeSet::len);
            let copies = self.copies(bucket, range);
            // What is on the disk of an owner that does not run is not looked at.
            let has_copy = |owner: &&StoreId| copies.iter().any(|copy| copy.store == **owner);
            let away = owners.iter().filter(|owner| !has_copy(owner)).count();
            let lost = if BUCKETS[bucket].is_durable { away } else { lost };
            let held: Vec<KvEntry> = copies
                .iter()
                .filter(|copy| owners.contains(&copy.store))
                .map(|copy| self.entry_at(copy, at))
                .collect();
            for clock in book.acknowledged() {
                let grace = self.keyed.grace();
                if grace.is_some_and(|grace| book.may_have_ended(clock, self.now.saturating_sub(grace))) {
                    continue;
                }
                looked += 1;
                let is_held = |entry: &&KvEntry| entry.siblings.clock().dominates(clock);
                let holders = held.iter().filter(is_held).count();
                if holders + lost < WRITES {
                    return Err(format!(
                        "{} was acknowledged with {clock:?}; of {latest:?} {holders} hold it, {lost} are lost",
                        book.key
                    ));
                }
            }
        }
        self.keyed.watched.counts.copies_looked_at += looked;
        Ok(())
    }

    /// What a process held in memory is gone with it.
    pub(super) fn lose_copies(&mut self, process: ProcessId) {
        for (bucket, range) in ranges().filter(|(bucket, _)| !BUCKETS[*bucket].is_durable) {
            let Some(store) = self.keyed.watched.stores.get(&(process, bucket)).copied() else {
                continue;
            };
            self.keyed.is_hint_lost |= self.is_sloppy(bucket);
            let latest = self.keyed.watched.latest(bucket, range);
            if !latest.is_some_and(|latest| latest.owners.contains(store)) {
                continue;
            }
            let lost = self.keyed.watched.lost.entry((bucket, range)).or_default();
            lost.insert(store);
            if lost.len() >= WRITES {
                let meant: BTreeSet<usize> = self.keys_in(bucket, range).collect();
                self.keyed.books.excuse(self.now, |at| meant.contains(&at));
            }
        }
    }

    /// After the last fault: all ranges have their owners again, everybody is given what was acknowledged,
    /// and the owners are alike.
    pub(crate) fn rest_of_keyed(&mut self) {
        self.look_at_ranges();
        if self.liars.process.is_some() {
            // Who was refused for its lies asks again.
            let running: Vec<ProcessId> = self.running_processes().collect();
            running.into_iter().for_each(|process| self.open_buckets(process));
        }
        let nodes = self.running().len();
        // Who does not come back keeps its ranges for a time.
        let away = match nodes < self.last_at.len() {
            true => self.config.kv.away_max.as_secs() * SECOND,
            false => 0,
        };
        let limit = self.now + WHOLE_MAX + away;
        let has_owners = |sim: &Self| {
            let is_quiet = sim.now >= sim.keyed.watched.changed_at + QUIET;
            is_quiet
                && ranges().all(|(bucket, range)| {
                    let latest = sim.present(bucket, range);
                    let stores = sim.stores_of(bucket);
                    latest.is_some_and(|latest| match &latest.owners {
                        Owners::Stable(owners) => owners.iter().all(|store| stores.contains(store)),
                        Owners::Joint { .. } => false,
                    })
                })
        };
        while nodes >= usize::from(COPIES) && self.violation.is_none() && !has_owners(self) {
            if self.now >= limit {
                if !self.can_be_whole() {
                    break;
                }
                let what = format!("ranges do not get their owners back: {:?}", self.keyed.watched);
                return self.not_at_rest(what);
            }
            self.advance(self.now + SECOND / 10);
            self.look_at_ranges();
        }
        if nodes >= usize::from(COPIES) && self.can_be_whole() {
            self.become_alike();
            self.get_all();
        }
        let until: Vec<u64> = (0..BUCKETS.len())
            .map(|bucket| self.promised_until(bucket))
            .collect();
        let until = |at: usize| until[self.keyed.buckets[at]];
        if self.violation.is_some() {
            return;
        }
        if let Err((invariant, what)) = self.keyed.books.judge(until, self.keyed.grace()) {
            return self.violated(invariant, 0, what);
        }
        self.look_at_ranges();
        self.keyed.watched.counts.rested += 1;
        self.bring_a_hint_late();
    }

    /// Whether the owners of a range hold the same, and their trees say so.
    fn is_alike(&self, bucket: usize, range: RangeId) -> bool {
        let copies = self.copies(bucket, range);
        let Some(latest) = self.present(bucket, range) else {
            return false;
        };
        let owners = copies.iter().filter(|copy| latest.owners.contains(copy.store));
        let roots: BTreeSet<u64> = owners
            .map(|copy| copy.hosted.replica().tree().sum(MerkleNode::ROOT))
            .collect();
        roots.len() == 1 && self.is_whole(bucket, range)
    }

    /// Nobody reads anything: what owners lack they find out by comparing trees.
    fn become_alike(&mut self) {
        let (begun, limit) = (self.now, self.now + ALIKE_MAX);
        let different = |sim: &Self| {
            ranges().find(|(bucket, range)| !sim.is_alike(*bucket, *range) || sim.hints(*bucket) > 0)
        };
        while let Some((bucket, range)) = different(self) {
            if self.violation.is_some() || self.keyed.watched.changed_at >= begun {
                return;
            }
            if self.now >= limit {
                if self.is_promised(bucket) {
                    let what = self.difference(bucket, range);
                    self.violated("I-74", 0, format!("not found by trees: {what}"));
                }
                return;
            }
            self.advance(self.now + SECOND / 10);
            self.look_at_ranges();
        }
        self.keyed.watched.counts.alike += 1;
    }

    pub(super) fn not_at_rest(&mut self, what: String) {
        if self.has_one_table() {
            let what = self.report(&what);
            self.violated("liveness", 0, what);
        } else {
            self.stuck = true;
        }
    }

    /// Everybody gets every key.
    fn get_all(&mut self) {
        self.end_log();
        self.judge_sloppy_from_now();
        let (failed, begun) = (self.keyed.books.counts.refused, self.now);
        for at in 0..self.keyed.books.keys.len() {
            for index in self.running() {
                let Some(process) = self.running_at(index) else {
                    continue;
                };
                let asked = Asked::Get { is_judged: true };
                let level = Level::Quorum;
                self.call(process, at, asked, CallGoal::Get { level }, CALL_MAX);
                // One after the other, as a tester of registers wants them.
                let limit = self.now + SECOND / 50;
                while self.violation.is_none() && self.keyed.open() > 0 && self.now < limit {
                    self.advance_once(limit);
                }
            }
        }
        let limit = self.now + 6 * SECOND;
        while self.violation.is_none() && self.keyed.open() > 0 && self.now < limit {
            self.advance(self.now + SECOND / 10);
        }
        if self.keyed.books.counts.refused > failed && self.violation.is_none() {
            return self.not_at_rest("a get at rest has failed".to_owned());
        }
        // What a get has found goes to all owners.
        self.advance(self.now + SECOND);
        self.look_at_ranges();
        if self.keyed.watched.changed_at >= begun {
            return;
        }
        let mut promised = ranges().filter(|(bucket, _)| self.is_promised(*bucket));
        let different = promised.find(|(bucket, range)| !self.is_whole(*bucket, *range));
        if let Some((bucket, range)) = different.filter(|_| self.violation.is_none()) {
            let what = self.difference(bucket, range);
            self.violated("I-74", 0, what);
        }
    }

    /// In what the owners of a range differ.
    fn difference(&self, bucket: usize, range: RangeId) -> String {
        let latest = self.keyed.watched.latest(bucket, range);
        let owned = |copy: &Copy<'_>| latest.is_some_and(|latest| latest.owners.contains(copy.store));
        let copies = self.copies(bucket, range);
        let owners: Vec<_> = copies.iter().filter(|copy| owned(copy)).collect();
        let held = self.keys_in(bucket, range).map(|at| {
            let entries = owners.iter().map(|copy| (copy.process, self.entry_at(copy, at)));
            (at, entries.collect::<Vec<_>>())
        });
        let differ = |held: &[(ProcessId, KvEntry)]| {
            let mut others = held.iter();
            others.any(|(_, entry)| *entry != held[0].1)
        };
        let held = held.into_iter().find(|(_, held)| differ(held));
        let epochs: Vec<_> = owners
            .iter()
            .map(|copy| (copy.process, copy.configuration.epoch))
            .collect();
        format!("the owners of {range:?} differ at rest: {latest:?}, {epochs:?}, {held:?}")
    }
}

/// Whether two owners hold the same of a key, whatever they have promised.
fn are_alike(one: &KvEntry, other: &KvEntry) -> bool {
    one.holds(other) && other.holds(one)
}
