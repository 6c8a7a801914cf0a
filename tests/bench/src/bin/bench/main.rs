//! A smoke run of the message path: sharded `tell` and `ask` between two processes over loopback, beside a
//! bare link of the same transport with the same payload in the same run, and within one process, beside bare
//! channels. With `--data` updates of replicated data on three nodes instead, with `--kv` calls of the keyed
//! store, with `--instructions` what the core alone takes for a message.
//! `docs/benchmarks.md` says how to read it.
#![forbid(unsafe_code)]

mod channel;
mod core_alone;
mod data;
mod floor;
mod kv;
mod measure;
mod sharded;
mod table;

use std::ffi::OsString;
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future;
use lexopt::prelude::*;
use quorate_bench::payload;
use quorate_demo::hosts::{Host, OnSmol, OnTokio};
use quorate_demo::process::{self, ChildProcess};
use quorate_demo::trust::{self, Authority};
use quorate_driver::spi::{Adapter, Runtime, Transport};
use quorate_quinn::Quinn;
use quorate_tokio::Tokio;

use crate::measure::{Figures, Size, System, median};
use crate::table::{Row, Table, Where};

const HELP: &str = "\
Measures sharded tell and ask between two processes over loopback, beside a bare link of the same
transport with the same payload in the same run, and within one process, beside bare channels; or,
with --data, updates of replicated data on three
nodes, beside bare links to two of them and beside redb's own commit; or, with --kv, calls of the keyed
store by a node beside three owners, beside bare links to the three, which commit to redb where the
owners do.

Usage: bench [OPTIONS]

Options:
      --transport NAME  tokio (default), tokio-tls, smol, smol-tls, quinn, or all, one after the other
      --data            replicated data instead
      --kv              the keyed store instead
      --store DIR       with --data or --kv: make a folder for the stores in this one (default: the system's for such things)
      --instructions    instead: instructions of the core alone per message, by valgrind's callgrind; no sockets
      --quick           a few seconds each: shows that it works, not how fast it is
      --json            end standard output with one line of JSON
  -h, --help            print this
";

/// The hidden subcommand of the process that answers.
const SERVER: &str = "server-process";
/// The hidden subcommand that sends messages from one node to another in this process.
const CORE_ALONE: &str = "core-alone";
/// Bytes of the payloads.
const PAYLOADS: [usize; 2] = [16, 1024];
/// The longest one transport may take; a measurement that hangs is a failure.
const LIMIT: Duration = Duration::from_secs(300);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One transport: how to measure it, and how to be the process that answers.
struct Stage {
    name: &'static str,
    has_certificates: bool,
    measure: fn(&Stage, Size) -> Result<Vec<Row>, Failure>,
    serve: fn() -> Result<(), Failure>,
    measure_data: fn(&Stage, &Options) -> Result<data::Report, Failure>,
    serve_data: fn(&data::Place) -> Result<(), Failure>,
    measure_kv: fn(&Stage, &Options) -> Result<data::Report, Failure>,
    serve_kv: fn(&kv::Place) -> Result<(), Failure>,
}

impl Stage {
    const fn of<H: Host>(name: &'static str, has_certificates: bool) -> Self
    where
        <<H::Adapter as Adapter>::Transport as Transport>::Listener: Sync,
    {
        Self {
            name,
            has_certificates,
            measure: |stage, size| on::<H, _>(run::<H::Adapter>(stage, size)),
            serve: || on::<H, _>(serve::<H::Adapter>()),
            measure_data: |stage, options| on::<H, _>(data::run::<H::Adapter>(stage, options)),
            serve_data: |place| on::<H, _>(data::serve::<H::Adapter>(place)),
            measure_kv: |stage, options| on::<H, _>(kv::run::<H::Adapter>(stage, options)),
            serve_kv: |place| on::<H, _>(kv::serve::<H::Adapter>(place)),
        }
    }
}

const STAGES: [Stage; 5] = [
    Stage::of::<OnTokio<Tokio>>("tokio", false),
    Stage::of::<OnTokio<Tokio>>("tokio-tls", true),
    Stage::of::<OnSmol>("smol", false),
    Stage::of::<OnSmol>("smol-tls", true),
    Stage::of::<OnTokio<Quinn>>("quinn", true),
];

#[derive(Clone, Debug)]
struct Options {
    transport: String,
    data: bool,
    kv: bool,
    instructions: bool,
    store: Option<PathBuf>,
    quick: bool,
    json: bool,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    if first == SERVER || first == data::SERVER || first == kv::SERVER {
        let name = arguments.next().unwrap_or_default();
        let Some(stage) = STAGES.iter().find(|stage| name == stage.name) else {
            return end(Err("no such transport".into()));
        };
        return end(if first == SERVER {
            (stage.serve)()
        } else if first == kv::SERVER {
            kv::Place::read(arguments).and_then(|place| (stage.serve_kv)(&place))
        } else {
            data::Place::read(arguments).and_then(|place| (stage.serve_data)(&place))
        });
    }
    if first == CORE_ALONE {
        return end(send_in_core(arguments));
    }
    match parse() {
        Ok(Some(options)) if options.instructions => end(core_alone::count(options.json).map_err(Into::into)),
        Ok(Some(options)) if options.data => end(report_all(&options, |stage| stage.measure_data)),
        Ok(Some(options)) if options.kv => end(report_all(&options, |stage| stage.measure_kv)),
        Ok(Some(options)) => end(measure_all(&options)),
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

fn send_in_core(arguments: impl Iterator<Item = OsString>) -> Result<(), Failure> {
    let arguments: Vec<String> = arguments
        .map(|text| text.to_string_lossy().into_owned())
        .collect();
    let [step, at_once, messages] = arguments.as_slice() else {
        return Err("a step, messages at once, messages".into());
    };
    core_alone::send(step, at_once.parse()?, messages.parse()?).map_err(Into::into)
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        transport: "tokio".to_owned(),
        data: false,
        kv: false,
        instructions: false,
        store: None,
        quick: false,
        json: false,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("transport") => options.transport = parser.value()?.string()?,
            Long("data") => options.data = true,
            Long("kv") => options.kv = true,
            Long("instructions") => options.instructions = true,
            Long("store") => {
                let folder = parser.value()?;
                if folder.is_empty() {
                    return Err("--store is empty".into());
                }
                options.store = Some(folder.into());
            }
            Long("quick") => options.quick = true,
            Long("json") => options.json = true,
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    let is_known = |name: &str| name == "all" || STAGES.iter().any(|stage| stage.name == name);
    if !is_known(&options.transport) {
        return Err(format!("no transport `{}`", options.transport).into());
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

fn measure_all(options: &Options) -> Result<(), Failure> {
    let size = if options.quick { Size::QUICK } else { Size::FULL };
    let mut tables = Vec::new();
    for stage in &STAGES {
        if options.transport == "all" || options.transport == stage.name {
            let rows = (stage.measure)(stage, size)?;
            let transport = stage.name;
            let table = Table { transport, rows };
            println!("{}", table.text(size));
            tables.push(table);
        }
    }
    if options.json {
        println!("{}", table::json(&tables));
    }
    Ok(())
}

type Measure = fn(&Stage, &Options) -> Result<data::Report, Failure>;

fn report_all(options: &Options, measure: fn(&Stage) -> Measure) -> Result<(), Failure> {
    let mut reports = Vec::new();
    for stage in &STAGES {
        if options.transport == "all" || options.transport == stage.name {
            let report = measure(stage)(stage, options)?;
            println!("{}", report.text());
            reports.push(report);
        }
    }
    if options.json {
        println!("{}", data::json(&reports));
    }
    Ok(())
}

/// Runs in a host, for so long at most.
fn on<H: Host, T>(what: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    H::block_on(async {
        let runtime = H::Adapter::runtime()?;
        let limit = runtime.now().mono + LIMIT;
        let too_long = async {
            runtime.sleep_until(limit).await;
            Err(format!("not done after {LIMIT:?}").into())
        };
        future::or(what, too_long).await
    })?
}

/// The process that answers: a node that hosts every entity, and the bare link's other end.
async fn serve<A: Adapter>() -> Result<(), Failure> {
    let security = trust::introduced(&process::introduction()?)?;
    process::end_with_parent()?;
    let cluster = sharded::host::<A>(&security, None, None).await?;
    let (address, floor) = floor::listen::<A>(&security, None).await?;
    let mut out = std::io::stdout();
    writeln!(out, "{} {address}", cluster.address().address())?;
    out.flush()?;
    floor.await;
    Ok(())
}

async fn run<A: Adapter>(stage: &Stage, size: Size) -> Result<Vec<Row>, Failure>
where
    <A::Transport as Transport>::Listener: Sync,
{
    let authority = Authority::new(stage.has_certificates)?;
    let (security, runtime) = (authority.own()?, A::runtime()?);
    let mut server =
        ChildProcess::start_introduced([SERVER.into(), stage.name.into()], &authority.introduction()?)?;
    let mut output = server.output().ok_or("the server process has no output")?;
    let line = blocking::unblock(move || process::first_line(&mut output)).await?;
    let (node, stream) = line
        .split_once(' ')
        .ok_or_else(|| format!("the server did not start: {line}"))?;
    let cluster = sharded::client::<A>(node, &security).await?;
    let sharded = Arc::new(sharded::Entities::of(&cluster).await?);
    let floor = Arc::new(floor::Client::<A>::connect(stream, &security).await?);
    let mut rows = Vec::new();
    for bytes in PAYLOADS {
        let mut rounds = Vec::new();
        for _ in 0..size.rounds {
            rounds.push(round(&runtime, (&sharded, &floor), bytes, size).await?);
        }
        rows.push(row(bytes, Where::Peer, &rounds));
    }
    let here = Arc::new(sharded::Entities::here(&cluster).await?);
    let channels = Arc::new(channel::Channels::new(&runtime));
    let mut rounds = Vec::new();
    for _ in 0..size.rounds {
        rounds.push(round(&runtime, (&here, &channels), PAYLOADS[0], size).await?);
    }
    rows.push(row(PAYLOADS[0], Where::Here, &rounds));
    drop(server);
    cluster.stop().await;
    Ok(rows)
}

/// The two systems take turns, so that a slow moment of the machine meets both: ours, and the floor.
async fn round(
    runtime: &impl Runtime,
    (ours, floor): (&Arc<impl System>, &Arc<impl System>),
    bytes: usize,
    size: Size,
) -> Result<(Figures, Figures), Failure> {
    let bare = measure::figures(runtime, floor, bytes, size).await?;
    Ok((measure::figures(runtime, ours, bytes, size).await?, bare))
}

fn row(bytes: usize, place: Where, rounds: &[(Figures, Figures)]) -> Row {
    let (ours, bare) = (
        median(rounds.iter().map(|r| &r.0)),
        median(rounds.iter().map(|r| &r.1)),
    );
    Row {
        bytes,
        place,
        ours,
        bare,
    }
}
