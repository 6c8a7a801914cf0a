//! One node process: hosts three kinds, a singleton and data, and is a client of all of them. One of the
//! processes lies beside that when it is told to. Every line it writes is one fact; `fleet` says what they
//! mean.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_channel::Receiver;
use futures_lite::future;
use quorate_core::sharding::fields::{KindFields, KindKeeping};
use quorate_driver::data::{Data, Read, Write};
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{
    Cluster, ClusterBuilder, ClusterError, Entity, EntityContext, Kind, Region, Security, Singleton,
    StartError,
};
use quorate_driver::{
    Config, Status,
    sharding::{RememberStore, ShardExtractor, StoreMode},
};

use super::lies;
use super::tongue::Lying;
use crate::program::{NodeOptions, READY, node_process, one_line, say};
use crate::stores::with_store;
use quorate_demo::hosts::Host;

/// Which process lies.
pub(super) const LIAR: usize = 3;
/// The singleton.
pub(super) const SINGLETON: &str = "clerk";
/// Entities of each kind that clients ask.
pub(super) const ENTITIES: u64 = 30;
/// Shards of each kind.
pub(super) const SHARDS: u32 = 16;
/// Most bytes of replicated data.
const DATA_BYTES_MAX: usize = 16 << 20;
/// Between two things that a client does.
const PAUSE: Duration = Duration::from_millis(40);
/// How long a client waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long it waits where some do not answer.
const SHORT: Duration = Duration::from_millis(300);
/// Watches that a client keeps.
const WATCHES: usize = 8;
/// Between two lines about itself.
const SHOW_EVERY: Duration = Duration::from_millis(250);
/// Processes share the machine: nobody is removed for a moment's silence.
const PAUSE_ACCEPTED: Duration = Duration::from_secs(5);

/// The kinds: name, where homes are kept, where it is kept who is remembered.
const KINDS: [(&str, StoreMode, Option<RememberStore>); 3] = [
    ("Plain", StoreMode::Memory, None),
    ("Kept", StoreMode::DistributedData, Some(RememberStore::Data)),
    ("Logged", StoreMode::Events, Some(RememberStore::Events)),
];

/// The name of an entity.
pub(super) fn entity(number: u64) -> String {
    format!("entity-{number}")
}

/// The kinds as members compare them.
pub(super) fn fields() -> Vec<KindFields> {
    let fields = |(name, store, remember_entities): (&str, StoreMode, Option<RememberStore>)| KindFields {
        name: name.into(),
        role: None,
        shards: SHARDS,
        extractor: ShardExtractor::default().name().into(),
        keeping: Some(KindKeeping {
            store,
            remember_entities,
            lease: false,
        }),
    };
    KINDS.map(fields).into()
}

/// Counts the bytes that it is told.
struct Sum(u64);

impl Entity for Sum {
    type Message = Vec<u8>;
    type Reply = u64;

    async fn handle(&mut self, _: &EntityContext, message: Vec<u8>) -> u64 {
        self.0 += message.len() as u64;
        self.0
    }
}

/// Runs until the parent ends, or the node does.
pub(super) fn run<H: Host>(options: NodeOptions) -> ExitCode {
    if options.index == LIAR {
        return node_process::<H, _, _>(|security, orders| {
            node::<Lying<H::Adapter>>(options, security, orders)
        });
    }
    node_process::<H, _, _>(|security, orders| node::<H::Adapter>(options, security, orders))
}

async fn node<A: Adapter>(
    options: NodeOptions,
    security: Security,
    orders: Receiver<String>,
) -> Result<(), StartError> {
    let environment = |what| move |error| StartError::Environment { what, error };
    let builder = ClusterBuilder::on::<A>(&options.cluster)
        .bind(&options.bind)
        .security(security)
        .config(|config: &mut Config| {
            config.failure_detector.acceptable_heartbeat_pause = PAUSE_ACCEPTED;
            config.ddata.bytes_max = DATA_BYTES_MAX;
        });
    let builder = with_store(builder, &options, "").map_err(environment("store"))?;
    let cluster = builder.start().await?;
    let mut regions = Vec::new();
    for (name, store, remember) in KINDS {
        let kind = Kind::new(name).shards(SHARDS).store_mode(store);
        let kind = match remember {
            Some(store) => kind.remember_entities(store),
            None => kind,
        };
        regions.push(cluster.entities(kind).start(|_| Sum(0)).await?);
    }
    match &options.seed {
        Some(seed) => cluster.join([seed]).await?,
        None => cluster.form().await?,
    }
    cluster.up().await.map_err(|_| ClusterError::Stopped)?;
    let clerk = cluster.singleton(SINGLETON).start(|_| Sum(0)).await?;
    say(format_args!("{READY}{}", cluster.address().address()));
    let clock = A::runtime().map_err(environment("runtime"))?;
    let client = Arc::new(Client {
        regions,
        clerk,
        data: cluster.data(),
        answered: AtomicU64::new(0),
        failed: AtomicU64::new(0),
    });
    let (works, time) = (Arc::clone(&client), clock.clone());
    clock.spawn(async move { works.work(&time).await });
    let ended = async {
        cluster.terminated().await;
    };
    let obeyed = client.obey(&cluster, &clock, &orders);
    future::or(ended, future::or(show(&cluster, &client, &clock), obeyed)).await;
    Ok(())
}

/// `show up members answered failed frames dropped`: how many members are Up, how many there are, what
/// clients were answered, and what its links have read, and dropped or closed because it was too much or not
/// legal.
async fn show(cluster: &Cluster, client: &Client, clock: &impl Runtime) {
    loop {
        pause(clock, SHOW_EVERY).await;
        let view = cluster.view();
        let Ok(stats) = cluster.stats().await else {
            continue;
        };
        let links = stats.links;
        say(format_args!(
            "show {} {} {} {} {} {}",
            view.members_in(Status::Up).count(),
            view.members().len(),
            client.answered.load(Ordering::Relaxed),
            client.failed.load(Ordering::Relaxed),
            links.frames_received,
            links.gossip_frames_beyond_rate
                + links.control_frames_beyond_rate
                + links.links_closed_for_violation
                + links.links_closed_for_rate
                + links.frames_skipped,
        ));
    }
}

/// Who uses what the nodes host.
struct Client {
    regions: Vec<Region<Vec<u8>, u64>>,
    clerk: Singleton<Vec<u8>, u64>,
    data: Data,
    answered: AtomicU64,
    failed: AtomicU64,
}

impl Client {
    fn count<T, E>(&self, result: &Result<T, E>) {
        let counter = if result.is_ok() {
            &self.answered
        } else {
            &self.failed
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// One thing after the other, for ever: so that everything that members say to each other is said.
    async fn work(&self, clock: &impl Runtime) {
        let mut watches = VecDeque::new();
        for turn in 0_u64.. {
            pause(clock, PAUSE).await;
            let at = usize::try_from(turn).unwrap_or(0) % self.regions.len();
            let Some(region) = self.regions.get(at) else {
                return;
            };
            let asked = region.entity(entity(turn % ENTITIES));
            self.count(&asked.ask(vec![7; 100]).timeout(TIMEOUT).await);
            match turn % 8 {
                0 => self.count(&self.clerk.ask(vec![7; 100]).timeout(TIMEOUT).await),
                2 => self.count(&self.data.counter("asked").increment(1, Write::Majority).await),
                4 => {
                    watches.push_back(asked.watch());
                    if watches.len() > WATCHES {
                        watches.pop_front();
                    }
                }
                6 => self.count(&region.stats().timeout(TIMEOUT).await),
                _ => {}
            }
        }
    }

    /// What of all entities is answered when this node asks each once.
    async fn try_all(&self) -> usize {
        let mut answered = 0;
        for region in &self.regions {
            for number in 0..ENTITIES {
                let asked = region.entity(entity(number)).ask(vec![7; 100]).timeout(SHORT);
                answered += usize::from(asked.await.is_ok());
            }
        }
        answered
    }

    /// Whether everything is answered that this node asks; if not, what is not.
    async fn is_answered(&self) -> Result<(), String> {
        for (region, (kind, _, _)) in self.regions.iter().zip(KINDS) {
            for number in 0..ENTITIES {
                let entity = region.entity(entity(number));
                if let Err(error) = entity.ask(vec![7; 100]).timeout(TIMEOUT).await {
                    let place = entity.explain().timeout(TIMEOUT).await;
                    return Err(format!("{kind}/{number}: {}; {place:?}", one_line(&error)));
                }
            }
        }
        let asked = self.clerk.ask(vec![7; 100]).timeout(TIMEOUT);
        asked
            .await
            .map_err(|error| format!("{SINGLETON}: {}", one_line(&error)))?;
        let counter = self.data.counter("asked");
        let written = counter.increment(1, Write::Majority).await;
        written.map_err(|error| format!("write: {}", one_line(&error)))?;
        let read = counter.read(Read::Majority).await;
        read.map(drop)
            .map_err(|error| format!("read: {}", one_line(&error)))
    }

    /// Does what the parent says.
    async fn obey(&self, cluster: &Cluster, clock: &impl Runtime, orders: &Receiver<String>) {
        while let Ok(order) = orders.recv().await {
            let mut words = order.split(' ');
            match words.next() {
                Some("ask") => {
                    let mut said = String::new();
                    while let Err(why) = self.is_answered().await {
                        if why != said {
                            say(format_args!("note {why}"));
                            said = why;
                        }
                        pause(clock, PAUSE).await;
                    }
                    say(format_args!("answered"));
                }
                Some("try") => {
                    let answered = self.try_all().await;
                    say(format_args!(
                        "note {answered} of {} entities answer",
                        ENTITIES * KINDS.len() as u64
                    ));
                    if answered > 0 {
                        say(format_args!("tried"));
                    }
                }
                Some("down") => {
                    let downed = cluster.down(words.next().unwrap_or_default()).await;
                    if let Err(error) = downed {
                        say(format_args!("note {}", one_line(&error)));
                    }
                }
                Some("lie") => {
                    let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
                    let (messages, seconds) = (number(), number());
                    lies::tell(cluster, messages, Duration::from_secs(seconds), clock).await;
                }
                Some(_) | None => say(format_args!("note unknown order {order}")),
            }
        }
    }
}

async fn pause(clock: &impl Runtime, time: Duration) {
    clock.sleep_until(clock.mono() + time).await;
}
