//! Random schedules over whole quorum logs. Spec: sharding 10.7, 10.10.

use super::world::{Seen, World};

fn run(seeds: core::ops::Range<u64>, nodes: usize, steps: usize) -> Seen {
    let mut all = Seen::default();
    for seed in seeds {
        let mut world = World::new(seed, nodes);
        for _ in 0..steps {
            world.step();
        }
        world.prove_live();
        let Seen {
            opened,
            opened_with_records,
            opened_with_snapshot,
            opened_without_some,
            acknowledged,
            kept,
            fenced,
            taken_again,
            adopted,
            crashes,
            failures,
        } = world.seen;
        all.opened += opened;
        all.opened_with_records += opened_with_records;
        all.opened_with_snapshot += opened_with_snapshot;
        all.opened_without_some += opened_without_some;
        all.acknowledged += acknowledged;
        all.kept += kept;
        all.fenced += fenced;
        all.taken_again += taken_again;
        all.adopted += adopted;
        all.crashes += crashes;
        all.failures += failures;
    }
    all
}

fn assert_not_vacuous(seen: Seen, schedules: u32) {
    assert!(seen.opened > 2 * schedules, "{seen:?}");
    assert!(seen.opened_with_records > schedules, "{seen:?}");
    assert!(seen.opened_with_snapshot > schedules / 4, "{seen:?}");
    assert!(seen.opened_without_some > schedules / 8, "{seen:?}");
    assert!(seen.acknowledged > 4 * schedules, "{seen:?}");
    assert!(seen.kept > schedules / 4, "{seen:?}");
    assert!(seen.fenced > schedules / 8, "{seen:?}");
    assert!(seen.taken_again > schedules, "{seen:?}");
    assert!(seen.adopted > schedules / 16, "{seen:?}");
    assert!(seen.crashes > schedules, "{seen:?}");
    assert!(seen.failures > schedules, "{seen:?}");
}

#[test]
fn of_three_stores_nothing_acknowledged_is_lost_or_there_twice_and_no_lower_token_is_accepted() {
    assert_not_vacuous(run(0..2_000, 3, 2_500), 2_000);
}

#[test]
fn of_five_stores_nothing_acknowledged_is_lost_or_there_twice_and_no_lower_token_is_accepted() {
    assert_not_vacuous(run(0..300, 5, 4_000), 300);
}

#[test]
fn one_store_is_a_majority_of_itself() {
    let seen = run(0..200, 1, 1_000);
    assert!(seen.acknowledged > 600 && seen.crashes > 200, "{seen:?}");
}
