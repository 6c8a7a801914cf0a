//! One node process: hosts accounts, has clients that transfer between them all the time, tells its parent what they send and are told, and
//! does as it is told. Every line it writes is one fact; `fleet` says what they mean.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_channel::Receiver;
use futures_lite::future;
use quorate_driver::core::Config;
use quorate_driver::{Cluster, ClusterError, Kind, Region, Runtime, Security, StartError};

use super::ACCOUNTS;
use super::entity::{ACCOUNT, Account, Command, Told, Transfer, id_of};
use super::stalled::{self, Stalled};
use crate::gate::{self, Cuttable};
use crate::program::{NodeOptions, READY, node_process, say};
use crate::stores::{Opened, with_file};
use quorate_demo::hosts::Host;

/// Tasks of one node that transfer.
const CLIENTS: u64 = 4;
/// Accounts that are read at a time.
const READERS: u64 = 12;
/// Between two transfers of one client.
const PAUSE: Duration = Duration::from_millis(20);
/// Before a command is sent again.
const RETRY: Duration = Duration::from_millis(50);
/// How long an ask waits. A transfer that was not answered is sent again under its number, and counts once.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Between two lines for the table.
const SHOW_EVERY: Duration = Duration::from_millis(250);
/// More than five nodes need, so that each has its share.
const SHARDS: u32 = 30;
/// Processes share the machine, and some of them write to disks: nobody is removed for a moment's silence.
const PAUSE_ACCEPTED: Duration = Duration::from_secs(3);
/// Where the tables are.
pub(super) const SCHEMA: &str = "quorate_bank";

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
    let builder = Cluster::<Cuttable<H::Adapter>>::builder(&options.cluster)
        .bind(&options.bind)
        .security(security)
        .fast_profile()
        .config(|config: &mut Config| {
            config.failure_detector.acceptable_heartbeat_pause = PAUSE_ACCEPTED;
        });
    let builder = match Opened::of(&options, SCHEMA).map_err(environment("store"))? {
        Opened::File(file) => with_file(builder, file),
        Opened::Server(server) => builder.store(Stalled(*server)),
    };
    let cluster = builder.start().await?;
    match &options.seed {
        Some(seed) => cluster.join([seed]).await?,
        None => cluster.join([cluster.address().address()]).await?,
    }
    cluster.up().await.map_err(|_| ClusterError::Stopped)?;
    let accounts = cluster
        .register_event_sourced(Kind::new(ACCOUNT).shards(SHARDS), |_| Account)
        .await?;
    say(format_args!("{READY}{}", cluster.address().address()));
    let runtime = <H::Adapter as quorate_driver::Adapter>::runtime().map_err(environment("runtime"))?;
    let node = Arc::new(Node {
        accounts,
        is_asking: AtomicBool::new(false),
        open: AtomicUsize::new(0),
    });
    // No process has the number of another one.
    let first = options.life.saturating_mul(CLIENTS);
    for client in first..first.saturating_add(CLIENTS) {
        let (node, clock) = (Arc::clone(&node), runtime.clone());
        runtime.spawn(async move { node.transfer(client, &clock).await });
    }
    let ended = async {
        cluster.terminated().await;
    };
    future::or(ended, obey(&node, &cluster, &runtime, &orders)).await;
    // What was on its way to the store when the node ended gets there.
    while stalled::holds() {
        runtime.sleep_until(runtime.now().mono + PAUSE).await;
        if orders.try_recv().is_ok_and(|order| order == "release") {
            stalled::release();
        }
    }
    Ok(())
}

struct Node {
    accounts: Region<Command, Told>,
    is_asking: AtomicBool,
    /// Transfers under way.
    open: AtomicUsize,
}

impl Node {
    /// One client: a transfer, a pause, for ever. It has one open at a time.
    async fn transfer(&self, client: u64, runtime: &impl Runtime) {
        let mut number = 0;
        loop {
            runtime.sleep_until(runtime.now().mono + PAUSE).await;
            if !self.is_asking.load(Ordering::SeqCst) {
                continue;
            }
            self.open.fetch_add(1, Ordering::SeqCst);
            // Only now: whoever stops them looks at what is open.
            if self.is_asking.load(Ordering::SeqCst) {
                number += 1;
                let transfer = choose(client, number);
                let Transfer { from, to, amount, .. } = transfer;
                say(format_args!("sent {client} {number} {from} {to} {amount}"));
                self.settle(transfer, runtime).await;
            }
            self.open.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Sends a transfer until it is acknowledged.
    async fn settle(&self, transfer: Transfer, runtime: &impl Runtime) {
        let command = Command::Transfer(transfer);
        let Told { node, .. } = self.until_answered(transfer.from, &command, runtime).await;
        let Transfer {
            client, number, from, ..
        } = transfer;
        say(format_args!("done {client} {number} {from} {node}"));
    }

    /// Sends a command until it is answered.
    async fn until_answered(&self, account: u64, command: &Command, runtime: &impl Runtime) -> Told {
        let account = self.accounts.entity(id_of(account));
        loop {
            match account.ask(command).timeout(TIMEOUT).await {
                Ok(told) => return told,
                Err(_) => runtime.sleep_until(runtime.now().mono + RETRY).await,
            }
        }
    }

    /// `why`, and what this node knows of an account's place and of who is a member, in one line.
    async fn explain<A>(&self, account: &str, cluster: &Cluster<A>) {
        let account = account.parse().map(id_of).unwrap_or_default();
        let entity = self.accounts.entity(&account).explain(TIMEOUT).await;
        let members = cluster.explain().await;
        say(format_args!("why {account}: {entity:?}; {members:?}"));
    }

    /// `value account balance out into open` for every so many'th, from this one on.
    async fn read_some(&self, first: u64, runtime: &impl Runtime) {
        for account in (first..ACCOUNTS).step_by(READERS as usize) {
            let told = self.until_answered(account, &Command::Read, runtime).await;
            let Told {
                balance,
                out,
                into,
                open,
                ..
            } = told;
            say(format_args!(
                "value {account} {balance} {} {} {} {} {} {} {open}",
                out.transfers, out.amount, out.marks, into.transfers, into.amount, into.marks
            ));
        }
    }
}

/// Reads all accounts, several at a time, and says `read` behind the last: beside what the node is at.
fn read_all(node: &Arc<Node>, runtime: &impl Runtime) {
    let left = Arc::new(AtomicUsize::new(READERS as usize));
    for first in 0..READERS {
        let (node, clock, left) = (Arc::clone(node), runtime.clone(), Arc::clone(&left));
        runtime.spawn(async move {
            node.read_some(first, &clock).await;
            if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                say(format_args!("read"));
            }
        });
    }
}

/// Has the clients finish what they are at, and says `idle` when they have: beside what the node is at.
fn halt(node: &Arc<Node>, runtime: &impl Runtime) {
    node.is_asking.store(false, Ordering::SeqCst);
    let (node, clock) = (Arc::clone(node), runtime.clone());
    runtime.spawn(async move {
        while node.open.load(Ordering::SeqCst) > 0 {
            clock.sleep_until(clock.now().mono + PAUSE).await;
        }
        say(format_args!("idle"));
    });
}

/// Between whom, and how much: never to itself.
fn choose(client: u64, number: u64) -> Transfer {
    let transfer = Transfer {
        client,
        number,
        from: 0,
        to: 0,
        amount: 0,
    };
    let mark = transfer.mark();
    let from = mark % ACCOUNTS;
    Transfer {
        from,
        to: (from + 1 + (mark >> 20) % (ACCOUNTS - 1)) % ACCOUNTS,
        amount: i64::from((mark >> 40) as u8) + 1,
        ..transfer
    }
}

/// Does what the parent says, and shows how things stand.
async fn obey<A>(node: &Arc<Node>, cluster: &Cluster<A>, runtime: &impl Runtime, orders: &Receiver<String>) {
    loop {
        let due = async {
            runtime.sleep_until(runtime.now().mono + SHOW_EVERY).await;
            None
        };
        let order = future::or(async { orders.recv().await.ok() }, due).await;
        let Some(order) = order else {
            show(cluster).await;
            continue;
        };
        match order.split_once(' ').unwrap_or((&order, "")) {
            ("go", _) => node.is_asking.store(true, Ordering::SeqCst),
            ("halt", _) => halt(node, runtime),
            ("settle", transfer) => match parsed(transfer) {
                Some(transfer) => {
                    let (node, clock) = (Arc::clone(node), runtime.clone());
                    runtime.spawn(async move { node.settle(transfer, &clock).await });
                }
                None => say(format_args!("unknown transfer {transfer}")),
            },
            ("read", _) => read_all(node, runtime),
            ("explain", account) => node.explain(account, cluster).await,
            ("cut", _) => gate::cut(),
            ("hold", _) => stalled::hold(),
            ("release", _) => stalled::release(),
            (other, _) => say(format_args!("unknown order {other}")),
        }
    }
}

/// A transfer as its client said it.
pub(super) fn parsed(line: &str) -> Option<Transfer> {
    let mut words = line.split(' ');
    let mut number = || words.next()?.parse().ok();
    let (client, number, from, to) = (number()?, number()?, number()?, number()?);
    let amount = words.next()?.parse().ok()?;
    Some(Transfer {
        client,
        number,
        from,
        to,
        amount,
    })
}

/// `show fenced resent recovered`.
async fn show<A>(cluster: &Cluster<A>) {
    let Ok(stats) = cluster.stats().await else {
        return;
    };
    let host = stats.host;
    say(format_args!(
        "show {} {} {}",
        host.entities_fenced, host.entity_messages_resent, host.entities_recovered
    ));
}
