//! One node process: hosts instances with durable mailboxes, and sends numbered messages to both slots, some
//! before the first is answered. Says what it sends and what was kept or refused; its instances say what they
//! handle.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_channel::Receiver;
use futures_lite::future;
use quorate_demo::hosts::Host;
use quorate_driver::delivery::Mail;
use quorate_driver::paths::{FaultTolerance, HandoffOptions, PathInstance, PathSlotState, SlotMove};
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{
    AskError, Cluster, ClusterError, Config, Entity, EntityContext, Path, Security, StartError,
};
use serde::{Deserialize, Serialize};

use super::{PATH, SLOTS};
use crate::node::{Clients, Hosted, PAUSE_ACCEPTED, RETRY, TIMEOUT, Turn, Up, pause, serve, start};
use crate::program::{NodeOptions, node_process, one_line, say};
use crate::stores::with_store;

/// Where the tables are.
pub(super) const SCHEMA: &str = "quorate_mailboxes";
/// Between two messages of one node to one slot.
const PAUSE: Duration = Duration::from_millis(60);
/// So many of them are under way at once.
const UNANSWERED: usize = 8;
/// How long an instance works on a message before it says so, and after that.
const WORK: Duration = Duration::from_millis(3);

/// What instances are sent: a number that grows for each sender and slot.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Message {
    /// A node process that no other run has.
    sender: u64,
    slot: u16,
    number: u64,
}

impl std::fmt::Display for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.slot, self.sender, self.number)
    }
}

/// An instance.
struct MailDesk<R>(R);

impl<R: Runtime> Entity for MailDesk<R> {
    type Message = Mail<Message>;
    type Reply = ();

    async fn handle(&mut self, _: &EntityContext, mail: Mail<Message>) {
        // What was taken for handled before it is said would be lost with its host.
        pause(&self.0, WORK).await;
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (at, repeated) = (at.as_nanos(), u8::from(mail.is_repeated));
        say(format_args!(
            "did {} {at} {} {repeated}",
            mail.message, mail.number
        ));
        pause(&self.0, WORK).await;
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
        with_store(builder, &options, SCHEMA)
    });
    let up = up.await?;
    let path = host(&up).await?;
    let node = Arc::new(Node {
        sender: options.life,
        clients: Clients::default(),
        failed: AtomicU64::new(0),
    });
    for slot in 0..SLOTS as u16 {
        let (node, clock, to) = (Arc::clone(&node), up.runtime.clone(), path.slot(slot));
        up.runtime
            .spawn(async move { node.send(slot, &to, &clock).await });
    }
    serve(&node, &up, &orders).await;
    Ok(())
}

/// Registers the path and hosts it. That a node joins or leaves at the same time, so that no leader answers,
/// is nothing.
async fn host<A: Adapter>(up: &Up<A>) -> Result<Path<Message, ()>, ClusterError> {
    loop {
        let lost = FaultTolerance::Constant(SLOTS as u16 - 1);
        let builder = up.cluster.instances(PATH).fault_tolerance(lost);
        let runtime = up.runtime.clone();
        let builder = builder.handoff(HandoffOptions::DURABLE);
        let started = builder.start_mailbox(move |_| MailDesk(runtime.clone()));
        match started.await {
            Err(error) if error.is_timeout() => pause(&up.runtime, RETRY).await,
            started => return started,
        }
    }
}

struct Node {
    sender: u64,
    clients: Clients,
    failed: AtomicU64,
}

impl Node {
    /// Sends to a slot for ever, one message after the other.
    async fn send(&self, slot: u16, to: &PathInstance<Message, ()>, clock: &impl Runtime) {
        let mut unanswered: VecDeque<(Turn<'_>, Message, _)> = VecDeque::new();
        for number in 1.. {
            let turn = loop {
                pause(clock, PAUSE).await;
                let turn = self.clients.turn();
                if (turn.is_none() || unanswered.len() >= UNANSWERED)
                    && let Some((_turn, message, answer)) = unanswered.pop_front()
                {
                    self.hear(&message, answer.await);
                }
                if let Some(turn) = turn {
                    break turn;
                }
            };
            let sender = self.sender;
            let message = Message { sender, slot, number };
            say(format_args!("sent {message}"));
            let mut answer = to.ask(message).timeout(TIMEOUT);
            match future::poll_once(&mut answer).await {
                Some(answered) => self.hear(&message, answered),
                None => unanswered.push_back((turn, message, answer)),
            }
        }
    }

    /// A message has its answer, or none will come.
    fn hear(&self, message: &Message, answered: Result<(), AskError>) {
        match answered {
            Ok(()) => {
                say(format_args!("kept {message}"));
                self.clients.has_acknowledged();
            }
            Err(error) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                // What may have been kept is handled or not.
                if !error.may_have_been_handled() {
                    say(format_args!("refused {message} {}", one_line(&error)));
                }
            }
        }
    }
}

impl Hosted for Node {
    fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Kept, not known to be kept, instances here.
    async fn shown<A: Adapter>(&self, up: &Up<A>) -> Option<String> {
        let (paths, me) = (up.cluster.paths_state().await.ok()?, up.cluster.address());
        let slots = || paths.iter().flat_map(|path| &path.slots);
        let stands = |slot: &&PathSlotState| {
            let moves = slot.last_move.as_ref().is_some_and(SlotMove::is_pending);
            slot.host.is_some() && !moves
        };
        let hosts = slots().map(|slot| match &slot.host {
            Some(host) => host.address().to_string(),
            None => "-".to_owned(),
        });
        let (settled, hosts) = (
            slots().filter(stands).count(),
            hosts.collect::<Vec<_>>().join(" "),
        );
        say(format_args!("table {settled} {} {hosts}", me.address()));
        let here = slots().filter(|slot| slot.host.as_ref() == Some(me)).count();
        let (kept, failed) = (self.clients.counts().0, self.failed.load(Ordering::Relaxed));
        Some(format!("{kept} {failed} {here}"))
    }

    /// `move SLOT ADDRESS`: the slot is to go there.
    async fn obey<A: Adapter>(self: &Arc<Self>, up: &Up<A>, order: &str, rest: &str) -> bool {
        let words = rest.split_once(' ');
        let Some((slot, to)) = words.and_then(|(slot, to)| Some((slot.parse().ok()?, to))) else {
            return false;
        };
        if order != "move" {
            return false;
        }
        while let Err(error) = move_slot(&up.cluster, slot, to).await {
            say(format_args!("note {PATH}: {}", one_line(&error)));
            pause(&up.runtime, RETRY * 4).await;
        }
        say(format_args!("planned"));
        true
    }
}

async fn move_slot(cluster: &Cluster, slot: u16, to: &str) -> Result<(), ClusterError> {
    let members = cluster.members();
    let to = members
        .iter()
        .find(|member| member.node.address().to_string() == to);
    let Some(to) = to else {
        return Ok(());
    };
    cluster.path::<Message, ()>(PATH)?.move_slot(slot, &to.node).await
}
