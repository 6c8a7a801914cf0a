//! One node process: hosts counters and alarms, and has clients that change counters all the time.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_channel::Receiver;
use quorate_demo::hosts::Host;
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{
    Config,
    sharding::{LimitSettings, PassivationSettings, Replacement},
};
use quorate_driver::{Kind, Region, Security, StartError};

use super::COUNTERS;
use super::alarm;
use super::entity::{Client, Command, Counter, Told};
use crate::node::{Clients, Hosted, RETRY, SHARDS, TIMEOUT, Up, in_parts, pause, serve, start};
use crate::program::{NODES, NodeOptions, node_process, say};
use crate::stores::{State, VOTERS, with_store};

/// Tasks of one node that send commands.
const CLIENTS: u8 = 4;
/// Counters that are read at a time.
const READERS: u64 = 16;
/// Between two commands of one client.
const PAUSE: Duration = Duration::from_millis(10);
/// Counters that a node keeps in memory, and for how long without a command: fewer and shorter than it takes
/// until each is wanted again.
const IN_MEMORY: usize = 24;
const IDLE: Duration = Duration::from_millis(500);
/// Where counters are kept with `--state bucket`, and in how many ranges, each of which three nodes own.
const BUCKET: &str = "counters";
pub(super) const RANGES: u16 = 32;
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
    let kind = kind.store_mode(state.homes());
    Ok(match state {
        State::Bucket => kind.backed_by_bucket(BUCKET),
        State::Events | State::Data => kind,
    })
}

async fn node<H: Host>(
    options: NodeOptions,
    security: Security,
    orders: Receiver<String>,
) -> Result<(), StartError> {
    let state = options.state;
    let up = start::<H>(&options, security, |builder| {
        let builder = builder.config(move |config: &mut Config| {
            alarm::remembering(config, state);
            // Nobody is Up alone and takes its own file for that of a majority.
            config.membership.min_nr_of_members = NODES;
            config.journal.voters = VOTERS;
        });
        with_store(builder, &options, SCHEMA)
    });
    let up = up.await?;
    if state == State::Bucket {
        up.cluster.kv::<()>(BUCKET).ranges(RANGES).memory().open().await?;
    }
    let node = Arc::new(Node {
        counters: up
            .cluster
            .entities(kind(state)?)
            .start_event_sourced(|_| Counter::default())
            .await?,
        alarms: alarm::host(&up.cluster, state).await?,
        first_number: options.life.saturating_mul(1_000_000),
        clients: Clients::default(),
    });
    let first = u8::try_from(options.index).unwrap_or(0) * CLIENTS;
    for client in first..first + CLIENTS {
        let (node, clock) = (Arc::clone(&node), up.runtime.clone());
        up.runtime.spawn(async move { node.ask(client, &clock).await });
    }
    serve(&node, &up, &orders).await;
    Ok(())
}

struct Node {
    counters: Region<Command, Told>,
    alarms: Region<(), String>,
    /// Numbers of this process's clients are above those of every earlier one.
    first_number: u64,
    clients: Clients,
}

impl Node {
    /// One client: a command, a pause, for ever. It has one command open at a time, so the newest number says
    /// which have counted.
    async fn ask(&self, client: Client, runtime: &impl Runtime) {
        for number in self.first_number + 1.. {
            let _turn = self.clients.next(runtime, PAUSE).await;
            let (counter, by) = choose(client, number);
            say(format_args!("sent {counter} {by}"));
            let command = Command::Change { by, client, number };
            let told = self.until_answered(counter, command, runtime).await;
            let Told { recovered, node, .. } = told;
            say(format_args!("done {counter} {recovered} {node}"));
            self.clients.has_acknowledged();
        }
    }

    /// Sends a command until it is answered.
    async fn until_answered(&self, counter: u64, command: Command, runtime: &impl Runtime) -> Told {
        let counter = self.counters.entity(format!("counter-{counter}"));
        let ask = || async { counter.ask(command).timeout(TIMEOUT).await };
        self.clients.until_answered(runtime, ask).await
    }

    /// `alarm name home` for each, then `alarms`: it runs from then on, if it did not before.
    async fn ask_alarms(&self, runtime: &impl Runtime) {
        for id in alarm::ids() {
            let alarm = self.alarms.entity(&id);
            loop {
                if let Ok(home) = alarm.ask(()).timeout(TIMEOUT).await {
                    say(format_args!("alarm {id} {home}"));
                    break;
                }
                pause(runtime, RETRY).await;
            }
        }
        say(format_args!("alarms"));
    }

    /// `running alarms`: how many run, without a message to any; nothing if somebody does not say.
    async fn count_alarms(&self) {
        let survey = self.alarms.stats().timeout(TIMEOUT).await.unwrap_or_default();
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
        for counter in (first..COUNTERS).step_by(READERS as usize) {
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

impl Hosted for Node {
    fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Acknowledged, repeated, counters here, passivated, recovered, fenced, ranges of which it is an owner.
    async fn shown<A: Adapter>(&self, up: &Up<A>) -> Option<String> {
        let stats = up.cluster.stats().await.ok()?;
        let ((acknowledged, repeated), host) = (self.clients.counts(), stats.host);
        let owned = stats.core.kv.ranges_taken - stats.core.kv.ranges_given;
        Some(format!(
            "{acknowledged} {repeated} {} {} {} {} {owned}",
            host.entities,
            stats.core.sharding.entities_passivated,
            host.entities_recovered,
            host.entities_fenced
        ))
    }

    async fn obey<A: Adapter>(self: &Arc<Self>, up: &Up<A>, order: &str, _: &str) -> bool {
        match order {
            "read" => in_parts(&up.runtime, READERS, "read", |first| {
                let (node, clock) = (Arc::clone(self), up.runtime.clone());
                async move { node.read_some(first, &clock).await }
            }),
            "alarms" => self.ask_alarms(&up.runtime).await,
            "running" => self.count_alarms().await,
            _ => return false,
        }
        true
    }
}

/// Which counter, and by how much: up twice as often as down.
fn choose(client: Client, number: u64) -> (u64, i64) {
    let mixed = (number << 8 | u64::from(client)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let by = if (mixed >> 20).is_multiple_of(3) { -1 } else { 1 };
    ((mixed >> 32) % COUNTERS, by)
}
