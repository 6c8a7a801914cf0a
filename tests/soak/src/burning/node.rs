//! One node process: hosts slots of all paths and shards of the kind, says which begin here, asks a
//! little of all of them, and burns processors when it is told to.

use std::hint;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_channel::Receiver;
use quorate_demo::hosts::Host;
use quorate_driver::config::CapacitySelector;
use quorate_driver::events::ShardingEvent;
use quorate_driver::paths::FaultTolerance;
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{
    ClusterError, ClusterEvent, Config, Entity, EntityContext, Event, Events, Kind, Path, Region, Security,
    StartError,
};
use quorate_store_redb::Redb;

use super::PATHS;
use crate::node::{Clients, Hosted, PAUSE_ACCEPTED, RETRY, SHARDS, TIMEOUT, Up, pause, serve, start};
use crate::program::{NODES, NodeOptions, node_process, say};
use crate::stores::EndsIfFull;

/// Between two messages of one node.
const PAUSE: Duration = Duration::from_millis(25);
/// Enough that every shard has one.
const ENTITIES: u64 = 300;
/// One message of so many is for a path.
const ONE_FOR_PATHS: u64 = 5;

/// An instance of a path, or an entity.
struct IdleDesk {
    path: Option<usize>,
}

impl IdleDesk {
    fn say(&self, what: &str) {
        if let Some(path) = self.path {
            say(format_args!("{what} slot {path}"));
        }
    }
}

impl Entity for IdleDesk {
    type Message = u64;
    type Reply = u64;

    async fn on_start(&mut self, _: &EntityContext) {
        self.say("start");
    }

    async fn handle(&mut self, _: &EntityContext, message: u64) -> u64 {
        message
    }

    async fn on_stop(&mut self, _: &EntityContext) {
        self.say("end");
    }
}

/// Runs until the parent ends, or the node does.
pub(super) fn run<H: Host>(options: NodeOptions) -> ExitCode {
    node_process::<H, _, _>(|security, orders| node::<H>(options, security, orders))
}

async fn node<H: Host>(
    options: NodeOptions,
    security: Security,
    orders: Receiver<String>,
) -> Result<(), StartError> {
    let up = start::<H>(&options, security, |builder| {
        let builder = builder.config(|config: &mut Config| {
            config.load.selector = CapacitySelector::Cpu;
            config.membership.min_nr_of_members = NODES;
            config.failure_detector.acceptable_heartbeat_pause = PAUSE_ACCEPTED;
        });
        Ok(match &options.store {
            Some(path) => builder.store(EndsIfFull(Redb::open(path)?)),
            None => builder,
        })
    });
    let up = up.await?;
    up.runtime.spawn(says_shards(up.cluster.events()));
    let kind = Kind::new("IdleDesk").shards(SHARDS);
    let desks = up
        .cluster
        .entities(kind)
        .start(|_| IdleDesk { path: None })
        .await?;
    let mut paths = Vec::new();
    for path in 0..PATHS {
        paths.push(host(&up, path).await?);
    }
    let node = Arc::new(Node {
        desks,
        paths,
        clients: Clients::default(),
    });
    let (asking, clock) = (Arc::clone(&node), up.runtime.clone());
    up.runtime.spawn(async move { asking.ask(&clock).await });
    serve(&node, &up, &orders).await;
    Ok(())
}

/// Says which shards begin here, and what the coordinator moves.
async fn says_shards(mut events: Events) {
    while let Some(event) = events.next().await {
        if let ClusterEvent::Event(Event::Sharding { event, .. }) = event {
            if let ShardingEvent::ShardStarted { shard, .. } = event {
                say(format_args!("start shard {shard}"));
            } else if matches!(event, ShardingEvent::ShardMovesByLoad { .. }) {
                say(format_args!("note {event:?}"));
            }
        }
    }
}

/// Registers a path of one instance and hosts it. That nodes join at the same time is nothing.
async fn host<A: Adapter>(up: &Up<A>, path: usize) -> Result<Path<u64, u64>, ClusterError> {
    loop {
        let builder = up.cluster.instances(format!("desk/{path}"));
        let builder = builder.fault_tolerance(FaultTolerance::Constant(0)).at_most(1);
        match builder.start(move |_| IdleDesk { path: Some(path) }).await {
            Err(error) if error.is_timeout() => pause(&up.runtime, RETRY).await,
            started => return started,
        }
    }
}

struct Node {
    desks: Region<u64, u64>,
    paths: Vec<Path<u64, u64>>,
    clients: Clients,
}

impl Node {
    /// Asks for ever, one entity or path after the other.
    async fn ask(&self, runtime: &impl Runtime) {
        for number in 0.. {
            let _turn = self.clients.next(runtime, PAUSE).await;
            let (path, desk) = (number / ONE_FOR_PATHS, number % ENTITIES);
            let ask = || async move {
                if number % ONE_FOR_PATHS == 0 {
                    let path = &self.paths[path as usize % PATHS];
                    path.ask(number).timeout(TIMEOUT).await
                } else {
                    self.desks
                        .entity(format!("{desk}"))
                        .ask(number)
                        .timeout(TIMEOUT)
                        .await
                }
            };
            self.clients.until_answered(runtime, ask).await;
            self.clients.has_acknowledged();
        }
    }
}

impl Hosted for Node {
    fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Answered, asked again.
    async fn shown<A: Adapter>(&self, _: &Up<A>) -> Option<String> {
        let (answered, repeated) = self.clients.counts();
        Some(format!("{answered} {repeated}"))
    }

    /// `burn`: as many threads as there are cores, until this process ends.
    async fn obey<A: Adapter>(self: &Arc<Self>, _: &Up<A>, order: &str, _: &str) -> bool {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores {
            thread::spawn(|| {
                loop {
                    hint::spin_loop();
                }
            });
        }
        say(format_args!("burning"));
        order == "burn"
    }
}
