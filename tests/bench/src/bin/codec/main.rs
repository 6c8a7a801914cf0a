//! The gossip state codec beside a naive serde + postcard copy of the same state and beside `memcpy` of the
//! same bytes, in one run: bytes, nanoseconds and (where valgrind is installed) instructions per member.
//! `docs/benchmarks.md` says how to read it.
#![forbid(unsafe_code)]

mod instructions;
mod naive;
mod state;
mod work;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use lexopt::prelude::*;

use crate::state::Shape;
use crate::work::{Step, Workload};

const HELP: &str = "\
Measures the gossip state codec beside serde + postcard and beside memcpy of the same bytes.

Usage: codec [OPTIONS]

Options:
      --members N     one size instead of 100, 1000 and 5000
      --quick         a moment: shows that it works, not how fast it is
      --instructions  count instructions with valgrind's callgrind as well
      --json          end standard output with one line of JSON
  -h, --help          print this
";

/// Sizes of the states.
const MEMBERS: [usize; 3] = [100, 1000, 5000];
/// Rounds of which the median counts; every round measures every step once.
const ROUNDS: usize = 41;
/// Members that a step works through in one measurement, so that small states do not measure the clock.
const MEMBERS_PER_MEASUREMENT: usize = 20_000;

#[derive(Debug, Default)]
struct Options {
    members: Option<usize>,
    quick: bool,
    instructions: bool,
    json: bool,
    /// Hidden: run one step so many times and print nothing. What callgrind looks at.
    only: Option<(Step, usize)>,
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
            eprintln!("codec: {error}; try --help");
            ExitCode::from(2)
        }
    }
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("members") => {
                let members: usize = parser.value()?.parse()?;
                if !(1..=10_000).contains(&members) {
                    return Err("--members must be from 1 to 10000".into());
                }
                options.members = Some(members);
            }
            Long("quick") => options.quick = true,
            Long("instructions") => options.instructions = true,
            Long("json") => options.json = true,
            Long("only") => {
                let name = parser.value()?.string()?;
                let step = Step::ALL.into_iter().find(|step| step.name() == name);
                let times = parser.value()?.parse()?;
                options.only = Some((step.ok_or("unknown step")?, times));
            }
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    Ok(Some(options))
}

fn run(options: &Options) {
    if let Some((step, times)) = options.only {
        let workload = Workload::new(options.members.unwrap_or(1000), Shape::Reference);
        for _ in 0..times {
            black_box(workload.run(step));
        }
        return;
    }
    let sizes = options.members.map_or(MEMBERS.to_vec(), |members| vec![members]);
    let mut json = Vec::new();
    for members in sizes {
        let workload = Workload::new(members, Shape::Reference);
        let full_clock = Workload::new(members, Shape::EveryClockEntry);
        println!(
            "{members} members: {:.1} B/member, naive {:.1}, deflated {:.1}; with a clock entry each {:.1}",
            workload.bytes_per_member(),
            workload.naive_bytes_per_member(),
            workload.deflated_bytes_per_member(),
            full_clock.bytes_per_member(),
        );
        let times = measure(&workload, if options.quick { 3 } else { ROUNDS });
        for (step, nanoseconds) in &times {
            let instructions = options
                .instructions
                .then(|| instructions::per_member(*step, members))
                .flatten();
            let shown = instructions.map_or_else(String::new, |count| format!("{count:10.1} instructions"));
            println!("  {:<26} {nanoseconds:9.2} ns/member {shown}", step.name());
            json.push(format!(
                "{{\"members\":{members},\"step\":\"{}\",\"ns\":{nanoseconds:.3}}}",
                step.name()
            ));
        }
        print_ratios(&times);
    }
    if options.instructions && !quorate_bench::is_callgrind_installed() {
        println!("valgrind is not installed: no instructions were counted");
    }
    if options.json {
        println!("[{}]", json.join(","));
    }
}

/// The median nanoseconds per member of each step; the steps take turns, so that a slow moment of the machine
/// meets all.
fn measure(workload: &Workload, rounds: usize) -> Vec<(Step, f64)> {
    let times = (MEMBERS_PER_MEASUREMENT / workload.members()).max(1);
    let mut all: Vec<(Step, Vec<f64>)> = Step::ALL.map(|step| (step, Vec::new())).to_vec();
    for _ in 0..rounds {
        for (step, measured) in &mut all {
            let start = Instant::now();
            for _ in 0..times {
                black_box(workload.run(*step));
            }
            let per_member = start.elapsed().as_secs_f64() * 1e9 / (times * workload.members()) as f64;
            measured.push(per_member);
        }
    }
    let median = |mut measured: Vec<f64>| {
        measured.sort_by(f64::total_cmp);
        measured[measured.len() / 2]
    };
    all.into_iter()
        .map(|(step, measured)| (step, median(measured)))
        .collect()
}

fn print_ratios(times: &[(Step, f64)]) {
    let of = |step: Step| {
        times
            .iter()
            .find(|row| row.0 == step)
            .map_or(f64::NAN, |row| row.1)
    };
    println!(
        "  naive decode / decode {:.1}x, naive decode / decode and open {:.1}x, decode / memcpy {:.1}x",
        of(Step::NaiveDecode) / of(Step::Decode),
        of(Step::NaiveDecode) / of(Step::DecodeAndOpen),
        of(Step::Decode) / of(Step::Memcpy),
    );
}
