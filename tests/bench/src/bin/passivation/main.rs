//! The strategies of passivation beside a simple LRU, on traces that are drawn from a seed: how often a
//! message finds its entity running, and what an access costs. `docs/benchmarks.md` says how to read it.
#![forbid(unsafe_code)]

mod contestants;
mod simple;
mod traces;

use std::process::ExitCode;
use std::time::Instant;

use lexopt::prelude::*;

use crate::contestants::Contestant;
use crate::traces::Trace;

const HELP: &str = "\
Measures the strategies of passivation beside a simple LRU: hits, and nanoseconds per access.

Usage: passivation [OPTIONS]

Options:
      --limit N     entities that may run (default 10000)
      --accesses N  length of each trace (default 1000000)
      --rounds N    rounds of which the median counts (default 7)
      --seed N      what the traces are drawn from (default 1)
      --quick       a moment: shows that it works, not how fast it is
      --json        end standard output with one line of JSON
  -h, --help        print this
";

#[derive(Debug)]
struct Options {
    limit: usize,
    accesses: usize,
    rounds: usize,
    seed: u64,
    json: bool,
}

fn main() -> ExitCode {
    match parse() {
        Ok(Some(options)) => {
            run(&options);
            ExitCode::SUCCESS
        }
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("passivation: {error}; try --help");
            ExitCode::from(2)
        }
    }
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        limit: 10_000,
        accesses: 1_000_000,
        rounds: 7,
        seed: 1,
        json: false,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("limit") => options.limit = within(&mut parser, "--limit", 10, 10_000_000)?,
            Long("accesses") => options.accesses = within(&mut parser, "--accesses", 1_000, 100_000_000)?,
            Long("rounds") => options.rounds = within(&mut parser, "--rounds", 1, 1_000)?,
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("quick") => {
                options.accesses = 50_000;
                options.limit = 1_000;
                options.rounds = 1;
            }
            Long("json") => options.json = true,
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    Ok(Some(options))
}

fn within(
    parser: &mut lexopt::Parser,
    name: &str,
    least: usize,
    most: usize,
) -> Result<usize, lexopt::Error> {
    let number: usize = parser.value()?.parse()?;
    if !(least..=most).contains(&number) {
        return Err(format!("{name} must be from {least} to {most}").into());
    }
    Ok(number)
}

/// What one strategy did on one trace.
struct Measured {
    hits: usize,
    nanoseconds: Vec<f64>,
}

fn run(options: &Options) {
    let mut json = Vec::new();
    for trace in Trace::ALL {
        let ids = trace.draw(options.limit, options.accesses, options.seed);
        println!(
            "{}: {} accesses, {} entities may run",
            trace.name(),
            ids.len(),
            options.limit
        );
        let mut measured: Vec<Measured> = Contestant::ALL
            .iter()
            .map(|_| Measured {
                hits: 0,
                nanoseconds: Vec::new(),
            })
            .collect();
        // The strategies take turns, so that a slow moment of the machine meets all.
        for _ in 0..options.rounds {
            for (contestant, measured) in Contestant::ALL.iter().zip(&mut measured) {
                let begun = Instant::now();
                measured.hits = contestant.play(&ids, options.limit);
                let nanoseconds = begun.elapsed().as_nanos() as f64 / ids.len() as f64;
                measured.nanoseconds.push(nanoseconds);
            }
        }
        let base = measured
            .first_mut()
            .map_or(1.0, |simple| median(&mut simple.nanoseconds));
        for (contestant, mut measured) in Contestant::ALL.iter().zip(measured) {
            let nanoseconds = median(&mut measured.nanoseconds);
            let hits = 100.0 * measured.hits as f64 / ids.len() as f64;
            let ratio = nanoseconds / base;
            println!(
                "  {:<22} {hits:6.2} % hits {nanoseconds:8.1} ns {ratio:6.2} x",
                contestant.name()
            );
            json.push(format!(
                "{{\"trace\":\"{}\",\"strategy\":\"{}\",\"hits\":{hits:.3},\"ns\":{nanoseconds:.1}}}",
                trace.name(),
                contestant.name()
            ));
        }
    }
    if options.json {
        println!("[{}]", json.join(","));
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
