//! Who owns which range of a bucket: the rules of the one coordinator that decides it, as a value. Events go
//! in, what has to be kept, told and asked comes out. Never sends, never reads a clock, and never decides
//! when a coordinator may act: its host has one only while this node is the oldest, and drops it when it is
//! refused. Spec: sharding 10.1, 10.13, 10.16, 10.18, 10.19.
//!
//! * A range is first given to N owners when N stores may be given something.
//! * It changes one owner at a time: Stable(e, O), Joint(e + 1, O, O'), Stable(e + 2, O'), or O again when
//!   that is undone. Each step is kept, then told; one record is on its way to be kept at a time.
//! * Joint ends with O' when the newcomer has merged N − W + 1 of O, each read after it had refused e, and
//!   N − min(W, R) + 1 of O refuse e. It ends with O when the newcomer is gone, or it takes too long. A new
//!   coordinator tells a Joint that it finds once more, and brings it to either end.
//! * An owner that is away keeps its ranges for a set time. One that is gone for good is replaced at once: a
//!   store that does not outlive its node, or one that an operator has given up.
//!
//! Where nobody keeps the table, or those who keep it have never kept one, it is found again from what stores
//! have adopted (`recovery`).

mod planning;
mod recovery;
mod step;
mod telling;
#[cfg(test)]
mod tests;
mod words;

pub use words::{
    RangeCommand, RangeCommandError, RangeEffect, RangeEvent, RangeSettings, RangeStore, UndoReason,
};

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use step::{JointOutlook, RangeStep};

use super::state::configuration::{Configuration, Owners};
use super::state::table::{EPOCH_MAX, RangeEntry, RangeId, RangeTable, TableChange};
use crate::journal::state::StoreId;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::planner::{NodeStanding, PlanningGate, WantedMove, check_move};
use crate::time::Instant;

/// Commanded moves that wait for the planner's limits: a few for each range of a bucket of usual size.
const WANTED_MAX: usize = 1_024;

/// How far the coordinator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeTenure {
    /// The table is being read or found.
    Recovering,
    /// It decides.
    Active,
    /// What was found at stores is on its way to be kept.
    TakingOver,
    /// Its table is none, and nothing is decided by it.
    Outdone,
}

/// The coordinator of a bucket's ranges. See the module.
#[derive(Clone, Debug)]
pub struct RangeCoordinator {
    settings: RangeSettings,
    tenure: RangeTenure,
    /// The table is to be found at stores.
    seeks: bool,
    is_paused: bool,
    /// What is decided and kept.
    table: RangeTable,
    /// What is decided and on its way to be kept.
    keeping: Option<TableChange>,
    /// What operators hear of when it is.
    news: Vec<RangeEvent>,
    /// How far the configurations are that not everybody has adopted.
    steps: OrderedMap<RangeId, RangeStep>,
    /// Stores that have said what they have adopted.
    heard: OrderedSet<StoreId>,
    /// When the others were asked last.
    asked_at: Option<Instant>,
    /// Ranges whose entry was found at stores: a coordinator before may have told one more to others.
    found: OrderedSet<RangeId>,
    /// Whether any was.
    has_found: bool,
    stores: OrderedMap<StoreId, RangeStore>,
    /// Owners that are away: since when, and where they stood.
    away: OrderedMap<StoreId, (Instant, Option<Arc<str>>)>,
    /// Stores that an operator has given up, not yet kept.
    given_up: OrderedSet<StoreId>,
    wanted: Vec<WantedMove<RangeId, StoreId>>,
    /// Until when a store is not chosen for a range again that it did not take over in time.
    refused: OrderedMap<(RangeId, StoreId), Instant>,
    placed_last: Option<StoreId>,
    /// When was planned last, and how far the gate was open; `None` if something has changed since.
    planned: Option<(Instant, PlanningGate)>,
    effects: Vec<RangeEffect>,
}

impl RangeCoordinator {
    /// Knows nothing and decides nothing yet.
    #[must_use]
    pub const fn new(settings: RangeSettings) -> Self {
        Self {
            seeks: !settings.is_kept,
            settings,
            tenure: RangeTenure::Recovering,
            is_paused: false,
            table: RangeTable::new(),
            keeping: None,
            news: Vec::new(),
            steps: OrderedMap::new(),
            heard: OrderedSet::new(),
            asked_at: None,
            found: OrderedSet::new(),
            has_found: false,
            stores: OrderedMap::new(),
            away: OrderedMap::new(),
            given_up: OrderedSet::new(),
            wanted: Vec::new(),
            refused: OrderedMap::new(),
            placed_last: None,
            planned: None,
            effects: Vec::new(),
        }
    }

    /// One with the same settings that knows nothing of what this one has decided.
    #[must_use]
    pub fn anew(&self) -> Self {
        Self {
            is_paused: self.is_paused,
            ..Self::new(self.settings.clone())
        }
    }

    /// Whether nothing is decided because the node was paused.
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// What is decided and kept: all that anybody may be told.
    #[must_use]
    pub const fn table(&self) -> &RangeTable {
        &self.table
    }

    /// Whether it decides.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.tenure == RangeTenure::Active
    }

    /// What it has asked for and said since the last call, in its order.
    pub fn take_effects(&mut self) -> Vec<RangeEffect> {
        mem::take(&mut self.effects)
    }

    fn activate(&mut self, table: RangeTable, now: Instant) {
        self.tenure = RangeTenure::Active;
        self.seeks &= !self.settings.is_kept;
        let timing = (now, self.settings.move_timeout);
        for (range, entry) in table.entries() {
            let Configuration { epoch, owners } = &entry.configuration;
            self.steps
                .insert(range, RangeStep::begin(*epoch, owners.all(), timing));
        }
        self.table = table;
    }

    /// All stores of members with the bucket's role, as they are now. Not before each of these members has
    /// said which store it has: whoever is not named is away, or gone.
    pub fn on_stores(&mut self, stores: impl IntoIterator<Item = RangeStore>, now: Instant) {
        let stores = stores.into_iter().map(|store| (store.store, store));
        let before = mem::replace(&mut self.stores, stores.collect());
        if before != self.stores {
            self.planned = None;
        }
        for (store, known) in before {
            if !self.stores.contains_key(&store) {
                self.away.insert(store, (now, known.zone));
            }
        }
        self.away.retain(|store, _| !self.stores.contains_key(store));
    }

    /// The node of the coordinator was paused, or has heard that it is still a member. Meanwhile nothing is
    /// decided and nothing told.
    pub fn on_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// A store has adopted a configuration of this epoch; a newcomer has merged these by then.
    pub fn on_adopted(&mut self, store: StoreId, range: RangeId, (epoch, merged): (u64, &[StoreId])) {
        if !self.is_active() {
            return;
        }
        let known = self.table.get(range);
        let present = known.map_or(0, |entry| entry.configuration.epoch);
        if epoch > present && !self.settings.is_kept {
            return self.outdone();
        }
        let Some(step) = self.steps.get_mut(&range).filter(|_| epoch == present) else {
            return;
        };
        step.adopting.marked(&store, epoch);
        let newcomer = known.and_then(|entry| entry.configuration.owners.newcomer());
        if newcomer == Some(store) {
            step.merge(merged);
        }
    }

    fn outdone(&mut self) {
        self.tenure = RangeTenure::Outdone;
        self.effects.push(RangeEffect::Outdone);
    }

    /// What was to be kept is.
    pub fn on_kept(&mut self, now: Instant) {
        let Some(change) = self.keeping.take() else {
            return;
        };
        if self.tenure == RangeTenure::TakingOver {
            let mut table = RangeTable::new();
            table.apply(change);
            return self.activate(table, now);
        }
        self.apply(change, now);
    }

    /// What is decided and kept counts from now on, and is told.
    fn apply(&mut self, change: TableChange, now: Instant) {
        let timing = (now, self.settings.move_timeout);
        for (range, entry) in &change.entries {
            let Configuration { epoch, owners } = &entry.configuration;
            let mut concerned: OrderedSet<StoreId> = owners.all().collect();
            if let Some(before) = self.table.get(*range) {
                // Who goes is told as well: it holds what nobody may ask it for any more.
                concerned.extend(before.configuration.owners.all());
            }
            self.steps
                .insert(*range, RangeStep::begin(*epoch, concerned, timing));
            self.found.remove(range);
        }
        self.given_up.retain(|store| !change.lost.contains(store));
        self.table.apply(change);
        self.planned = None;
        let news = mem::take(&mut self.news);
        self.effects.extend(news.into_iter().map(RangeEffect::Notify));
    }

    /// An operator commands something.
    ///
    /// # Errors
    /// [`RangeCommandError`] says why it is not done.
    pub fn on_command(&mut self, command: RangeCommand, now: Instant) -> Result<(), RangeCommandError> {
        if !self.is_active() {
            return Err(RangeCommandError::NotCoordinating);
        }
        match command {
            RangeCommand::Move { range, from, to } => {
                let entry = self.table.get(range).ok_or(RangeCommandError::NoRange)?;
                let (owners, _) = entry.configuration.owners.sets();
                let slot = owners.iter().position(|store| *store == from);
                let unit = range;
                let wanted = WantedMove {
                    unit,
                    slot: slot.map_or(u16::MAX, |slot| slot as u16),
                    from,
                    to,
                };
                check_move(&self.situation(now), &wanted)?;
                if self.wanted.len() >= WANTED_MAX {
                    return Err(RangeCommandError::TooMany);
                }
                if !self.wanted.contains(&wanted) {
                    self.wanted.push(wanted);
                    self.planned = None;
                }
            }
            RangeCommand::Repair { range } => {
                self.table.get(range).ok_or(RangeCommandError::NoRange)?;
                self.effects.push(RangeEffect::Repair { range });
            }
            RangeCommand::Replace { lost } => {
                if !self.table.names(lost) {
                    return Err(RangeCommandError::NoOwner);
                }
                if self.stores.contains_key(&lost) {
                    return Err(RangeCommandError::NotAway);
                }
                self.given_up.insert(lost);
            }
        }
        Ok(())
    }

    /// Whether all that owners of a range held is gone for good.
    fn is_all_gone(&self, entry: &RangeEntry) -> bool {
        entry.configuration.owners.all().all(|store| self.is_gone(store))
    }

    /// Whether what a store held is gone for good.
    fn is_gone(&self, store: StoreId) -> bool {
        self.table.is_lost(store) || !(self.settings.is_durable || self.stores.contains_key(&store))
    }

    /// Decides what is due, if nothing is on its way to be kept, tells what is decided, and asks who has not
    /// been heard. Moves are begun only as far as the gate is open (not while the cluster prepares to shut
    /// down); those under way come to their end. To be called after everything that was told here, and at
    /// least as often as [`tell_again`](RangeSettings::tell_again) says.
    pub fn look(&mut self, now: Instant, gate: PlanningGate) {
        if self.is_paused {
            return;
        }
        if self.tenure == RangeTenure::Recovering && self.seeks {
            self.recover(now);
        }
        if !self.is_active() {
            return;
        }
        self.note_absent(now);
        if self.keeping.is_none() {
            let change = self.decide(now, gate);
            if !change.entries.is_empty() || change.lost.iter().any(|store| !self.table.is_lost(*store)) {
                if self.settings.is_kept {
                    self.effects.push(RangeEffect::Keep(change.clone()));
                    self.keeping = Some(change);
                } else {
                    self.apply(change, now);
                }
            }
        }
        self.tell(now);
        if self.seeks {
            self.ask(now);
        }
    }

    /// Owners that are not there are away from now on, and those that are gone adopt nothing any more.
    fn note_absent(&mut self, now: Instant) {
        let named = self.table.stores();
        self.away.retain(|store, _| named.contains(store));
        for store in &named {
            if !self.stores.contains_key(store) && !self.away.contains_key(store) {
                self.away.insert(*store, (now, None));
            }
        }
        let mut steps = mem::take(&mut self.steps);
        steps.retain(|range, step| {
            let gone: Vec<StoreId> = step.adopting.waiting().copied().collect();
            for store in gone.into_iter().filter(|store| self.is_gone(*store)) {
                step.adopting.sender_gone(&store);
            }
            let known = self.table.get(*range);
            let is_joint = known.is_some_and(|entry| entry.configuration.owners.newcomer().is_some());
            is_joint || !step.adopting.is_open()
        });
        self.steps = steps;
        self.refused.retain(|_, until| *until > now);
    }

    fn decide(&mut self, now: Instant, gate: PlanningGate) -> TableChange {
        let mut change = TableChange {
            entries: Vec::new(),
            lost: self.table.lost().chain(self.given_up.iter().copied()).collect(),
        };
        let joint: Vec<RangeId> = self.steps.keys().copied().collect();
        for range in joint {
            if let Some(entry) = self.end_of_joint(range, now) {
                change.entries.push((range, entry));
            }
        }
        self.plan(now, gate, &mut change);
        change.entries.sort_by_key(|(range, _)| *range);
        change
    }

    /// Stable after a Joint, with the owners after it or those before.
    fn end_of_joint(&mut self, range: RangeId, now: Instant) -> Option<RangeEntry> {
        let (entry, step) = (self.table.get(range)?, self.steps.get(&range)?);
        let newcomer = entry.configuration.owners.newcomer()?;
        if !self.is_known(entry) {
            return None;
        }
        let (from, to) = entry.configuration.owners.sets();
        let known = self.stores.get(&newcomer);
        let is_gone = self.is_gone(newcomer);
        let stays = !is_gone && known.is_some_and(|known| known.standing != NodeStanding::Leaving);
        let outlook = step.outlook(entry, |store| self.is_gone(store));
        let (owners, event) = if outlook != JointOutlook::Waits && !is_gone {
            (to?, RangeEvent::MoveEnded { range })
        } else if !stays {
            let reason = UndoReason::NewcomerGone;
            (from, RangeEvent::MoveUndone { range, reason })
        } else if now >= step.adopting.deadline() {
            let reason = UndoReason::TooLong;
            (from, RangeEvent::MoveUndone { range, reason })
        } else {
            return None;
        };
        let next = self.next(range, Owners::Stable(owners.to_vec()), 1)?;
        if matches!(
            event,
            RangeEvent::MoveUndone {
                reason: UndoReason::TooLong,
                ..
            }
        ) {
            self.refused
                .insert((range, newcomer), now + self.settings.move_timeout);
        } else if outlook == JointOutlook::DueWithLosses && matches!(event, RangeEvent::MoveEnded { .. }) {
            self.news.push(RangeEvent::CopiesLost { range });
        }
        self.news.push(event);
        Some(next)
    }

    /// The entry of a range after its present one, so many epochs ahead.
    fn next(&self, range: RangeId, owners: Owners, ahead: u64) -> Option<RangeEntry> {
        let present = self.table.get(range)?;
        let epoch = present.configuration.epoch.saturating_add(ahead);
        // What coordinators before have told last may not have been found.
        let epoch = if self.found.contains(&range) {
            recovery::first_epoch_after(epoch, self.settings.term)
        } else {
            epoch
        };
        if epoch > EPOCH_MAX {
            return None;
        }
        Some(RangeEntry {
            configuration: Configuration { epoch, owners },
            levels: present.levels,
        })
    }
}
