//! How a rebalance goes: what each strategy chooses, in virtual time, and what the hand-offs of real nodes
//! take. `docs/benchmarks.md` says how to read it.
#![forbid(unsafe_code)]

mod choices;
mod counted;
mod hand_offs;
mod nodes;

use std::process::ExitCode;
use std::time::Duration;

use lexopt::prelude::*;
use quorate_core::sharding::allocation::{
    AllocationSettings, HashingLimits, RebalanceLimits, SimultaneousLimits,
};

const HELP: &str = "\
Rebalances shards after nodes have come: rounds, moves and processor time of what each strategy chooses,
and the time of the hand-offs between three nodes in this process, over loopback.

Usage: rebalance [OPTIONS]

Options:
      --shards N   shards of the kind (default 10000)
      --only WHAT  choices or hand-offs (default: both)
      --json       end standard output with one line of JSON
  -h, --help       print this
";

/// The default of `sharding.rebalance_interval`.
const INTERVAL: Duration = Duration::from_secs(10);

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Options {
    shards: u32,
    only: Option<Part>,
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Choices,
    HandOffs,
}

fn main() -> ExitCode {
    let done = match parse() {
        Ok(Some(options)) => run(&options),
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("rebalance: {error}; try --help");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rebalance: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        shards: 10_000,
        only: None,
        json: false,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("shards") => {
                options.shards = parser.value()?.parse()?;
                if !(1..=65_536).contains(&options.shards) {
                    return Err("--shards must be from 1 to 65536".into());
                }
            }
            Long("only") => {
                options.only = Some(match parser.value()?.to_str() {
                    Some("choices") => Part::Choices,
                    Some("hand-offs") => Part::HandOffs,
                    _ => return Err("--only knows choices and hand-offs".into()),
                });
            }
            Long("json") => options.json = true,
            Short('h') | Long("help") => return Ok(None),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    Ok(Some(options))
}

fn run(options: &Options) -> Result<(), Failure> {
    let wanted = |part| options.only.is_none_or(|only| only == part);
    let mut said = Vec::new();
    if wanted(Part::Choices) {
        said.push(choices::measure(options.shards));
    }
    if wanted(Part::HandOffs) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        said.push(runtime.block_on(hand_offs::measure(options.shards))?);
    }
    if options.json {
        println!("{{{}}}", said.join(","));
    }
    Ok(())
}

fn strategies() -> [(&'static str, AllocationSettings); 5] {
    let limits = |absolute, relative| AllocationSettings::LeastShards(RebalanceLimits { absolute, relative });
    let threshold = |threshold, simultaneous| {
        AllocationSettings::LeastShardsOneByOne(SimultaneousLimits {
            threshold,
            simultaneous,
        })
    };
    [
        ("limits 100, 0.1", limits(100, 0.1)),
        ("limits 1000, 1.0", limits(1_000, 1.0)),
        ("threshold 1, 3 at once", threshold(1, 3)),
        ("threshold 100, 100 at once", threshold(100, 100)),
        (
            "consistent hashing",
            AllocationSettings::ConsistentHashing(HashingLimits::default()),
        ),
    ]
}
