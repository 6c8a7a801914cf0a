//! One node process: hosts the singleton if it is the oldest, asks it for numbers all the time, tells its parent what it was told, and
//! does as it is told. Every line it writes is one fact; `fleet` says what they mean.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_channel::Receiver;
use futures_lite::future;
use quorate_driver::{Cluster, ClusterError, Runtime, Security, Singleton, StartError};
use quorate_store_redb::Redb;

use super::billing::{Billing, Desk, Receipt};
use crate::gate::{self, Cuttable};
use crate::program::{NodeOptions, READY, node_process, say};
use quorate_demo::hosts::Host;

/// Who may host it: all of these nodes.
const ROLE: &str = "billing";
/// Tasks of one node that send orders.
const CLIENTS: u64 = 2;
/// Between two orders of one client.
const PAUSE: Duration = Duration::from_millis(40);
/// Before an order is sent again: to the next instance, as a rule.
const RETRY: Duration = Duration::from_millis(50);
/// How long an ask waits. An order that was not answered is sent again: its instance numbers it once.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Between two lines for the table.
const SHOW_EVERY: Duration = Duration::from_millis(250);

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
    let mut builder = Cluster::<Cuttable<H::Adapter>>::builder(&options.cluster)
        .bind(&options.bind)
        .security(security)
        .role(ROLE)
        .fast_profile();
    if let Some(path) = &options.store {
        builder = builder.store(Redb::open(path).map_err(environment("store"))?);
    }
    let cluster = builder.start().await?;
    match &options.seed {
        Some(seed) => cluster.join([seed]).await?,
        None => cluster.join([cluster.address().address()]).await?,
    }
    cluster.up().await.map_err(|_| ClusterError::Stopped)?;
    let desk = Arc::new(Desk::default());
    let way = Arc::clone(&desk);
    let make = move |token| Billing::new(token, Arc::clone(&way));
    let billing = cluster.singleton("billing").role(ROLE).start(make).await?;
    say(format_args!("{READY}{}", cluster.address().address()));
    let runtime = <H::Adapter as quorate_driver::Adapter>::runtime().map_err(environment("runtime"))?;
    let node = Arc::new(Node {
        billing,
        name: format!("n{}-{}", options.index + 1, options.life),
        desk,
        is_asking: AtomicBool::new(false),
        open: AtomicUsize::new(0),
        acknowledged: AtomicU64::new(0),
        repeated: AtomicU64::new(0),
    });
    for client in 0..CLIENTS {
        let (node, clock) = (Arc::clone(&node), runtime.clone());
        runtime.spawn(async move { node.ask(client, &clock).await });
    }
    let (pass_on, wishes) = async_channel::unbounded();
    let hears = Arc::clone(&node);
    // The book's answers are heard whatever else the node is at.
    runtime.spawn(async move {
        while let Ok(line) = orders.recv().await {
            match line.strip_prefix("book ") {
                Some(reply) => hears.desk.hear(reply),
                // Fails only while the process ends.
                None => drop(pass_on.try_send(line)),
            }
        }
    });
    let ended = async {
        cluster.terminated().await;
    };
    let obeyed = async {
        node.obey(&runtime, &wishes).await;
        // Its clients go on until it has ended: their last orders are answered by its successor's instance.
        let left = cluster.leave().await;
        say(format_args!("left {}", left.is_ok_and(|left| left.is_graceful())));
    };
    future::or(ended, obeyed).await;
    Ok(())
}

struct Node {
    billing: Singleton<String, Receipt>,
    name: String,
    desk: Arc<Desk>,
    is_asking: AtomicBool,
    /// Orders under way.
    open: AtomicUsize,
    acknowledged: AtomicU64,
    /// Asks that ended with an error, after which the order was sent again.
    repeated: AtomicU64,
}

impl Node {
    /// One client: an order, a pause, for ever.
    async fn ask(&self, client: u64, runtime: &impl Runtime) {
        let mut count = 0_u64;
        loop {
            runtime.sleep_until(runtime.now().mono + PAUSE).await;
            if !self.is_asking.load(Ordering::SeqCst) {
                continue;
            }
            count += 1;
            self.open.fetch_add(1, Ordering::SeqCst);
            let order = format!("{}-{client}-{count}", self.name);
            let number = self.number(&order, runtime).await;
            say(format_args!("done {order} {number}"));
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
            self.open.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Sends an order until it has a number.
    async fn number(&self, order: &String, runtime: &impl Runtime) -> u64 {
        loop {
            match self.billing.ask(order).timeout(TIMEOUT).await {
                Ok(Receipt::Number(number)) => return number,
                Ok(Receipt::Stale) | Err(_) => {
                    self.repeated.fetch_add(1, Ordering::SeqCst);
                    runtime.sleep_until(runtime.now().mono + RETRY).await;
                }
            }
        }
    }

    /// Does what the parent says, and shows how things stand, until this node is to leave.
    async fn obey(&self, runtime: &impl Runtime, wishes: &Receiver<String>) {
        loop {
            let due = async {
                runtime.sleep_until(runtime.now().mono + SHOW_EVERY).await;
                None
            };
            match future::or(async { wishes.recv().await.ok() }, due)
                .await
                .as_deref()
            {
                None => self.show().await,
                Some("go") => self.is_asking.store(true, Ordering::SeqCst),
                Some("halt") => {
                    self.is_asking.store(false, Ordering::SeqCst);
                    while self.open.load(Ordering::SeqCst) > 0 {
                        runtime.sleep_until(runtime.now().mono + PAUSE).await;
                    }
                    say(format_args!("idle"));
                }
                Some("cut") => gate::cut(),
                Some("leave") => return,
                Some(other) => say(format_args!("unknown order {other}")),
            }
        }
    }

    /// `show acknowledged repeated token`.
    async fn show(&self) {
        let token = self.billing.token().await.ok().flatten();
        let token = token.map_or_else(|| "-".to_owned(), |token| token.to_string());
        let (acknowledged, repeated) = (&self.acknowledged, &self.repeated);
        say(format_args!(
            "show {} {} {token}",
            acknowledged.load(Ordering::SeqCst),
            repeated.load(Ordering::SeqCst)
        ));
    }
}
