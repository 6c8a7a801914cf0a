//! What paths cost: a routed ask beside an ask of an entity, the table of a thousand paths in the gossip and
//! in merges, and a hand-off that takes a large state along. `docs/benchmarks.md` says how to read it.
#![forbid(unsafe_code)]

mod asks;
mod hand_off;
mod nodes;
mod table;

use std::process::ExitCode;

use lexopt::prelude::*;

use crate::table::Step;

const HELP: &str = "\
Measures asks of a path beside asks of an entity, the table of a thousand paths beside its bytes, and
hand-offs of an instance with its state beside the same bytes over TCP; over loopback, in this process.

Usage: paths [OPTIONS]

Options:
      --only WHAT     asks, table or hand-off (default: all three)
      --state-mib N   size of the state (default 64, at most 1024)
      --instructions  count instructions of the table's merges with valgrind's callgrind as well
      --quick         a few seconds: shows that it works, not how fast it is
      --json          end standard output with one line of JSON
  -h, --help          print this
";

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Options {
    only: Option<Part>,
    state_mib: usize,
    instructions: bool,
    quick: bool,
    json: bool,
    /// Hidden: run one step of the table so many times and print nothing. What callgrind looks at.
    step: Option<(Step, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Asks,
    Table,
    HandOff,
}

fn main() -> ExitCode {
    let done = match parse() {
        Ok(Some(options)) => run(&options),
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("paths: {error}; try --help");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("paths: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        only: None,
        state_mib: 64,
        instructions: false,
        quick: false,
        json: false,
        step: None,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("only") => {
                options.only = Some(match parser.value()?.to_str() {
                    Some("asks") => Part::Asks,
                    Some("table") => Part::Table,
                    Some("hand-off") => Part::HandOff,
                    _ => return Err("--only knows asks, table and hand-off".into()),
                });
            }
            Long("state-mib") => {
                options.state_mib = parser.value()?.parse()?;
                if !(1..=1_024).contains(&options.state_mib) {
                    return Err("--state-mib must be from 1 to 1024".into());
                }
            }
            Long("instructions") => options.instructions = true,
            Long("quick") => options.quick = true,
            Long("json") => options.json = true,
            Long("step") => {
                let name = parser.value()?.string()?;
                let step = Step::named(&name).ok_or("unknown step")?;
                options.step = Some((step, parser.value()?.parse()?));
            }
            Short('h') | Long("help") => return Ok(None),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    Ok(Some(options))
}

fn run(options: &Options) -> Result<(), Failure> {
    if let Some((step, times)) = options.step {
        return table::repeat(step, times);
    }
    let wanted = |part| options.only.is_none_or(|only| only == part);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut said = Vec::new();
    if wanted(Part::Asks) {
        said.push(runtime.block_on(asks::measure(options.quick))?);
    }
    if wanted(Part::Table) {
        said.push(table::measure(options.quick, options.instructions)?);
    }
    if wanted(Part::HandOff) {
        let rounds = if options.quick { 1 } else { 5 };
        said.push(runtime.block_on(hand_off::measure(options.state_mib << 20, rounds))?);
    }
    if options.json {
        println!("{{{}}}", said.join(","));
    }
    Ok(())
}

/// The one in the middle.
fn median<T: Copy + PartialOrd>(mut measured: Vec<T>) -> Option<T> {
    measured.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    measured.get(measured.len() / 2).copied()
}
