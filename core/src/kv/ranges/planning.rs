//! Which owner is replaced by whom: asks the planner, and makes a step of what it answers. Spec: sharding
//! 5.3, 10.18, 10.19.

use alloc::vec::Vec;

use super::{RangeCoordinator, RangeEffect, RangeEvent};
use crate::journal::state::StoreId;
use crate::kv::state::configuration::{Configuration, Owners};
use crate::kv::state::table::{RangeEntry, RangeId, TableChange, replaced};
use crate::ordered::OrderedMap;
use crate::planner::{
    ChangeReason, MoveError, NodeStanding, PlanLimits, PlanNode, PlanSituation, PlanSlot, PlanUnit,
    PlannedChange, PlanningGate, SlotStage, plan,
};
use crate::time::Instant;

/// Epochs that are left out where all owners are gone: nobody is left who says how far they had come by
/// themselves, and whoever knew of them has to take what is newer.
const ANEW: u64 = 1 << 16;

type RangeChange = PlannedChange<RangeId, StoreId>;

impl RangeCoordinator {
    /// The owners as the planner sees them: the place of an owner is its slot.
    pub(super) fn situation(&self, now: Instant) -> PlanSituation<RangeId, StoreId> {
        let nodes = self.nodes(now);
        let open = nodes.iter().filter(|node| node.standing == NodeStanding::Open);
        let is_given = open.count() >= self.settings.levels.copies() && self.is_new();
        let ranges = (0..self.settings.ranges).map(RangeId);
        let units = ranges.filter_map(|range| match self.table.get(range) {
            // Nobody has anything that could be merged: it is as if nobody had ever owned it.
            Some(entry) if is_given && self.is_all_gone(entry) => Some(self.ownerless(range)),
            Some(entry) => Some(self.unit(range, entry)),
            None => is_given.then(|| self.ownerless(range)),
        });
        PlanSituation {
            units: units.collect(),
            nodes,
            placed_last: self.placed_last,
            commanded: self.wanted.clone(),
            by_load: Vec::new(),
        }
    }

    /// Stores that are there, and those that are away and keep what they have.
    fn nodes(&self, now: Instant) -> Vec<PlanNode<StoreId>> {
        let there = self
            .stores
            .values()
            .filter(|known| !self.table.is_lost(known.store));
        let there = there.map(|known| PlanNode {
            node: known.store,
            standing: known.standing,
            zone: known.zone.clone(),
            pools: Vec::new(),
        });
        let away = self.away.iter().filter(|(store, (since, _))| {
            !self.is_gone(**store) && now.since(*since) < self.settings.away_max
        });
        let away = away.map(|(store, (_, zone))| PlanNode {
            node: *store,
            standing: NodeStanding::Closed,
            zone: zone.clone(),
            pools: Vec::new(),
        });
        there.chain(away).collect()
    }

    fn ownerless(&self, range: RangeId) -> PlanUnit<RangeId, StoreId> {
        new_unit(range, self.settings.levels.copies(), Vec::new())
    }

    fn unit(&self, range: RangeId, entry: &RangeEntry) -> PlanUnit<RangeId, StoreId> {
        let owners = &entry.configuration.owners;
        let (from, _) = owners.sets();
        let (goes, comes) = (owners.leaver(), owners.newcomer());
        let is_known = self.is_known(entry);
        let slots = (0..).zip(from).map(|(slot, store)| PlanSlot {
            slot,
            host: Some(*store),
            stage: if goes == Some(*store) {
                SlotStage::Moving(comes)
            } else if is_known {
                SlotStage::Settled
            } else {
                SlotStage::Held
            },
            prefers: None,
        });
        let refused = self.refused.keys().filter(|(refused, _)| *refused == range);
        PlanUnit {
            refused: refused.map(|(_, store)| *store).collect(),
            ..new_unit(range, from.len(), slots.collect())
        }
    }

    /// Adds what is to be begun, of ranges about which nothing else is decided. Linear in the ranges, and a
    /// move has some ten statements, after none of which there is more to begin: so it plans when stores or
    /// owners have changed or something is commanded, and else once in a while.
    pub(super) fn plan(&mut self, now: Instant, gate: PlanningGate, change: &mut TableChange) {
        let open = |node: &&PlanNode<StoreId>| node.standing == NodeStanding::Open;
        let limits = PlanLimits::for_nodes(self.nodes(now).iter().filter(open).count());
        let again = self.settings.tell_again;
        let is_planned = |(at, by): (Instant, PlanningGate)| by == gate && now.since(at) < again;
        if self.planned.is_some_and(is_planned) && change.entries.is_empty() || self.is_busy(limits, change) {
            return;
        }
        self.planned = Some((now, gate));
        let situation = self.situation(now);
        let planned = plan(&situation, gate, limits);
        self.placed_last = planned.placed_last;
        let mut first: OrderedMap<RangeId, Vec<(u16, StoreId)>> = OrderedMap::new();
        for begun in &planned.changes {
            // Fewer stores than copies: the owners that there are stay, because levels count against all.
            let Some(to) = begun.to else { continue };
            if begun.reason == ChangeReason::First {
                first.entry(begun.unit).or_default().push((begun.slot, to));
            } else if !change.entries.iter().any(|(range, _)| *range == begun.unit)
                && let Some(entry) = self.begin(begun, to)
            {
                change.entries.push((begun.unit, entry));
            }
        }
        self.give(first, change);
        self.hear_of_wanted(&planned.changes, &planned.refused);
    }

    /// Whether nothing could be begun, so that nothing has to be looked for: all ranges have owners, as many
    /// of them move as may, and no commanded move waits to be refused.
    fn is_busy(&self, limits: PlanLimits, change: &TableChange) -> bool {
        let is_given = self.table.entries().len() == usize::from(self.settings.ranges);
        let moves = |(range, entry): (RangeId, &RangeEntry)| {
            let ends = change.entries.iter().any(|(ended, _)| *ended == range);
            !ends && entry.configuration.owners.newcomer().is_some()
        };
        let moving = self.table.entries().filter(|entry| moves(*entry)).count();
        is_given && self.wanted.is_empty() && moving >= limits.pending_max
    }

    fn begin(&mut self, begun: &RangeChange, to: StoreId) -> Option<RangeEntry> {
        let range = begun.unit;
        let owners = &self.table.get(range)?.configuration.owners;
        let (owners, _) = owners.sets();
        let from = *owners.get(usize::from(begun.slot))?;
        let next = self.next(range, replaced(owners, from, to)?, 1)?;
        let reason = begun.reason;
        self.news.push(RangeEvent::MoveBegun {
            range,
            from,
            to,
            reason,
        });
        Some(next)
    }

    /// Ranges get their first owners, all N at once, and new ones after all before are gone.
    fn give(&mut self, first: OrderedMap<RangeId, Vec<(u16, StoreId)>>, change: &mut TableChange) {
        let levels = self.settings.levels;
        let before = change.entries.len();
        for (range, mut slots) in first {
            slots.sort_unstable();
            let owners = Owners::Stable(slots.into_iter().map(|(_, store)| store).collect());
            let is_known = self.table.get(range).is_some();
            let is_ending = change.entries.iter().any(|(ending, _)| *ending == range);
            let entry = if is_known {
                self.next(range, owners, 1 + ANEW)
            } else {
                let configuration = Configuration { epoch: 1, owners };
                Some(RangeEntry {
                    configuration,
                    levels,
                })
            };
            if let Some(entry) = entry.filter(|entry| !is_ending && entry.check().is_ok()) {
                change.entries.push((range, entry));
                if is_known {
                    self.news.push(RangeEvent::CopiesLost { range });
                }
            }
        }
        let ranges = change.entries.len() - before;
        if ranges > 0 {
            self.news.push(RangeEvent::Given { ranges });
        }
    }

    /// Commanded moves that are begun or cannot be done wait no more.
    fn hear_of_wanted(&mut self, begun: &[RangeChange], refused: &[(usize, MoveError)]) {
        for (at, error) in refused {
            if let Some(wanted) = self.wanted.get(*at) {
                let (range, error) = (wanted.unit, *error);
                let event = RangeEvent::MoveRefused { range, error };
                self.effects.push(RangeEffect::Notify(event));
            }
        }
        let mut at = 0;
        self.wanted.retain(|wanted| {
            let is_refused = refused.iter().any(|(refused, _)| *refused == at);
            at += 1;
            let is_it = |begun: &RangeChange| {
                begun.reason == ChangeReason::Command
                    && (begun.unit, begun.slot, begun.to) == (wanted.unit, wanted.slot, Some(wanted.to))
            };
            !is_refused && !begun.iter().any(is_it)
        });
    }
}

/// A range as the planner sees it: one of its slots changes at a time.
fn new_unit(range: RangeId, copies: usize, slots: Vec<PlanSlot<StoreId>>) -> PlanUnit<RangeId, StoreId> {
    PlanUnit {
        changing_max: Some(1),
        ..PlanUnit::new(range, copies as u16, slots)
    }
}
