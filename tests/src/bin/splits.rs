//! Random splits of simulated clusters under every strategy and rule: prints the table of `docs/downing.md`.
//! Exit code 1 if an invariant broke, or two sides were left by a plan within the safe assumptions; 2 for bad
//! arguments.

use std::io::Write;
use std::process::ExitCode;

use lexopt::prelude::*;
use quorate_core::downing::view::IndirectRule;
use quorate_tests::sim::Show;
use quorate_tests::splits::detect::{self, LossPlan, Timings};
use quorate_tests::splits::plan::Plan;
use quorate_tests::splits::safe::a_safe;
use quorate_tests::splits::sick::{self, Sickness};
use quorate_tests::splits::{STABLE_AFTER, STRATEGIES, Setting, play, run};

const USAGE: &str = "\
usage: splits [--plans N|A..B] [--threads N] [--strategy NAME] [--rule classic|cascade-safe|fewest]
              [--share F|never] [--held PERIODS] [--stable-ms N] [--nodes N,N.. --sick KIND]
       splits --detect [--plans HOURS] [--nodes N,N..] [--loss PERCENT,..] [--rule NAME]..    frames are lost, nodes crash
       splits --pauses [--plans N] [--nodes N,N..] [--timing PAUSE/STABLE]..    nodes stand still
       splits --seed N --strategy NAME --rule NAME [--share F|never]      one plan, told in full
                         (with --nodes N --sick KIND: of one sick node)

Plays random plans of several events with real nodes in virtual time (default 200 per setting). Without --strategy, --rule or
--share: all of them. --held: for how many stable periods who is Down counts on the other side (default 2).
--stable-ms: stable period and margin (default 2000); silence takes 1100 to 1500. With --sick one node alone is sick: paused, slow, one-way, lying, undecodable, not-reading, half-frames.
--detect (default 0, 1, 5 and 20 % lost) and --pauses have the timings that users have (default 5 nodes), or an accepted pause and a stable period in seconds.
";

struct Options {
    plans: std::ops::Range<u64>,
    threads: usize,
    seed: Option<u64>,
    strategies: Vec<&'static str>,
    rules: Vec<IndirectRule>,
    shares: Vec<Option<f64>>,
    nodes: Vec<usize>,
    sick: Vec<Sickness>,
    held: Option<u32>,
    stable: std::time::Duration,
    figures: Option<Figures>,
    timings: Vec<Timings>,
    losses: Vec<u64>,
}

/// What is measured instead of splits.
#[derive(Clone, Copy)]
enum Figures {
    Detect,
    Pauses,
}

fn main() -> ExitCode {
    let options = match parse() {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "splits: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if let Some(seed) = options.seed {
        return tell(seed, &options);
    }
    if let Some(figures) = options.figures {
        for nodes in &options.nodes {
            let (plans, threads) = (options.plans.clone(), options.threads);
            match figures {
                Figures::Detect => {
                    let plan = LossPlan {
                        nodes: *nodes,
                        hours: &plans,
                        losses: &options.losses,
                        rules: &options.rules,
                    };
                    detect::say_losses(plan, threads, &say);
                }
                Figures::Pauses => detect::say_pauses(&options.timings, *nodes, &plans, threads, &say),
            }
        }
        return ExitCode::SUCCESS;
    }
    if !options.sick.is_empty() {
        return sick_nodes(&options);
    }
    say(
        "| strategy | rule | everybody from | plans | number | two-sided | nobody left | though a majority lived | survivors |",
    );
    say("|---|---|---|---|---|---|---|---|---|");
    let mut is_clean = true;
    for setting in settings(&options) {
        let report = run(options.plans.clone(), setting, options.threads);
        let name = name(setting);
        say(&format!("| {name} | inside | {} |", report.inside));
        say(&format!("| {name} | outside | {} |", report.outside));
        say(&format!("| {name} | crashes in a row | {} |", report.cascades));
        let _ = writeln!(
            std::io::stderr(),
            "{name}: {} splits kept the right side; of {} plans with one sick node a healthy one was downed in {}, nobody left in {}; not at rest: {} inside, {} outside; two sides: {:?}; needless outages after crashes in a row: {:?}",
            report.kept_promises,
            report.sick.plans,
            report.sick.healthy_downed,
            report.sick.empty,
            report.inside.stuck,
            report.outside.stuck,
            report.two_sided,
            report.needless_cascades
        );
        for (seed, violation) in report.violations.iter().take(5) {
            is_clean = false;
            say(&format!("  VIOLATION seed {seed}: {violation}"));
        }
        is_clean &= report.inside.two_sided == 0;
    }
    if is_clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    }
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        plans: 0..200,
        threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        seed: None,
        strategies: Vec::new(),
        rules: Vec::new(),
        shares: Vec::new(),
        nodes: Vec::new(),
        sick: Vec::new(),
        held: None,
        stable: STABLE_AFTER,
        figures: None,
        timings: Timings::presets().into(),
        losses: Vec::new(),
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("plans") => options.plans = parse_plans(&parser.value()?.string()?)?,
            Long("threads") => options.threads = parser.value()?.parse()?,
            Long("seed") => options.seed = Some(parser.value()?.parse()?),
            Long("strategy") => {
                let name = parser.value()?.string()?;
                let known = STRATEGIES.into_iter().find(|known| *known == name);
                options
                    .strategies
                    .push(known.ok_or_else(|| format!("no strategy `{name}` among {STRATEGIES:?}"))?);
            }
            Long("rule") => options.rules.push(match parser.value()?.string()?.as_str() {
                "classic" => IndirectRule::Classic,
                "cascade-safe" => IndirectRule::CascadeSafe,
                "fewest" => IndirectRule::Fewest,
                other => return Err(format!("no rule `{other}`").into()),
            }),
            Long("nodes") => options.nodes.extend(numbers::<usize>(&mut parser)?),
            Long("loss") => {
                options.losses.extend(numbers::<u64>(&mut parser)?);
                if let Some(more) = options.losses.iter().find(|percent| **percent > 100) {
                    return Err(format!("more than all frames are lost: {more} %").into());
                }
            }
            Long("held") => options.held = Some(parser.value()?.parse()?),
            Long("stable-ms") => {
                options.stable = std::time::Duration::from_millis(parser.value()?.parse()?);
            }
            Long("detect") => options.figures = Some(Figures::Detect),
            Long("pauses") => options.figures = Some(Figures::Pauses),
            Long("timing") => options.timings.push(parser.value()?.parse()?),
            Long("sick") => options.sick.push(parser.value()?.parse()?),
            Long("share") => {
                let text = parser.value()?.string()?;
                let share = (text != "never").then(|| text.parse()).transpose();
                options
                    .shares
                    .push(share.map_err(|_| format!("no share `{text}`"))?);
            }
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    if options.strategies.is_empty() {
        options.strategies.extend(STRATEGIES);
    }
    if options.rules.is_empty() {
        options.rules = vec![
            IndirectRule::Classic,
            IndirectRule::CascadeSafe,
            IndirectRule::Fewest,
        ];
    }
    if options.nodes.is_empty() {
        options.nodes = if options.figures.is_some() {
            vec![5]
        } else {
            vec![3, 5, 9, 20]
        };
    }
    if options.losses.is_empty() {
        options.losses = vec![0, 1, 5, 20];
    }
    if options.shares.is_empty() {
        options.shares = vec![None, Some(0.5)];
    }
    Ok(Some(options))
}

/// Numbers with commas between them.
fn numbers<T: std::str::FromStr>(parser: &mut lexopt::Parser) -> Result<Vec<T>, lexopt::Error> {
    let text = parser.value()?.string()?;
    let numbers = text.split(',').map(|number| number.parse().map_err(|_| number));
    let numbers: Result<Vec<T>, &str> = numbers.collect();
    numbers.map_err(|number| format!("no number `{number}`").into())
}

/// How many plans, or the seeds from one up to another.
fn parse_plans(text: &str) -> Result<std::ops::Range<u64>, lexopt::Error> {
    let (from, to) = text.split_once("..").unwrap_or(("0", text));
    match (from.parse(), to.parse()) {
        (Ok(from), Ok(to)) if from < to => Ok(from..to),
        _ => Err(format!("no number of plans `{text}`").into()),
    }
}

/// The settings asked for; those that make no difference to a strategy are left out.
fn settings(options: &Options) -> Vec<Setting> {
    let mut settings: Vec<Setting> = Vec::new();
    for strategy in &options.strategies {
        for rule in &options.rules {
            for share in &options.shares {
                let is_first = settings.last().is_none_or(|last| last.strategy != *strategy);
                let is_read = share.is_none() || *rule != IndirectRule::Fewest;
                if (*strategy != "down-all" || is_first) && is_read {
                    settings.push(Setting {
                        strategy,
                        rule: *rule,
                        share: *share,
                        held: options.held,
                        stable: options.stable,
                    });
                }
            }
        }
    }
    settings
}

fn name(setting: Setting) -> String {
    let from = setting
        .share
        .map_or("never".to_owned(), |share| share.to_string());
    format!("{} | {} | {from}", setting.strategy, setting.rule)
}

/// Plans of one sick node.
fn sick_nodes(options: &Options) -> ExitCode {
    say(
        "| strategy | rule | everybody from | sick | nodes | plans | healthy nodes downed | undecidable | clusters ended | two-sided |",
    );
    say("|---|---|---|---|---|---|---|---|---|---|");
    let mut is_clean = true;
    for setting in settings(options) {
        for (kind, nodes) in options
            .sick
            .iter()
            .flat_map(|kind| options.nodes.iter().map(move |nodes| (*kind, *nodes)))
        {
            let tally = sick::run(options.plans.clone(), nodes, kind, setting, options.threads);
            let name = name(setting);
            say(&format!("| {name} | {kind} | {nodes} | {tally} |"));
            let seeds = tally.bad.iter().take(10).collect::<Vec<_>>();
            let _ = writeln!(
                std::io::stderr(),
                "{name} {kind} {nodes}: not at rest {}, seeds {seeds:?}",
                tally.stuck
            );
            for (seed, violation) in tally.violations.iter().take(5) {
                is_clean = false;
                say(&format!("  VIOLATION seed {seed}: {violation}"));
            }
            is_clean &= tally.two_sided == 0;
        }
    }
    ExitCode::from(u8::from(!is_clean))
}

/// One plan, with everything that happens.
fn tell(seed: u64, options: &Options) -> ExitCode {
    let plan = match (options.sick.first(), options.nodes.first()) {
        (Some(kind), Some(nodes)) => sick::draw(seed, *nodes, *kind),
        _ => Plan::draw(seed),
    };
    say(&format!("{plan}"));
    say(&format!("{:?}", a_safe(&plan, 2_000_000)));
    let Some(setting) = settings(options).into_iter().next() else {
        return ExitCode::from(2);
    };
    let outcome = play(seed, &plan, setting, Show::Facts);
    say(&format!("{}: {outcome:#?}", name(setting)));
    ExitCode::from(u8::from(outcome.violation.is_some()))
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
