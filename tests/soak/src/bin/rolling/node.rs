//! One node process: hosts counters, asks all of them and sends them one-way messages in turn, says how long
//! each answer took and what was handled here, and leaves when the system asks it to end, after it has
//! stopped asking. Judges nothing.

use std::ffi::OsString;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_lite::future;
use lexopt::prelude::*;
use quorate_core::ident::Address;
use quorate_demo::hosts::Host;
use quorate_demo::{process, trust};
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{ClusterBuilder, Entity, EntityContext, Kind, Region, Security};

/// Counters that are asked.
const ENTITIES: u64 = 60;
/// Shards of their kind.
const SHARDS: u32 = 30;
/// The entity whose handler runs on.
const STUBBORN: &str = "stubborn";
/// How long it runs on: longer than a leaving node waits for its entities.
const RUNS_ON: Duration = Duration::from_secs(30);

pub(crate) type Failure = Box<dyn std::error::Error>;

#[derive(serde::Serialize, serde::Deserialize)]
enum Message {
    /// An ask: its number in the whole run.
    Ask(u64),
    /// A one-way message: who sends it, to which entity, and the how many-th of those it is.
    Tell { sender: u64, entity: u64, number: u64 },
    /// The handler is to run on.
    RunOn,
}

struct Counter(u64);

impl Entity for Counter {
    type Message = Message;
    type Reply = u64;

    async fn handle(&mut self, _: &EntityContext, message: Message) -> u64 {
        match message {
            Message::Ask(ask) => print(&format!("handled {ask}")),
            Message::Tell {
                sender,
                entity,
                number,
            } => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                print(&format!("told {sender} {entity} {number} {}", now.as_nanos()));
            }
            // What user code must not do, and what nobody can stop.
            Message::RunOn => std::thread::sleep(RUNS_ON),
        }
        self.0 += 1;
        self.0
    }
}

struct Options {
    bind: String,
    seeds: Vec<Address>,
    pace: Duration,
    /// Between two one-way messages; none are sent without.
    tells: Option<Duration>,
    /// How long an ask waits.
    timeout: Duration,
    /// Which of all processes of the run this is: its asks have numbers of their own.
    life: u64,
    stubborn: bool,
}

pub(crate) fn run<H: Host>(words: Vec<OsString>) -> Result<(), Failure> {
    let mut options = Options {
        bind: String::new(),
        seeds: Vec::new(),
        pace: Duration::from_millis(15),
        tells: None,
        timeout: Duration::from_secs(5),
        life: 0,
        stubborn: false,
    };
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("bind") => options.bind = parser.value()?.string()?,
            Long("seed") => options.seeds.push(parser.value()?.parse()?),
            Long("pace") => options.pace = Duration::from_micros(parser.value()?.parse()?),
            Long("tells") => options.tells = Some(Duration::from_micros(parser.value()?.parse()?)),
            Long("timeout") => options.timeout = Duration::from_secs(parser.value()?.parse()?),
            Long("life") => options.life = parser.value()?.parse()?,
            Long("stubborn") => options.stubborn = true,
            Long("logs") => quorate_demo::log::at_least("info"),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected().into()),
        }
    }
    let security = trust::introduced(&process::introduction()?)?;
    process::end_with_parent()?;
    H::block_on(host::<H>(options, security))?
}

async fn host<H: Host>(options: Options, security: Security) -> Result<(), Failure> {
    let builder = ClusterBuilder::on::<H::Adapter>("rolling").bind(options.bind);
    let cluster = builder.security(security).start().await?;
    let kind = Kind::new("counter").shards(SHARDS);
    let region = cluster.entities(kind).start(|_| Counter(0)).await?;
    cluster.join(&options.seeds).await?;
    cluster.up().await?;
    print(&format!("up {}", cluster.view().members().len()));
    let runtime = H::Adapter::runtime()?;
    // Every open ask has a sender; whoever waits for the channel to end waits for all of them.
    let (open, ended) = async_channel::bounded::<()>(1);
    let asking = async {
        let mut next = runtime.now().mono;
        for number in 0_u64.. {
            let (region, open, clock) = (region.clone(), open.clone(), runtime.clone());
            let ask = options.life << 32 | number;
            runtime.spawn(async move {
                ask_one(&region, ask, options.timeout, &clock).await;
                drop(open);
            });
            next = (next + options.pace).max(runtime.now().mono);
            runtime.sleep_until(next).await;
        }
    };
    let telling = async {
        let Some(pace) = options.tells else {
            return future::pending().await;
        };
        let mut next = runtime.now().mono;
        for number in 0_u64.. {
            tell_one(&region, options.life, number).await;
            next = (next + pace).max(runtime.now().mono);
            runtime.sleep_until(next).await;
        }
    };
    let signal = async {
        // If the system cannot say so, the parent's end ends this process.
        if quorate_driver::shutdown::shutdown_signal().await.is_err() {
            future::pending::<()>().await;
        }
    };
    future::or(signal, future::or(asking, telling)).await;
    if options.stubborn {
        // Nobody waits for the answer.
        region.entity(STUBBORN).tell(&Message::RunOn).await?;
    }
    // What was asked is waited for; a server that is told to end takes no new requests either.
    drop(open);
    let _ = ended.recv().await;
    cluster.leave().await?;
    print("left");
    Ok(())
}

/// One after the other: a sender's messages to one entity have an order only if it waits until each was
/// taken.
async fn tell_one(region: &Region<Message, u64>, sender: u64, message: u64) {
    let (entity, number) = (message % ENTITIES, message / ENTITIES);
    let told = Message::Tell {
        sender,
        entity,
        number,
    };
    let entity = region.entity(format!("counter-{entity}"));
    match entity.tell(&told).await {
        Ok(()) => print(&format!("sent {sender} {} {number}", message % ENTITIES)),
        Err(_) => print("refused"),
    }
}

async fn ask_one(region: &Region<Message, u64>, ask: u64, timeout: Duration, clock: &impl Runtime) {
    let entity = region.entity(format!("counter-{}", ask % ENTITIES));
    let begun = clock.now().mono;
    let answer = entity.ask(Message::Ask(ask)).timeout(timeout).await;
    let took = clock.now().mono.since(begun).as_micros();
    match answer {
        Ok(_) => print(&format!("asked {took} {ask}")),
        Err(error) => {
            let may = if error.may_have_been_handled() {
                "maybe"
            } else {
                "no"
            };
            print(&format!("asked {took} {ask} {may} {error}"));
        }
    }
}

fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody may be listening any more; the node goes on.
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
