//! A smoke run of the message path: sharded `tell` and `ask` between two processes over loopback, beside a bare
//! length-delimited tokio stream of the same payload in the same run. `docs/benchmarks.md` says how to read it.
#![forbid(unsafe_code)]

mod floor;
mod measure;
mod payload;
mod sharded;
mod table;

use std::future::Future;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lexopt::prelude::*;
use quorate_examples::process::{self, ChildProcess};

use crate::measure::{Figures, Size, median};
use crate::table::Row;

const HELP: &str = "\
Measures sharded tell and ask between two processes over loopback, beside a bare length-delimited
tokio stream of the same payload in the same run.

Usage: bench [OPTIONS]

Options:
      --quick  a few seconds: shows that it works, not how fast it is
      --json   end standard output with one line of JSON
  -h, --help   print this
";

/// The hidden subcommand of the process that answers.
const SERVER: &str = "server-process";
/// Bytes of the payloads.
const PAYLOADS: [usize; 2] = [16, 1024];
/// The longest a run may take; a measurement that hangs is a failure.
const LIMIT: Duration = Duration::from_secs(300);

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Copy, Debug, Default)]
struct Options {
    quick: bool,
    json: bool,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == SERVER) {
        return end(on_runtime(serve()));
    }
    match parse() {
        Ok(Some(options)) => end(on_runtime(run(options))),
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench: {error}; try --help");
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
            Long("quick") => options.quick = true,
            Long("json") => options.json = true,
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    Ok(Some(options))
}

fn end(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Two worker threads for both sides and both systems.
fn on_runtime(what: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        match tokio::time::timeout(LIMIT, what).await {
            Ok(result) => result,
            Err(_) => Err(format!("not done after {LIMIT:?}").into()),
        }
    });
    runtime.shutdown_background();
    result
}

/// The process that answers: a node that hosts every entity, and the bare stream's other end.
async fn serve() -> Result<(), Failure> {
    process::end_with_parent()?;
    let cluster = sharded::host().await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let mut out = std::io::stdout();
    writeln!(out, "{} {}", cluster.address().address(), listener.local_addr()?)?;
    out.flush()?;
    floor::serve(listener).await?;
    Ok(())
}

async fn run(options: Options) -> Result<(), Failure> {
    let mut server = ChildProcess::start([SERVER.into()])?;
    let mut output = server.output().ok_or("the server process has no output")?;
    let line = tokio::task::spawn_blocking(move || process::first_line(&mut output)).await??;
    let (node, stream) = line
        .split_once(' ')
        .ok_or_else(|| format!("the server did not start: {line}"))?;
    let sharded = Arc::new(sharded::Client::join(node).await?);
    let floor = Arc::new(floor::Client::connect(stream).await?);
    let size = if options.quick { Size::QUICK } else { Size::FULL };
    let mut rows = Vec::new();
    for bytes in PAYLOADS {
        // The two systems take turns, so that a slow moment of the machine meets both.
        let mut rounds: Vec<(Figures, Figures)> = Vec::new();
        for _ in 0..size.rounds {
            let bare = measure::figures(&floor, bytes, size).await?;
            rounds.push((measure::figures(&sharded, bytes, size).await?, bare));
        }
        let (ours, bare) = (
            median(rounds.iter().map(|r| &r.0)),
            median(rounds.iter().map(|r| &r.1)),
        );
        rows.push(Row { bytes, ours, bare });
    }
    drop(server);
    println!("{}", table::text(&rows, size));
    if options.json {
        println!("{}", table::json(&rows));
    }
    Ok(())
}
