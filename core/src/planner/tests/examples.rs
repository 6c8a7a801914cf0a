//! The worked examples of sharding 5.3 and its cases, number by number.

use alloc::vec;

use super::*;

/// Ten nodes by their new numbers, before the five between them have joined.
const OLD: [u32; 10] = [1, 2, 4, 5, 7, 9, 10, 12, 14, 15];

/// The worked example on nodes that leave room for five more.
fn with_room() -> Table {
    let mut table = Table::on(OLD);
    for (unit, count) in [('A', 4), ('B', 3), ('C', 5)] {
        table.register(unit, count);
    }
    table
}

#[test]
fn s_301_and_m_430_units_are_placed_round_the_ring_with_least_overlap() {
    let table = Table::worked_example();
    assert_eq!(table.hosts('A'), [1, 2, 3, 4]);
    assert_eq!(table.hosts('B'), [5, 6, 7]);
    assert_eq!(table.hosts('C'), [8, 9, 10, 1, 2]);
    assert_eq!(table.loads(), [2, 2, 1, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(table.situation.placed_last, Some(2));
    assert_eq!(table.moves(PlanningGate::Open), []);
}

#[test]
fn s_302_and_s_304_nodes_that_join_change_numbers_and_move_nothing() {
    let mut table = with_room();
    let before = Ordinals::new(OLD);
    let after = Ordinals::new(1..=15);
    table.situation.nodes = (1..=15).map(PlanNode::open).collect();
    assert_eq!(table.moves(PlanningGate::Needed), []);
    let shown = |unit| -> Vec<usize> {
        let hosts = table.hosts(unit).into_iter();
        hosts.filter_map(|host| after.of(&host)).collect()
    };
    assert_eq!(shown('A'), [1, 2, 4, 5]);
    assert_eq!(shown('B'), [7, 9, 10]);
    assert_eq!(shown('C'), [12, 14, 15, 1, 2]);
    let map = [1, 2, 4, 5, 7, 9, 10, 12, 14, 15];
    assert_eq!(before.moved(&after), (1..).zip(map).collect::<Vec<_>>());
    assert_eq!(after.joined(&before), [3, 6, 8, 11, 13]);
    assert_eq!(
        (after.node(15), after.node(16), after.node(0)),
        (Some(&15), None, None)
    );
    assert_eq!(before.of(&3), None);
}

#[test]
fn s_303_balance_after_it_moves_two_slots() {
    let mut table = with_room();
    table.situation.nodes = (1..=15).map(PlanNode::open).collect();
    let expected = [('C', Some(1), Some(3)), ('C', Some(2), Some(6))];
    assert_eq!(table.moves(PlanningGate::Open), expected);
    table.carry_out(PlanningGate::Open, PlanLimits::NONE);
    assert_eq!(table.hosts('C'), [12, 14, 15, 3, 6]);
    assert!(table.loads().iter().all(|load| *load <= 1));
    assert_eq!(table.moves(PlanningGate::Open), []);
}

#[test]
fn s_305_a_leaving_node_gives_everything_away() {
    let mut table = Table::worked_example();
    table.leave(2);
    let expected = [('A', Some(2), Some(5)), ('C', Some(2), Some(3))];
    assert_eq!(table.moves(PlanningGate::Needed), expected);
    assert!(table.situation.names(&2));
    table.begin(PlanningGate::Open, PlanLimits::NONE);
    assert!(table.situation.names(&2), "the changes are under way");
    assert!(table.situation.names(&5));
    assert_eq!(table.moves(PlanningGate::Open), []);
    table.complete();
    assert!(!table.situation.names(&2));
}

#[test]
fn s_310_the_slot_of_a_node_that_is_gone_is_repaired() {
    let mut table = Table::worked_example();
    table.remove(6);
    let changes = table.begin(PlanningGate::Needed, PlanLimits::NONE);
    let expected = PlannedChange {
        unit: 'B',
        slot: 1,
        from: None,
        to: Some(8),
        reason: ChangeReason::Repair,
    };
    assert_eq!(changes, [expected], "7 has one");
    let others: Vec<_> = table
        .unit('B')
        .slots
        .iter()
        .filter(|slot| slot.stage == SlotStage::Settled)
        .collect();
    assert_eq!(others.len(), 2, "the others go on");
    assert_eq!(table.moves(PlanningGate::Needed), []);
    table.complete();
    assert_eq!(table.hosts('B'), [5, 8, 7]);
}

#[test]
fn a_repair_goes_to_the_node_that_was_about_to_take_over() {
    let mut table = Table::worked_example();
    table.remove(6);
    table.unit('B').slots[1].prefers = Some(10);
    assert_eq!(table.moves(PlanningGate::Needed), [('B', None, Some(10))]);
    let busy = PlanLimits {
        arriving_max: 0,
        ..PlanLimits::NONE
    };
    assert_eq!(
        table.plan(PlanningGate::Needed, busy).changes,
        [],
        "it waits for that one"
    );
    table.leave(10);
    assert_eq!(
        table.moves(PlanningGate::Needed),
        [('C', Some(10), Some(3)), ('B', None, Some(8))]
    );
    table.unit('B').slots[1].stage = SlotStage::Held;
    assert_eq!(
        table.moves(PlanningGate::Needed),
        [('C', Some(10), Some(3))],
        "the margin has not passed"
    );
}

#[test]
fn s_322_a_move_to_a_node_that_has_one_is_refused() {
    let mut table = Table::worked_example();
    let refused = |table: &Table, wanted| check_move(&table.situation, &wanted).unwrap_err();
    assert_eq!(refused(&table, wanted('A', 0, 1, 2)), MoveError::AlreadyThere);
    assert_eq!(refused(&table, wanted('A', 0, 1, 1)), MoveError::AlreadyThere);
    assert_eq!(refused(&table, wanted('D', 0, 1, 9)), MoveError::UnknownUnit);
    assert_eq!(refused(&table, wanted('A', 4, 1, 9)), MoveError::UnknownSlot);
    assert_eq!(refused(&table, wanted('A', 0, 3, 9)), MoveError::OtherHost);
    assert_eq!(refused(&table, wanted('A', 0, 11, 9)), MoveError::OtherHost);
    assert_eq!(refused(&table, wanted('A', 0, 1, 11)), MoveError::NotEligible);
    assert_eq!(check_move(&table.situation, &wanted('A', 0, 1, 9)), Ok(()));
    table.leave(9);
    assert_eq!(refused(&table, wanted('A', 0, 1, 9)), MoveError::NotEligible);
    table.unit('A').refused = vec![8];
    assert_eq!(refused(&table, wanted('A', 0, 1, 8)), MoveError::NotEligible);
    table.unit('A').pool = Some(1);
    table.node(7).pools = vec![1];
    assert_eq!(refused(&table, wanted('A', 0, 1, 6)), MoveError::NotEligible);
    assert_eq!(check_move(&table.situation, &wanted('A', 0, 1, 7)), Ok(()));
    table.unit('A').slots[0].stage = SlotStage::Moving(Some(7));
    assert_eq!(refused(&table, wanted('A', 0, 1, 7)), MoveError::AlreadyThere);
    assert_eq!(refused(&table, wanted('A', 1, 2, 7)), MoveError::AlreadyThere);
    table.unit('A').slots[1].stage = SlotStage::Held;
    table.node(6).pools = vec![1];
    assert_eq!(refused(&table, wanted('A', 1, 2, 6)), MoveError::InFlight);
}

#[test]
fn a_commanded_move_is_planned_or_refused() {
    let mut table = Table::worked_example();
    table.situation.commanded = vec![wanted('A', 0, 1, 2), wanted('A', 0, 1, 8), wanted('A', 0, 1, 9)];
    let planned = table.plan(PlanningGate::Open, PlanLimits::NONE);
    assert_eq!(planned.refused, [(0, MoveError::AlreadyThere)]);
    let [change] = &planned.changes[..] else {
        panic!("one: {planned:?}")
    };
    assert_eq!(
        (change.from, change.to, change.reason),
        (Some(1), Some(8), ChangeReason::Command)
    );
    assert_eq!(table.plan(PlanningGate::Needed, PlanLimits::NONE).changes, []);
}

#[test]
fn s_328_nothing_is_planned_behind_a_closed_gate() {
    let mut table = Table::worked_example();
    table.leave(2);
    table.remove(6);
    table.unit('A').count = 6;
    assert_eq!(table.moves(PlanningGate::Closed), []);
    assert!(table.moves(PlanningGate::Needed).len() > 3);
}

#[test]
fn more_go_to_the_least_loaded_from_the_cursor_on_and_fewer_end_on_the_most_loaded() {
    let mut table = Table::worked_example();
    table.unit('B').count = 5;
    let changes = table.carry_out(PlanningGate::Needed, PlanLimits::NONE);
    let found: Vec<_> = changes
        .iter()
        .map(|change| (change.slot, change.from, change.to))
        .collect();
    assert_eq!(found, [(3, None, Some(3)), (4, None, Some(4))]);
    assert_eq!(table.situation.placed_last, Some(4));
    table.unit('C').count = 2;
    assert_eq!(
        table.moves(PlanningGate::Needed),
        [('C', Some(2), None), ('C', Some(1), None), ('C', Some(10), None)]
    );
    table.carry_out(PlanningGate::Needed, PlanLimits::NONE);
    table.unit('C').count = 3;
    let changes = table.carry_out(PlanningGate::Needed, PlanLimits::NONE);
    assert_eq!(changes[0].slot, 2, "the lowest number that is free");
}

#[test]
fn a_unit_with_too_many_ends_those_without_a_host_and_on_leaving_nodes_first() {
    let mut table = Table::on(1..=4).with('A', [1, 2, 3, 4]);
    table.leave(2);
    assert_eq!(
        table.moves(PlanningGate::Needed),
        [('A', Some(2), None)],
        "there is no node for it"
    );
    let mut table = Table::on(1..=5).with('A', [1, 2, 3, 9]);
    table.unit('A').count = 2;
    table.leave(1);
    let changes = table.begin(PlanningGate::Needed, PlanLimits::NONE);
    let found: Vec<_> = changes
        .iter()
        .map(|change| (change.slot, change.from, change.to))
        .collect();
    assert_eq!(found, [(3, None, None), (0, Some(1), None)], "9 is gone");
}

#[test]
fn no_slot_ends_while_another_one_of_the_unit_does_not_serve() {
    let mut table = Table::on(1..=5).with('A', [1, 2, 3]);
    table.unit('A').slots[0].host = Some(9);
    table.unit('A').slots[0].stage = SlotStage::Held;
    table.unit('A').count = 2;
    assert_eq!(table.moves(PlanningGate::Needed), []);
    table.unit('A').slots[0].stage = SlotStage::Settled;
    assert_eq!(table.moves(PlanningGate::Needed), [('A', None, None)]);
}

#[test]
fn slots_are_only_on_nodes_of_their_pool_and_leave_those_that_refuse_them() {
    let mut table = Table::on(1..=6);
    for node in [2, 4, 5] {
        table.node(node).pools = vec![7, 3, 7];
    }
    table.situation.units.push(PlanUnit {
        pool: Some(7),
        ..PlanUnit::new('A', 5, Vec::new())
    });
    table.carry_out(PlanningGate::Needed, PlanLimits::NONE);
    assert_eq!(table.hosts('A'), [2, 4, 5], "as many as there are");
    table.unit('A').refused = vec![4];
    assert_eq!(table.moves(PlanningGate::Needed), [('A', Some(4), None)]);
    table.node(6).pools = vec![7];
    assert_eq!(table.moves(PlanningGate::Needed), [('A', Some(4), Some(6))]);
    table.unit('A').pool = Some(8);
    assert_eq!(table.moves(PlanningGate::Needed).len(), 3, "nobody may have it");
}

#[test]
fn a_closed_node_gets_nothing_and_keeps_what_it_has() {
    let mut table = Table::on(1..=3).with('A', [1, 2, 3]).with('B', [1]);
    table.node(1).standing = NodeStanding::Closed;
    assert_eq!(table.moves(PlanningGate::Open), []);
    table.register('D', 3);
    assert_eq!(table.hosts('D'), [2, 3]);
}

#[test]
fn instances_are_spread_over_zones_before_nodes() {
    let mut table = Table::zoned([(1, "a"), (2, "a"), (3, "a"), (4, "b"), (5, "b"), (6, "")]);
    table.register('A', 3);
    assert_eq!(table.hosts('A'), [1, 4, 6]);
    table.register('B', 4);
    assert_eq!(table.hosts('B'), [2, 5, 6, 3], "6 is alone in its zone");
    table.leave(4);
    assert_eq!(
        table.moves(PlanningGate::Needed),
        [('A', Some(4), Some(5))],
        "within the zone"
    );
    table.leave(5);
    assert_eq!(
        table.moves(PlanningGate::Needed),
        [('A', Some(4), Some(2)), ('B', Some(5), Some(1))],
        "without the zone"
    );
}

#[test]
fn a_zone_that_comes_late_gets_its_part() {
    let mut table = Table::zoned([(1, "a"), (2, "a"), (3, "b")]).with('A', [1, 2]);
    let changes = table.carry_out(PlanningGate::Open, PlanLimits::NONE);
    let found: Vec<_> = changes
        .iter()
        .map(|change| (change.from, change.to, change.reason))
        .collect();
    assert_eq!(found, [(Some(1), Some(3), ChangeReason::Zones)]);
    assert_eq!(table.moves(PlanningGate::Open), []);
    // 3 has two more than 1 then, but each unit has an instance in each zone.
    let uneven = table.with('B', [2, 3]).with('C', [2, 3]);
    let found = uneven.moves(PlanningGate::Open);
    assert_eq!(found, [('A', Some(2), Some(1))]);
}

#[test]
fn what_the_load_suggests_comes_when_the_numbers_are_even() {
    let mut table = Table::on(1..=2).with('A', [1]).with('B', [1]).with('C', [1]);
    table.situation.by_load = vec![wanted('C', 0, 1, 2)];
    assert_eq!(table.moves(PlanningGate::Open), [('A', Some(1), Some(2))]);
    let mut table = Table::on(1..=2).with('A', [1]).with('B', [2]);
    table.situation.by_load = vec![wanted('A', 0, 1, 2), wanted('B', 0, 1, 2)];
    let changes = table.plan(PlanningGate::Open, PlanLimits::NONE).changes;
    assert_eq!(changes.len(), 1);
    assert_eq!((changes[0].unit, changes[0].reason), ('A', ChangeReason::Load));
}

#[test]
fn what_the_load_moved_counts_where_it_was_and_is_not_balanced_back() {
    // 2 has two more than 1, one of which has just come from there.
    let mut table = Table::on(1..=3).with('A', [2]).with('B', [2]).with('C', [3]);
    assert_eq!(table.moves(PlanningGate::Open).len(), 1);
    table.unit('A').slots[0].stage = SlotStage::Away(1);
    assert_eq!(table.moves(PlanningGate::Open), []);
    // A new unit comes to who has least, what is away counted where it was.
    table.register('D', 1);
    assert_eq!(table.hosts('D'), [1]);
    table.unit('D').count = 0;
    table.carry_out(PlanningGate::Needed, PlanLimits::NONE);
    // Nor while it moves: the limits count it, the numbers where it was.
    table.unit('A').slots[0] = PlanSlot {
        stage: SlotStage::MovingByLoad(2),
        ..PlanSlot::settled(0, 1)
    };
    assert_eq!(table.moves(PlanningGate::Open), []);
    table.situation.commanded = vec![wanted('B', 0, 2, 1), wanted('C', 0, 3, 2)];
    let limits = PlanLimits::for_nodes(3);
    assert_eq!(
        table.plan(PlanningGate::Open, limits).changes.len(),
        1,
        "2 gets another one already"
    );
    table.situation.commanded = vec![wanted('A', 0, 1, 3)];
    let refused = table.plan(PlanningGate::Open, PlanLimits::NONE).refused;
    assert_eq!(refused, [(0, MoveError::InFlight)]);
    table.situation.commanded.clear();
    table.unit('A').slots[0] = PlanSlot {
        stage: SlotStage::Away(1),
        ..PlanSlot::settled(0, 2)
    };
    // What is uneven all the same is balanced, and what is away stays.
    for unit in ['E', 'F'] {
        table = table.with(unit, [2]);
    }
    assert_eq!(table.moves(PlanningGate::Open), [('B', Some(2), Some(1))]);
    // What has to go goes, and then counts where it is.
    table.leave(2);
    assert_eq!(table.moves(PlanningGate::Needed).len(), 4);
    // Its old host is gone: it counts where it is.
    let mut table = Table::on(2..=3).with('A', [2]).with('B', [2]);
    table.unit('A').slots[0].stage = SlotStage::Away(1);
    assert_eq!(table.moves(PlanningGate::Open), [('B', Some(2), Some(3))]);
    table.situation.commanded = vec![wanted('A', 0, 2, 3)];
    assert_eq!(table.moves(PlanningGate::Open), [('A', Some(2), Some(3))]);
}

#[test]
fn heavy_units_move_only_if_both_nodes_are_closer_then() {
    let mut table = Table::on(1..=2).with('A', [1]).with('B', [1]).with('C', [2]);
    table.unit('A').weight = 5;
    table.unit('C').weight = 3;
    // 6 and 3: A would turn it round, B makes it 5 and 4.
    assert_eq!(table.moves(PlanningGate::Open), [('B', Some(1), Some(2))]);
}
