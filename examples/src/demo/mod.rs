//! The demo: real processes form a cluster, share the counting of real files, and lose one of them without
//! losing an answer. A program calls [`main`] with the transports it can run on.

mod asks;
mod failure;
mod input;
mod kind;
mod nodes;
mod options;
mod reader;
mod report;
mod screen;
mod stage;
mod tally;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures_lite::future;
use quorate_driver::Security;
use quorate_driver::spi::Adapter;

use self::failure::Failure;
use self::nodes::Nodes;
use self::options::{Command, NodeOptions, Options};
use self::reader::{Reader, Scene};
use self::report::{NodeResult, Report};
pub use self::stage::{LeftOut, Stage, Transports};
use crate::files::Files;
use crate::hosts::Host;
use crate::screen::Screen;
use crate::trust::Authority;
use crate::words;

/// Without a terminal, how far it is, is a line at most this often.
const LINE_EVERY: Duration = Duration::from_secs(1);
/// Paths of which it is said that they were left out; the others are only counted.
const COMPLAINTS_MAX: usize = 5;

/// The whole program, arguments and exit code included.
#[must_use]
pub fn main(transports: &Transports) -> ExitCode {
    let started = Instant::now();
    let command = options::parse(std::env::args_os().skip(1).collect(), transports);
    match command {
        Err(message) => Failure::Usage(message).report(),
        Ok(Command::Help) => {
            print!("{}", options::help(transports));
            ExitCode::SUCCESS
        }
        Ok(Command::Node(node)) => match transports.named(&node.transport) {
            Some(stage) => (stage.node)(node),
            None => Failure::Usage(format!("no transport `{}`", node.transport)).report(),
        },
        Ok(Command::Run(options)) => match transports.named(&options.transport) {
            Some(stage) => match (stage.demo)(&options, stage, started) {
                Ok(report) if report.is_right() => ExitCode::SUCCESS,
                Ok(_) => ExitCode::FAILURE,
                Err(failure) => failure.report(),
            },
            None => Failure::Usage(format!("no transport `{}`", options.transport)).report(),
        },
    }
}

/// Runs until there is a result or the user interrupts; every child is gone when it returns.
fn demo<H: Host>(options: &Options, stage: &Stage, started: Instant) -> Result<Report, Failure> {
    let (files, what) = input::files(options.input.as_deref()).map_err(Failure::Usage)?;
    let mut screen = Screen::new(options.json, started, LINE_EVERY);
    introduce(&mut screen, options, stage, &files, &what);
    crate::log::from_environment();
    let interrupted = async {
        let _ = quorate_driver::shutdown::shutdown_signal().await;
        Err(Failure::Interrupted)
    };
    let run = run::<H::Adapter>(options, stage, started, screen, files);
    H::block_on(future::or(interrupted, run))
        .map_err(|error| Failure::Usage(format!("no runtime: {error}")))?
}

fn introduce(screen: &mut Screen, options: &Options, stage: &Stage, files: &Files, what: &str) {
    let bytes: u64 = files.found.iter().map(|file| file.bytes).sum();
    let (count, nodes) = (files.found.len(), options.nodes);
    screen.line(format_args!(
        "Counting the words of {count} files, {:.1} MB, below {what}",
        bytes as f64 / 1e6
    ));
    screen.line(format_args!(
        "on {nodes} node processes and this reader, over {} on loopback, with the fast timing profile (for one machine, \
         not for a network).",
        stage.what
    ));
    if stage.has_certificates {
        screen.line("Certificates: of an authority made for this run; no key is written to a file.");
    }
    for (path, error) in files.skipped.iter().take(COMPLAINTS_MAX) {
        screen.line(format_args!("Left out: {} ({error})", path.display()));
    }
    if files.skipped.len() > COMPLAINTS_MAX {
        screen.line(format_args!("Left out: {} paths in all", files.skipped.len()));
    }
}

async fn run<A: Adapter>(
    options: &Options,
    stage: &Stage,
    started: Instant,
    screen: Screen,
    files: Files,
) -> Result<Report, Failure> {
    let name = format!("demo-{}", std::process::id());
    let authority = Authority::new(stage.has_certificates).map_err(Failure::certificates)?;
    let security: Security = authority.own().map_err(Failure::certificates)?;
    let runtime = A::runtime().map_err(|error| Failure::Usage(error.to_string()))?;
    let node = NodeOptions {
        transport: stage.name.to_owned(),
        cluster: name.clone(),
        index: 0,
        root: files.root.clone(),
        seed: None,
    };
    let nodes = Nodes::start(&runtime, &authority, &node, options.nodes).await?;
    let mut reader = Reader::<A>::join(&name, security, options, Scene { nodes, files, screen }).await?;
    reader.form().await?;
    let formed = started.elapsed();
    reader.place().await?;
    let counting = Instant::now();
    reader.count().await?;
    let cluster_took = counting.elapsed();
    let members = reader.settle().await?;
    let mut report = report::<A>(options, &reader, formed, members);
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
    let (expected, unreadable) = count_alone(files).await;
    (report.expected, report.unreadable.1) = (expected, unreadable);
    report.thread_took = counting.elapsed();
    screen.line("");
    screen.line(report.table());
    if options.json {
        println!("{}", report.json());
    }
    Ok(report)
}

fn report<A: Adapter>(options: &Options, reader: &Reader<A>, formed: Duration, members: usize) -> Report {
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
async fn count_alone(files: Files) -> (u64, u64) {
    let count = move || {
        let paths = files.found.iter().map(|found| files.path_of(found));
        paths.fold((0_u64, 0_u64), |(all, bad), path: Option<PathBuf>| {
            match path.map(|path| words::count_file(&path)) {
                Some(Ok(words)) => (all + words, bad),
                Some(Err(_)) | None => (all, bad + 1),
            }
        })
    };
    blocking::unblock(count).await
}
