//! The planner on numbers: units and nodes are integers, a table is what has what.

mod examples;
mod laws;
mod limits;

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::*;
use crate::ordered::OrderedMap;

/// Node to node, or from and to nothing.
type Moved = (char, Option<u32>, Option<u32>);

/// A situation under test.
#[derive(Clone, Debug)]
struct Table {
    situation: PlanSituation<char, u32>,
}

impl Table {
    fn on(nodes: impl IntoIterator<Item = u32>) -> Self {
        Self {
            situation: PlanSituation {
                nodes: nodes.into_iter().map(PlanNode::open).collect(),
                units: Vec::new(),
                placed_last: None,
                commanded: Vec::new(),
                by_load: Vec::new(),
            },
        }
    }

    /// Nodes 1 to 10 with A on four, B on three and C on five of them, placed in this order.
    fn worked_example() -> Self {
        let mut table = Self::on(1..=10);
        for (unit, count) in [('A', 4), ('B', 3), ('C', 5)] {
            table.register(unit, count);
        }
        table
    }

    /// A unit that has slots on these nodes.
    fn with(mut self, unit: char, hosts: impl IntoIterator<Item = u32>) -> Self {
        let slots = (0..).zip(hosts).map(|(slot, host)| PlanSlot::settled(slot, host));
        let slots: Vec<_> = slots.collect();
        let count = slots.len() as u16;
        self.situation.units.push(PlanUnit::new(unit, count, slots));
        self
    }

    /// Nodes in zones, by the first letter of the name.
    fn zoned(zones: impl IntoIterator<Item = (u32, &'static str)>) -> Self {
        let mut table = Self::on([]);
        let node = |(node, zone): (u32, &str)| PlanNode {
            zone: Some(zone).filter(|zone| !zone.is_empty()).map(Arc::from),
            ..PlanNode::open(node)
        };
        table.situation.nodes = zones.into_iter().map(node).collect();
        table
    }

    fn register(&mut self, unit: char, count: u16) {
        self.situation.units.push(PlanUnit::new(unit, count, Vec::new()));
        self.carry_out(PlanningGate::Needed, PlanLimits::NONE);
    }

    fn unit(&mut self, unit: char) -> &mut PlanUnit<char, u32> {
        let found = self.situation.units.iter_mut().find(|known| known.unit == unit);
        found.expect("a unit of the table")
    }

    fn node(&mut self, node: u32) -> &mut PlanNode<u32> {
        let found = self.situation.nodes.iter_mut().find(|known| known.node == node);
        found.expect("a node of the table")
    }

    fn leave(&mut self, node: u32) {
        self.node(node).standing = NodeStanding::Leaving;
    }

    fn remove(&mut self, node: u32) {
        self.situation.nodes.retain(|known| known.node != node);
    }

    fn plan(&self, gate: PlanningGate, limits: PlanLimits) -> PlacementPlan<char, u32> {
        plan(&self.situation, gate, limits)
    }

    /// What is planned without limits.
    fn moves(&self, gate: PlanningGate) -> Vec<Moved> {
        let changes = self.plan(gate, PlanLimits::NONE).changes;
        changes
            .iter()
            .map(|change| (change.unit, change.from, change.to))
            .collect()
    }

    /// The slots of a unit in the order of their numbers.
    fn hosts(&self, unit: char) -> Vec<u32> {
        let found = self.situation.units.iter().find(|known| known.unit == unit);
        let mut slots: Vec<_> = found.into_iter().flat_map(|unit| &unit.slots).collect();
        slots.sort_by_key(|slot| slot.slot);
        slots.iter().filter_map(|slot| slot.host).collect()
    }

    /// How many slots each node has.
    fn loads(&self) -> Vec<usize> {
        let slots = || self.situation.units.iter().flat_map(|unit| &unit.slots);
        let load = |node: &PlanNode<u32>| slots().filter(|slot| slot.host == Some(node.node)).count();
        self.situation.nodes.iter().map(load).collect()
    }

    /// Plans, and makes of every change one that is under way.
    fn begin(&mut self, gate: PlanningGate, limits: PlanLimits) -> Vec<PlannedChange<char, u32>> {
        let planned = self.plan(gate, limits);
        self.situation.placed_last = planned.placed_last;
        for change in &planned.changes {
            let unit = self.unit(change.unit);
            let Some(slot) = unit.slots.iter_mut().find(|slot| slot.slot == change.slot) else {
                unit.slots.push(PlanSlot {
                    slot: change.slot,
                    host: None,
                    stage: SlotStage::Moving(change.to),
                    prefers: None,
                });
                continue;
            };
            slot.stage = SlotStage::Moving(change.to);
        }
        planned.changes
    }

    /// All changes under way come to their end.
    fn complete(&mut self) {
        for unit in &mut self.situation.units {
            for slot in &mut unit.slots {
                if let SlotStage::Moving(to) = slot.stage {
                    (slot.host, slot.stage) = (to, SlotStage::Settled);
                }
            }
            unit.slots.retain(|slot| slot.host.is_some());
        }
    }

    fn carry_out(&mut self, gate: PlanningGate, limits: PlanLimits) -> Vec<PlannedChange<char, u32>> {
        let changes = self.begin(gate, limits);
        self.complete();
        changes
    }

    /// By unit and zone: how many slots.
    fn spread(&self, unit: char) -> OrderedMap<Option<Arc<str>>, usize> {
        let zone_of = |host: &u32| {
            let node = self.situation.nodes.iter().find(|node| node.node == *host);
            node.and_then(|node| node.zone.clone())
        };
        let mut spread = OrderedMap::new();
        for host in self.hosts(unit) {
            *spread.entry(zone_of(&host)).or_default() += 1;
        }
        spread
    }
}

const fn wanted(unit: char, slot: u16, from: u32, to: u32) -> WantedMove<char, u32> {
    WantedMove { unit, slot, from, to }
}
