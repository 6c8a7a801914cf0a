//! What has to change: slots on leaving nodes, slots without a host, units with too few or too many slots,
//! and moves that somebody wants. Spec: sharding 5.3.

use alloc::vec::Vec;

use super::board::{PlanningBoard, PlanningStep, SlotFreedom, SlotHost, WantedStep};
use super::ring::NodeSearch;
use super::values::{ChangeReason, NodeStanding};

impl PlanningBoard {
    /// Slots without a host of units with too many: there is nothing to wait for.
    pub(super) fn forget(&mut self) {
        for unit in 0..self.units.len() {
            for slot in 0..self.units[unit].slots.len() {
                let known = &self.units[unit];
                let state = &known.slots[slot];
                let is_lost = state.host.node().is_none() && state.freedom != SlotFreedom::Fixed;
                if is_lost && known.surplus() > 0 {
                    self.end(unit, slot);
                }
            }
        }
    }

    /// Slots whose hosts may not keep them: node by node, unit by unit. Each goes to the least loaded node
    /// that may have it, of these to the next one round the ring; or it ends, if the unit has too many.
    pub(super) fn evacuate(&mut self) {
        let mut leaving = Vec::new();
        for (at, unit) in self.units.iter().enumerate() {
            for (slot, state) in unit.slots.iter().enumerate() {
                let host = state.host.node().filter(|host| self.has_to_go(at, *host));
                leaving.extend(
                    host.filter(|_| state.freedom != SlotFreedom::Fixed)
                        .map(|host| (host, at, slot)),
                );
            }
        }
        leaving.sort_unstable();
        for (from, unit, slot) in leaving {
            let known = &self.units[unit];
            if known.surplus() > 0 {
                self.end(unit, slot);
                continue;
            }
            if !known.may_move() || !self.ring.may_depart(from) {
                continue;
            }
            let zone = self.ring.node(from).zone;
            let search = known.search(self.ring.round(from + 1));
            let others = |other| known.in_zone(other).saturating_sub(u32::from(other == zone));
            let to = self.ring.target(search, |other| Some(others(other)));
            if let Some(to) = to {
                self.plan(PlanningStep {
                    unit,
                    slot: known.slots[slot].number,
                    from: Some(from),
                    to: Some(to),
                    reason: ChangeReason::Evacuation,
                });
            }
        }
    }

    fn has_to_go(&self, unit: usize, host: usize) -> bool {
        match self.ring.node(host).standing {
            NodeStanding::Leaving => true,
            NodeStanding::Open => !self.units[unit].suits(host, &self.ring),
            NodeStanding::Closed => false,
        }
    }

    /// Slots without a host: unit by unit. Each goes to the node that it prefers, if that may have it, or to
    /// the least loaded one, of these to the next one behind its old host.
    pub(super) fn repair(&mut self, cursor: usize) {
        for unit in 0..self.units.len() {
            for slot in 0..self.units[unit].slots.len() {
                let known = &self.units[unit];
                let state = &known.slots[slot];
                let behind = match state.host {
                    SlotHost::At(_) => continue,
                    SlotHost::Gone(at) => at,
                    SlotHost::Nobody => cursor,
                };
                if state.freedom == SlotFreedom::Fixed || !known.may_change() {
                    continue;
                }
                let can_have = |at: &usize| known.is_for(*at, &self.ring) && !known.is_held_by(*at);
                let to = match state.prefers.filter(can_have) {
                    Some(preferred) => Some(preferred).filter(|at| self.ring.may_arrive(*at)),
                    None => self
                        .ring
                        .target(known.search(behind), |zone| Some(known.in_zone(zone))),
                };
                if to.is_some() {
                    self.plan(PlanningStep {
                        unit,
                        slot: state.number,
                        from: None,
                        to,
                        reason: ChangeReason::Repair,
                    });
                }
            }
        }
    }

    /// Units with too many slots, and those with too few: unit by unit. A new slot goes to the least loaded
    /// node, of these to the first from the cursor on, which goes behind it. Returns where it is then.
    pub(super) fn count(&mut self, mut cursor: usize) -> usize {
        for unit in 0..self.units.len() {
            while self.units[unit].surplus() > 0 {
                if !self.dispensable(unit).is_some_and(|slot| self.end(unit, slot)) {
                    break;
                }
            }
            let is_first = self.units[unit].slots.is_empty();
            while self.units[unit].staying < self.units[unit].wanted {
                let known = &self.units[unit];
                if !is_first && !known.may_change() {
                    break;
                }
                let search = NodeSearch {
                    is_unlimited: is_first,
                    ..known.search(cursor)
                };
                let to = self.ring.target(search, |zone| Some(known.in_zone(zone)));
                let Some(to) = to else { break };
                let reason = if is_first {
                    ChangeReason::First
                } else {
                    ChangeReason::Count
                };
                self.plan(PlanningStep {
                    unit,
                    slot: known.new_slot(),
                    from: None,
                    to: Some(to),
                    reason,
                });
                cursor = self.ring.round(to + 1);
            }
        }
        cursor
    }

    /// The slot that a unit can spare: one that has to go anyway, then that of the zone that has most of the
    /// unit, then of the most loaded node, then of the last one.
    fn dispensable(&self, unit: usize) -> Option<usize> {
        let known = &self.units[unit];
        let rank = |(slot, host): (usize, usize)| {
            let node = self.ring.node(host);
            let rank = (
                self.has_to_go(unit, host),
                known.in_zone(node.zone),
                node.load,
                host,
            );
            (rank, slot)
        };
        let slots = known.slots.iter().enumerate();
        let free = slots.filter(|(_, slot)| slot.freedom != SlotFreedom::Fixed);
        let hosted = free.filter_map(|(at, slot)| Some((at, slot.host.node()?)));
        let may_go = hosted.filter(|(_, host)| self.ring.may_depart(*host));
        may_go.map(rank).max().map(|(_, slot)| slot)
    }

    /// Ends a slot, unless it serves and another one of the unit does not; says whether it does.
    fn end(&mut self, unit: usize, slot: usize) -> bool {
        let known = &self.units[unit];
        let from = known.slots[slot].host.node();
        let waits = known.silent > 0 || !known.may_change();
        if from.is_some_and(|from| waits || !self.ring.may_depart(from)) {
            return false;
        }
        self.plan(PlanningStep {
            unit,
            slot: known.slots[slot].number,
            from,
            to: None,
            reason: ChangeReason::Count,
        });
        true
    }

    /// A move that somebody wants, if it can be done and nothing is to be waited for.
    pub(super) fn carry_out(&mut self, wish: WantedStep, reason: ChangeReason) {
        let is_possible = self.check(wish).is_ok() && self.units[wish.unit].may_move();
        if is_possible && self.ring.may_depart(wish.from) && self.ring.may_arrive(wish.to) {
            self.plan(PlanningStep {
                unit: wish.unit,
                slot: wish.slot,
                from: Some(wish.from),
                to: Some(wish.to),
                reason,
            });
        }
    }
}
