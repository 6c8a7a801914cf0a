//! One node process: hosts accounts, and has clients that transfer between them all the time.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_channel::Receiver;
use quorate_demo::hosts::Host;
use quorate_driver::Config;
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{Kind, Region, Security, StartError};

use super::ACCOUNTS;
use super::entity::{ACCOUNT, Account, Command, Told, Transfer, id_of};
use super::stalled::{self, Stalled};
use crate::node::{Clients, Hosted, PAUSE_ACCEPTED, SHARDS, TIMEOUT, Up, in_parts, pause, serve, start};
use crate::program::{NodeOptions, node_process, say};
use crate::stores::{EndsIfFull, Opened, with_file};

/// Tasks of one node that transfer.
const CLIENTS: u64 = 4;
/// Accounts that are read at a time.
const READERS: u64 = 12;
/// Between two transfers of one client.
const PAUSE: Duration = Duration::from_millis(20);
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
    let up = start::<H>(&options, security, |builder| {
        let builder = builder.config(|config: &mut Config| {
            config.failure_detector.acceptable_heartbeat_pause = PAUSE_ACCEPTED;
        });
        Ok(match Opened::of(&options, SCHEMA)? {
            Opened::File(file) => with_file(builder, file),
            Opened::Server(server) => builder.store(EndsIfFull(Stalled(*server))),
        })
    });
    let up = up.await?;
    let kind = Kind::new(ACCOUNT).shards(SHARDS);
    let node = Arc::new(Node {
        accounts: up.cluster.entities(kind).start_event_sourced(|_| Account).await?,
        clients: Clients::default(),
    });
    // No process has the number of another one.
    let first = options.life.saturating_mul(CLIENTS);
    for client in first..first.saturating_add(CLIENTS) {
        let (node, clock) = (Arc::clone(&node), up.runtime.clone());
        up.runtime
            .spawn(async move { node.transfer(client, &clock).await });
    }
    serve(&node, &up, &orders).await;
    // What was on its way to the store when the node ended gets there.
    while stalled::holds() {
        pause(&up.runtime, PAUSE).await;
        if orders.try_recv().is_ok_and(|order| order == "release") {
            stalled::release();
        }
    }
    Ok(())
}

struct Node {
    accounts: Region<Command, Told>,
    clients: Clients,
}

impl Node {
    /// One client: a transfer, a pause, for ever. It has one open at a time.
    async fn transfer(&self, client: u64, runtime: &impl Runtime) {
        for number in 1.. {
            let _turn = self.clients.next(runtime, PAUSE).await;
            let transfer = choose(client, number);
            let Transfer { from, to, amount, .. } = transfer;
            say(format_args!("sent {client} {number} {from} {to} {amount}"));
            self.settle(transfer, runtime).await;
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
        let ask = || async { account.ask(command).timeout(TIMEOUT).await };
        self.clients.until_answered(runtime, ask).await
    }

    /// `note`, and what this node knows of an account's place and of who is a member, in one line.
    async fn explain<A: Adapter>(&self, account: &str, up: &Up<A>) {
        let account = account.parse().map(id_of).unwrap_or_default();
        let entity = self.accounts.entity(&account).explain().timeout(TIMEOUT).await;
        let members = up.cluster.explain().await;
        say(format_args!("note {account}: {entity:?}; {members:?}"));
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

impl Hosted for Node {
    fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Stale owners, messages sent again, recoveries.
    async fn shown<A: Adapter>(&self, up: &Up<A>) -> Option<String> {
        let host = up.cluster.stats().await.ok()?.host;
        let (fenced, resent) = (host.entities_fenced, host.entity_messages_resent);
        Some(format!("{fenced} {resent} {}", host.entities_recovered))
    }

    async fn obey<A: Adapter>(self: &Arc<Self>, up: &Up<A>, order: &str, rest: &str) -> bool {
        let work = || (Arc::clone(self), up.runtime.clone());
        match (order, parsed(rest)) {
            ("settle", Some(transfer)) => {
                let (node, clock) = work();
                up.runtime
                    .spawn(async move { node.settle(transfer, &clock).await });
            }
            ("read", _) => in_parts(&up.runtime, READERS, "read", |first| {
                let (node, clock) = work();
                async move { node.read_some(first, &clock).await }
            }),
            ("explain", _) => self.explain(rest, up).await,
            ("hold", _) => stalled::hold(),
            ("release", _) => stalled::release(),
            (_, _) => return false,
        }
        true
    }
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
