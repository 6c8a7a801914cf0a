//! Runs the simulator over a range of seeds and says how fast, how long and through which faults it went. Exit code 0: no
//! invariant broken; 1: one was, with the command that shows it again; 2: bad options.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::process::ExitCode;

use lexopt::prelude::{Long, ValueExt};
use quorate_tests::sim::campaign::{self, Outcome, Report};
use quorate_tests::sim::plan::Plan;
use quorate_tests::sim::{FaultKind, Show};
use serde_json::{Map, Value, json};

const HELP: &str = "\
Runs the deterministic cluster simulator.

  --nodes N        nodes at the start, 1 to 32 (default 5)
  --seeds A..B     seeds to run, B excluded (default 0..100); one number runs that seed alone
  --faults LIST    faults that may happen, separated by commas: crash, restart, partition, loss,
                   delay, leave, reset (default: all), or `none`
  --threads T      threads (default 2)
  --keep-going     run all seeds even after a violation
  --json           the last line of the output is one JSON object
  --hash           print the hash of each seed's trace
  --trace          print what happens (with one seed)
  --trace-all      print every message as well (with one seed)
  --help           this text";

struct Options {
    nodes: usize,
    seeds: Range<u64>,
    faults: Vec<FaultKind>,
    faults_text: Option<String>,
    threads: usize,
    keep_going: bool,
    json: bool,
    hash: bool,
    show: Show,
}

fn main() -> ExitCode {
    let options = match parse() {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("sim: {error}");
            return ExitCode::from(2);
        }
    };
    let plan = Plan::new(options.nodes, &options.faults);
    let report = if options.show == Show::Nothing {
        let hash = options.hash;
        let seen = |outcome: &Outcome| {
            if hash {
                println!("{}", in_one_line(outcome));
            }
        };
        let seeds = options.seeds.clone();
        campaign::run(seeds, &plan, options.threads, !options.keep_going, &seen)
    } else {
        shown(&options, &plan)
    };
    print_report(&report, &options);
    if report.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn shown(options: &Options, plan: &Plan) -> Report {
    let begun = std::time::Instant::now();
    let outcome = campaign::run_seed(options.seeds.start, plan, options.show);
    println!("{}", in_one_line(&outcome));
    let violations = outcome.violation.map(|violation| (outcome.seed, violation));
    Report {
        totals: outcome.totals,
        violations: violations.into_iter().collect(),
        elapsed: begun.elapsed(),
        core_time: begun.elapsed(),
    }
}

fn in_one_line(outcome: &Outcome) -> String {
    let shape = outcome.unsafe_because.unwrap_or("safe shapes");
    let rest = if outcome.totals.stuck > 0 { ", no rest" } else { "" };
    format!("seed {} hash {:016x} ({shape}{rest})", outcome.seed, outcome.hash)
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        nodes: 5,
        seeds: 0..100,
        faults: FaultKind::ALL.to_vec(),
        faults_text: None,
        threads: 2,
        keep_going: false,
        json: false,
        hash: false,
        show: Show::Nothing,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("nodes") => options.nodes = parser.value()?.parse_with(|text| in_range(text, 1, 32))?,
            Long("seeds") => options.seeds = parser.value()?.parse_with(parse_seeds)?,
            Long("faults") => {
                let text = parser.value()?.string()?;
                options.faults = parse_faults(&text)?;
                options.faults_text = Some(text);
            }
            Long("threads") => options.threads = parser.value()?.parse_with(|text| in_range(text, 1, 64))?,
            Long("keep-going") => options.keep_going = true,
            Long("json") => options.json = true,
            Long("hash") => options.hash = true,
            Long("trace") => options.show = Show::Facts,
            Long("trace-all") => options.show = Show::Everything,
            Long("help") => return Ok(None),
            _ => return Err(argument.unexpected()),
        }
    }
    if options.show != Show::Nothing && options.seeds.end - options.seeds.start != 1 {
        return Err("--trace shows one seed: give --seeds one number".into());
    }
    Ok(Some(options))
}

fn in_range(text: &str, low: usize, high: usize) -> Result<usize, String> {
    let number = text.parse::<usize>().ok();
    let fits = number.filter(|number| (low..=high).contains(number));
    fits.ok_or_else(|| format!("must be a number from {low} to {high}"))
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a seed"));
    let range = match text.split_once("..") {
        Some((first, last)) => number(first)?..number(last)?,
        None => {
            let seed = number(text)?;
            seed..seed.checked_add(1).ok_or("the seed is too large")?
        }
    };
    if range.is_empty() {
        return Err("the range of seeds is empty".to_owned());
    }
    Ok(range)
}

fn parse_faults(text: &str) -> Result<Vec<FaultKind>, String> {
    if text == "none" {
        return Ok(Vec::new());
    }
    text.split(',').map(str::parse).collect()
}

fn print_report(report: &Report, options: &Options) {
    let totals = &report.totals;
    let seeds_per_s = totals.seeds as f64 / report.elapsed.as_secs_f64().max(1e-9);
    let hours = totals.virtual_micros as f64 / 3.6e9;
    let hours_per_core_s = hours / report.core_time.as_secs_f64().max(1e-9);
    println!(
        "{} seeds of {} nodes: {:.1} seeds/s, {hours_per_core_s:.3} simulated hours per core-second, {} steps",
        totals.seeds, options.nodes, seeds_per_s, totals.steps
    );
    let fired: Vec<String> = FaultKind::ALL
        .iter()
        .map(|kind| format!("{kind} {}", totals.faults.of(*kind)))
        .collect();
    println!("faults: {}; {} frames lost", fired.join(", "), totals.frames_lost);
    println!(
        "messages: {}, asks answered {}, failed {}; {} hand-offs, {} removals, {} merges",
        totals.messages, totals.asks.0, totals.asks.1, totals.hand_offs, totals.removed, totals.merges
    );
    println!(
        "{} runs within the safe shapes; outside of them {} overlaps and {} runs without rest",
        totals.safe_runs, totals.overlaps, totals.stuck
    );
    for (seed, violation) in &report.violations {
        println!("VIOLATION seed {seed}: {violation}");
        println!("replay: {}", replay(*seed, options));
    }
    if options.json {
        println!("{}", as_json(report, seeds_per_s, hours_per_core_s));
    }
}

fn replay(seed: u64, options: &Options) -> String {
    let faults = options.faults_text.as_ref();
    let faults = faults.map(|text| format!(" --faults {text}")).unwrap_or_default();
    let nodes = options.nodes;
    format!(
        "cargo run --release -p quorate-tests --bin sim -- --nodes {nodes} --seeds {seed}{faults} --trace"
    )
}

fn as_json(report: &Report, seeds_per_s: f64, hours_per_core_s: f64) -> Value {
    let faults: Map<String, Value> = FaultKind::ALL
        .iter()
        .map(|kind| (kind.name().to_owned(), json!(report.totals.faults.of(*kind))))
        .collect();
    json!({
        "seeds": report.totals.seeds,
        "seeds_per_s": seeds_per_s,
        "sim_hours_per_core_s": hours_per_core_s,
        "faults": faults,
        "violations": report.violations.len(),
    })
}
