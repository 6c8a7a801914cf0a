//! Random downing decisions of every strategy under every rule. `QUORATE_DECISIONS` sets the plans of each
//! kind (default 500); `decisions 100000` runs the full number and prints the table of `docs/downing.md`.

use quorate_core::downing::view::IndirectRule;
use quorate_tests::decisions::{Row, STRATEGIES, rules_of, run};

fn plans() -> u64 {
    let set = std::env::var("QUORATE_DECISIONS").ok();
    set.map_or(500, |plans| {
        plans.parse().expect("QUORATE_DECISIONS is a number of plans")
    })
}

fn each(strategy: &str, mut check: impl FnMut(IndirectRule, Row)) {
    for rule in rules_of(strategy) {
        check(rule.0, run(strategy, *rule, plans(), 1));
    }
}

#[test]
fn i_21_inside_of_its_assumptions_no_strategy_lets_two_sides_survive() {
    for strategy in STRATEGIES.into_iter().filter(|name| *name != "auto-down") {
        each(strategy, |rule, row| {
            assert_eq!(row.safe.plans, plans());
            assert_eq!(row.safe.two_sided, 0, "{strategy} {rule}");
        });
    }
}

#[test]
fn i_21_with_a_lease_no_two_sides_survive_whatever_happens() {
    each("lease-majority", |rule, row| {
        let two_sided = (row.complete.two_sided, row.lagging.two_sided);
        assert_eq!(two_sided, (0, 0), "{rule}");
    });
}

#[test]
fn auto_down_does_let_two_sides_survive_so_the_plans_do_split() {
    each("auto-down", |rule, row| {
        assert!(row.safe.two_sided > row.safe.plans / 4, "{rule}: {}", row.safe);
    });
}

#[test]
fn down_all_leaves_nobody_who_could_be_left_twice() {
    each("down-all", |rule, row| {
        let two_sided = row.safe.two_sided + row.complete.two_sided + row.lagging.two_sided;
        assert_eq!(two_sided, 0, "{rule}");
        assert!(row.safe.outages > row.safe.plans / 2, "{rule}: {}", row.safe);
    });
}
