//! What owners of a keyed store's ranges carry: how long a gibibyte of ranges takes to a member that joins,
//! what calls cost meanwhile, and the memory of one key. `docs/benchmarks.md` says how to read it.
#![forbid(unsafe_code)]

mod load;
mod memory;
mod moving;
mod nodes;

use std::process::ExitCode;
use std::time::Duration;

use cap::Cap;
use lexopt::prelude::*;

/// Counts what is allocated: resident memory says as much about the allocator.
#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

const HELP: &str = "\
Runs nodes that own the ranges of a bucket with three copies, in memory, in one process over loopback.

Usage: ranges [OPTIONS]

Options:
      --moved-mib N  mebibytes that a fourth owner takes over while calls go on (default 1024, 1 to 4096)
      --keys N       keys of 16 B with values of 100 B of which the memory is measured (default 100000)
      --only WHAT    moves or memory (default: both)
      --quick        a few of all that: shows that it works
      --json         end standard output with one line of JSON
  -h, --help         print this
";

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Options {
    moved_mib: usize,
    keys: usize,
    only: Option<Part>,
    /// How long calls are measured before anything moves.
    rest: Duration,
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Moves,
    Memory,
}

fn main() -> ExitCode {
    let done = match parse() {
        Ok(Some(options)) => run(&options),
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("ranges: {error}; try --help");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ranges: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        moved_mib: 1_024,
        keys: 100_000,
        only: None,
        rest: Duration::from_secs(10),
        json: false,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("moved-mib") => options.moved_mib = within(&mut parser, "--moved-mib", 1, 4_096)?,
            Long("keys") => options.keys = within(&mut parser, "--keys", 1_000, 2_000_000)?,
            Long("only") => {
                options.only = Some(match parser.value()?.to_str() {
                    Some("moves") => Part::Moves,
                    Some("memory") => Part::Memory,
                    _ => return Err("--only knows moves and memory".into()),
                });
            }
            Long("quick") => {
                (options.moved_mib, options.keys) = (1, 1_000);
                options.rest = Duration::from_secs(1);
            }
            Long("json") => options.json = true,
            Short('h') | Long("help") => return Ok(None),
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

fn run(options: &Options) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let wanted = |part| options.only.is_none_or(|only| only == part);
    let mut said = Vec::new();
    if wanted(Part::Memory) {
        said.push(runtime.block_on(memory::measure(options.keys))?);
    }
    if wanted(Part::Moves) {
        said.push(runtime.block_on(moving::measure(options.moved_mib, options.rest))?);
    }
    if options.json {
        println!("{{{}}}", said.join(","));
    }
    Ok(())
}
