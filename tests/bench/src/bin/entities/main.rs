//! Very many entities on three nodes: what one takes in memory, and how long remembered ones take to run
//! again. `docs/benchmarks.md` says how to read it.
#![forbid(unsafe_code)]

mod memory;
mod nodes;
mod passivating;
mod recovery;

use std::process::ExitCode;

use cap::Cap;
use lexopt::prelude::*;

/// Counts what is allocated: resident memory says as much about the allocator.
#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

const HELP: &str = "\
Runs three nodes in one process, over loopback, and very many entities on them.

Usage: entities [OPTIONS]

Options:
      --entities N    entities of which the memory is measured (default 100000)
      --limit N       how many of them may run on all nodes together, for passivation (default: a tenth)
      --remembered N  entities that are remembered and run again (default 10000)
      --only WHAT     memory, passivation or recovery (default: all three)
      --json          end standard output with one line of JSON
  -h, --help          print this
";

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Options {
    entities: usize,
    remembered: usize,
    only: Option<Part>,
    limit: Option<usize>,
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Memory,
    Passivation,
    Recovery,
}

fn main() -> ExitCode {
    let done = match parse() {
        Ok(Some(options)) => run(&options),
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("entities: {error}; try --help");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("entities: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        entities: 100_000,
        remembered: 10_000,
        only: None,
        limit: None,
        json: false,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("entities") => options.entities = within(&mut parser, "--entities", 100)?,
            Long("remembered") => options.remembered = within(&mut parser, "--remembered", 10)?,
            Long("only") => {
                options.only = Some(match parser.value()?.to_str() {
                    Some("memory") => Part::Memory,
                    Some("passivation") => Part::Passivation,
                    Some("recovery") => Part::Recovery,
                    _ => return Err("--only knows memory, passivation and recovery".into()),
                });
            }
            Long("limit") => options.limit = Some(within(&mut parser, "--limit", 3)?),
            Long("json") => options.json = true,
            Short('h') | Long("help") => return Ok(None),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    Ok(Some(options))
}

fn within(parser: &mut lexopt::Parser, name: &str, least: usize) -> Result<usize, lexopt::Error> {
    let number: usize = parser.value()?.parse()?;
    if !(least..=2_000_000).contains(&number) {
        return Err(format!("{name} must be from {least} to 2000000").into());
    }
    Ok(number)
}

fn run(options: &Options) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let wanted = |part| options.only.is_none_or(|only| only == part);
    let mut said = Vec::new();
    if wanted(Part::Memory) {
        said.push(runtime.block_on(memory::measure(options.entities))?);
    }
    if wanted(Part::Passivation) {
        let limit = options.limit.unwrap_or(options.entities / 10).max(3);
        said.push(runtime.block_on(passivating::measure(options.entities, limit))?);
    }
    if wanted(Part::Recovery) {
        said.push(runtime.block_on(recovery::measure(options.remembered))?);
    }
    if options.json {
        println!("{{{}}}", said.join(","));
    }
    Ok(())
}
