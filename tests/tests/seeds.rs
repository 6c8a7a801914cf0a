//! Random runs from fixed seeds, inside the ordinary test command: no invariant is broken, every kind of
//! fault really happened, and the same seed gives the same run. The long campaign is the `sim` program's.

use quorate_tests::sim::campaign::{self, Outcome};
use quorate_tests::sim::figures::{self, Scenario};
use quorate_tests::sim::plan::{Plan, Profile};
use quorate_tests::sim::{FaultKind, Show};

/// Seeds of the ordinary test; the program runs a thousand and more.
const SEEDS: core::ops::Range<u64> = 0..50;

#[test]
fn fifty_seeds_break_no_invariant_and_every_fault_fires() {
    let plan = Plan::new(5, &FaultKind::ALL);
    let report = campaign::run(SEEDS, &plan, 2, true, &|_: &Outcome| {});
    assert_eq!(
        report.violations,
        [],
        "replay with the sim program, --seeds and --trace"
    );
    let totals = report.totals;
    assert_eq!(totals.seeds, 50);
    assert!(totals.virtual_micros >= 50 * 120_000_000);
    for kind in FaultKind::ALL {
        let least = if kind.is_orderly() { 10 } else { 2 };
        assert!(
            totals.faults.of(kind) >= least,
            "{kind} fired {} times",
            totals.faults.of(kind)
        );
    }
    assert!(
        totals.safe_runs >= 20,
        "{} runs in which single ownership was asserted",
        totals.safe_runs
    );
    assert!(totals.frames_lost > 1_000 && totals.merges > 100 && totals.removed > 100);
    assert!(totals.hand_offs > 100, "{} hand-offs", totals.hand_offs);
    assert!(totals.asks.0 > 10_000 && totals.asks.1 > 100, "{:?}", totals.asks);
}

#[test]
fn a_hundred_mixed_seeds_of_membership_break_no_invariant_and_take_rare_branches() {
    let mut plan = Plan::of(Profile::Membership, 5, &Profile::Membership.faults());
    plan.mixed = true;
    let report = campaign::run(0..100, &plan, 2, true, &|_: &Outcome| {});
    assert_eq!(report.violations, []);
    let totals = report.totals;
    for kind in Profile::Membership.faults() {
        assert!(totals.faults.of(kind) >= 2, "{kind}");
    }
    for branch in [
        "tombstones expired",
        "members weakly up",
        "old incarnations terminated",
        "halted as Downed",
        "halted as Removed",
    ] {
        assert!(totals.branches.0[branch] > 0, "{branch}");
    }
    assert!(totals.faults.total() >= 300 && totals.safe_runs >= 30);
}

#[test]
fn i_61_to_i_68_hold_in_sixty_mixed_seeds_of_replicated_data_and_every_fault_fires() {
    let mut plan = Plan::of(Profile::Data, 5, &Profile::Data.faults());
    plan.mixed = true;
    let report = campaign::run(0..60, &plan, 2, true, &|_: &Outcome| {});
    assert_eq!(report.violations, []);
    let totals = report.totals;
    for kind in Profile::Data.faults() {
        assert!(
            totals.faults.of(kind) >= 2,
            "{kind} fired {} times",
            totals.faults.of(kind)
        );
    }
    for (branch, least) in [
        ("data writes confirmed", 5_000),
        ("data writes unconfirmed", 200),
        ("data writes whose store failed", 50),
        ("majority writes that a majority read had to find", 500),
        ("runs whose replicas were compared", 45),
        ("contributions taken over", 200),
        ("delta gaps", 50),
        ("read repairs", 50),
    ] {
        assert!(
            totals.branches.0[branch] >= least,
            "{branch}: {}",
            totals.branches.0[branch]
        );
    }
}

#[test]
fn i_47_holds_in_twenty_mixed_seeds_of_remembered_entities_and_every_fault_fires() {
    let mut plan = Plan::of(Profile::Remember, 5, &Profile::Remember.faults());
    plan.mixed = true;
    let report = campaign::run(0..20, &plan, 2, true, &|_: &Outcome| {});
    assert_eq!(report.violations, []);
    let totals = report.totals;
    for kind in [FaultKind::Crash, FaultKind::Partition] {
        assert!(totals.faults.of(kind) >= 2, "{kind}");
    }
    for (branch, least) in [
        ("remembered entities started without a message", 100),
        ("writes of remembered entities", 500),
        ("shards whose store failed", 5),
        ("remembered entities at rest", 200),
    ] {
        let count = totals.branches.0[branch];
        assert!(count >= least, "{branch}: {count}");
    }
    assert_eq!(totals.branches.0["steps of entities that no rule knows"], 0);
}

#[test]
fn i_30_to_i_34_hold_in_fifty_mixed_seeds_of_singletons_and_every_fault_fires() {
    let mut plan = Plan::of(Profile::Singleton, 5, &Profile::Singleton.faults());
    plan.mixed = true;
    let report = campaign::run(0..50, &plan, 2, true, &|_: &Outcome| {});
    assert_eq!(report.violations, []);
    let totals = report.totals;
    for kind in Profile::Singleton.faults() {
        let fired = totals.faults.of(kind);
        assert!(fired >= 2, "{kind} fired {fired} times");
    }
    for (branch, least) in [
        ("instances started", 500),
        ("instances failed", 50),
        ("instances killed", 3),
        ("killed instances that ran on", 10),
        ("instances superseded", 50),
        ("terms refused", 100),
        ("terms not kept", 100),
        ("late answers not heard", 300),
        ("leases lost", 10),
        ("openings refused by the database", 10),
        ("appends refused by the database", 2),
        ("runs in which all singletons answered", 48),
    ] {
        assert!(
            totals.branches.0[branch] >= least,
            "{branch}: {}",
            totals.branches.0[branch]
        );
    }
    assert!(
        totals.safe_runs >= 15 && totals.asks.0 > 10_000,
        "{:?}",
        totals.asks
    );
}

#[test]
fn i_40_to_i_44_hold_in_forty_seeds_of_stored_homes_and_every_fault_of_stores_fires() {
    let mut plan = Plan::of(Profile::Stored, 5, &Profile::Stored.faults());
    plan.mixed = true;
    let report = campaign::run(0..40, &plan, 2, true, &|_: &Outcome| {});
    assert_eq!(report.violations, []);
    let totals = report.totals;
    for kind in FaultKind::STORES {
        let fired = totals.faults.of(kind);
        assert!(fired >= 5, "{kind} fired {fired} times");
    }
    for (branch, least) in [("homes stored", 500), ("waits for a store over their limit", 10)] {
        let seen = totals.branches.0[branch];
        assert!(seen >= least, "{branch}: {seen}");
    }
    assert!(totals.safe_runs >= 10 && totals.asks.0 > 10_000);
}

#[test]
fn i_40_to_i_54_hold_in_thirty_mixed_seeds_of_entities_that_go_through_everything() {
    let mut plan = Plan::of(Profile::Life, 5, &Profile::Life.faults());
    plan.mixed = true;
    let report = campaign::run(0..30, &plan, 2, true, &|_: &Outcome| {});
    assert_eq!(report.violations, []);
    let totals = report.totals;
    for (branch, least) in [
        ("answers given late", 300),
        ("handlers that took long", 200),
        ("entities made anew", 100),
        ("entities failed", 50),
        ("entities stopped by themselves", 50),
        ("shards failed by an entity", 10),
        ("entities passivated", 2_000),
        ("messages kept over a passivation", 100),
        ("remembered entities started without a message", 20),
        ("wishes from outside", 30),
        ("runs in which shards came to rest", 20),
        ("watches that ended with a stop", 30),
        ("watches that ended with a failure", 30),
        ("watches of what did not run", 200),
        ("watches that ended with a node", 30),
        ("watches open at rest", 50),
        ("leases of shards granted", 100),
        ("leases of shards denied", 30),
        ("leases of shards unanswered", 30),
        ("leases of shards lost", 20),
        ("entities started with a lease", 200),
    ] {
        let count = totals.branches.0[branch];
        assert!(count >= least, "{branch}: {count}");
    }
    assert_eq!(totals.branches.0["steps of entities that no rule knows"], 0);
    assert!(totals.safe_runs >= 5 && totals.hand_offs > 200);
}

#[test]
fn i_55_to_i_59_hold_in_twenty_mixed_seeds_of_durable_entities_whose_database_fails() {
    let mut plan = Plan::of(Profile::Durable, 5, &Profile::Durable.faults());
    plan.mixed = true;
    let report = campaign::run(0..20, &plan, 2, true, &|_: &Outcome| {});
    assert_eq!(report.violations, []);
    let totals = report.totals;
    for (branch, least) in [
        ("durable entities recovered", 1_500),
        ("durable events kept", 5_000),
        ("durable events not done", 200),
        ("durable entities fenced", 15),
        ("durable entities given up", 15),
        ("durable entities made anew", 100),
        ("durable commands turned away", 50),
        ("durable reads that were judged", 300),
        ("snapshots of durable entities", 500),
        ("snapshots that made room", 200),
        ("reminders handled", 1_000),
        ("logs compared at rest", 300),
        ("orders of which nobody knew", 200),
        ("orders done late", 100),
        ("messages handed out by a consumer", 300),
        ("daemons begun", 50),
        ("daemons that might not begin", 10),
        ("messages of durable entities", 500),
        ("messages that a durable entity confirmed", 200),
    ] {
        let count = totals.branches.0[branch];
        assert!(count >= least, "{branch}: {count}");
    }
    assert!(
        totals.safe_runs >= 5 && totals.asks.0 > 4_000,
        "{:?}",
        totals.asks
    );
}

/// Seeds with a shard that two nodes claim: about two seconds each in debug.
const CONFLICTS: u64 = 4;

#[test]
fn i_41_and_i_42_hold_while_two_nodes_claim_a_shard_and_one_of_them_outlives_the_time_for_a_hand_off() {
    let plan = Plan::of(Profile::Sharding, 5, &[FaultKind::Conflict]);
    let report = campaign::run(0..CONFLICTS, &plan, 2, true, &|_: &Outcome| {});
    assert_eq!(report.violations, []);
    let (begun, outlived) = (
        report.totals.faults.of(FaultKind::Conflict),
        report.totals.branches.0["conflicts that outlived a hand-off"],
    );
    assert!(
        begun >= CONFLICTS && outlived >= CONFLICTS / 2,
        "{begun} {outlived}"
    );
}

#[test]
fn a_failing_run_shrinks_to_a_smaller_one_that_fails_alike() {
    // Nothing fails, so nothing is smaller: the search ends where it began.
    let plan = Plan::of(Profile::Membership, 3, &[FaultKind::Crash]);
    assert_eq!(campaign::shrink(1, &plan, "I-01"), plan);
}

#[test]
fn a_join_takes_as_long_as_in_the_reference_s_algorithm() {
    for nodes in [10, 100] {
        let found = figures::measure(Scenario::Join, nodes, 2);
        let (known, up) = Scenario::Join.reference(nodes).expect("it was measured");
        for (ours, theirs) in [(found.known, known), (found.up, up)] {
            let (ours, theirs) = (ours.expect("it happens"), theirs.expect("it was measured"));
            assert!(ours <= 1.3 * theirs, "{nodes} nodes: {ours} s against {theirs} s");
        }
    }
}

#[test]
fn i_97_the_same_seed_gives_the_same_trace() {
    let plan = Plan::new(5, &FaultKind::ALL);
    let hash = |seed: u64| campaign::run_seed(seed, &plan, Show::Nothing).hash;
    assert_eq!(hash(3), hash(3));
    assert_ne!(hash(3), hash(4), "the hash tells runs apart");
}

#[test]
fn without_faults_nobody_is_ever_removed_and_every_ask_is_answered() {
    let plan = Plan::new(5, &[]);
    let report = campaign::run(0..4, &plan, 2, true, &|_: &Outcome| {});
    assert_eq!(report.violations, []);
    let totals = report.totals;
    assert_eq!((totals.removed, totals.frames_lost, totals.safe_runs), (0, 0, 4));
    assert!(totals.asks.0 > 1_000);
    assert_eq!(totals.asks.1, 0, "{:?}", totals.asks);
}

#[test]
fn the_program_refuses_bad_options_with_one_line() {
    for bad in [
        &["--nodes", "0"][..],
        &["--seeds", "5..5"],
        &["--seeds", "x"],
        &["--fresh", "0"],
        &["--faults", "meteor"],
        &["--trace"],
        &["--frobnicate"],
    ] {
        let run = std::process::Command::new(env!("CARGO_BIN_EXE_sim"))
            .args(bad)
            .output();
        let run = run.expect("the program starts");
        assert_eq!(run.status.code(), Some(2), "{bad:?}");
        let error = String::from_utf8_lossy(&run.stderr);
        assert_eq!(error.lines().count(), 1, "{bad:?}: {error}");
    }
}

#[test]
fn a_fresh_range_is_said_first_and_the_last_line_runs_it_again() {
    let drawn = || {
        let run = std::process::Command::new(env!("CARGO_BIN_EXE_sim"))
            .args([
                "--nodes", "3", "--chaos", "1", "--fresh", "1", "--faults", "crash",
            ])
            .output()
            .expect("the program starts");
        assert_eq!(run.status.code(), Some(0));
        let text = String::from_utf8(run.stdout).expect("plain text");
        let seeds = text.lines().next().and_then(|line| line.strip_prefix("seeds "));
        let seeds = seeds.expect("the range comes first").to_owned();
        let again = format!(
            "replay: cargo run --release -p quorate-tests --bin sim -- --profile sharding --chaos 1 --faults crash \
             --nodes 3 --seeds {seeds} --keep-going"
        );
        assert_eq!(text.lines().last(), Some(again.as_str()));
        seeds
    };
    assert_ne!(drawn(), drawn());
}

#[test]
fn the_program_ends_with_one_json_object() {
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_sim"))
        .args([
            "--nodes",
            "3",
            "--seeds",
            "0..2",
            "--faults",
            "crash,restart",
            "--json",
        ])
        .output()
        .expect("the program starts");
    assert_eq!(run.status.code(), Some(0));
    let text = String::from_utf8_lossy(&run.stdout);
    let last = text.lines().last().expect("some output");
    let report: serde_json::Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(report["seeds"], 2);
    assert_eq!(report["violations"], 0);
    assert!(report["faults"]["crash"].as_u64().is_some_and(|count| count > 0));
    assert_eq!(report["faults"]["partition"], 0);
    assert!(report["seeds_per_s"].as_f64().is_some_and(|rate| rate > 0.0));
}

#[test]
fn seeds_that_once_showed_a_bug_stay_clean() {
    let plan = Plan::new(5, &FaultKind::ALL);
    // Three leaders of one converged state after a healed partition; an ask that came back into its own
    // node's buffer; a first seed that was restarted into a slow network.
    for seed in [48, 76, 156, 205, 593, 701, 842, 911] {
        let outcome = campaign::run_seed(seed, &plan, Show::Nothing);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}

#[test]
fn seeds_of_six_nodes_that_once_broke_an_invariant_stay_clean() {
    let mut plan = Plan::new(6, &FaultKind::ALL);
    plan.chaos_seconds = 80;
    // Two incarnations of one address, each admitted by a member that had not heard of the other, became Up
    // together (I-15); the checker of I-23 counted patience from before a pause and fell below zero.
    for seed in [500_000_038, 500_000_234, 500_001_426] {
        let outcome = campaign::run_seed(seed, &plan, Show::Nothing);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}

#[test]
fn seeds_of_the_membership_campaign_that_once_broke_an_invariant_stay_clean() {
    let mut plan = Plan::of(Profile::Membership, 5, &FaultKind::ALL);
    plan.mixed = true;
    // A change whose author was removed shared its clock with a state without it; a confirmation that
    // overtook its gossip; the checker of I-23, as above.
    for seed in [1_239, 6_149, 51_518] {
        let outcome = campaign::run_seed(seed, &plan, Show::Nothing);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}

#[test]
fn a_seed_of_replicated_data_that_once_broke_an_invariant_stays_clean() {
    let mut plan = Plan::of(Profile::Data, 5, &Profile::Data.faults());
    plan.mixed = true;
    // The checker of I-10: a leader moves itself on and goes; its successor hears the goodbye, not the state.
    let outcome = campaign::run_seed(920_006_510, &plan, Show::Nothing);
    assert_eq!(outcome.violation, None);
}

#[test]
fn i_50_and_i_51_hold_in_forty_mixed_seeds_of_paths_and_in_those_that_once_broke_them() {
    let mut plan = Plan::of(Profile::Paths, 5, &Profile::Paths.faults());
    plan.mixed = true;
    let report = campaign::run(0..40, &plan, 2, true, &|_: &Outcome| {});
    assert_eq!(report.violations, []);
    for (branch, least) in [
        ("instances of paths started", 500),
        ("instances of paths killed", 5),
        ("moves of slots begun", 500),
        ("moves of slots completed", 300),
        ("moves of slots given up", 5),
        ("messages in order over a move", 500),
        ("messages kept over a move", 100),
        ("messages passed on by old hosts", 100),
        ("states of slots left", 30),
    ] {
        let count = report.totals.branches.0[branch];
        assert!(count >= least, "{branch}: {count}");
    }
    for seed in [130, 578, 869, 1_362, 2_631, 9_900] {
        let outcome = campaign::run_seed(seed, &plan, Show::Nothing);
        assert_eq!(outcome.violation, None, "{seed}");
    }
}
