//! One node process: hosts what there is to ask, asks all of it all the time, and prints what it is told, one
//! line each. Judges nothing. It ends when its node does, leaves when it is told to end (SIGTERM), and is
//! gone with the program that started it.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorate_core::membership::member::{Member, Status};
use quorate_demo::process;
use quorate_store_redb::Redb;
use quorate_tokio::{
    AskError, Cluster, ClusterEvent, Entity, EntityContext, Kind, Region, Security, Singleton,
};
use quorate_tokio::{
    Event, Token, View,
    events::{DowningEvent, MembershipEvent},
};
use serde::{Deserialize, Serialize};

use crate::book::{Book, Booked};
use crate::options::NodeOptions;
use crate::work::Work;

/// The singleton's name.
pub(crate) const SINGLETON: &str = "counter";
/// How long a question may wait for its answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A question.
#[derive(Serialize, Deserialize)]
pub(crate) struct Question {
    /// Where who asks listens.
    asker: String,
    /// No process at this address ever gives it twice.
    pub(crate) number: u64,
}

impl Question {
    /// What no other question of a run is called.
    pub(crate) fn name(&self) -> String {
        name(&self.asker, self.number)
    }
}

/// What a question is called.
pub(crate) fn name(asker: &str, number: u64) -> String {
    format!("{asker}/{number}")
}

/// An answer. A singleton that is stale has none.
#[derive(Serialize, Deserialize)]
pub(crate) struct Told {
    /// The question's number.
    pub(crate) question: u64,
    /// Who answers.
    pub(crate) entity: String,
    /// Which instance of it: the node, a number that the process never gives twice, and behind `@` its token
    /// if it has one.
    pub(crate) instance: String,
    /// When it was handled: microseconds of the machine's clock, the same for all processes.
    pub(crate) at: u64,
    /// How many questions this instance has answered; where it is in the book, if there is one.
    pub(crate) count: u64,
}

struct Counter {
    entity: String,
    instance: String,
    count: u64,
}

impl Entity for Counter {
    type Message = Question;
    type Reply = Option<Told>;

    async fn handle(&mut self, _: &EntityContext, question: Question) -> Option<Told> {
        self.count += 1;
        Some(Told {
            question: question.number,
            entity: self.entity.clone(),
            instance: self.instance.clone(),
            at: micros(),
            count: self.count,
        })
    }
}

/// Microseconds of the machine's clock.
pub(crate) fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn run(options: NodeOptions) -> Result<bool, String> {
    if options.logs {
        quorate_demo::log::at_least("warn");
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
    let profile = options.profile;
    let mut builder = quorate_tokio::builder("chaos").bind(&options.bind);
    builder = builder.config(move |config| *config = profile.config(config.cluster.clone()));
    if let Some(path) = &options.store {
        builder = builder.store(Redb::open(path)?);
    }
    let cluster = builder.security(Security::insecure_plaintext()).start().await?;
    let watching = tokio::spawn(watch(cluster.clone()));
    let target = target(&cluster, &options).await?;
    cluster.join(&options.seeds).await?;
    let (member, work) = (cluster.clone(), options.work);
    let asking = tokio::spawn(async move {
        // Who is no member yet would only time out.
        if member.up().await.is_ok() {
            ask(target, work, options.bind).await;
        }
    });
    let leaver = cluster.clone();
    let leaving = tokio::spawn(async move {
        // If the system cannot say so, the process is killed.
        if quorate_tokio::shutdown::shutdown_signal().await.is_ok() {
            let _ = leaver.leave().await;
        }
    });
    let termination = cluster.terminated().await;
    asking.abort();
    leaving.abort();
    let _ = watching.await;
    print(&format!("ended {termination:?}"));
    Ok(true)
}

/// What is asked.
#[derive(Clone)]
enum Target {
    Counters(Region<Question, Option<Told>>),
    Only(Singleton<Question, Option<Told>>),
}

impl Target {
    async fn ask(&self, number: u32, question: &Question) -> Result<Option<Told>, AskError> {
        match self {
            Self::Counters(region) => {
                let entity = region.entity(counter(number));
                entity.ask(question).timeout(PATIENCE).await
            }
            Self::Only(only) => only.ask(question).timeout(PATIENCE).await,
        }
    }

    /// Who is to answer.
    fn answerer(&self, number: u32) -> String {
        match self {
            Self::Counters(_) => counter(number),
            Self::Only(_) => SINGLETON.to_owned(),
        }
    }
}

fn counter(number: u32) -> String {
    format!("counter-{number}")
}

/// Hosts it.
async fn target(cluster: &Cluster, options: &NodeOptions) -> Result<Target, Box<dyn std::error::Error>> {
    let me = cluster.address().to_string();
    let made = AtomicU64::new(0);
    let instance = move || format!("{me}/{}", made.fetch_add(1, Ordering::Relaxed));
    let only = cluster.singleton(SINGLETON);
    Ok(match (options.work, &options.book) {
        (Work::Counters, _) => {
            let make = move |context: EntityContext| Counter {
                entity: context.id_text().into_owned(),
                instance: instance(),
                count: 0,
            };
            Target::Counters(
                cluster
                    .entities(Kind::new("counter").shards(30))
                    .start(make)
                    .await?,
            )
        }
        (Work::Singleton, _) => {
            let make = move |token: Token| Counter {
                entity: SINGLETON.to_owned(),
                instance: format!("{}@{token}", instance()),
                count: 0,
            };
            Target::Only(only.start(make).await?)
        }
        (Work::Book, None) => return Err("a book needs --book".into()),
        (Work::Book, Some(server)) => {
            let book = Arc::new(Book::new(server, &options.bind)?);
            let make =
                move |token: Token| Booked::new(token, format!("{}@{token}", instance()), Arc::clone(&book));
            Target::Only(only.start(make).await?)
        }
    })
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
            ClusterEvent::Shutdown(_) | _ => {}
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

/// Asks everything again and again, whether or not it has answered.
async fn ask(target: Target, work: Work, asker: String) {
    let mut pace = tokio::time::interval(work.pace());
    // After a pause of the process the questions of that time are not made up for.
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // Above whatever an earlier process has asked: none asks more often than once per microsecond.
    for round in micros()..u64::MAX {
        pace.tick().await;
        for number in 0..work.entities() {
            let question = Question {
                asker: asker.clone(),
                number: round,
            };
            tokio::spawn(ask_one(target.clone(), number, question));
        }
    }
}

async fn ask_one(target: Target, number: u32, question: Question) {
    let (asked, id) = (micros(), question.number);
    print(&format!("asked {number} {id} {asked}"));
    match target.ask(number, &question).await {
        Ok(Some(told)) => {
            let is_ours = told.question == id && told.entity == target.answerer(number);
            let verdict = if is_ours { "answer" } else { "mistaken" };
            let (at, now) = (told.at, micros());
            print(&format!(
                "{verdict} {number} {id} {asked} {at} {now} {} {}",
                told.count, told.instance
            ));
        }
        Ok(None) => print(&format!("unanswered {number} {id} the instance was stale")),
        Err(error) => print(&format!("unanswered {number} {id} {error}")),
    }
}

pub(crate) fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody may be listening any more; the node goes on.
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
