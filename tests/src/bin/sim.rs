//! Runs the simulator over a range of seeds and says how fast, how long and through which faults it went.
//! Exit code 0: no invariant broken; 1: one was, with the command that shows it again; 2: bad options.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::process::ExitCode;

use lexopt::prelude::{Long, Short, ValueExt};
use quorate_tests::sim::campaign::{self, Outcome, Report};
use quorate_tests::sim::figures::{self, Scenario};
use quorate_tests::sim::measured::Measured;
use quorate_tests::sim::plan::{Plan, Profile};
use quorate_tests::sim::starts;
use quorate_tests::sim::{FaultKind, Show};
use quorate_tests::sim::{keyed, paths};
use serde_json::{Map, Value, json};

const HELP: &str = "\
Runs the deterministic cluster simulator.

  --nodes N        nodes at the start, 1 to 32 (default 5)
  --mix            60 % of the seeds with 5 nodes, 30 % with 6 or 7, 10 % with 8 or 9
  --profile P      sharding (default): entities and their messages, 120 s of virtual time;
                   membership: no entities, 60 s (600 gossip rounds), tombstones expire;
                   stored: entities whose coordinator's state is stored, 60 s;
                   data: replicated data of all types and levels, a part of it durable;
                   remember: entities that are remembered, in durable replicated data or in logs;
                   life: entities that panic, fail, stop, are slow, answer late, move and are watched, 60 s;
                   singleton: singletons of two roles, with and without a lease, that write through their tokens;
                   durable: durable entities over a faulty database;
                   paths: paths of every preset, whose slots are moved all the time
                   kv: buckets of the keyed store, whose ranges are moved all the time
  --chaos S        seconds with faults, at least 1 (default: the profile's; the quiet rest follows)
  --seeds A..B     seeds to run, B excluded (default 0..100); one number runs that seed alone
  --fresh N        N seeds that nobody has run before, drawn now; the first line says which, the last how
                   to run them again (with --json the object takes its place)
  --faults LIST    faults that may happen, separated by commas: crash, restart, partition, loss,
                   delay, leave, reset, pause, slow, wall-clock, tick, one-way, partial, flap, clog,
                   burst, reorder, duplicate; with data, stored and singleton blackout, slow-disk, full-disk, failed-sync;
                   with singleton down, leave-two, prepare, lease-keeper, retire (default: all of the profile);
                   with sharding conflict (never by default); with all profiles liar (never by default), or `none`
  --coverage N     fail if a kind of fault that may happen fired less than N times
  --shrink         make the first failing run smaller before it is shown
  --threads T      threads (default 2)
  --keep-going     run all seeds even after a violation
  --scenario S     join, crash, cold-start or rest of --nodes N (up to 10000) with the documented timings: virtual
                   seconds, messages and bytes per node, beside those of Akka's algorithm; of several --seeds
                   (default one) the medians, and the worst
  --starts         for each seed --nodes N start at once, each with all of them as seed nodes, while up to 30 %
                   of all frames are lost (with --faults none, none): they have to form exactly one cluster
  --steps          for each seed one run for every preset of paths, step of a hand-off and fault at it;
                   with --profile kv for every step of a move of a range
  --only RUN       of these runs the one of this name
  --json           the last line of the output is one JSON object
  --hash           print the hash of each seed's trace
  --trace          print what happens (with one seed)
  --trace-all      print every message as well (with one seed)
  --help           this text";

struct Options {
    nodes: usize,
    mix: bool,
    scenario: Option<Scenario>,
    starts: bool,
    steps: bool,
    only: Option<String>,
    profile: Profile,
    chaos: Option<u64>,
    coverage: u64,
    shrink: bool,
    seeds: Range<u64>,
    fresh: bool,
    faults: Option<Vec<FaultKind>>,
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
    if let Some(scenario) = options.scenario {
        return measure(scenario, &options);
    }
    if options.starts {
        return start_at_once(&options);
    }
    if options.steps {
        let is_kv = options.profile == Profile::Kv;
        let every_step = if is_kv {
            keyed::steps::every_step
        } else {
            paths::steps::every_step
        };
        return every_step(&options.seeds, options.show, options.only.as_deref());
    }
    let plan = plan_of(&options);
    if options.fresh {
        println!("seeds {}..{}", options.seeds.start, options.seeds.end);
    }
    let report = if options.show == Show::Nothing {
        let hash = options.hash;
        let seen = |outcome: &Outcome| {
            if hash {
                println!("{}", in_one_line(outcome));
            }
            // A campaign may run for an hour: what it found so far should not wait for its end.
            if let Some(violation) = &outcome.violation {
                eprintln!("seed {}: {}", outcome.seed, violation.invariant);
            }
        };
        let seeds = options.seeds.clone();
        campaign::run(seeds, &plan, options.threads, !options.keep_going, &seen)
    } else {
        shown(&options, &plan)
    };
    print_report(&report, &options);
    if let (true, Some((seed, violation))) = (options.shrink, report.violations.first()) {
        let small = campaign::shrink(*seed, &plan, &violation.invariant);
        println!("smallest: {}", replay(*seed, &small));
    }
    let rare = uncovered(&report, &options);
    for (kind, count) in &rare {
        println!("RARE {kind} fired {count} times, less than {}", options.coverage);
    }
    if options.fresh && !options.json {
        println!("replay: {}", replay_fresh(&report, &options));
    }
    if report.violations.is_empty() && rare.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn plan_of(options: &Options) -> Plan {
    let mut plan = Plan::of(options.profile, options.nodes, &faults_of(options));
    plan.mixed = options.mix;
    if let Some(chaos) = options.chaos {
        plan.chaos_seconds = chaos;
        plan.total_seconds = plan.total_seconds.min(chaos + 40);
    }
    plan
}

/// Those that were asked for, or the profile's.
fn faults_of(options: &Options) -> Vec<FaultKind> {
    let profile = || options.profile.faults();
    options.faults.clone().unwrap_or_else(profile)
}

/// Kinds of faults that happened too rarely for the campaign to say anything about them.
fn uncovered(report: &Report, options: &Options) -> Vec<(FaultKind, u64)> {
    let kinds = faults_of(options).into_iter();
    let counts = kinds.map(|kind| (kind, report.totals.faults.of(kind)));
    counts.filter(|(_, count)| *count < options.coverage).collect()
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
        mix: false,
        scenario: None,
        starts: false,
        steps: false,
        only: None,
        profile: Profile::Sharding,
        chaos: None,
        coverage: 0,
        shrink: false,
        seeds: 0..100,
        fresh: false,
        faults: None,
        threads: 2,
        keep_going: false,
        json: false,
        hash: false,
        show: Show::Nothing,
    };
    let mut seeds = None;
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "a string is matched, and there is always another one"
        )]
        match argument {
            Long("nodes") => options.nodes = parser.value()?.parse_with(|text| in_range(text, 1, 10_000))?,
            Long("scenario") => options.scenario = Some(parser.value()?.parse_with(parse_scenario)?),
            Long("starts") => options.starts = true,
            Long("steps") => options.steps = true,
            Long("only") => options.only = Some(parser.value()?.string()?),
            Long("mix") => options.mix = true,
            Long("profile") => options.profile = parser.value()?.parse_with(parse_profile)?,
            Long("chaos") => {
                options.chaos = Some(parser.value()?.parse_with(|text| in_range(text, 1, 3_600))? as u64)
            }
            Long("coverage") => {
                options.coverage = parser
                    .value()?
                    .parse_with(|text| in_range(text, 0, 1_000_000_000))?
                    as u64;
            }
            Long("shrink") => options.shrink = true,
            Long("seeds") => seeds = Some(parser.value()?.parse_with(parse_seeds)?),
            Long("fresh") => {
                let count = parser.value()?.parse_with(|text| in_range(text, 1, 1_000_000))? as u64;
                seeds = Some(drawn(count));
                options.fresh = true;
            }
            Long("faults") => {
                options.faults = Some(parse_faults(&parser.value()?.string()?)?);
            }
            Long("threads") => options.threads = parser.value()?.parse_with(|text| in_range(text, 1, 64))?,
            Long("keep-going") => options.keep_going = true,
            Long("json") => options.json = true,
            Long("hash") => options.hash = true,
            Long("trace") => options.show = Show::Facts,
            Long("trace-all") => options.show = Show::Everything,
            Short('h') | Long("help") => return Ok(None),
            _ => return Err(argument.unexpected()),
        }
    }
    if let Some(seeds) = seeds {
        options.seeds = seeds;
    } else if options.scenario.is_some() {
        options.seeds = 0..1;
    }
    let most = if options.scenario.is_some() { 10_000 } else { 32 };
    if options.nodes > most || (options.scenario.is_some() && options.nodes < 2) {
        return Err(format!("--nodes must be at most {most}, and at least 2 for a scenario").into());
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

/// A range of seeds from the operating system's entropy. Far above the fixed ranges of the tests, far below
/// the end.
fn drawn(seeds: u64) -> Range<u64> {
    use std::hash::{BuildHasher, RandomState};
    let first = (1 << 40) + RandomState::new().hash_one("seeds") % (1 << 40);
    first..first + seeds
}

fn parse_scenario(text: &str) -> Result<Scenario, String> {
    let found = Scenario::ALL.into_iter().find(|scenario| scenario.name() == text);
    found.ok_or_else(|| "there are the scenarios join, crash, cold-start and rest".to_owned())
}

/// Measures a scenario and prints it beside Akka's figures.
fn measure(scenario: Scenario, options: &Options) -> ExitCode {
    let begun = std::time::Instant::now();
    let found = Measured::of(scenario, options.nodes, options.seeds.clone(), options.threads);
    println!("{}", found.text());
    println!("  {:.1} s of this machine's time", begun.elapsed().as_secs_f64());
    if options.json {
        println!("{}", found.json());
    }
    if found.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Starts all nodes at once, once for each seed, and says what came of it.
fn start_at_once(options: &Options) -> ExitCode {
    let (begun, with_loss) = (std::time::Instant::now(), options.faults != Some(Vec::new()));
    let mut times = Vec::new();
    for seed in options.seeds.clone() {
        let start = starts::at_once(seed, options.nodes, with_loss);
        times.extend(start.up);
        if start.up.is_none() || start.violation.is_some() {
            let why = start
                .violation
                .map_or_else(String::new, |broken| format!(": {broken}"));
            println!("VIOLATION seed {seed}: not one cluster within a minute{why}");
        }
    }
    times.sort_unstable();
    let at = |share: usize| {
        figures::seconds(
            times
                .get(times.len() * share / 100)
                .map(|time| time.as_secs_f64()),
        )
    };
    let (seeds, last) = (
        options.seeds.end - options.seeds.start,
        times.last().copied().unwrap_or_default(),
    );
    println!(
        "{} of {seeds} starts of {} nodes formed one cluster; Up everywhere after {} (half), {} (99 %), {:.2} s (all); {:.1} s",
        times.len(),
        options.nodes,
        at(50),
        at(99),
        last.as_secs_f64(),
        begun.elapsed().as_secs_f64()
    );
    if times.len() as u64 == seeds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn parse_profile(text: &str) -> Result<Profile, String> {
    let found = Profile::ALL.into_iter().find(|profile| profile.name() == text);
    found.ok_or_else(|| {
        let names: Vec<&str> = Profile::ALL.iter().map(|profile| profile.name()).collect();
        format!("there are the profiles {}", names.join(", "))
    })
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
        totals.seeds,
        if options.mix {
            options.profile.mixed_nodes_text().to_owned()
        } else {
            options.nodes.to_string()
        },
        seeds_per_s,
        totals.steps
    );
    let (asked, ordinary) = (faults_of(options), options.profile.faults());
    let kinds = FaultKind::every().filter(|kind| asked.contains(kind) || ordinary.contains(kind));
    let fired: Vec<String> = kinds
        .map(|kind| format!("{kind} {}", totals.faults.of(kind)))
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
    let branches = totals.branches.0.iter();
    let branches: Vec<String> = branches.map(|(name, count)| format!("{name} {count}")).collect();
    println!("branches: {}", branches.join(", "));
    for (seed, violation) in &report.violations {
        println!("VIOLATION seed {seed}: {violation}");
        println!("replay: {}", replay(*seed, &plan_of(options).of_seed(*seed)));
    }
    if options.json {
        println!("{}", as_json(report, seeds_per_s, hours_per_core_s));
    }
}

fn replay(seed: u64, plan: &Plan) -> String {
    format!("{} --nodes {} --seeds {seed} --trace", command(plan), plan.nodes)
}

/// Runs the first seed that broke something again, or the whole range if none did.
fn replay_fresh(report: &Report, options: &Options) -> String {
    let plan = plan_of(options);
    if let Some((seed, _)) = report.violations.first() {
        return replay(*seed, &plan.of_seed(*seed));
    }
    let nodes = if options.mix {
        " --mix".to_owned()
    } else {
        format!(" --nodes {}", plan.nodes)
    };
    let (first, end) = (options.seeds.start, options.seeds.end);
    format!("{}{nodes} --seeds {first}..{end} --keep-going", command(&plan))
}

/// The program with all of a plan but its nodes.
fn command(plan: &Plan) -> String {
    let faults: Vec<&str> = plan.faults.iter().map(|kind| kind.name()).collect();
    let faults = match plan.faults.len() {
        0 => " --faults none".to_owned(),
        all if all == plan.profile.faults().len() => String::new(),
        _ => format!(" --faults {}", faults.join(",")),
    };
    format!(
        "cargo run --release -p quorate-tests --bin sim -- --profile {} --chaos {}{faults}",
        plan.profile.name(),
        plan.chaos_seconds
    )
}

fn as_json(report: &Report, seeds_per_s: f64, hours_per_core_s: f64) -> Value {
    let faults: Map<String, Value> = FaultKind::every()
        .map(|kind| (kind.name().to_owned(), json!(report.totals.faults.of(kind))))
        .collect();
    json!({
        "seeds": report.totals.seeds,
        "seeds_per_s": seeds_per_s,
        "sim_hours_per_core_s": hours_per_core_s,
        "faults": faults,
        "branches": report.totals.branches.0,
        "violations": report.violations.len(),
    })
}
