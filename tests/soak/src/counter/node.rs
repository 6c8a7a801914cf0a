//! One node process: hosts counters, has clients that change them all the time, tells its parent what they send and are told, and does
//! as it is told. Every line it writes is one fact; `fleet` says what they mean.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_channel::Receiver;
use futures_lite::future;
use quorate_driver::core::{Config, LimitSettings, PassivationSettings, Replacement};
use quorate_driver::{Cluster, ClusterError, Kind, Region, Runtime, Security, StartError};

use super::COUNTERS;
use super::alarm;
use super::entity::{Client, Command, Counter, Told};
use crate::gate::{self, Cuttable};
use crate::program::{NODES, NodeOptions, READY, node_process, say};
use crate::stores::{State, VOTERS, with_store};
use quorate_demo::hosts::Host;

/// Tasks of one node that send commands.
const CLIENTS: u8 = 4;
/// Counters that are read at a time.
const READERS: usize = 16;
/// Between two commands of one client.
const PAUSE: Duration = Duration::from_millis(10);
/// Before a command is sent again.
const RETRY: Duration = Duration::from_millis(50);
/// How long an ask waits. A command that was not answered is sent again under its number, and counts once.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Between two lines for the table.
const SHOW_EVERY: Duration = Duration::from_millis(250);
/// Counters that a node keeps in memory, and for how long without a command: fewer and shorter than it takes until each is wanted again.
const IN_MEMORY: usize = 24;
const IDLE: Duration = Duration::from_millis(500);
/// More than five nodes need, so that each has its share.
const SHARDS: u32 = 30;
/// Where the tables are.
pub(super) const SCHEMA: &str = "quorate_counter";

/// Runs until the parent ends, or the node does.
pub(super) fn run<H: Host>(options: NodeOptions) -> ExitCode {
    node_process::<H, _, _>(|security, orders| node::<H>(options, security, orders))
}

fn kind(state: State) -> Result<Kind<Command, Told>, StartError> {
    let environment = |error: String| StartError::Environment {
        what: "passivation",
        error: std::io::Error::other(error),
    };
    let most = NonZeroUsize::new(IN_MEMORY).ok_or_else(|| environment("no room".to_owned()))?;
    let limit = LimitSettings::plain(most, Replacement::LeastRecentlyUsed);
    let passivation = PassivationSettings::limit(limit).and_idle(IDLE);
    let passivation = passivation.map_err(|error| environment(error.to_string()))?;
    let kind = Kind::new("Counter").shards(SHARDS).passivation(passivation);
    Ok(kind.store_mode(state.homes()))
}

async fn node<H: Host>(
    options: NodeOptions,
    security: Security,
    orders: Receiver<String>,
) -> Result<(), StartError> {
    let environment = |what| move |error| StartError::Environment { what, error };
    let state = options.state;
    let builder = Cluster::<Cuttable<H::Adapter>>::builder(&options.cluster)
        .bind(&options.bind)
        .security(security)
        .fast_profile()
        .config(move |config: &mut Config| {
            alarm::remembering(config, state);
            // Nobody is Up alone and takes its own file for that of a majority.
            config.membership.min_nr_of_members = NODES;
            config.journal.voters = VOTERS;
        });
    let builder = with_store(builder, &options, SCHEMA).map_err(environment("store"))?;
    let cluster = builder.start().await?;
    say(format_args!("listens {}", cluster.address().address()));
    match &options.seed {
        Some(seed) => cluster.join([seed]).await?,
        None => cluster.join([cluster.address().address()]).await?,
    }
    cluster.up().await.map_err(|_| ClusterError::Stopped)?;
    let counters = cluster
        .register_event_sourced(kind(state)?, |_| Counter::default())
        .await?;
    let alarms = alarm::host(&cluster, state).await?;
    say(format_args!("{READY}{}", cluster.address().address()));
    let runtime = <H::Adapter as quorate_driver::Adapter>::runtime().map_err(environment("runtime"))?;
    let first = u8::try_from(options.index).unwrap_or(0) * CLIENTS;
    let node = Arc::new(Node {
        counters,
        alarms,
        first_number: options.life.saturating_mul(1_000_000),
        is_asking: AtomicBool::new(false),
        open: AtomicUsize::new(0),
        acknowledged: AtomicU64::new(0),
        repeated: AtomicU64::new(0),
    });
    for client in first..first + CLIENTS {
        let (node, clock) = (Arc::clone(&node), runtime.clone());
        runtime.spawn(async move { node.ask(client, &clock).await });
    }
    let ended = async {
        cluster.terminated().await;
    };
    let obeyed = async {
        obey(&node, &cluster, &runtime, &orders).await;
        let left = cluster.leave().await;
        say(format_args!("left {}", left.is_ok_and(|left| left.is_graceful())));
    };
    future::or(ended, obeyed).await;
    Ok(())
}

struct Node {
    counters: Region<Command, Told>,
    alarms: Region<(), String>,
    /// Numbers of this process's clients are above those of every earlier one.
    first_number: u64,
    is_asking: AtomicBool,
    /// Commands under way.
    open: AtomicUsize,
    acknowledged: AtomicU64,
    /// Asks that ended with an error, after which the command was sent again.
    repeated: AtomicU64,
}

impl Node {
    /// One client: a command, a pause, for ever. It has one command open at a time, so the newest number says which have counted.
    async fn ask(&self, client: Client, runtime: &impl Runtime) {
        let mut number = self.first_number;
        loop {
            runtime.sleep_until(runtime.now().mono + PAUSE).await;
            if !self.is_asking.load(Ordering::SeqCst) {
                continue;
            }
            number += 1;
            self.open.fetch_add(1, Ordering::SeqCst);
            let (counter, by) = choose(client, number);
            say(format_args!("sent {counter} {by}"));
            let command = Command::Change { by, client, number };
            let told = self.until_answered(counter, command, runtime).await;
            let Told { recovered, node, .. } = told;
            say(format_args!("done {counter} {recovered} {node}"));
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
            self.open.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Sends a command until it is answered.
    async fn until_answered(&self, counter: u64, command: Command, runtime: &impl Runtime) -> Told {
        let counter = self.counters.entity(format!("counter-{counter}"));
        loop {
            match counter.ask(&command).timeout(TIMEOUT).await {
                Ok(told) => return told,
                Err(_) => {
                    self.repeated.fetch_add(1, Ordering::SeqCst);
                    runtime.sleep_until(runtime.now().mono + RETRY).await;
                }
            }
        }
    }

    /// `alarm name home` for each, then `alarms`: it runs from then on, if it did not before.
    async fn ask_alarms(&self, runtime: &impl Runtime) {
        for id in alarm::ids() {
            let alarm = self.alarms.entity(&id);
            loop {
                if let Ok(home) = alarm.ask(&()).timeout(TIMEOUT).await {
                    say(format_args!("alarm {id} {home}"));
                    break;
                }
                runtime.sleep_until(runtime.now().mono + RETRY).await;
            }
        }
        say(format_args!("alarms"));
    }

    /// `running alarms`: how many run, without a message to any; nothing if somebody does not say.
    async fn count_alarms(&self) {
        let survey = self.alarms.stats(TIMEOUT).await.unwrap_or_default();
        let running: u64 = survey
            .regions
            .values()
            .flatten()
            .map(|region| region.entities_total)
            .sum();
        say(format_args!("running {running}"));
    }

    /// `value counter value changes recovered home` for every so many'th, from this one on.
    async fn read_some(&self, first: u64, runtime: &impl Runtime) {
        for counter in (first..COUNTERS).step_by(READERS) {
            let told = self.until_answered(counter, Command::Read, runtime).await;
            let Told {
                value,
                changes,
                recovered,
                node,
            } = told;
            say(format_args!(
                "value {counter} {value} {changes} {recovered} {node}"
            ));
        }
    }
}

/// Reads all counters, several at a time, and says `read` behind the last: beside what the node is at.
fn read_all(node: &Arc<Node>, runtime: &impl Runtime) {
    let left = Arc::new(AtomicUsize::new(READERS));
    for first in (0..COUNTERS).take(READERS) {
        let (node, clock, left) = (Arc::clone(node), runtime.clone(), Arc::clone(&left));
        runtime.spawn(async move {
            node.read_some(first, &clock).await;
            if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                say(format_args!("read"));
            }
        });
    }
}

/// Which counter, and by how much: up twice as often as down.
fn choose(client: Client, number: u64) -> (u64, i64) {
    let mixed = (number << 8 | u64::from(client)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let by = if (mixed >> 20).is_multiple_of(3) { -1 } else { 1 };
    ((mixed >> 32) % COUNTERS, by)
}

/// Does what the parent says, and shows how things stand, until this node is to leave.
async fn obey<A>(node: &Arc<Node>, cluster: &Cluster<A>, runtime: &impl Runtime, orders: &Receiver<String>) {
    loop {
        let due = async {
            runtime.sleep_until(runtime.now().mono + SHOW_EVERY).await;
            None
        };
        match future::or(async { orders.recv().await.ok() }, due)
            .await
            .as_deref()
        {
            None => show(node, cluster).await,
            Some("go") => node.is_asking.store(true, Ordering::SeqCst),
            Some("halt") => {
                node.is_asking.store(false, Ordering::SeqCst);
                while node.open.load(Ordering::SeqCst) > 0 {
                    runtime.sleep_until(runtime.now().mono + PAUSE).await;
                }
                show(node, cluster).await;
                say(format_args!("idle"));
            }
            Some("read") => read_all(node, runtime),
            Some("alarms") => node.ask_alarms(runtime).await,
            Some("running") => node.count_alarms().await,
            Some("cut") => gate::cut(),
            Some("leave") => return,
            Some(other) => say(format_args!("unknown order {other}")),
        }
    }
}

/// `show acknowledged repeated here passivated recovered fenced`.
async fn show<A>(node: &Node, cluster: &Cluster<A>) {
    let Ok(stats) = cluster.stats().await else {
        return;
    };
    say(format_args!(
        "show {} {} {} {} {} {}",
        node.acknowledged.load(Ordering::SeqCst),
        node.repeated.load(Ordering::SeqCst),
        stats.host.entities,
        stats.core.sharding.entities_passivated,
        stats.host.entities_recovered,
        stats.host.entities_fenced
    ));
}
