//! One node process: sends messages through a durable producer, pushes jobs into the work queue, takes jobs
//! out of it and hosts entities that are delivered to. What it has handled it says before it confirms it.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_channel::Receiver;
use futures_lite::future;
use quorate_demo::hosts::Host;
use quorate_driver::Config;
use quorate_driver::delivery::{Consumer, Delivery, Producer, Sent, ToEntitiesSettings};
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{EntityContext, Kind, Region, Security, StartError, delivery::WorkQueue};
use serde::{Deserialize, Serialize};

use crate::node::{Clients, Hosted, PAUSE_ACCEPTED, SHARDS, Turn, Up, pause, serve, start};
use crate::program::{NodeOptions, node_process, one_line, say};
use crate::stores::with_store;

/// Where the tables are.
pub(super) const SCHEMA: &str = "quorate_deliveries";
/// Entities that are delivered to.
const ENTITIES: u64 = 40;
/// Between two messages, and between two jobs, of one node.
const PAUSE: Duration = Duration::from_millis(10);
/// Messages of one node that nobody has confirmed; what was sent before a kill is sent again beside them.
const UNCONFIRMED: usize = 8;
/// Jobs that nobody has done, of all nodes.
const UNFINISHED: usize = 40;
/// How long a confirmation is waited for until the next message is sent all the same.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(2);
/// Before something that failed is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// A message to an entity, or a job.
#[derive(Serialize, Deserialize)]
struct Job {
    /// Which one, of all processes of a run.
    name: String,
    filling: String,
}

/// What is delivered to.
struct Inbox(Arc<Node>);

impl Consumer for Inbox {
    type Message = Job;

    async fn handle(&mut self, _: &EntityContext, delivery: Delivery<Job>) {
        self.0.did(delivery.message());
        delivery.confirm();
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
    let Up { cluster, runtime } = &up;
    let node = Arc::new(Node {
        life: options.life,
        filling: "x".repeat(options.bytes),
        ..Node::default()
    });
    let host = Arc::clone(&node);
    let kind = Kind::<Delivery<Job>, ()>::new("Inbox").shards(SHARDS);
    let inboxes = cluster
        .entities(kind)
        .start_consumer(move |_| Inbox(Arc::clone(&host)))
        .await?;
    let queue = cluster.work_queue("jobs").durable().start::<Job>().await?;
    let (sender, clock) = (Arc::clone(&node), runtime.clone());
    let name = format!("desk-{}", options.index + 1);
    runtime.spawn(async move { sender.send(&inboxes, &name, &clock).await });
    let (pusher, clock, jobs) = (Arc::clone(&node), runtime.clone(), queue.clone());
    runtime.spawn(async move { pusher.push(&jobs, &clock).await });
    let worker = Arc::clone(&node);
    runtime.spawn(async move { worker.work(&queue).await });
    serve(&node, &up, &orders).await;
    Ok(())
}

#[derive(Default)]
struct Node {
    life: u64,
    filling: String,
    clients: Clients,
    messages: AtomicU64,
    jobs: AtomicU64,
}

impl Node {
    /// The next message or job, unless nobody is to hand any in; it is under way as long as the turn is held.
    fn next(&self, what: &str, number: &mut u64) -> Option<(Job, Turn<'_>)> {
        let turn = self.clients.turn()?;
        *number += 1;
        let name = format!("{what}-{}-{number}", self.life);
        say(format_args!("sent {name}"));
        let filling = self.filling.clone();
        Some((Job { name, filling }, turn))
    }

    fn did(&self, job: &Job) {
        say(format_args!("did {}", job.name));
    }

    /// Sends messages through a producer, which goes on with what an earlier process has left.
    async fn send(&self, inboxes: &Region<Delivery<Job>, ()>, name: &str, clock: &impl Runtime) {
        let settings = ToEntitiesSettings {
            resend_idle: Duration::from_secs(1),
            ..ToEntitiesSettings::default()
        };
        loop {
            let builder = inboxes.producer(name).settings(settings.clone()).durable();
            match builder.start().await {
                Ok(producer) => self.send_through(&producer, clock).await,
                Err(error) => say(format_args!("note {name}: {}", one_line(&error))),
            }
            pause(clock, RETRY).await;
        }
    }

    /// Until the producer has ended.
    async fn send_through(&self, producer: &Producer<Job>, clock: &impl Runtime) {
        let (mut number, mut unconfirmed) = (clock.now().unix_ms, VecDeque::<Sent>::new());
        loop {
            pause(clock, PAUSE).await;
            if unconfirmed.len() >= UNCONFIRMED
                && let Some(first) = unconfirmed.pop_front()
            {
                let late = async {
                    pause(clock, CONFIRMED_WITHIN).await;
                    Ok(())
                };
                // That it is confirmed is seen where it is handled.
                let _ = future::or(first, late).await;
            }
            let Some((job, _turn)) = self.next("message", &mut number) else {
                continue;
            };
            let sent = producer.send(format!("inbox-{}", number % ENTITIES), &job).await;
            match sent {
                Ok(sent) => {
                    say(format_args!("took {}", job.name));
                    self.messages.fetch_add(1, Ordering::Relaxed);
                    unconfirmed.push_back(sent);
                }
                Err(error) => {
                    say(format_args!("note {}: {}", job.name, one_line(&error)));
                    return;
                }
            }
        }
    }

    /// Pushes jobs, as long as not too many are unfinished.
    async fn push(&self, queue: &WorkQueue<Job>, clock: &impl Runtime) {
        let mut number = 0;
        loop {
            pause(clock, PAUSE).await;
            if queue
                .state()
                .await
                .is_ok_and(|state| state.unfinished > UNFINISHED)
            {
                continue;
            }
            let Some((job, _turn)) = self.next("job", &mut number) else {
                continue;
            };
            match queue.push(&job).await {
                Ok(()) => {
                    say(format_args!("took {}", job.name));
                    self.jobs.fetch_add(1, Ordering::Relaxed);
                }
                // It may have been taken: then it is done, and nobody counts on it.
                Err(_) => pause(clock, RETRY).await,
            }
        }
    }

    async fn work(&self, queue: &WorkQueue<Job>) {
        let mut worker = queue.worker();
        while let Some(job) = worker.next().await {
            self.did(job.message());
            job.confirm();
        }
    }
}

impl Hosted for Node {
    fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Messages, jobs.
    async fn shown<A: Adapter>(&self, _: &Up<A>) -> Option<String> {
        let [messages, jobs] = [&self.messages, &self.jobs].map(|count| count.load(Ordering::Relaxed));
        Some(format!("{messages} {jobs}"))
    }
}
