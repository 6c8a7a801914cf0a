//! One node process: hosts instances of the three paths, and sends numbered messages to all of them, many
//! before the first is answered. Says what it sends and what was refused; its instances say when they begin
//! and end and what they handle.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_channel::Receiver;
use futures_lite::future;
use quorate_demo::hosts::Host;
use quorate_driver::paths::{FaultTolerance, PathInstance, PathSlotState, SlotMove};
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{
    AskError, Cluster, ClusterError, Config, Entity, EntityContext, Path, Security, StartError, Stateful,
};
use quorate_store_redb::Redb;
use serde::{Deserialize, Serialize};

use super::PATHS;
use crate::node::{Clients, Hosted, PAUSE_ACCEPTED, RETRY, Turn, Up, pause, serve, start};
use crate::program::{NodeOptions, node_process, one_line, say};
use crate::stores::EndsIfFull;

/// Between two messages of one node to one path.
const PAUSE: Duration = Duration::from_millis(15);
/// So many of them are under way at once.
const UNANSWERED: usize = 48;
/// Names below the top of a subtree.
const NAMES: u64 = 12;
/// How long an instance works on a message.
const WORK: Duration = Duration::from_millis(1);

/// The time, by the one clock of all processes.
pub(super) fn nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// What instances are sent: a number that grows for each sender and path.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Message {
    /// A node process that no other run has.
    sender: u64,
    /// A slot, or a name below the path.
    lane: u64,
    number: u64,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.sender, self.lane, self.number)
    }
}

/// An instance.
struct InstanceDesk<R> {
    path: usize,
    handled: u64,
    runtime: R,
}

impl<R> InstanceDesk<R> {
    fn say(&self, what: &str, context: &EntityContext, rest: impl fmt::Display) {
        let (slot, token) = (context.path_slot().unwrap_or_default(), context.token());
        let (path, term, count) = (self.path, token.term, token.count);
        say(format_args!(
            "{what} {path} {slot} {term} {count} {} {rest}",
            nanos()
        ));
    }
}

impl<R: Runtime> Entity for InstanceDesk<R> {
    type Message = Message;
    type Reply = ();

    async fn on_start(&mut self, context: &EntityContext) {
        self.say("start", context, self.handled);
    }

    async fn handle(&mut self, context: &EntityContext, message: Message) {
        self.say("did", context, message);
        self.handled += 1;
        pause(&self.runtime, WORK).await;
    }

    async fn on_stop(&mut self, context: &EntityContext) {
        self.say("end", context, self.handled);
    }
}

impl<R: Runtime> Stateful for InstanceDesk<R> {
    type State = u64;

    async fn into_state(self, _: &EntityContext) -> Result<u64, Box<dyn Error + Send + Sync>> {
        Ok(self.handled)
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
            config.failure_detector.acceptable_heartbeat_pause = PAUSE_ACCEPTED;
        });
        Ok(match &options.store {
            Some(path) => builder.store(EndsIfFull(Redb::open(path)?)),
            None => builder,
        })
    });
    let up = up.await?;
    let node = Arc::new(Node {
        sender: options.life,
        cluster: up.cluster.clone(),
        clients: Clients::default(),
        failed: AtomicU64::new(0),
    });
    for path in 0..PATHS.len() {
        host(&up, path).await?;
        let lanes = lanes(&up.cluster, path)?;
        let (node, clock) = (Arc::clone(&node), up.runtime.clone());
        up.runtime
            .spawn(async move { node.send(path, &lanes, &clock).await });
    }
    serve(&node, &up, &orders).await;
    Ok(())
}

/// Registers a path and hosts it. That a node joins or leaves at the same time, so that no leader answers,
/// is nothing.
async fn host<A: Adapter>(up: &Up<A>, path: usize) -> Result<(), ClusterError> {
    let (shape, runtime) = (&PATHS[path], up.runtime.clone());
    let make = move |handled| InstanceDesk {
        path,
        handled,
        runtime: runtime.clone(),
    };
    loop {
        let lost = FaultTolerance::Constant(shape.lost_at_once);
        let mut builder = up.cluster.instances(shape.name).fault_tolerance(lost);
        if shape.subtree {
            builder = builder.subtree();
        }
        let (builder, make) = (builder.handoff(shape.options), make.clone());
        let started = if shape.options.transfer {
            let started = builder.start_stateful(move |_, left| make(left.unwrap_or_default()));
            started.await
        } else {
            builder.start(move |_| make(0)).await
        };
        match started {
            Ok(_) => return Ok(()),
            Err(error) if error.is_timeout() => pause(&up.runtime, RETRY).await,
            Err(error) => return Err(error),
        }
    }
}

/// Where a path's messages go.
enum SendLane {
    Below(Path<Message, ()>),
    Slot(PathInstance<Message, ()>),
}

fn lanes(cluster: &Cluster, path: usize) -> Result<Vec<SendLane>, ClusterError> {
    let shape = &PATHS[path];
    if shape.subtree {
        let below = |name| {
            cluster
                .path(format!("{}/names/{name}", shape.name))
                .map(SendLane::Below)
        };
        return (0..NAMES).map(below).collect();
    }
    let handle = cluster.path(shape.name)?;
    Ok((0..=shape.lost_at_once)
        .map(|slot| SendLane::Slot(handle.slot(slot)))
        .collect())
}

struct Node {
    sender: u64,
    cluster: Cluster,
    clients: Clients,
    failed: AtomicU64,
}

impl Node {
    /// Sends to a path for ever, one message after the other.
    async fn send(&self, path: usize, lanes: &[SendLane], clock: &impl Runtime) {
        let mut unanswered: VecDeque<(Turn<'_>, Message, _)> = VecDeque::new();
        for (number, lane) in (1..).zip((0..lanes.len()).cycle()) {
            let turn = loop {
                pause(clock, PAUSE).await;
                let turn = self.clients.turn();
                if (turn.is_none() || unanswered.len() >= UNANSWERED)
                    && let Some((_turn, message, answer)) = unanswered.pop_front()
                {
                    self.hear(path, &message, answer.await);
                }
                if let Some(turn) = turn {
                    break turn;
                }
            };
            let (sender, to) = (self.sender, &lanes[lane]);
            let lane = lane as u64;
            let message = Message { sender, lane, number };
            let mut answer = match to {
                SendLane::Below(path) => path.ask(message),
                SendLane::Slot(slot) => slot.ask(message),
            };
            // For how many members it is sent tells whether the killed one was removed for this sender.
            let members = self.cluster.view().members().len();
            say(format_args!("sent {path} {message} {members}"));
            match future::poll_once(&mut answer).await {
                Some(answered) => self.hear(path, &message, answered),
                None => unanswered.push_back((turn, message, answer)),
            }
        }
    }

    /// A message has its answer, or none will come.
    fn hear(&self, path: usize, message: &Message, answered: Result<(), AskError>) {
        match answered {
            Ok(()) => self.clients.has_acknowledged(),
            Err(error) => {
                let what = if error.may_have_been_handled() {
                    "failed"
                } else {
                    "refused"
                };
                say(format_args!("{what} {path} {message} {}", one_line(&error)));
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Hosted for Node {
    fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Answered, not answered, instances here.
    async fn shown<A: Adapter>(&self, up: &Up<A>) -> Option<String> {
        let (paths, me) = (up.cluster.paths_state().await.ok()?, up.cluster.address());
        let slots = || paths.iter().flat_map(|path| &path.slots);
        let stands = |slot: &&PathSlotState| {
            let moves = slot.last_move.as_ref().is_some_and(SlotMove::is_pending);
            slot.host.is_some() && !moves
        };
        let leader = up
            .cluster
            .view()
            .leader()
            .map(|leader| leader.address().to_string());
        say(format_args!(
            "table {} {} {}",
            slots().filter(stands).count(),
            me.address(),
            leader.unwrap_or_default()
        ));
        let here = slots().filter(|slot| slot.host.as_ref() == Some(me)).count();
        let (answered, failed) = (self.clients.counts().0, self.failed.load(Ordering::Relaxed));
        Some(format!("{answered} {failed} {here}"))
    }

    /// `move PATH ADDRESS`: the path's first slot is to go there.
    async fn obey<A: Adapter>(self: &Arc<Self>, up: &Up<A>, order: &str, rest: &str) -> bool {
        let words = rest.split_once(' ');
        let Some((path, to)) = words.and_then(|(path, to)| Some((path.parse::<usize>().ok()?, to))) else {
            return false;
        };
        let Some(shape) = PATHS.get(path).filter(|_| order == "move") else {
            return false;
        };
        while let Err(error) = move_first(&up.cluster, shape.name, to).await {
            say(format_args!("note {}: {}", shape.name, one_line(&error)));
            pause(&up.runtime, RETRY * 4).await;
        }
        say(format_args!("planned"));
        true
    }
}

async fn move_first(cluster: &Cluster, path: &str, to: &str) -> Result<(), ClusterError> {
    let members = cluster.members();
    let to = members
        .iter()
        .find(|member| member.node.address().to_string() == to);
    let Some(to) = to else {
        return Ok(());
    };
    cluster.path::<Message, ()>(path)?.move_slot(0, &to.node).await
}
