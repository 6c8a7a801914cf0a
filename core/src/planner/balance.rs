//! What moves although nothing has to: units that are spread unevenly over zones, and nodes with more slots
//! than others. Each move makes it better, so this ends. Spec: sharding 5.3.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::board::{PlanningBoard, PlanningStep, SlotFreedom};
use super::ring::NodeSearch;
use super::values::{ChangeReason, NodeStanding};
use crate::ordered::OrderedSet;

/// A slot that may move, in the order in which slots are tried: from the most loaded node, of the unit with
/// most instances, from the first node, of the first unit.
type MoveCandidate = (Reverse<u64>, Reverse<usize>, usize, usize, usize);

impl PlanningBoard {
    /// While a zone has two slots of a unit more than another one that could have one: one of them goes
    /// there, from the most loaded node to the least loaded one.
    pub(super) fn spread_over_zones(&mut self) {
        if self.ring.zones() > 1 {
            for unit in 0..self.units.len() {
                while let Some(step) = self.uneven(unit) {
                    self.plan(step);
                }
            }
        }
    }

    fn uneven(&self, unit: usize) -> Option<PlanningStep> {
        let known = &self.units[unit];
        let mut slots: Vec<_> = self.movable(unit).collect();
        slots.sort_by_key(|(host, _)| {
            let node = self.ring.node(*host);
            (Reverse(known.in_zone(node.zone)), Reverse(node.load), *host)
        });
        slots.into_iter().find_map(|(from, slot)| {
            let most = known.in_zone(self.ring.node(from).zone);
            let fewer = |zone| Some(known.in_zone(zone)).filter(|count| count + 1 < most);
            let to = self.ring.target(known.search(0), fewer)?;
            Some(PlanningStep {
                unit,
                slot: known.slots[slot].number,
                from: Some(from),
                to: Some(to),
                reason: ChangeReason::Zones,
            })
        })
    }

    /// The slots of a unit that may move for balance now, with their hosts.
    fn movable(&self, unit: usize) -> impl Iterator<Item = (usize, usize)> {
        let known = &self.units[unit];
        let slots = known.slots.iter().enumerate().filter(|_| known.may_move());
        let free = slots.filter(|(_, slot)| slot.freedom == SlotFreedom::Free);
        let hosted = free.filter_map(|(at, slot)| Some((slot.host.node()?, at)));
        hosted.filter(|(host, _)| {
            self.ring.node(*host).standing == NodeStanding::Open && self.ring.may_depart(*host)
        })
    }

    /// While a node has two slots more than another one: of the most loaded ones the slot of the unit with
    /// most instances goes from the first of them to the least loaded node that may have it, without making
    /// the spread over zones worse.
    pub(super) fn balance(&mut self) {
        while self.balance_once() {}
    }

    /// Tries every slot once, and says whether one was moved: then what was tried before may go as well.
    fn balance_once(&mut self) -> bool {
        let mut candidates = MoveCandidates::of(self);
        let mut has_moved = false;
        while let Some((_, _, from, unit, slot)) = candidates.untried.pop_first() {
            let known = &self.units[unit];
            if !known.may_move() || !self.ring.may_depart(from) {
                continue;
            }
            let Some(to) = self.lighter(unit, from) else {
                continue;
            };
            let before = [from, to].map(|at| self.ring.node(at).load);
            self.plan(PlanningStep {
                unit,
                slot: known.slots[slot].number,
                from: Some(from),
                to: Some(to),
                reason: ChangeReason::Balance,
            });
            for (at, before) in [from, to].into_iter().zip(before) {
                candidates.renew(at, before, self.ring.node(at).load);
            }
            has_moved = true;
        }
        has_moved
    }

    /// A node that has less than this one has even with the slot.
    fn lighter(&self, unit: usize, from: usize) -> Option<usize> {
        let known = &self.units[unit];
        let node = self.ring.node(from);
        let search = NodeSearch {
            below: node.load.saturating_sub(known.weight),
            ..known.search(0)
        };
        let is_no_worse = |zone| zone == node.zone || known.in_zone(zone) < known.in_zone(node.zone);
        self.ring.target(search, |zone| is_no_worse(zone).then_some(0))
    }
}

/// Slots that may move.
struct MoveCandidates {
    untried: OrderedSet<MoveCandidate>,
    /// By node: how many instances the unit is to have, the unit, the slot.
    at: Vec<Vec<(Reverse<usize>, usize, usize)>>,
}

impl MoveCandidates {
    fn of(board: &PlanningBoard) -> Self {
        let mut found = Self {
            untried: OrderedSet::new(),
            at: vec![Vec::new(); board.ring.len()],
        };
        for (unit, known) in board.units.iter().enumerate() {
            for (host, slot) in board.movable(unit) {
                let load = board.ring.node(host).load;
                let wanted = Reverse(known.wanted);
                found.at[host].push((wanted, unit, slot));
                found.untried.insert((Reverse(load), wanted, host, unit, slot));
            }
        }
        found
    }

    /// The load of a node has changed.
    fn renew(&mut self, node: usize, before: u64, now: u64) {
        for (wanted, unit, slot) in self.at[node].iter().copied() {
            if self.untried.remove(&(Reverse(before), wanted, node, unit, slot)) {
                self.untried.insert((Reverse(now), wanted, node, unit, slot));
            }
        }
    }
}
