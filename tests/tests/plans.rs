//! Random plans of several events, played by real nodes in virtual time under every strategy and rule.
//! `QUORATE_PLANS` sets how many per setting (default 5); `splits --plans 2000` runs the full number and
//! prints the table of `docs/downing.md`.

use quorate_core::downing::view::IndirectRule;
use quorate_tests::invariants::i_22;
use quorate_tests::sim::Show;
use quorate_tests::splits::plan::{Event, Plan, SECOND, SETTLED_AFTER};
use quorate_tests::splits::safe::a_safe;
use quorate_tests::splits::sick::{self, Sickness};
use quorate_tests::splits::{STABLE_AFTER, STRATEGIES, Setting, play, run};

const RULES: [IndirectRule; 3] = [
    IndirectRule::Classic,
    IndirectRule::CascadeSafe,
    IndirectRule::Fewest,
];

fn plans() -> u64 {
    let set = std::env::var("QUORATE_PLANS").ok();
    set.map_or(5, |plans| {
        plans.parse().expect("QUORATE_PLANS is a number of plans")
    })
}

fn setting(strategy: &'static str, rule: IndirectRule) -> Setting {
    Setting {
        strategy,
        rule,
        share: None,
        held: None,
        stable: STABLE_AFTER,
    }
}

#[test]
fn i_21_to_i_26_hold_in_random_plans_under_every_strategy_and_rule() {
    for strategy in STRATEGIES {
        for rule in RULES {
            let report = run(0..plans(), setting(strategy, rule), 2);
            assert_eq!(report.violations, [], "{strategy} {rule}");
            assert_eq!(report.inside.two_sided, 0, "{strategy} {rule}");
        }
    }
}

#[test]
fn i_22_a_clean_split_keeps_the_side_that_qualifies() {
    // Plans that begin with such a split, with nothing else before it is over.
    let seeds = (0..).filter(|seed| i_22::first_split(&Plan::draw(*seed), SETTLED_AFTER).is_some());
    let mut kept = 0;
    for seed in seeds.take(5) {
        let plan = Plan::draw(seed);
        for strategy in ["static-quorum", "keep-majority", "keep-oldest"] {
            let safe = setting(strategy, IndirectRule::CascadeSafe);
            let outcome = play(seed, &plan, safe, Show::Nothing);
            assert_eq!(outcome.violation, None, "{seed} {strategy}");
            kept += usize::from(outcome.kept_promise);
        }
    }
    assert!(kept >= 7, "only {kept} of 15 splits had a side that qualifies");
}

#[test]
fn at_least_three_of_ten_plans_are_inside_of_the_safe_assumptions() {
    let inside = (0..2_000).filter(|seed| a_safe(&Plan::draw(*seed), 2 * SECOND).is_ok());
    let inside = inside.count();
    assert!((600..1_400).contains(&inside), "{inside}");
}

/// Two of seven crash one after the other: the second has reported the first, and crashes so shortly before
/// the decision that waiting for a stable picture takes longer than patience for unrest.
fn cascade(gap: u64) -> Plan {
    Plan {
        nodes: 7,
        events: vec![(0, Event::Crash(2)), (gap, Event::Crash(6))],
        cascade: true,
        sick: None,
    }
}

#[test]
fn s_3_9_a_cascade_of_crashes_is_survived_by_the_cascade_safe_rule_whenever_the_second_comes() {
    for strategy in ["keep-majority", "static-quorum", "keep-oldest", "lease-majority"] {
        // With the first, within the stable period, just before the decision that it puts off, and after it.
        for gap in [SECOND / 2, 19 * SECOND / 10, 5 * SECOND / 2] {
            let safe = setting(strategy, IndirectRule::CascadeSafe);
            let outcome = play(126, &cascade(gap), safe, Show::Nothing);
            assert_eq!(outcome.violation, None, "{strategy} {gap}");
            assert_eq!((outcome.parts, outcome.survivors), (1, 5), "{strategy} {gap}");
        }
    }
    let classic = setting("keep-majority", IndirectRule::Classic);
    let outcome = play(126, &cascade(19 * SECOND / 10), classic, Show::Nothing);
    assert_eq!(outcome.parts, 0, "which is what the other rule is for");
}

#[test]
fn i_23_a_process_that_stood_still_does_not_decide_by_what_it_knew_before() {
    // Both seeds have a pause that ends when the patience for unrest, as it was counted before the pause, is
    // over.
    for seed in [1_032, 1_083] {
        let classic = setting("static-quorum", IndirectRule::Classic);
        let outcome = play(seed, &Plan::draw(seed), classic, Show::Nothing);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}

/// Three nodes; the first stands still until the others have won the lease, removed it and given the lease
/// back.
fn long_pause() -> Plan {
    Plan {
        nodes: 3,
        events: vec![(0, Event::Pause(0, 7 * SECOND + 373_736))],
        cascade: false,
        sick: Some(0),
    }
}

#[test]
fn i_21_the_lease_keeps_two_sides_from_staying_outside_of_the_safe_assumptions_too() {
    for rule in RULES {
        let outcome = play(143, &long_pause(), setting("lease-majority", rule), Show::Nothing);
        assert_eq!(outcome.violation, None, "{rule}");
        assert_eq!((outcome.parts, outcome.survivors), (1, 2), "{rule}");
        // A side that comes to a decision only when the other one has given the lease back: its leader was
        // leaving.
        let outcome = play(
            1_201,
            &Plan::draw(1_201),
            setting("lease-majority", rule),
            Show::Nothing,
        );
        assert_eq!(outcome.violation, None, "{rule}");
    }
}

#[test]
fn s_3_7_the_node_that_is_cut_off_last_does_not_stay_alone_by_what_it_knew() {
    // Three of five complain about the second, which lives, when they are cut off.
    let safe = setting("keep-majority", IndirectRule::CascadeSafe);
    let outcome = play(306, &Plan::draw(306), safe, Show::Nothing);
    assert_eq!((outcome.parts, outcome.survivors), (1, 3));
}

#[test]
fn i_21_two_sides_are_counted_where_a_strategy_lets_them_stay() {
    let split = Plan {
        nodes: 5,
        events: vec![(0, Event::Split(vec![vec![0, 1, 2], vec![3, 4]]))],
        cascade: false,
        sick: None,
    };
    let auto_down = setting("auto-down", IndirectRule::Classic);
    let outcome = play(1, &split, auto_down, Show::Nothing);
    assert_eq!((outcome.parts, outcome.survivors), (2, 5));
    assert_eq!(outcome.violation, None, "it promises nothing else");
}

#[test]
fn i_19_a_node_that_stands_still_takes_nobody_with_it() {
    let pauses = |plan: &Plan| {
        let is_pause = |(_, event): &(u64, Event)| matches!(event, Event::Pause(..));
        plan.sick.is_some() && plan.events.iter().all(is_pause)
    };
    let seeds = (0..).filter(|seed| pauses(&Plan::draw(*seed)));
    for seed in seeds.take(6) {
        for strategy in ["keep-majority", "lease-majority"] {
            let safe = setting(strategy, IndirectRule::CascadeSafe);
            let outcome = play(seed, &Plan::draw(seed), safe, Show::Nothing);
            assert_eq!(outcome.healthy_downed, Some(0), "{seed} {strategy}");
            assert!(outcome.parts == 1, "{seed} {strategy}");
        }
    }
}

#[test]
fn f_17_answers_that_come_late_and_twice_do_not_hide_a_crash() {
    // A node crashes in a split of two; copies of its answers went on arriving, and its side never decided.
    let safe = setting("lease-majority", IndirectRule::CascadeSafe);
    let outcome = play(4_913, &Plan::draw(4_913), safe, Show::Nothing);
    assert_eq!(outcome.violation, None);
    // A direction between the last two is cut: one side took the other for back, until the lease was free
    // again.
    let outcome = play(2_055, &Plan::draw(2_055), safe, Show::Nothing);
    assert_eq!(outcome.violation, None);
}

#[test]
fn i_19_a_sick_node_takes_no_healthy_one_along_and_does_not_end_the_cluster() {
    let fewest = setting("keep-majority", IndirectRule::Fewest);
    for (sickness, nodes) in Sickness::ALL.into_iter().flat_map(|kind| [(kind, 3), (kind, 5)]) {
        for seed in 0..4 {
            let outcome = play(seed, &sick::draw(seed, nodes, sickness), fewest, Show::Nothing);
            assert_eq!(outcome.violation, None, "{sickness} {nodes} {seed}");
            let is_spared = outcome.undecidable || outcome.healthy_downed == Some(0);
            assert!(
                is_spared && outcome.parts == 1,
                "{sickness} {nodes} {seed}: {outcome:?}"
            );
        }
    }
    // By the rule before, healthy ones went.
    let before = setting("keep-majority", IndirectRule::CascadeSafe);
    let outcome = play(0, &sick::draw(0, 5, Sickness::HalfFrames), before, Show::Nothing);
    assert!(outcome.healthy_downed > Some(0), "{outcome:?}");
}
