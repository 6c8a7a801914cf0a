//! Keys and certificates that change while a cluster works: three nodes in one program, links that live two
//! seconds, a new certificate (or key) for one node after the other, and messages all the time. Says how
//! often each link shook hands, and exits with 0 only if no member was suspected, no ask failed, nothing told
//! was lost, doubled or overtaken, and every link shook hands often enough.
//! `cargo run --release -p quorate-soak --bin rotation -- --seconds 60 --transport quinn`
#![forbid(unsafe_code)]

use std::error::Error;
use std::future::Future;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{
    Cluster, ClusterBuilder, ClusterEvent, Entity, EntityContext, EntityRef, Kind, Region, Security,
    security::{DevCa, Mtls, Psk},
};
use quorate_driver::{Config, Event, Status, events::MembershipEvent, membership::MembershipChange};

const HELP: &str = "\
Renews links, certificates and keys under load, and checks that nothing is lost.

Usage: rotation [--seconds N] [--transport tokio-tls|smol-tls|quinn|tokio-psk] [--max-link-age SECONDS]

Defaults: 60 seconds, tokio-tls, links of 2 seconds. Exit code 0 if everything held.
";

/// Nodes of the cluster.
const NODES: usize = 3;
/// Handshakes per link and minute that two seconds have to give.
const HANDSHAKES_PER_MINUTE: u64 = 25;
/// How many times the time that was asked for the work may go on, until there were as many.
const LONGER_MAX: u32 = 5;
/// Entities that are told and asked: on every node some.
const ENTITIES: u32 = 48;
/// Shards of their kind.
const SHARDS: u32 = 12;
/// Between two changes of a node's certificate or key.
const CHANGE_EVERY: Duration = Duration::from_millis(1_500);
/// The name in every certificate.
const NAME: &str = "rotation.cluster.internal";

type Failed = Box<dyn Error>;
type Counters = Region<Option<u32>, (u32, u32)>;

/// Counts what it is told, in the order in which it is told.
struct Counter {
    next: u32,
    disorder: u32,
}

impl Entity for Counter {
    type Message = Option<u32>;
    type Reply = (u32, u32);

    async fn handle(&mut self, _: &EntityContext, number: Option<u32>) -> (u32, u32) {
        if let Some(number) = number {
            self.disorder += u32::from(number != self.next);
            self.next = number + 1;
        }
        (self.next, self.disorder)
    }
}

/// Where the nodes' secrets come from, and how they change.
enum Secrets {
    /// An authority; every change is a fresh certificate and key.
    Certificates(Box<DevCa>, Vec<Mtls>),
    /// Keys that every node has; every change is one step of one node.
    Keys(Vec<Psk>),
}

impl Secrets {
    fn new(transport: &str) -> Result<Self, Failed> {
        if transport == "tokio-psk" {
            let psk = || Psk::with_keys(key_steps(0)).map_err(Failed::from);
            return Ok(Self::Keys((0..NODES).map(|_| psk()).collect::<Result<_, _>>()?));
        }
        let authority = DevCa::new(NAME)?;
        let nodes = (0..NODES).map(|_| authority.mtls()).collect::<Result<_, _>>()?;
        Ok(Self::Certificates(Box::new(authority), nodes))
    }

    fn security(&self, node: usize) -> Security {
        match self {
            Self::Certificates(_, nodes) => Security::mtls(nodes[node].clone()),
            Self::Keys(nodes) => Security::psk(nodes[node].clone()),
        }
    }

    /// The next change: one node at a time, so that neighbours are always one step apart.
    fn change(&self, number: usize) -> Result<(), Failed> {
        match self {
            Self::Certificates(authority, nodes) => nodes[number % NODES].replace(authority.issue()?)?,
            Self::Keys(nodes) => nodes[number % NODES].replace(key_steps(number / NODES + 1))?,
        }
        Ok(())
    }
}

/// The keys of a node after so many steps: old; old and new; new and old; new, which is the next old.
fn key_steps(step: usize) -> Vec<String> {
    let key = |number: usize| format!("a key of this demonstration, number {number:08}");
    let (old, new) = (key(step / 3), key(step / 3 + 1));
    match step % 3 {
        0 => vec![old],
        1 => vec![old, new],
        _ => vec![new, old],
    }
}

struct Options {
    length: Duration,
    transport: String,
    max_link_age: Duration,
}

fn options() -> Result<Option<Options>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut options = Options {
        length: Duration::from_secs(60),
        transport: "tokio-tls".to_owned(),
        max_link_age: Duration::from_secs(2),
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("seconds") => options.length = Duration::from_secs(parser.value()?.parse()?),
            Long("max-link-age") => options.max_link_age = Duration::from_secs_f64(parser.value()?.parse()?),
            Long("transport") => options.transport = parser.value()?.string()?,
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    Ok(Some(options))
}

fn main() -> ExitCode {
    quorate_demo::log::at_least("error");
    let options = match options() {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => return usage(&error),
    };
    let result = match options.transport.as_str() {
        "tokio-tls" | "tokio-psk" => on_tokio(run::<quorate_tokio::Tokio>(&options)),
        "quinn" => on_tokio(run::<quorate_quinn::Quinn>(&options)),
        "smol-tls" => smol::block_on(run::<quorate_smol::Smol>(&options)),
        other => return usage(&format!("no transport `{other}`; try --help")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rotation: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("rotation: {error}");
    ExitCode::from(2)
}

fn on_tokio(run: impl Future<Output = Result<(), Failed>>) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(run)
}

async fn start<A: Adapter>(options: &Options, secrets: &Secrets) -> Result<Vec<Cluster>, Failed> {
    let mut nodes: Vec<Cluster> = Vec::new();
    let max_link_age = options.max_link_age;
    for index in 0..NODES {
        let node = ClusterBuilder::on::<A>("rotation")
            .bind("127.0.0.1:0")
            .security(secrets.security(index))
            .fast_profile()
            .link_limits(move |limits| limits.max_link_age = max_link_age)
            .config(|config: &mut Config| {
                // Three nodes share one machine with whatever else runs there: not what is measured here.
                config.failure_detector.acceptable_heartbeat_pause = Duration::from_secs(3);
            })
            .start()
            .await?;
        let seed = nodes.first().unwrap_or(&node).address().address().clone();
        node.join([seed]).await?;
        node.up().await?;
        nodes.push(node);
    }
    Ok(nodes)
}

async fn run<A: Adapter>(options: &Options) -> Result<(), Failed> {
    let secrets = Secrets::new(&options.transport)?;
    let nodes = start::<A>(options, &secrets).await?;
    let mut events = nodes[0].events();
    let mut region = None;
    for node in &nodes {
        let counters = node
            .entities(Kind::new("counter").shards(SHARDS))
            .start(|_| Counter { next: 0, disorder: 0 });
        region.get_or_insert(counters.await?);
    }
    let region = region.ok_or("no region")?;
    let mut told = vec![0_u32; ENTITIES as usize];
    settle::<A>(&nodes, &region).await?;
    let (begun, mut changes) = (Instant::now(), 0);
    let mut loaded = Ok(());
    // A machine that has other things to do takes longer for as many handshakes.
    while loaded.is_ok()
        && (begun.elapsed() < options.length
            || begun.elapsed() < LONGER_MAX * options.length && handshakes(&nodes).await? < aim(options))
    {
        if begun.elapsed() > CHANGE_EVERY * u32::try_from(changes + 1)? {
            secrets.change(changes)?;
            changes += 1;
        }
        loaded = load(&region, &mut told).await;
        let runtime = A::runtime()?;
        runtime
            .sleep_until(runtime.now().mono + Duration::from_millis(5))
            .await;
    }
    if let Err(error) = loaded {
        for node in &nodes {
            let stats = node.stats().await?;
            eprintln!("{}: {:?} {:?}", node.address(), stats.links, stats.core);
        }
        return Err(format!("after {:?}: {error}", begun.elapsed()).into());
    }
    report(options, &nodes, changes, &told).await?;
    check(&region, &told).await?;
    drop(region);
    let mut suspected = 0;
    for node in &nodes {
        let members = node.members();
        if members.len() != NODES || members.iter().any(|member| member.status != Status::Up) {
            return Err(format!("{}: {members:?}", node.address()).into());
        }
    }
    nodes[0].stop().await;
    while let Some(event) = events.next().await {
        let unreachable = matches!(
            event,
            ClusterEvent::Event(Event::Membership(MembershipEvent::Changed {
                change: MembershipChange::Unreachable(_),
                ..
            }))
        );
        suspected += u32::from(unreachable);
    }
    if suspected > 0 {
        return Err(format!("{suspected} times a member was unreachable").into());
    }
    println!("No member was suspected, no message lost.");
    Ok(())
}

fn counter(region: &Counters, number: u32) -> EntityRef<Option<u32>, (u32, u32)> {
    region.entity(format!("counter-{number}"))
}

/// Waits until the shards are spread: rebalancing ends entities, which is not what is looked at here.
async fn settle<A: Adapter>(nodes: &[Cluster], region: &Counters) -> Result<(), Failed> {
    let begun = Instant::now();
    loop {
        for number in 0..ENTITIES {
            let ask = counter(region, number).ask(None);
            ask.timeout(Duration::from_secs(10)).await?;
        }
        let mut hosted = Vec::new();
        for node in nodes {
            hosted.extend(
                node.sharding_state()
                    .await?
                    .iter()
                    .map(|kind| kind.region.hosted.len()),
            );
        }
        // Any other spread is evened out later, under the load.
        if hosted.iter().all(|count| *count == SHARDS as usize / NODES) {
            return Ok(());
        }
        if begun.elapsed() > Duration::from_secs(60) {
            return Err(format!("the shards are not spread: {hosted:?}").into());
        }
        let runtime = A::runtime()?;
        runtime
            .sleep_until(runtime.now().mono + Duration::from_millis(200))
            .await;
    }
}

/// Tells every entity something, and asks each whether all has come.
async fn load(region: &Counters, told: &mut [u32]) -> Result<(), Failed> {
    for (number, told) in (0..).zip(told.iter_mut()) {
        for _ in 0..4 {
            counter(region, number).tell(&Some(*told)).await?;
            *told += 1;
        }
    }
    check(region, told).await
}

async fn check(region: &Counters, told: &[u32]) -> Result<(), Failed> {
    for (number, told) in (0..).zip(told) {
        let ask = counter(region, number).ask(None).timeout(Duration::from_secs(10));
        let (next, disorder) = ask.await.map_err(|error| format!("counter {number}: {error}"))?;
        if (next, disorder) != (*told, 0) {
            return Err(
                format!("counter {number} was told {told}, has {next}, out of order {disorder}").into(),
            );
        }
    }
    Ok(())
}

/// Handshakes that every link has to have in the time that was asked for.
fn aim(options: &Options) -> u64 {
    let ages = options.length.as_secs_f64() / options.max_link_age.as_secs_f64();
    // Two seconds are the default age.
    let aim = ages * 2.0 * HANDSHAKES_PER_MINUTE as f64 / 60.0;
    aim.ceil() as u64
}

/// What the link has that was renewed least.
async fn handshakes(nodes: &[Cluster]) -> Result<u64, Failed> {
    let mut least = u64::MAX;
    for node in nodes {
        let links = node.links().await?;
        least = links.iter().map(|link| link.handshakes).fold(least, u64::min);
    }
    Ok(least)
}

async fn report(options: &Options, nodes: &[Cluster], changes: usize, told: &[u32]) -> Result<(), Failed> {
    let messages: u32 = told.iter().sum();
    println!(
        "{:.0} s over {}, links of at most {:?}: {messages} told, {changes} changes of a certificate or key",
        options.length.as_secs_f64(),
        options.transport,
        options.max_link_age
    );
    for node in nodes {
        for link in node.links().await? {
            println!(
                "  {} -> {} {:?}: {} handshakes",
                node.address().address(),
                link.peer,
                link.kind,
                link.handshakes
            );
        }
        let stats = node.stats().await?.links;
        let not_renewed = stats.renewals_failed + stats.renewals_cut_short + stats.links_expired;
        if not_renewed + stats.dropped_unreachable + stats.dropped_queue_full > 0 {
            return Err(format!("{}: {stats:?}", node.address()).into());
        }
    }
    let (least, aim) = (handshakes(nodes).await?, aim(options));
    if least < aim {
        return Err(format!("a link has {least} handshakes; {aim} are wanted").into());
    }
    Ok(())
}
