//! What happens to the model: its coordinator decides, is replaced or paused; stores stop, start, come, leave
//! or lose what they held; tombstones are reaped.

use alloc::vec::Vec;

use super::words::{Body, Bug, GRACE, KEYS, Place};
use super::world::World;
use crate::journal::state::StoreId;
use crate::kv::ranges::{RangeCommand, RangeCoordinator, RangeEffect, RangeEvent, RangeStore};
use crate::kv::state::configuration::{Configuration, Owners};
use crate::kv::state::table::{RangeId, TableChange};
use crate::planner::{NodeStanding, PlanningGate};

pub(super) const RANGE: RangeId = RangeId(0);

impl World {
    /// Whether a coordinator that has to find the table would find it: as many owners are there as it needs.
    fn can_be_found(&self) -> bool {
        let levels = self.settings.levels;
        let needed = levels.refusals().max(levels.reads().min(levels.writes()));
        let counts_lost = !self.settings.is_durable;
        let is_there = |store: &&StoreId| self.stores.get(store).map_or(counts_lost, |known| known.is_up);
        let enough = |stores: &[StoreId]| stores.iter().filter(is_there).count() >= needed;
        self.newest.as_ref().is_none_or(|present| {
            let (from, to) = present.owners.sets();
            enough(from) && to.is_none_or(enough)
        })
    }

    /// Another node coordinates. What was on its way to be kept is kept, or not.
    pub(super) fn change_coordinator(&mut self) {
        if !self.settings.is_kept && !self.can_be_found() {
            return;
        }
        if let Some(change) = self.keeping.take()
            && self.below(2) == 0
        {
            self.log.apply(change);
            if let Some(entry) = self.log.get(RANGE).cloned() {
                self.note_newest(&entry.configuration);
            }
        }
        self.renew_coordinator();
    }

    pub(super) fn renew_coordinator(&mut self) {
        self.term += 1;
        self.is_paused = false;
        self.settings.term.count += 1;
        self.coordinator = RangeCoordinator::new(self.settings.clone());
        self.coordinator.on_opened(Some(self.log.clone()), self.at());
    }

    /// The coordinator is paused, or goes on.
    pub(super) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        self.coordinator.on_paused(is_paused);
    }

    /// The coordinator hears who is there, and looks.
    pub(super) fn look(&mut self) {
        let now = self.at();
        let up = self.stores.iter().filter(|(_, store)| store.is_up);
        let stores: Vec<RangeStore> = up
            .map(|(store, known)| RangeStore {
                store: *store,
                standing: known.standing,
                zone: None,
            })
            .collect();
        self.coordinator.on_stores(stores, now);
        self.coordinator.look(now, PlanningGate::Open);
        self.obey();
    }

    fn obey(&mut self) {
        for effect in self.coordinator.take_effects() {
            match effect {
                RangeEffect::Keep(change) => {
                    assert!(self.keeping.is_none(), "one record at a time");
                    let bytes = change.to_bytes().expect("a table that can be written");
                    self.keeping = Some(TableChange::from_bytes(&bytes).expect("what was written"));
                }
                RangeEffect::Ask { store } => {
                    let term = self.term;
                    self.send(Place::Store(store), Body::AskFound { term });
                }
                RangeEffect::Tell { store, ranges } => {
                    for (_, configuration) in ranges {
                        self.note_newest(&configuration);
                        let term = self.term;
                        self.send(Place::Store(store), Body::Tell { term, configuration });
                    }
                }
                RangeEffect::Outdone => return self.change_coordinator(),
                RangeEffect::Notify(RangeEvent::MoveEnded { .. }) => self.moves += 1,
                RangeEffect::Notify(RangeEvent::MoveUndone { .. }) => self.undone += 1,
                // Whoever has to find the table may take a store for an owner that is none any more.
                RangeEffect::Notify(RangeEvent::CopiesLost { .. }) if self.settings.is_kept => {
                    self.fail("too many were lost");
                }
                RangeEffect::Notify(_) | RangeEffect::Repair { .. } => {}
            }
        }
    }

    /// What was to be kept is.
    pub(super) fn keep(&mut self) {
        if let Some(change) = self.keeping.take() {
            self.log.apply(change);
            if let Some(entry) = self.log.get(RANGE).cloned() {
                self.note_newest(&entry.configuration);
            }
            self.coordinator.on_kept(self.at());
        }
    }

    pub(super) fn at_coordinator(&mut self, body: Body) {
        match body {
            Body::Adopted { store, epoch, merged } => {
                self.coordinator.on_adopted(store, RANGE, (epoch, &merged));
            }
            Body::Found { term, store, held } if term == self.term => {
                let known: Vec<(RangeId, Configuration)> =
                    held.map(|held| (RANGE, held)).into_iter().collect();
                self.coordinator.on_found(store, &known, true);
            }
            _ => {}
        }
        self.obey();
    }

    /// Something is decided.
    fn note_newest(&mut self, configuration: &Configuration) {
        if self
            .newest
            .as_ref()
            .is_none_or(|newest| newest.epoch < configuration.epoch)
        {
            self.newest = Some(configuration.clone());
            self.look_at_copies();
        }
    }

    /// Of each set of owners, how many have lost what they held.
    pub(super) fn lost_owners(&self) -> usize {
        let of = |stores: &[StoreId]| {
            stores
                .iter()
                .filter(|store| !self.stores.contains_key(store))
                .count()
        };
        // A newcomer whose move is about to end is an owner already.
        let keeping = self.keeping.iter().flat_map(|change| &change.entries);
        let decided = keeping.map(|(_, entry)| &entry.configuration);
        let sets = decided.chain(&self.newest).map(|configuration| {
            let (from, to) = configuration.owners.sets();
            of(from).max(to.map_or(0, of))
        });
        sets.max().unwrap_or(0)
    }

    /// A store loses what it held, if that leaves what was promised possible: at most W - 1 of the owners.
    pub(super) fn lose(&mut self, store: StoreId) {
        if self.newest.is_none() || self.stores.len() <= self.settings.levels.copies() {
            return;
        }
        if self.bug == Some(Bug::OwnersAsNodes) {
            if let Some(known) = self.stores.get_mut(&store) {
                known.cells = Default::default();
            }
            return;
        }
        let Some(known) = self.stores.remove(&store) else {
            return;
        };
        if self.lost_owners() >= self.settings.levels.writes() {
            self.stores.insert(store, known);
        }
    }

    /// A process stops or starts; what its store holds stays.
    pub(super) fn stop_or_start(&mut self, store: StoreId) {
        let is_finding = !self.settings.is_kept && !self.coordinator.is_active();
        let Some(known) = self
            .stores
            .get_mut(&store)
            .filter(|known| !(is_finding && known.is_up))
        else {
            return;
        };
        known.is_up = !known.is_up;
        let is_newcomer = known
            .held
            .as_ref()
            .is_some_and(|held| held.owners.newcomer() == Some(store));
        if !known.is_up {
            known.arrival = None;
        } else if is_newcomer && let Some(held) = known.held.clone() {
            // It begins the move anew, and keeps what it had.
            let timing = (self.at(), core::time::Duration::from_micros(15));
            let limits = super::world::LIMITS;
            let arrival = crate::kv::moving::Arrival::new(&held, self.settings.levels, limits, timing);
            if let Some(known) = self.stores.get_mut(&store) {
                known.arrival = arrival;
            }
            self.flush(store);
        }
    }

    /// An operator gives up a store that is lost.
    pub(super) fn give_up_lost(&mut self) {
        let now = self.at();
        let named = self.coordinator.table().stores();
        for lost in named
            .iter()
            .copied()
            .filter(|store| !self.stores.contains_key(store))
        {
            // The coordinator may not have noticed yet.
            let _ = self.coordinator.on_command(RangeCommand::Replace { lost }, now);
        }
    }

    /// An operator moves the range to a store that does not own it.
    pub(super) fn command_move(&mut self) {
        let Some(Configuration { owners, .. }) = self.newest.clone() else {
            return;
        };
        let Owners::Stable(owners) = owners else { return };
        let others = self.stores.iter().filter(|(store, _)| !owners.contains(store));
        let mut others: Vec<(bool, StoreId)> = others
            .map(|(store, known)| (known.held.is_none(), *store))
            .collect();
        // Rather to one that owned it once.
        others.sort_unstable();
        if others.is_empty() {
            return;
        }
        let (from, to) = (
            owners[self.below(owners.len())],
            others[self.below(others.len().min(2))].1,
        );
        let (range, now) = (RANGE, self.at());
        // It may be refused: the coordinator may know less.
        let _ = self
            .coordinator
            .on_command(RangeCommand::Move { range, from, to }, now);
    }

    /// Whether a move left too few copies of what was acknowledged. Those that only hold it still, as who
    /// was replaced, do not count.
    fn look_at_copies(&mut self) {
        let Some(Configuration { owners, .. }) = self.newest.clone() else {
            return;
        };
        let (from, to) = owners.sets();
        let stores = to.unwrap_or(from);
        for key in 0..KEYS {
            let floor = self.acknowledged[key];
            let cells = || {
                stores
                    .iter()
                    .filter_map(|store| Some(self.stores.get(store)?.cells[key]))
            };
            let versions = cells().filter(|cell| cell.version >= floor.version).count();
            let copies = cells()
                .filter(|cell| cell.token >= floor.token)
                .count()
                .min(versions);
            let is_reaped = floor.version <= self.reaped[key];
            let least = self.settings.levels.writes() - self.lost_owners();
            if to.is_none() && !is_reaped && copies < least {
                self.fail("a move left fewer than W copies");
            }
        }
    }

    /// Reaps tombstones that all copies have been for the grace, in Stable, with all owners in that epoch.
    pub(super) fn reap(&mut self) {
        let Some(configuration) = self.newest.clone() else {
            return;
        };
        let Owners::Stable(owners) = &configuration.owners else {
            return;
        };
        for key in 0..KEYS {
            let cell_of = |store: &StoreId| {
                let known = self.stores.get(store).filter(|known| known.is_up)?;
                let is_present = known.held.as_ref() == Some(&configuration);
                is_present.then_some(known.cells[key])
            };
            let first = owners.first().and_then(cell_of).filter(|cell| cell.is_deleted);
            let same = |store: &StoreId| {
                cell_of(store).map(|cell| (cell.version, cell.is_deleted))
                    == first.map(|cell| (cell.version, cell.is_deleted))
            };
            let Some(cell) = first.filter(|_| owners.iter().all(same)) else {
                self.matched[key] = None;
                continue;
            };
            let (epoch, version) = (configuration.epoch, cell.version);
            match self.matched[key] {
                Some((of, what, since)) if (of, what) == (epoch, version) => {
                    if self.now - since > GRACE {
                        self.reaped[key] = self.reaped[key].max(version);
                        self.acknowledged[key].merge(super::words::Cell { token: 0, ..cell });
                        for store in owners {
                            self.send(Place::Store(*store), Body::Reap { key, epoch, version });
                        }
                    }
                }
                _ => self.matched[key] = Some((epoch, version, self.now)),
            }
        }
    }

    /// A store may be given something again, or leaves.
    pub(super) fn leave_or_stay(&mut self, store: StoreId) {
        if let Some(known) = self.stores.get_mut(&store) {
            known.standing = match known.standing {
                NodeStanding::Open => NodeStanding::Leaving,
                NodeStanding::Leaving | NodeStanding::Closed => NodeStanding::Open,
            };
        }
    }
}
