//! One node process of a fault program: joins, has clients that go on and halt as it is told, shows how
//! things stand, until its parent ends, or the node does, or it has left. What it hosts is each program's:
//! its [`Hosted`]. Every line it writes is one fact; the fleet and the program's proof say what they mean.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_channel::Receiver;
use futures_lite::future;
use quorate_demo::hosts::Host;
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{Cluster, ClusterBuilder, ClusterError, Security, StartError};

use crate::gate::{self, Cuttable};
use crate::program::{NodeOptions, READY, say};

/// Before something that failed is tried again.
pub(crate) const RETRY: Duration = Duration::from_millis(50);
/// How long an ask waits. What was not answered is sent again under its number or name, and counts once.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);
/// Processes share the machine, and some of them write to disks: who says nothing for a moment is not
/// removed.
pub(crate) const PAUSE_ACCEPTED: Duration = Duration::from_secs(3);
/// More than five nodes need, so that each has its share.
pub(crate) const SHARDS: u32 = 30;
/// Between two lines for the table.
const SHOW_EVERY: Duration = Duration::from_millis(250);

/// A node that is Up, and the executor of its clients.
pub(crate) struct Up<A: Adapter> {
    pub(crate) cluster: Cluster,
    pub(crate) runtime: A::Runtime,
}

/// What went wrong outside of the cluster.
pub(crate) fn environment(what: &'static str) -> impl Fn(io::Error) -> StartError {
    move |error| StartError::Environment { what, error }
}

/// Starts a node with what the program adds, and waits until it is Up.
pub(crate) async fn start<H: Host>(
    options: &NodeOptions,
    security: Security,
    add: impl FnOnce(ClusterBuilder<Security>) -> io::Result<ClusterBuilder<Security>>,
) -> Result<Up<Cuttable<H::Adapter>>, StartError> {
    let builder = ClusterBuilder::on::<Cuttable<H::Adapter>>(&options.cluster)
        .bind(&options.bind)
        .security(security)
        .fast_profile();
    let cluster = add(builder).map_err(environment("store"))?.start().await?;
    say(format_args!("listens {}", cluster.address().address()));
    match &options.seed {
        Some(seed) => cluster.join([seed]).await?,
        None => cluster.form().await?,
    }
    cluster.up().await.map_err(|_| ClusterError::Stopped)?;
    let runtime = <H::Adapter as Adapter>::runtime().map_err(environment("runtime"))?;
    Ok(Up { cluster, runtime })
}

/// Sleeps on a runtime.
pub(crate) async fn pause(runtime: &impl Runtime, time: Duration) {
    runtime.sleep_until(runtime.now().mono + time).await;
}

/// Whether the clients of a node are to go on, what they are at, and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    is_going: AtomicBool,
    /// What is under way.
    open: AtomicUsize,
    pub(crate) acknowledged: AtomicU64,
    /// Asks that ended with an error, after which the same was sent again.
    pub(crate) repeated: AtomicU64,
}

/// A client is at something, until this is dropped.
pub(crate) struct Turn<'a>(&'a Clients);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Clients {
    /// A client's turn; `None` if none is to go on.
    pub(crate) fn turn(&self) -> Option<Turn<'_>> {
        if !self.is_going.load(Ordering::SeqCst) {
            return None;
        }
        self.open.fetch_add(1, Ordering::SeqCst);
        let turn = Turn(self);
        // Only now: whoever stops them looks at what is open.
        self.is_going.load(Ordering::SeqCst).then_some(turn)
    }

    /// A client's next turn, after a pause.
    pub(crate) async fn next(&self, runtime: &impl Runtime, time: Duration) -> Turn<'_> {
        loop {
            pause(runtime, time).await;
            if let Some(turn) = self.turn() {
                return turn;
            }
        }
    }

    /// Asks until there is an answer.
    pub(crate) async fn until_answered<T, E, F>(&self, runtime: &impl Runtime, ask: impl Fn() -> F) -> T
    where
        F: Future<Output = Result<T, E>>,
    {
        loop {
            if let Ok(told) = ask().await {
                return told;
            }
            self.repeated.fetch_add(1, Ordering::SeqCst);
            pause(runtime, RETRY).await;
        }
    }

    pub(crate) fn has_acknowledged(&self) {
        self.acknowledged.fetch_add(1, Ordering::SeqCst);
    }

    /// What was acknowledged, and what was sent again.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let [acknowledged, repeated] =
            [&self.acknowledged, &self.repeated].map(|count| count.load(Ordering::SeqCst));
        (acknowledged, repeated)
    }

    fn are_idle(&self) -> bool {
        self.open.load(Ordering::SeqCst) == 0
    }
}

/// What a program has in each of its nodes.
pub(crate) trait Hosted: Send + Sync + 'static {
    fn clients(&self) -> &Clients;

    /// What the node shows of itself, words with blanks between; `None` if it cannot be had.
    async fn shown<A: Adapter>(&self, up: &Up<A>) -> Option<String>;

    /// Does what only this program's nodes are told; `false` if that is nothing it knows.
    async fn obey<A: Adapter>(self: &Arc<Self>, _up: &Up<A>, _order: &str, _rest: &str) -> bool {
        false
    }
}

/// Does what the parent says until the node has ended or left.
pub(crate) async fn serve<A: Adapter>(node: &Arc<impl Hosted>, up: &Up<A>, orders: &Receiver<String>) {
    say(format_args!("{READY}{}", up.cluster.address().address()));
    let ended = async {
        up.cluster.terminated().await;
    };
    let left = async {
        obey::<A>(node, up, orders).await;
        // Its clients go on until it has ended: what they have sent is answered by others.
        let left = up.cluster.leave().await;
        say(format_args!("left {}", left.is_ok_and(|left| left.is_graceful())));
    };
    future::or(ended, left).await;
}

/// Does what the parent says, and shows how things stand, until this node is to leave.
async fn obey<A: Adapter>(node: &Arc<impl Hosted>, up: &Up<A>, orders: &Receiver<String>) {
    let (clients, mut is_halting) = (node.clients(), false);
    loop {
        let due = async {
            pause(&up.runtime, SHOW_EVERY).await;
            None
        };
        match future::or(async { orders.recv().await.ok() }, due).await {
            None => show::<A>(&**node, up).await,
            Some(line) => match line.split_once(' ').unwrap_or((&line, "")) {
                ("go", _) => clients.is_going.store(true, Ordering::SeqCst),
                ("halt", _) => {
                    clients.is_going.store(false, Ordering::SeqCst);
                    is_halting = true;
                }
                ("cut", _) => gate::cut(),
                ("heal", _) => gate::heal(),
                ("leave", _) => return,
                (order, rest) => {
                    if !node.obey(up, order, rest).await {
                        say(format_args!("note unknown order {line}"));
                    }
                }
            },
        }
        if is_halting && clients.are_idle() {
            is_halting = false;
            show::<A>(&**node, up).await;
            say(format_args!("idle"));
        }
    }
}

async fn show<A: Adapter>(node: &impl Hosted, up: &Up<A>) {
    if let Some(shown) = node.shown(up).await {
        say(format_args!("show {shown}"));
    }
}

/// Does so many parts of something at a time, and says a word behind the last: beside what the node is at.
pub(crate) fn in_parts<R: Runtime, F>(runtime: &R, parts: u64, word: &'static str, part: impl Fn(u64) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let left = Arc::new(AtomicU64::new(parts));
    for first in 0..parts {
        let (work, left) = (part(first), Arc::clone(&left));
        runtime.spawn(async move {
            work.await;
            if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                say(format_args!("{word}"));
            }
        });
    }
}
