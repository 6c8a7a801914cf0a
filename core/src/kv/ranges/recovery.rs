//! How a coordinator gets to know its table: those who keep it say so, or it is found again where nobody
//! does. Each store says which configurations it knows, and the one with the highest epoch of a range counts.
//! Spec: sharding 10.16, 10.19 a, 10.1.
//!
//! Every store that is there has to speak before anything is decided. A step that was told only to stores
//! which are away is not found. So a range is left alone until as many of its owners have spoken, or are gone
//! for good, as could not be missed by any read or write; and the first step after that has an epoch that
//! none of the coordinators before can have given to somebody else: each begins at its own place, by its
//! term. What remains: a range of which more owners are away at once may come back as it was before its last
//! steps.
//!
//! Where the table is to be kept from now on and was not before, it is found in the same way once, under
//! epochs that nobody can have been told, and counts when it is kept.
//!
//! The host gives every coordinator a term, sends it along, and has stores refuse what one of a lower term
//! tells: else what a coordinator before had told last could arrive after this one has looked for it.

use alloc::vec::Vec;

use super::{RangeCoordinator, RangeEffect, RangeTenure};
use crate::journal::state::StoreId;
use crate::kv::state::configuration::Configuration;
use crate::kv::state::table::{EPOCH_MAX, RangeEntry, RangeId, RangeTable, TableChange};
use crate::time::Instant;
use crate::token::Token;

impl RangeCoordinator {
    /// Those who keep the table have said what it is; `None` if they have never kept one.
    pub fn on_opened(&mut self, kept: Option<RangeTable>, now: Instant) {
        if self.tenure != RangeTenure::Recovering || !self.settings.is_kept {
            return;
        }
        match kept {
            Some(table) => self.activate(table, now),
            None => self.seeks = true,
        }
    }

    /// Looks for the table at the stores.
    pub(super) fn recover(&mut self, now: Instant) {
        self.ask(now);
        let Some(table) = self.recovered() else {
            return;
        };
        if !self.settings.is_kept || table.entries().len() == 0 {
            return self.activate(table, now);
        }
        // Once it is kept nobody knows any more what was not found.
        let is_whole =
            table.entries().len() == usize::from(self.settings.ranges) || !self.settings.is_durable;
        if is_whole && table.entries().all(|(_, entry)| self.was_found(entry)) {
            self.tenure = RangeTenure::TakingOver;
            let change = taken_over(&table, self.settings.term);
            self.effects.push(RangeEffect::Keep(change.clone()));
            self.keeping = Some(change);
        }
    }

    /// A store says a part of the configurations that it knows, asked by this coordinator; with the last part
    /// it is heard. What no range can have is passed over.
    pub fn on_found(&mut self, store: StoreId, known: &[(RangeId, Configuration)], is_last: bool) {
        if !self.seeks || matches!(self.tenure, RangeTenure::TakingOver | RangeTenure::Outdone) {
            return;
        }
        let is_recovering = self.tenure == RangeTenure::Recovering;
        let mut newer = Vec::new();
        for (range, configuration) in known {
            let entry = RangeEntry {
                configuration: configuration.clone(),
                levels: self.settings.levels,
            };
            let epoch = entry.configuration.epoch;
            let is_possible = range.0 < self.settings.ranges && (1..=EPOCH_MAX).contains(&epoch);
            let present = self.table.get(*range);
            let is_newer = present.is_none_or(|present| present.configuration.epoch < epoch);
            if is_possible && is_newer && entry.check().is_ok() {
                newer.push((*range, entry));
            }
        }
        if is_recovering {
            self.has_found |= !newer.is_empty();
            self.found.extend(newer.iter().map(|(range, _)| *range));
            let lost = self.table.lost().collect();
            self.table.apply(TableChange { entries: newer, lost });
        } else if !newer.is_empty() {
            return self.outdone();
        }
        if is_last && self.heard.insert(store) {
            self.planned = None;
        }
    }

    /// The table, once every store that is there has spoken.
    fn recovered(&self) -> Option<RangeTable> {
        let all = !self.stores.is_empty() && self.stores.keys().all(|store| self.heard.contains(store));
        all.then(|| self.table.clone())
    }

    /// Asks the stores that have not spoken.
    pub(super) fn ask(&mut self, now: Instant) {
        let again = self.settings.tell_again;
        self.heard.retain(|store| self.stores.contains_key(store));
        let asked: Vec<StoreId> = self.stores.keys().copied().collect();
        let mut silent = asked
            .into_iter()
            .filter(|store| !self.heard.contains(store))
            .peekable();
        let is_due = self.asked_at.is_none_or(|at| now.since(at) >= again);
        if is_due && silent.peek().is_some() {
            self.asked_at = Some(now);
            self.effects
                .extend(silent.map(|store| RangeEffect::Ask { store }));
        }
    }

    /// Whether nothing can have happened to a range that is not known here.
    pub(super) fn is_known(&self, entry: &RangeEntry) -> bool {
        self.settings.is_kept || self.was_found(entry)
    }

    fn was_found(&self, entry: &RangeEntry) -> bool {
        let is_heard = |store: &&StoreId| self.heard.contains(*store) || self.is_gone(**store);
        // One of those that a step needed is among them, and too few are left that could serve without it.
        let levels = entry.levels;
        let needed = levels.refusals().max(levels.reads().min(levels.writes()));
        let is_enough = |stores: &[StoreId]| stores.iter().filter(is_heard).count() >= needed;
        let (from, to) = entry.configuration.owners.sets();
        is_enough(from) && to.is_none_or(is_enough)
    }

    /// Whether a range without owners never had any. Where nobody keeps the table, those of stores that
    /// outlive their nodes may be away together, if any range was found.
    pub(super) fn is_new(&self) -> bool {
        self.settings.is_kept || !self.settings.is_durable || !self.has_found
    }
}

/// What was found, as the first that is kept: each range as it was, under an epoch that no coordinator before
/// can have told anybody who is away.
fn taken_over(table: &RangeTable, term: Token) -> TableChange {
    let mut whole = table.whole();
    for (_, entry) in &mut whole.entries {
        let epoch = &mut entry.configuration.epoch;
        *epoch = first_epoch_after(epoch.saturating_add(1), term).min(EPOCH_MAX);
    }
    whole
}

/// Steps that a coordinator has for itself from where it begins: more than it can make of one range before
/// those of whom it hears nothing more are removed.
const STEPS_OF_ONE: u64 = 1 << 8;
/// Terms after which places are used again.
const PLACES: u64 = 1 << 16;

/// The first epoch above that one at the place of this term. Several coordinators in a row may find the same
/// table, where none of their steps was heard of: they have to differ from each other as well.
pub(super) fn first_epoch_after(epoch: u64, term: Token) -> u64 {
    const ROUND: u64 = STEPS_OF_ONE * PLACES;
    let place = term.term.wrapping_mul(1_021).wrapping_add(term.count) % PLACES * STEPS_OF_ONE;
    let first = (epoch - epoch % ROUND).saturating_add(place);
    if first > epoch {
        first
    } else {
        first.saturating_add(ROUND)
    }
}
