//! One node process: hosts counters, asks all of them all the time, and prints what it is told, one line each. Judges
//! nothing. It ends when its node does, or when the program that started it is gone.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorate_core::membership::member::{Member, Status};
use quorate_examples::process;
use quorate_tokio::core::{DowningEvent, Event, MembershipEvent, View};
use quorate_tokio::{Cluster, ClusterEvent, Entity, EntityContext, Kind, Region, Security};
use serde::{Deserialize, Serialize};

use crate::options::NodeOptions;

/// Counters that are asked.
pub(crate) const ENTITIES: u32 = 12;
/// Time between two questions of a node to the same counter.
const PACE: Duration = Duration::from_millis(250);
/// How long a question may wait for its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A question: its number at the node that asks.
#[derive(Serialize, Deserialize)]
struct Question(u64);

/// A counter's answer.
#[derive(Serialize, Deserialize)]
struct Told {
    /// The question's number.
    question: u64,
    /// Who answers.
    entity: String,
    /// Which instance of it: the node, and a number that the process never gives twice.
    instance: String,
    /// When it was handled: microseconds of the machine's clock, the same for all processes.
    at: u64,
    /// How many questions this instance has answered.
    count: u64,
}

struct Counter {
    instance: String,
    count: u64,
}

impl Entity for Counter {
    type Message = Question;
    type Reply = Told;

    async fn handle(&mut self, context: &EntityContext, Question(question): Question) -> Told {
        self.count += 1;
        Told {
            question,
            entity: context.id_text().into_owned(),
            instance: self.instance.clone(),
            at: micros(),
            count: self.count,
        }
    }
}

/// Microseconds of the machine's clock.
pub(crate) fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn run(options: NodeOptions) -> Result<bool, String> {
    if options.logs {
        quorate_examples::log::at_least("warn");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let result = runtime.block_on(host(options));
    result.map_err(|error| error.to_string())
}

async fn host(options: NodeOptions) -> Result<bool, Box<dyn std::error::Error>> {
    process::end_with_parent()?;
    let mut builder = Cluster::builder("chaos").bind(options.bind);
    if options.fast {
        builder = builder.fast_profile();
    }
    let cluster = builder.security(Security::insecure_plaintext()).start().await?;
    let watching = tokio::spawn(watch(cluster.clone()));
    let me = cluster.address().to_string();
    let made = AtomicU64::new(0);
    let make = move |_: EntityContext| Counter {
        instance: format!("{me}/{}", made.fetch_add(1, Ordering::Relaxed)),
        count: 0,
    };
    let region = cluster.register(Kind::new("counter").shards(30), make).await?;
    cluster.join(&options.seeds).await?;
    let asking = tokio::spawn(ask(region));
    let termination = cluster.terminated().await;
    asking.abort();
    let _ = watching.await;
    print(&format!("ended {termination:?}"));
    Ok(true)
}

/// Prints what happens to members, and how many there are.
async fn watch(cluster: Cluster) {
    let mut events = cluster.events();
    while let Some(event) = events.next().await {
        match event {
            ClusterEvent::Event(Event::Membership(MembershipEvent::Changed { change, view })) => {
                print(&format!("event {change:?}"));
                members(&view);
            }
            ClusterEvent::Event(Event::Downing(DowningEvent::Decision(decision))) => {
                print(&format!("event {decision:?}"))
            }
            ClusterEvent::Snapshot(view) | ClusterEvent::Resync(view) => members(&view),
            ClusterEvent::Event(_) | ClusterEvent::Terminated(_) => {}
            // What a later version tells.
            _ => {}
        }
    }
}

fn members(view: &View) {
    let is_up = |member: &&Member| member.status == Status::Up;
    let up = view.members().iter().filter(is_up).count();
    print(&format!(
        "members {up} {} {}",
        view.members().len(),
        view.unreachable().len()
    ));
}

/// Asks every counter again and again, whether or not it has answered.
async fn ask(region: Region<Question, Told>) {
    let region = Arc::new(region);
    let mut pace = tokio::time::interval(PACE);
    // After a pause of the process the questions of that time are not made up for.
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for round in 0.. {
        pace.tick().await;
        for number in 0..ENTITIES {
            let entity = region.entity(format!("counter-{number}"));
            let question = round * u64::from(ENTITIES) + u64::from(number);
            tokio::spawn(async move {
                let asked = micros();
                let answer = entity.ask(&Question(question)).timeout(PATIENCE).await;
                match answer {
                    Ok(told) => {
                        let is_ours = told.question == question && told.entity == format!("counter-{number}");
                        let verdict = if is_ours { "answer" } else { "mistaken" };
                        let (at, now) = (told.at, micros());
                        print(&format!(
                            "{verdict} {number} {asked} {at} {now} {} {}",
                            told.count, told.instance
                        ));
                    }
                    Err(error) => print(&format!("unanswered {number} {asked} {error}")),
                }
            });
        }
    }
}

fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody may be listening any more; the node goes on.
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
