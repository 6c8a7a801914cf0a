//! Nodes that come and go for minutes, on one adapter: the process has to hold no more afterwards than
//! before. The one on async-std is an example of its adapter.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::process::ExitCode;
use std::time::Duration;

use lexopt::prelude::*;
use quorate_conformance::{ChurnOutcome, again_with_one_arena, churn};
use quorate_driver::spi::Adapter;
use quorate_driver::{Security, security::DevCa};
use quorate_quinn::Quinn;
use quorate_smol::Smol;
use quorate_tokio::Tokio;

const TRANSPORTS: [&str; 5] = ["tokio", "tokio-tls", "smol", "smol-tls", "quinn"];

const HELP: &str = "\
Lets nodes join, leave, end without a word and come back beside three that stay.

Usage: churn [OPTIONS]

Options:
      --minutes N       how long (default 10; at least one round)
      --transport NAME  tokio, tokio-tls, smol, smol-tls or quinn (default tokio)
  -h, --help            print this

Prints what the process held after the first tenth of the time and after the last round: file
descriptors, threads, tasks where the runtime counts them, memory (in one arena of the allocator).
Exit code 0 if nothing is more than a tenth above, 1 if something is, 2 for a mistake in the options.
";

fn main() -> ExitCode {
    match parse() {
        Ok(Some((transport, length))) => match again_with_one_arena() {
            Ok(None) => judge(&transport, length),
            Ok(Some(ended)) if ended.success() => ExitCode::SUCCESS,
            Ok(Some(_)) => ExitCode::FAILURE,
            Err(error) => fail(error),
        },
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("churn: {error}; try --help");
            ExitCode::from(2)
        }
    }
}

fn judge(transport: &str, length: Duration) -> ExitCode {
    match run(transport, length) {
        Ok(churned) => {
            let ChurnOutcome {
                changes,
                base,
                end,
                is_back,
            } = churned;
            println!("{transport}: {changes} changes; base {base}; end {end}");
            if is_back {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => fail(error),
    }
}

fn fail(error: impl Display) -> ExitCode {
    eprintln!("churn: {error}");
    ExitCode::FAILURE
}

fn parse() -> Result<Option<(String, Duration)>, lexopt::Error> {
    let (mut transport, mut minutes) = ("tokio".to_owned(), 10.0_f64);
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "a string is matched, and there is always another one"
        )]
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("minutes") => minutes = parser.value()?.parse()?,
            Long("transport") => transport = parser.value()?.string()?,
            _ => return Err(argument.unexpected()),
        }
    }
    if !TRANSPORTS.contains(&&*transport) {
        return Err(format!("no transport `{transport}`").into());
    }
    let length = Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| error.to_string())?;
    Ok(Some((transport, length)))
}

fn run(transport: &str, length: Duration) -> Result<ChurnOutcome, Box<dyn std::error::Error>> {
    let plaintext = Security::insecure_plaintext();
    let mtls = || -> Result<Security, Box<dyn std::error::Error>> {
        Ok(Security::mtls(DevCa::new("churn.cluster.internal")?.mtls()?))
    };
    match transport {
        "tokio" => on_tokio::<Tokio>(&plaintext, length),
        "tokio-tls" => on_tokio::<Tokio>(&mtls()?, length),
        "smol" => Ok(smol::block_on(churn::<Smol>(&plaintext, length, || 0))),
        "smol-tls" => Ok(smol::block_on(churn::<Smol>(&mtls()?, length, || 0))),
        "quinn" => on_tokio::<Quinn>(&mtls()?, length),
        other => Err(format!("no transport {other}; try --help").into()),
    }
}

fn on_tokio<A: Adapter>(
    security: &Security,
    length: Duration,
) -> Result<ChurnOutcome, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let metrics = runtime.metrics();
    let tasks = || metrics.num_alive_tasks() as u64;
    Ok(runtime.block_on(churn::<A>(security, length, tasks)))
}
