//! One node process: hosts counters, asks all of them in turn, says how long each answer took, and leaves when the system
//! asks it to end, after it has stopped asking. Judges nothing.

use std::ffi::OsString;
use std::io::Write;
use std::time::{Duration, Instant};

use lexopt::prelude::*;
use quorate_examples::process;
use quorate_tokio::core::Address;
use quorate_tokio::{Cluster, Entity, EntityContext, Kind, Region, Security};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// Counters that are asked.
const ENTITIES: u64 = 60;
/// Shards of their kind.
const SHARDS: u32 = 30;
/// The entity whose handler runs on.
const STUBBORN: &str = "stubborn";
/// How long it runs on: longer than a leaving node waits for its entities.
const RUNS_ON: Duration = Duration::from_secs(30);

struct Counter(u64);

impl Entity for Counter {
    type Message = u64;
    type Reply = u64;

    async fn handle(&mut self, context: &EntityContext, _: u64) -> u64 {
        if context.id_text() == STUBBORN {
            // What user code must not do, and what nobody can stop.
            std::thread::sleep(RUNS_ON);
        }
        self.0 += 1;
        self.0
    }
}

struct Options {
    bind: String,
    seeds: Vec<Address>,
    pace: Duration,
    stubborn: bool,
}

pub(crate) fn run(words: impl Iterator<Item = OsString>) -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options {
        bind: String::new(),
        seeds: Vec::new(),
        pace: Duration::from_millis(15),
        stubborn: false,
    };
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("bind") => options.bind = parser.value()?.string()?,
            Long("seed") => options.seeds.push(parser.value()?.parse()?),
            Long("pace") => options.pace = Duration::from_micros(parser.value()?.parse()?),
            Long("stubborn") => options.stubborn = true,
            Long("logs") => quorate_examples::log::at_least("info"),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected().into()),
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(host(options))
}

async fn host(options: Options) -> Result<(), Box<dyn std::error::Error>> {
    process::end_with_parent()?;
    let mut asked_to_end = signal(SignalKind::terminate())?;
    let builder = Cluster::builder("rolling").bind(options.bind);
    let cluster = builder.security(Security::insecure_plaintext()).start().await?;
    let kind = Kind::new("counter").shards(SHARDS);
    let region = cluster.register(kind, |_| Counter(0)).await?;
    cluster.join(&options.seeds).await?;
    cluster.up().await?;
    print("up");
    let mut asks = JoinSet::new();
    let mut pace = tokio::time::interval(options.pace);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for number in 0.. {
        tokio::select! {
            _ = pace.tick() => { asks.spawn(ask(region.clone(), number)); }
            _ = asked_to_end.recv() => break,
        }
        while asks.try_join_next().is_some() {}
    }
    if options.stubborn {
        // Nobody waits for the answer.
        region.entity(STUBBORN).tell(&0).await?;
    }
    // What was asked is waited for; a server that is told to end takes no new requests either.
    while asks.join_next().await.is_some() {}
    cluster.leave().await?;
    print("left");
    Ok(())
}

async fn ask(region: Region<u64, u64>, number: u64) {
    let entity = region.entity(format!("counter-{}", number % ENTITIES));
    let begun = Instant::now();
    let answer = entity.ask(&number).timeout(Duration::from_secs(5)).await;
    let took = begun.elapsed().as_micros();
    match answer {
        Ok(_) => print(&format!("asked {took}")),
        Err(error) => print(&format!("asked {took} {error}")),
    }
}

fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody may be listening any more; the node goes on.
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
