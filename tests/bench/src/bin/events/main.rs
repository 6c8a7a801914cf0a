//! Events of durable entities per second, beside the bare store that keeps them, in one run: what an entity
//! costs on top of an append that is durable. `docs/benchmarks.md` says how to read it.
#![forbid(unsafe_code)]

mod bare;
mod entities;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lexopt::prelude::*;
use quorate_driver::store::MemoryStore;
use quorate_store_redb::Redb;

const HELP: &str = "\
Measures events of durable entities per second on one node, with a store in memory and with a redb
file, beside appends to the same kind of store without Quorate around it.

Usage: events [OPTIONS]

Options:
      --store DIR   make a folder for the files in this one (default: the system's for such things)
      --quick       a moment each: shows that it works, not how fast it is
      --json        end standard output with one line of JSON
  -h, --help        print this
";

/// Entities that are asked at once; each has one command open.
const AT_ONCE: [usize; 3] = [1, 16, 256];

/// Rounds of which the median counts, in turns with the bare store.
const ROUNDS: usize = 5;

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Options {
    store: Option<PathBuf>,
    /// How long one measurement takes.
    each: Duration,
    rounds: usize,
    json: bool,
}

/// Where events are kept.
#[derive(Clone, Copy)]
enum Kept {
    Memory,
    Redb,
}

impl Kept {
    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redb => "redb",
        }
    }
}

/// One row: a store, so many at once, and what both did.
struct Row {
    kept: Kept,
    at_once: usize,
    events_per_s: f64,
    appends_per_s: f64,
}

fn main() -> ExitCode {
    let measured = match parse() {
        Ok(Some(options)) => run(&options),
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("events: {error}; try --help");
            return ExitCode::from(2);
        }
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("events: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        store: None,
        each: Duration::from_secs(2),
        rounds: ROUNDS,
        json: false,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("store") => {
                let folder = parser.value()?;
                if folder.is_empty() {
                    return Err("--store is empty".into());
                }
                options.store = Some(folder.into());
            }
            Long("quick") => (options.each, options.rounds) = (Duration::from_millis(100), 1),
            Long("json") => options.json = true,
            Short('h') | Long("help") => return Ok(None),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    Ok(Some(options))
}

/// A folder that goes with the value.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind is in the folder for that.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    let within = options.store.clone().unwrap_or_else(std::env::temp_dir);
    let folder = Folder(within.join(format!("quorate-events-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0)?;
    let rows = measure(options, &folder.0)?;
    println!("store  | entities at once | events/s | appends/s of the bare store | share");
    for row in &rows {
        println!(
            "{:<6} | {:>16} | {:>8.0} | {:>27.0} | {:>4.1} %",
            row.kept.name(),
            row.at_once,
            row.events_per_s,
            row.appends_per_s,
            row.events_per_s / row.appends_per_s * 100.0
        );
    }
    if options.json {
        let row = |row: &Row| {
            format!(
                "{{\"store\":\"{}\",\"at_once\":{},\"events_per_s\":{:.0},\"appends_per_s\":{:.0}}}",
                row.kept.name(),
                row.at_once,
                row.events_per_s,
                row.appends_per_s
            )
        };
        let rows: Vec<String> = rows.iter().map(row).collect();
        println!("{{\"rows\":[{}]}}", rows.join(","));
    }
    Ok(())
}

fn measure(options: &Options, folder: &Path) -> Result<Vec<Row>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut rows = Vec::new();
    for kept in [Kept::Memory, Kept::Redb] {
        for at_once in AT_ONCE {
            let (mut ours, mut bare) = (Vec::new(), Vec::new());
            for round in 0..options.rounds {
                let file = |what: &str| folder.join(format!("{what}-{at_once}-{round}.redb"));
                let (events, appends) = match kept {
                    Kept::Memory => (
                        runtime.block_on(entities::events_per_s(
                            MemoryStore::new(),
                            at_once,
                            options.each,
                        ))?,
                        bare::appends_per_s(MemoryStore::new(), at_once, options.each)?,
                    ),
                    Kept::Redb => {
                        let (ours, alone) = (Redb::open(file("entities"))?, Redb::open(file("bare"))?);
                        (
                            runtime.block_on(entities::events_per_s(ours, at_once, options.each))?,
                            bare::appends_per_s(alone, at_once, options.each)?,
                        )
                    }
                };
                ours.push(events);
                bare.push(appends);
            }
            rows.push(Row {
                kept,
                at_once,
                events_per_s: median(ours),
                appends_per_s: median(bare),
            });
        }
    }
    Ok(rows)
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_unstable_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}

fn rate(done: u64, since: Instant) -> f64 {
    done as f64 / since.elapsed().as_secs_f64()
}
