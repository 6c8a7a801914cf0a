//! The demo: real processes form a cluster, share the counting of real files, and lose one of them without losing an
//! answer. `cargo run --release` starts it; `--help` says more.
#![forbid(unsafe_code)]

mod asks;
mod failure;
mod input;
mod kind;
mod nodes;
mod options;
mod reader;
mod report;
mod screen;
mod tally;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorate_examples::files::Files;
use quorate_examples::words;
use quorate_tokio::{Adapter, Tokio};

use crate::failure::Failure;
use crate::nodes::Nodes;
use crate::options::{Command, Options};
use crate::reader::Reader;
use crate::report::{NodeResult, Report};
use crate::screen::Screen;

/// Paths of which it is said that they were left out; the others are only counted.
const COMPLAINTS_MAX: usize = 5;

fn main() -> ExitCode {
    let started = Instant::now();
    match options::parse(std::env::args_os().skip(1).collect()) {
        Err(message) => Failure::Usage(message).report(),
        Ok(Command::Help) => {
            print!("{}", options::HELP);
            ExitCode::SUCCESS
        }
        Ok(Command::Node(node)) => worker::run(node),
        Ok(Command::Run(options)) => match demo(&options, started) {
            Ok(report) if report.is_right() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(failure) => failure.report(),
        },
    }
}

/// Runs until there is a result or the user interrupts; every child is gone when it returns.
fn demo(options: &Options, started: Instant) -> Result<Report, Failure> {
    let (files, what) = input::files(options.input.as_deref()).map_err(Failure::Usage)?;
    let mut screen = Screen::new(options.json, started);
    introduce(&mut screen, options, &files, &what);
    quorate_examples::log::from_environment();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::Usage(format!("no runtime: {error}")))?;
    let result = runtime.block_on(async {
        tokio::select! {
            biased;
            _ = Tokio::shutdown_signal() => Err(Failure::Interrupted),
            result = run(options, started, screen, files) => result,
        }
    });
    // A thread may still be reading files for nobody.
    runtime.shutdown_background();
    result
}

fn introduce(screen: &mut Screen, options: &Options, files: &Files, what: &str) {
    let bytes: u64 = files.found.iter().map(|file| file.bytes).sum();
    let (count, nodes) = (files.found.len(), options.nodes);
    screen.line(format_args!(
        "Counting the words of {count} files, {:.1} MB, below {what}",
        bytes as f64 / 1e6
    ));
    screen.line(format_args!(
        "on {nodes} node processes and this reader, over TCP on loopback, with the fast timing profile (for one machine, \
         not for a network)."
    ));
    for (path, error) in files.skipped.iter().take(COMPLAINTS_MAX) {
        screen.line(format_args!("Left out: {} ({error})", path.display()));
    }
    if files.skipped.len() > COMPLAINTS_MAX {
        screen.line(format_args!("Left out: {} paths in all", files.skipped.len()));
    }
}

async fn run(options: &Options, started: Instant, screen: Screen, files: Files) -> Result<Report, Failure> {
    let name = format!("demo-{}", std::process::id());
    let nodes = Nodes::start(&name, options.nodes, &files.root).await?;
    let mut reader = Reader::join(&name, options, nodes, files, screen).await?;
    reader.form().await?;
    let formed = started.elapsed();
    reader.place().await?;
    let counting = Instant::now();
    reader.count().await?;
    let cluster_took = counting.elapsed();
    let members = reader.settle().await?;
    let mut report = report(options, &reader, formed, members);
    report.cluster_took = cluster_took;
    let Reader {
        mut screen,
        nodes,
        files,
        ..
    } = reader;
    drop(nodes);
    screen.say("every node process is gone; one thread reads the same files");
    let counting = Instant::now();
    let (expected, unreadable) = count_alone(files).await?;
    (report.expected, report.unreadable.1) = (expected, unreadable);
    report.thread_took = counting.elapsed();
    screen.line("");
    screen.line(report.table());
    if options.json {
        println!("{}", report.json());
    }
    Ok(report)
}

fn report(options: &Options, reader: &Reader, formed: Duration, members: usize) -> Report {
    let tally = &reader.tally;
    let loss = tally.loss.as_ref();
    let since_kill = |at: Option<Instant>| Some(at?.duration_since(loss?.killed_at));
    let node = |(index, node): (usize, &nodes::NodeProcess)| {
        let share = tally.shares.get(index).copied().unwrap_or_default();
        NodeResult {
            name: format!("node {}", index + 1),
            address: node.address.to_string(),
            files: share.files,
            words: share.words,
            shards: tally.shards_of(index),
            note: node.state.note().trim_start(),
        }
    };
    Report {
        nodes: options.nodes,
        files: reader.files.found.len(),
        words: tally.words,
        formed,
        unreachable: since_kill(loss.and_then(|loss| loss.unreachable_at)),
        removed: since_kill(loss.and_then(|loss| loss.removed_at)),
        failover: since_kill(loss.and_then(|loss| loss.failed_over_at)),
        asks_retried: reader.asks.retried,
        members,
        per_node: reader.nodes.all.iter().enumerate().map(node).collect(),
        unreadable: (tally.unreadable, 0),
        ..Report::default()
    }
}

/// The words of all files and how many could not be read, by one thread.
async fn count_alone(files: Files) -> Result<(u64, u64), Failure> {
    let count = move || {
        let paths = files.found.iter().map(|found| files.path_of(found));
        paths.fold((0_u64, 0_u64), |(all, bad), path: Option<PathBuf>| {
            match path.map(|path| words::count_file(&path)) {
                Some(Ok(words)) => (all + words, bad),
                Some(Err(_)) | None => (all, bad + 1),
            }
        })
    };
    tokio::task::spawn_blocking(count)
        .await
        .map_err(|error| Failure::Run(error.to_string()))
}
