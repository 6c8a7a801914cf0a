//! Random downing decisions: `decisions [PLANS] [SEED]` prints, per strategy and rule, how often two sides survived and
//! how often nobody did. Exit code 1 if two sides survived inside of the assumptions of a strategy that must not let
//! them, 2 for bad arguments.

use std::io::Write;
use std::process::ExitCode;

use quorate_tests::decisions::{STRATEGIES, rules_of, run};

const USAGE: &str = "usage: decisions [PLANS] [SEED]   (plans of each kind, default 2000; default seed 1)";

fn main() -> ExitCode {
    let mut numbers = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.parse::<u64>() {
            Ok(number) => numbers.push(number),
            Err(_) => return refuse(),
        }
    }
    let (plans, seed) = match numbers[..] {
        [] => (2_000, 1),
        [plans] => (plans, 1),
        [plans, seed] => (plans, seed),
        _ => return refuse(),
    };
    let mut split = false;
    say(
        "| strategy | rule | everybody from | plans | two-sided | nobody left | though a majority lived | survivors |",
    );
    say("|---|---|---|---|---|---|---|---|");
    for strategy in STRATEGIES {
        for rule in rules_of(strategy) {
            let row = run(strategy, *rule, plans, seed);
            let from = rule.1.map_or("never".to_owned(), |share| share.to_string());
            for (kind, tally) in [
                ("safe", row.safe),
                ("complete", row.complete),
                ("lagging", row.lagging),
            ] {
                say(&format!(
                    "| {strategy} | {} | {from} | {kind} | {tally} |",
                    rule.0
                ));
            }
            split |= strategy != "auto-down" && row.safe.two_sided > 0;
        }
    }
    if split {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    }
}

fn refuse() -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{USAGE}");
    ExitCode::from(2)
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
