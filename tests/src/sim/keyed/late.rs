//! A hint that comes too late, in seeds whose sloppy bucket outlives processes and forgets what was deleted,
//! once all has come to rest: another store keeps a value for an owner that is away, and ends as well. The
//! owner comes back, the value is deleted, and all owners forget that. Then who has kept it comes back, and
//! nobody may be shown it. Spec: sharding 5.6, 10.19 e, g; reliability I-75.

use core::time::Duration;

use quorate_core::journal::state::StoreId;
use quorate_core::kv::state::configuration::Owners;
use quorate_core::kv::state::exchange::KvChange;
use quorate_core::kv::state::level::Level;
use quorate_core::kv::state::outcome::CallGoal;

use super::{BUCKETS, COPIES, GRACE};
use crate::histories::books::{Asked, KeyUse};
use crate::histories::register::Written;
use crate::sim::engine::Sim;
use crate::sim::plan::SECOND;
use crate::sim::script::all_up;

/// How long who has ended may take to be missed, or to be back with what it owns.
const CHANGE_MAX: u64 = 30 * SECOND;
/// How long owners may take to forget what was deleted: its grace, and the same again once all hold the
/// same, rounds of both aside.
const FORGOTTEN_MAX: u64 = 3 * GRACE.as_micros() as u64;
/// How long a call may take: an owner may have to be missed first.
const CALL_MAX: Duration = Duration::from_secs(15);
/// How long a hint may take to its owner.
const GIVEN_WITHIN: u64 = 5 * SECOND;

/// Who has a part in it, by place.
#[derive(Clone, Copy, Debug)]
struct Parts {
    bucket: usize,
    /// The key, in the books.
    at: usize,
    /// The owner that is away first.
    owner: (usize, StoreId),
}

impl Sim {
    pub(super) fn bring_a_hint_late(&mut self) {
        let Some(bucket) = self.keyed.sloppy else { return };
        let is_meant = self.keyed.forgets && BUCKETS[bucket].is_durable && self.is_promised(bucket);
        let nodes = self.last_at.len();
        let are_all_there = nodes > usize::from(COPIES) && self.running().len() == nodes && all_up(self);
        if !(is_meant && are_all_there) || self.liars.process.is_some() || self.violation.is_some() {
            return;
        }
        let at = self.new_key(bucket, KeyUse::Shared);
        let (_, range) = self.range_of(at);
        let Some(Owners::Stable(owners)) = self.present(bucket, range).map(|present| present.owners) else {
            return;
        };
        let mut places = (0..nodes).filter_map(|index| Some((index, self.store_at(bucket, index)?)));
        let owner = places.rfind(|(_, store)| owners.contains(store));
        let Some(owner) = owner else { return };
        let came = self.hint_that_is_late(Parts { bucket, at, owner });
        self.keyed.late_hints += u64::from(came.is_some());
    }

    /// Brings it about; `None` if it did not come to that.
    fn hint_that_is_late(&mut self, parts: Parts) -> Option<()> {
        let Parts { bucket, at, owner } = parts;
        self.crash(owner.0);
        self.write_to_all(at, false)?;
        let keeper = self.running().into_iter().find(|index| {
            let process = self.running_at(*index);
            let store = process.and_then(|process| self.store_of(process, bucket));
            store.is_some_and(|store| store.hints() > 0)
        })?;
        self.crash(keeper);
        self.start(owner.0);
        self.wait(CHANGE_MAX, |sim| {
            all_up(sim) && sim.store_at(bucket, owner.0) == Some(owner.1) && sim.are_owners_there(parts)
        })?;
        self.write_to_all(at, true)?;
        self.wait(FORGOTTEN_MAX, |sim| {
            let (_, range) = sim.range_of(at);
            let copies = sim.copies(bucket, range);
            let is_gone = copies
                .iter()
                .all(|copy| copy.hosted.entry(&sim.key_of(at)).is_none());
            is_gone && sim.are_owners_there(parts)
        })?;
        self.start(keeper);
        self.wait(CHANGE_MAX, |sim| {
            all_up(sim) && sim.store_at(bucket, keeper).is_some()
        })?;
        self.wait(GIVEN_WITHIN, |_| false);
        self.keyed.books.keys[at].gets_from = Some(self.now);
        for index in self.running() {
            let goal = CallGoal::Get { level: Level::Quorum };
            self.call_and_wait(index, at, Asked::Get { is_judged: true }, goal);
        }
        let grace = self.keyed.grace();
        if let Err((invariant, what)) = self.keyed.books.judge_key(at, self.now, grace) {
            let what = format!("a hint that is older than the grace: {what}");
            self.violated(invariant, 0, what);
        }
        Some(())
    }

    /// Whether the owners of the key are stable, and run.
    fn are_owners_there(&self, parts: Parts) -> bool {
        let (bucket, range) = self.range_of(parts.at);
        let stores = self.stores_of(bucket);
        self.present(bucket, range)
            .is_some_and(|present| match present.owners {
                Owners::Stable(owners) => owners.iter().all(|owner| stores.contains(owner)),
                Owners::Joint { .. } => false,
            })
    }

    /// A put or a delete that all owners have, or others in their place.
    fn write_to_all(&mut self, at: usize, is_delete: bool) -> Option<()> {
        let number = self.keyed.books.next_number();
        let context = self.keyed.books.keys[at].context.clone();
        let written = Written { number, is_delete };
        let asked = Asked::Put {
            written,
            context: context.clone(),
            is_judged: true,
            lives: None,
        };
        let change = if is_delete {
            KvChange::Delete
        } else {
            let bytes = number.to_le_bytes().as_slice().into();
            KvChange::Put { bytes, ttl_ms: None }
        };
        let level = Level::All;
        let goal = CallGoal::Write {
            change,
            context,
            level,
        };
        let written = self.keyed.books.counts.written;
        let caller = *self.running().first()?;
        self.call_and_wait(caller, at, asked, goal);
        let is_written = self.keyed.books.counts.written > written && self.violation.is_none();
        is_written.then_some(())
    }

    fn call_and_wait(&mut self, index: usize, at: usize, asked: Asked, goal: CallGoal) {
        let Some(process) = self.running_at(index) else {
            return;
        };
        self.call(process, at, asked, goal, CALL_MAX);
        let limit = CALL_MAX.as_micros() as u64 + SECOND;
        self.wait(limit, |sim| sim.keyed.open() == 0);
    }

    /// Waits until something is so; `None` if it takes longer, or something is broken.
    fn wait(&mut self, limit: u64, is_so: impl Fn(&Self) -> bool) -> Option<()> {
        let limit = self.now + limit;
        while self.now < limit && self.violation.is_none() {
            if is_so(self) {
                return Some(());
            }
            self.advance(self.now + SECOND / 10);
            self.look_at_ranges();
        }
        None
    }
}
