//! One node process: sends messages through a durable producer, pushes jobs into the work queue, takes jobs out of it and hosts entities
//! that are delivered to. Every line it writes is one fact; `fleet` says what they mean. What it has handled it says before it confirms it.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_channel::Receiver;
use futures_lite::future;
use quorate_driver::core::Config;
use quorate_driver::delivery::{Consumer, Delivery, Parcel, Producer, Receipt, Sent, ToEntitiesSettings};
use quorate_driver::{
    Cluster, ClusterError, EntityContext, Kind, Region, Runtime, Security, StartError, WorkQueue,
};
use serde::{Deserialize, Serialize};

use crate::program::{NodeOptions, READY, node_process, one_line, say};
use crate::stores::with_store;
use quorate_demo::hosts::Host;

/// Where the tables are.
pub(super) const SCHEMA: &str = "quorate_deliveries";
/// More than five nodes need, so that each has its share.
const SHARDS: u32 = 30;
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
/// Between two lines for the table.
const SHOW_EVERY: Duration = Duration::from_millis(250);
/// Processes share the machine, and write to disks: nobody is removed for a moment's silence.
const PAUSE_ACCEPTED: Duration = Duration::from_secs(3);

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
    let environment = |what| move |error| StartError::Environment { what, error };
    let builder = Cluster::<H::Adapter>::builder(&options.cluster)
        .bind(&options.bind)
        .security(security)
        .fast_profile()
        .config(|config: &mut Config| {
            config.failure_detector.acceptable_heartbeat_pause = PAUSE_ACCEPTED;
        });
    let builder = with_store(builder, &options, SCHEMA).map_err(environment("store"))?;
    let cluster = builder.start().await?;
    match &options.seed {
        Some(seed) => cluster.join([seed]).await?,
        None => cluster.join([cluster.address().address()]).await?,
    }
    cluster.up().await.map_err(|_| ClusterError::Stopped)?;
    let node = Arc::new(Node {
        life: options.life,
        filling: "x".repeat(options.bytes),
        ..Node::default()
    });
    let host = Arc::clone(&node);
    let kind = Kind::<Parcel<Job>, Receipt>::new("Inbox").shards(SHARDS);
    let inboxes = cluster
        .register_consumer(kind, move |_| Inbox(Arc::clone(&host)))
        .await?;
    let queue = cluster.work_queue("jobs").durable().start::<Job>().await?;
    say(format_args!("{READY}{}", cluster.address().address()));
    let runtime = <H::Adapter as quorate_driver::Adapter>::runtime().map_err(environment("runtime"))?;
    let (sender, clock) = (Arc::clone(&node), runtime.clone());
    let name = format!("desk-{}", options.index + 1);
    runtime.spawn(async move { sender.send(&inboxes, &name, &clock).await });
    let (pusher, clock, jobs) = (Arc::clone(&node), runtime.clone(), queue.clone());
    runtime.spawn(async move { pusher.push(&jobs, &clock).await });
    let worker = Arc::clone(&node);
    runtime.spawn(async move { worker.work(&queue).await });
    let ended = async {
        cluster.terminated().await;
    };
    future::or(ended, node.obey(&runtime, &orders)).await;
    Ok(())
}

#[derive(Default)]
struct Node {
    life: u64,
    filling: String,
    is_going: AtomicBool,
    /// Jobs and messages that are being handed in.
    open: AtomicUsize,
    messages: AtomicU64,
    jobs: AtomicU64,
}

impl Node {
    /// The next message or job, unless nobody is to hand any in. [`Self::ended`] follows.
    fn next(&self, what: &str, number: &mut u64) -> Option<Job> {
        if !self.is_going.load(Ordering::SeqCst) {
            return None;
        }
        self.open.fetch_add(1, Ordering::SeqCst);
        // Only now: whoever stops them looks at what is open.
        if !self.is_going.load(Ordering::SeqCst) {
            self.ended();
            return None;
        }
        *number += 1;
        let name = format!("{what}-{}-{number}", self.life);
        say(format_args!("sent {name}"));
        let filling = self.filling.clone();
        Some(Job { name, filling })
    }

    fn ended(&self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    fn did(&self, job: &Job) {
        say(format_args!("did {}", job.name));
    }

    /// Sends messages through a producer, which goes on with what an earlier process has left.
    async fn send(&self, inboxes: &Region<Parcel<Job>, Receipt>, name: &str, clock: &impl Runtime) {
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
            let Some(job) = self.next("message", &mut number) else {
                continue;
            };
            let sent = producer.send(format!("inbox-{}", number % ENTITIES), &job).await;
            match sent {
                Ok(sent) => {
                    say(format_args!("took {}", job.name));
                    self.messages.fetch_add(1, Ordering::Relaxed);
                    unconfirmed.push_back(sent);
                    self.ended();
                }
                Err(error) => {
                    say(format_args!("note {}: {}", job.name, one_line(&error)));
                    self.ended();
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
            let Some(job) = self.next("job", &mut number) else {
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
            self.ended();
        }
    }

    async fn work(&self, queue: &WorkQueue<Job>) {
        let mut worker = queue.worker();
        while let Some(job) = worker.next().await {
            self.did(job.message());
            job.confirm();
        }
    }

    /// Does what the parent says, and shows how things stand: `show messages jobs`.
    async fn obey(&self, clock: &impl Runtime, orders: &Receiver<String>) {
        let mut is_halting = false;
        loop {
            let due = async {
                pause(clock, SHOW_EVERY).await;
                None
            };
            match future::or(async { orders.recv().await.ok() }, due)
                .await
                .as_deref()
            {
                None => say(format_args!(
                    "show {} {}",
                    self.messages.load(Ordering::Relaxed),
                    self.jobs.load(Ordering::Relaxed)
                )),
                Some("go") => self.is_going.store(true, Ordering::SeqCst),
                Some("halt") => {
                    self.is_going.store(false, Ordering::SeqCst);
                    is_halting = true;
                }
                Some(other) => say(format_args!("unknown order {other}")),
            }
            if is_halting && self.open.load(Ordering::SeqCst) == 0 {
                is_halting = false;
                say(format_args!("idle"));
            }
        }
    }
}

async fn pause(clock: &impl Runtime, time: Duration) {
    clock.sleep_until(clock.now().mono + time).await;
}
