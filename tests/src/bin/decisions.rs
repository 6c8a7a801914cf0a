//! Random downing decisions: `decisions [PLANS] [SEED]` prints, per strategy and rule, how often two sides
//! survived and how often nobody did. Exit code 1 if two sides survived inside of the assumptions of a
//! strategy that must not let them, 2 for bad arguments.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use lexopt::prelude::*;
use quorate_core::downing::view::IndirectRule;
use quorate_tests::decisions::{Row, STRATEGIES, rules_of, run};

/// How broken links are told, and from which share of the members on everybody goes.
type Rule = (IndirectRule, Option<f64>);

const USAGE: &str = "usage: decisions [PLANS] [SEED]   (plans of each kind, default 2000; default seed 1)";

fn main() -> ExitCode {
    let (plans, seed) = match parse() {
        Ok(Some(numbers)) => numbers,
        Ok(None) => {
            say(USAGE);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "decisions: {error}; {USAGE}");
            return ExitCode::from(2);
        }
    };
    let mut split = false;
    say(
        "| strategy | rule | everybody from | plans | one-sided | two-sided | nobody left | though a majority lived | survivors |",
    );
    say("|---|---|---|---|---|---|---|---|---|");
    for (strategy, rule, row) in rows(plans, seed) {
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
    if split {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    }
}

/// The rows of the table, worked out on all cores and in order.
fn rows(plans: u64, seed: u64) -> Vec<(&'static str, Rule, Row)> {
    let wanted = STRATEGIES
        .iter()
        .flat_map(|strategy| rules_of(strategy).iter().map(|rule| (*strategy, *rule)));
    let wanted: Vec<(&str, Rule)> = wanted.collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((strategy, rule)) = wanted.get(at) else {
                        break;
                    };
                    let row = run(strategy, *rule, plans, seed);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.insert(at, (*strategy, *rule, row));
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.into_values().collect()
}

/// How many plans, and the seed; nothing if help is wanted.
fn parse() -> Result<Option<(u64, u64)>, lexopt::Error> {
    let mut numbers = Vec::new();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Value(number) if numbers.len() < 2 => numbers.push(number.parse()?),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    let mut numbers = numbers.into_iter();
    Ok(Some((
        numbers.next().unwrap_or(2_000),
        numbers.next().unwrap_or(1),
    )))
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
