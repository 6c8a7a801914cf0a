//! One node process: hosts the singleton if it is the oldest, and asks it for numbers all the time.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_channel::Receiver;
use quorate_demo::hosts::Host;
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{Security, Singleton, StartError};
use quorate_store_redb::Redb;

use super::billing::{Billing, Desk, Receipt};
use crate::node::{Clients, Hosted, TIMEOUT, Up, serve, start};
use crate::program::{NodeOptions, node_process, say};
use crate::stores::EndsIfFull;

/// Who may host it: all of these nodes.
const ROLE: &str = "billing";
/// Tasks of one node that send orders.
const CLIENTS: u64 = 2;
/// Between two orders of one client.
const PAUSE: Duration = Duration::from_millis(40);

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
        let builder = builder.role(ROLE);
        Ok(match &options.store {
            Some(path) => builder.store(EndsIfFull(Redb::open(path)?)),
            None => builder,
        })
    });
    let up = up.await?;
    let Up { cluster, runtime } = &up;
    let desk = Arc::new(Desk::default());
    let way = Arc::clone(&desk);
    let make = move |token| Billing::new(token, Arc::clone(&way));
    let node = Arc::new(Node {
        billing: cluster.singleton("billing").role(ROLE).start(make).await?,
        name: format!("n{}-{}", options.index + 1, options.life),
        clients: Clients::default(),
    });
    for client in 0..CLIENTS {
        let (node, clock) = (Arc::clone(&node), runtime.clone());
        runtime.spawn(async move { node.ask(client, &clock).await });
    }
    let (pass_on, wishes) = async_channel::unbounded();
    // The book's answers are heard whatever else the node is at.
    runtime.spawn(async move {
        while let Ok(line) = orders.recv().await {
            match line.strip_prefix("book ") {
                Some(reply) => desk.hear(reply),
                // Fails only while the process ends.
                None => drop(pass_on.try_send(line)),
            }
        }
    });
    serve(&node, &up, &wishes).await;
    Ok(())
}

struct Node {
    billing: Singleton<String, Receipt>,
    name: String,
    clients: Clients,
}

impl Node {
    /// One client: an order, a pause, for ever.
    async fn ask(&self, client: u64, runtime: &impl Runtime) {
        for count in 1_u64.. {
            let _turn = self.clients.next(runtime, PAUSE).await;
            let order = format!("{}-{client}-{count}", self.name);
            // An order that was not answered is sent again: its instance numbers it once.
            let number = self.clients.until_answered(runtime, || self.number(&order)).await;
            say(format_args!("done {order} {number}"));
            self.clients.has_acknowledged();
        }
    }

    async fn number(&self, order: &String) -> Result<u64, ()> {
        match self.billing.ask(order).timeout(TIMEOUT).await {
            Ok(Receipt::Number(number)) => Ok(number),
            Ok(Receipt::Stale) | Err(_) => Err(()),
        }
    }
}

impl Hosted for Node {
    fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Acknowledged, repeated, token.
    async fn shown<A: Adapter>(&self, _: &Up<A>) -> Option<String> {
        let token = self.billing.token().await.ok().flatten();
        let token = token.map_or_else(|| "-".to_owned(), |token| token.to_string());
        let (acknowledged, repeated) = self.clients.counts();
        Some(format!("{acknowledged} {repeated} {token}"))
    }
}
