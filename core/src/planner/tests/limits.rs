//! How much may be under way.

use super::*;

fn one_each() -> PlanLimits {
    PlanLimits::for_nodes(10)
}

#[test]
fn the_documented_limits() {
    let pending = |nodes| PlanLimits::for_nodes(nodes).pending_max;
    assert_eq!([1, 12, 15, 16, 1_000].map(pending), [3, 3, 3, 4, 250]);
    assert_eq!((one_each().arriving_max, one_each().departing_max), (1, 1));
}

#[test]
fn s_321_changes_run_beside_each_other_up_to_the_limit() {
    let mut table = Table::on(1..=6).with('A', [1, 2, 3]);
    for node in 1..=3 {
        table.leave(node);
    }
    let limits = PlanLimits {
        pending_max: 2,
        ..one_each()
    };
    let first = table.begin(PlanningGate::Open, limits);
    let found: Vec<_> = first.iter().map(|change| (change.from, change.to)).collect();
    assert_eq!(found, [(Some(1), Some(4)), (Some(2), Some(5))]);
    assert_eq!(table.begin(PlanningGate::Open, limits), [], "the third waits");
    table.complete();
    let second = table.begin(PlanningGate::Open, limits);
    assert_eq!((second[0].from, second[0].to), (Some(3), Some(6)));
}

#[test]
fn one_slot_goes_from_a_node_and_one_comes_to_it_at_a_time() {
    let mut table = Table::on(1..=3).with('A', [1]).with('B', [1]).with('C', [2]);
    table.leave(1);
    table.leave(2);
    let first = table.begin(PlanningGate::Open, one_each());
    assert_eq!(first.len(), 1, "all go to 3: {first:?}");
    table.complete();
    assert_eq!(table.carry_out(PlanningGate::Open, one_each()).len(), 1);
    assert_eq!(table.carry_out(PlanningGate::Open, one_each()).len(), 1);
    assert_eq!(table.loads(), [0, 0, 3]);
}

#[test]
fn a_new_unit_is_placed_at_once() {
    let mut table = Table::on(1..=4);
    for unit in ['A', 'B', 'C'] {
        table.situation.units.push(PlanUnit::new(unit, 4, Vec::new()));
    }
    let changes = table.begin(PlanningGate::Needed, one_each());
    assert_eq!(changes.len(), 12);
    assert!(changes.iter().all(|change| change.reason == ChangeReason::First));
    table.complete();
    table.unit('A').count = 4;
    table.unit('A').slots.truncate(2);
    table.unit('B').slots.truncate(1);
    assert_eq!(
        table.begin(PlanningGate::Needed, one_each()).len(),
        3,
        "but more of a known one is not"
    );
}

#[test]
fn a_unit_that_is_silent_while_it_moves_moves_one_by_one() {
    let mut table = Table::on(1..=9).with('A', [1, 2, 3]);
    for node in 1..=3 {
        table.leave(node);
    }
    table.unit('A').silent_max = Some(1);
    assert_eq!(table.begin(PlanningGate::Open, PlanLimits::NONE).len(), 1);
    assert_eq!(table.begin(PlanningGate::Open, PlanLimits::NONE), []);
    table.complete();
    table.unit('A').silent_max = Some(2);
    assert_eq!(table.begin(PlanningGate::Open, PlanLimits::NONE).len(), 2);
    // One whose host is gone does not serve either.
    let mut table = Table::on(1..=9).with('A', [1, 2, 30]);
    table.leave(1);
    table.unit('A').silent_max = Some(1);
    let changes = table.begin(PlanningGate::Open, PlanLimits::NONE);
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].reason, ChangeReason::Repair);
}

#[test]
fn what_is_under_way_counts_where_it_comes_to() {
    let mut table = Table::on(1..=4)
        .with('A', [1])
        .with('B', [1])
        .with('C', [1])
        .with('D', [1]);
    let first = table.begin(PlanningGate::Open, PlanLimits::NONE);
    assert_eq!(first.len(), 3);
    assert_eq!(
        table.begin(PlanningGate::Open, PlanLimits::NONE),
        [],
        "the same situation"
    );
    table.register('E', 1);
    assert_eq!(
        table.hosts('E'),
        [2],
        "1 had four slots when E was placed, the others one each"
    );
}

#[test]
fn without_nodes_nothing_is_placed_and_nothing_moves() {
    let mut table = Table::on([]).with('A', [7]);
    table.situation.units.push(PlanUnit::new('B', 3, Vec::new()));
    table.situation.placed_last = Some(7);
    table.situation.commanded.push(WantedMove {
        unit: 'A',
        slot: 0,
        from: 7,
        to: 8,
    });
    for gate in [PlanningGate::Closed, PlanningGate::Needed, PlanningGate::Open] {
        let planned = plan(&table.situation, gate, one_each());
        assert!(
            planned.changes.iter().all(|change| change.to.is_none()),
            "{planned:?}"
        );
        assert_eq!(planned.placed_last, Some(7));
        assert_eq!(planned.refused, [(0, MoveError::OtherHost)]);
    }
}

#[test]
fn a_slot_whose_new_host_is_gone_is_silent_until_its_old_one_has_noticed() {
    let mut table = Table::on(1..=6).with('A', [1, 2]);
    table.unit('A').silent_max = Some(1);
    // Node 99 is no member any more.
    table.unit('A').slots[0].stage = SlotStage::Moving(Some(99));
    table.leave(2);
    assert_eq!(table.begin(PlanningGate::Open, one_each()), []);
    table.unit('A').slots[0].stage = SlotStage::Settled;
    assert_eq!(table.begin(PlanningGate::Open, one_each()).len(), 1);
}

#[test]
fn of_a_unit_that_changes_one_slot_at_a_time_nothing_else_is_planned() {
    let mut table = Table::on(1..=6);
    table.situation.units.push(PlanUnit {
        changing_max: Some(1),
        ..PlanUnit::new('A', 3, Vec::new())
    });
    table.carry_out(PlanningGate::Needed, PlanLimits::NONE);
    assert_eq!(table.hosts('A'), [1, 2, 3], "the first ones come at once");
    table.remove(1);
    table.remove(2);
    let repaired = table.begin(PlanningGate::Open, PlanLimits::NONE);
    assert_eq!(repaired.len(), 1, "two are missing");
    table.leave(3);
    assert_eq!(table.moves(PlanningGate::Open), [], "while one changes");
    table.complete();
    assert_eq!(table.moves(PlanningGate::Open).len(), 1);
    table.complete();
    table.unit('A').count = 5;
    let more = table.begin(PlanningGate::Open, PlanLimits::NONE);
    assert_eq!(more.len(), 1);
    table.complete();
    table.unit('A').count = 1;
    let moves = table.moves(PlanningGate::Open);
    let ended = moves.iter().filter(|(_, from, _)| from.is_some());
    assert_eq!(ended.count(), 1, "nor do several end at once");
}
