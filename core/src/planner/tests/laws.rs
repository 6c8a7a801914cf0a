//! What holds for every situation.

use proptest::prelude::*;

use super::*;

/// Nodes 10, 20, ..., in zones if there are any; some leave, some are gone. Units with some slots.
fn situations(zones: usize) -> impl Strategy<Value = Table> {
    let nodes = prop::collection::vec((0..zones.max(1), 0..8_u8), 1..14);
    let units = prop::collection::vec((0..8_u16, prop::collection::btree_set(0..16_u32, 0..6)), 1..12);
    (nodes, units).prop_map(move |(nodes, units)| {
        let mut table = Table::on([]);
        for (at, (zone, chance)) in (1..).zip(nodes) {
            let mut node = PlanNode::open(at * 10);
            node.zone = (zones > 0).then(|| ["a", "b", "c", "d"][zone].into());
            if chance == 0 {
                node.standing = NodeStanding::Leaving;
            }
            table.situation.nodes.push(node);
        }
        for ((count, hosts), unit) in units.into_iter().zip('A'..) {
            table = table.with(unit, hosts.into_iter().map(|host| host * 10));
            table.unit(unit).count = count;
        }
        table
    })
}

fn open(table: &Table) -> usize {
    let nodes = table.situation.nodes.iter();
    nodes.filter(|node| node.standing == NodeStanding::Open).count()
}

fn is_open(table: &Table, node: u32) -> bool {
    let mut nodes = table.situation.nodes.iter();
    nodes.any(|known| known.node == node && known.standing == NodeStanding::Open)
}

/// Plans until nothing is left to do.
fn settle(table: &mut Table, limits: PlanLimits) -> usize {
    (0..500)
        .find(|_| table.carry_out(PlanningGate::Open, limits).is_empty())
        .expect("plans come to an end")
}

fn all_limits() -> impl Strategy<Value = PlanLimits> {
    (1..5_usize, 1..3_usize, 1..3_usize).prop_map(|(pending_max, arriving_max, departing_max)| PlanLimits {
        pending_max,
        arriving_max,
        departing_max,
    })
}

fn under_way(table: &Table) -> Vec<(Option<u32>, Option<u32>)> {
    let slots = table.situation.units.iter().flat_map(|unit| &unit.slots);
    let moving = slots.filter_map(|slot| match slot.stage {
        SlotStage::Moving(to) => Some((slot.host, to)),
        SlotStage::MovingByLoad(to) => Some((slot.host, Some(to))),
        SlotStage::Settled | SlotStage::Away(_) | SlotStage::Held => None,
    });
    moving.collect()
}

proptest! {
    #[test]
    fn every_unit_has_its_number_on_different_open_nodes_and_loads_are_even(mut table in situations(0)) {
        table.carry_out(PlanningGate::Open, PlanLimits::NONE);
        // A slot that ends waits for those that start.
        settle(&mut table, PlanLimits::NONE);
        for unit in table.situation.units.clone() {
            let mut hosts = table.hosts(unit.unit);
            prop_assert_eq!(hosts.len(), usize::from(unit.count).min(open(&table)));
            prop_assert!(hosts.iter().all(|host| is_open(&table, *host)));
            hosts.sort_unstable();
            hosts.dedup();
            prop_assert_eq!(hosts.len(), usize::from(unit.count).min(open(&table)), "one on each");
        }
        let nodes = table.situation.nodes.iter().zip(table.loads());
        let loads: Vec<_> = nodes
            .filter(|(node, _)| node.standing == NodeStanding::Open)
            .map(|(_, load)| load)
            .collect();
        let (most, least) = (loads.iter().max(), loads.iter().min());
        prop_assert!(most.zip(least).is_none_or(|(most, least)| most - least <= 1), "{:?}", loads);
    }

    #[test]
    fn a_plan_under_way_or_carried_out_plans_nothing_again(table in situations(0)) {
        let mut under_way = table.clone();
        under_way.begin(PlanningGate::Open, PlanLimits::NONE);
        let ends = |change: &PlannedChange<char, u32>| change.to.is_none();
        let again = under_way.begin(PlanningGate::Open, PlanLimits::NONE);
        prop_assert!(again.is_empty(), "{:?}", again);
        let mut done = table.clone();
        let changes = done.carry_out(PlanningGate::Open, PlanLimits::NONE);
        let again = done.carry_out(PlanningGate::Open, PlanLimits::NONE);
        // What starts keeps others from ending, and what ends makes room.
        let waited = changes.iter().any(|change| change.from.is_none()) || again.iter().any(ends);
        prop_assert!(again.is_empty() || waited, "{:?} after {:?}", again, changes);
    }

    #[test]
    fn new_units_overlap_as_little_as_they_can(counts in prop::collection::vec(1..9_u16, 1..12), nodes in 1..14_u32) {
        let mut table = Table::on(1..=nodes);
        for (count, unit) in counts.into_iter().zip('A'..) {
            table.register(unit, count);
            let loads = table.loads();
            let spread = loads.iter().max().zip(loads.iter().min()).map(|(most, least)| most - least);
            prop_assert!(spread.is_some_and(|spread| spread <= 1), "{:?}", loads);
        }
    }

    #[test]
    fn limits_hold_and_the_end_is_reached(table in situations(0), limits in all_limits()) {
        let mut limited = table.clone();
        // New units are beyond limits: they are placed first.
        limited.carry_out(PlanningGate::Needed, PlanLimits { pending_max: 0, ..PlanLimits::NONE });
        for round in 0..200 {
            let changes = limited.begin(PlanningGate::Open, limits);
            let moving = under_way(&limited);
            let moving: Vec<_> = moving.into_iter().filter(|change| *change != (None, None)).collect();
            prop_assert!(moving.len() <= limits.pending_max);
            for node in limited.situation.nodes.clone() {
                let comes = moving.iter().filter(|(_, to)| *to == Some(node.node)).count();
                let goes = moving.iter().filter(|(from, _)| *from == Some(node.node)).count();
                prop_assert!(comes <= limits.arriving_max && goes <= limits.departing_max);
            }
            if changes.is_empty() {
                break;
            }
            prop_assert!(round < 199, "it ends");
            limited.complete();
        }
        for unit in table.situation.units {
            prop_assert_eq!(limited.hosts(unit.unit).len(), usize::from(unit.count).min(open(&limited)));
        }
    }

    #[test]
    fn zones_differ_by_no_more_than_one(mut table in situations(3)) {
        settle(&mut table, PlanLimits::NONE);
        for unit in table.situation.units.clone() {
            let spread = table.spread(unit.unit);
            let hosts = table.hosts(unit.unit);
            for zone in ["a", "b", "c"].map(|zone| Some(Arc::from(zone))) {
                let nodes = table.situation.nodes.iter().filter(|node| node.zone == zone);
                let is_free = |node: &PlanNode<u32>| is_open(&table, node.node) && !hosts.contains(&node.node);
                let has_room = nodes.filter(|node| is_free(node)).count() > 0;
                let here = spread.get(&zone).copied().unwrap_or(0);
                let most = spread.values().copied().max().unwrap_or(0);
                prop_assert!(!has_room || most <= here + 1, "{:?} {:?}", unit.unit, spread);
            }
        }
    }

    #[test]
    fn the_order_of_what_is_given_does_not_matter(table in situations(2)) {
        let mut other = table.clone();
        other.situation.nodes.reverse();
        other.situation.units.reverse();
        for unit in &mut other.situation.units {
            unit.slots.reverse();
        }
        prop_assert_eq!(
            table.plan(PlanningGate::Open, PlanLimits::NONE),
            other.plan(PlanningGate::Open, PlanLimits::NONE)
        );
    }
}

#[test]
fn what_is_there_twice_counts_once() {
    let mut table = Table::on([1, 1, 2, 2])
        .with('A', [1])
        .with('B', [1])
        .with('A', [2]);
    let twin = table.unit('A').slots[0].clone();
    table.unit('A').slots.extend([twin.clone(), twin]);
    assert_eq!(table.moves(PlanningGate::Open), [('A', Some(1), Some(2))]);
}

/// The greatest cluster that is promised: planned in a few milliseconds when optimised.
#[test]
fn a_table_of_the_greatest_size_is_planned() {
    let mut table = PlanSituation {
        nodes: (0..900_u32).map(PlanNode::open).collect(),
        units: (0..1_024_u32)
            .map(|unit| PlanUnit::new(unit, 8, Vec::new()))
            .collect(),
        placed_last: None,
        commanded: Vec::new(),
        by_load: Vec::new(),
    };
    let first = plan(&table, PlanningGate::Open, PlanLimits::NONE);
    assert_eq!(first.changes.len(), 8_192);
    for change in first.changes {
        let unit = &mut table.units[change.unit as usize];
        unit.slots
            .push(PlanSlot::settled(change.slot, change.to.unwrap_or_default()));
    }
    table.nodes.extend((900..1_000).map(PlanNode::open));
    let second = plan(&table, PlanningGate::Open, PlanLimits::NONE);
    // 100 newcomers get 8 each of 8.192 on average.
    assert!(
        (800..=820).contains(&second.changes.len()),
        "{}",
        second.changes.len()
    );
    let limited = plan(&table, PlanningGate::Open, PlanLimits::for_nodes(1_000));
    assert_eq!(limited.changes.len(), 100, "one comes to each");
}
