//! Three nodes and an entity that is as small as one can be, so that what is measured is not its state.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quorate_driver::EntityContext;
use quorate_tokio::{Cluster, Entity, Kind, Region, Security, store::MemoryStore};
use quorate_tokio::{Config, data::Pattern};
use tokio::sync::Semaphore;

use super::Failure;

pub(crate) const NODES: usize = 3;

/// Shards of the kind: as many per node as the documentation suggests for three times as many nodes.
const SHARDS: u32 = 100;

/// Tasks that tell entities something at once.
const TELLERS: usize = 64;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(600);

const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What all entities of a cluster do together.
pub(crate) struct Table {
    pub(crate) running: AtomicUsize,
    pub(crate) begun: AtomicUsize,
    pub(crate) handled: AtomicUsize,
    /// Messages that wait in a handler for their permit.
    pub(crate) inside: AtomicUsize,
    pub(crate) gate: Semaphore,
}

impl Table {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            running: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            handled: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            gate: Semaphore::new(0),
        })
    }
}

/// Knows nothing but who counts it.
pub(crate) struct Small(Arc<Table>);

impl Entity for Small {
    /// Whether to stay in the handler until the gate is opened.
    type Message = bool;
    type Reply = ();

    async fn handle(&mut self, _: &EntityContext, waits: bool) {
        if waits {
            self.0.inside.fetch_add(1, Ordering::Relaxed);
            let permit = self.0.gate.acquire().await;
            drop(permit);
            self.0.inside.fetch_sub(1, Ordering::Relaxed);
        }
        self.0.handled.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) fn id(number: usize) -> String {
    format!("entity-{number:07}")
}

/// Three nodes that are up. Nobody is up before all are.
pub(crate) async fn start(
    stores: Option<&[MemoryStore; NODES]>,
    change: impl Fn(&mut Config) + Clone + Send + 'static,
) -> Result<Vec<Cluster>, Failure> {
    let mut nodes: Vec<Cluster> = Vec::new();
    for at in 0..NODES {
        let change = change.clone();
        let mut builder = quorate_tokio::builder("entities")
            .bind("127.0.0.1:0")
            .security(Security::insecure_plaintext())
            .config(move |config| {
                config.membership.min_nr_of_members = NODES;
                config.ddata.durable_keys.extend(Pattern::parse("shard-*"));
                change(config);
            });
        if let Some(store) = stores.and_then(|stores| stores.get(at)) {
            builder = builder.store(store.clone());
        }
        if let Some(first) = nodes.first() {
            builder = builder.seeds([first.address().address()]);
        }
        let node = builder.start().await?;
        if at == 0 {
            node.join([node.address().address()]).await?;
        }
        nodes.push(node);
    }
    for node in &nodes {
        node.up().await?;
    }
    Ok(nodes)
}

/// Registers the kind on all nodes. The coordinator knows all of them before the first shard is placed, so
/// none has to move later.
pub(crate) async fn host(
    nodes: &[Cluster],
    kind: impl Fn() -> Kind<bool, ()>,
    table: &Arc<Table>,
) -> Result<Vec<Region<bool, ()>>, Failure> {
    let mut regions = Vec::new();
    for node in nodes {
        let table = Arc::clone(table);
        let make = move |_| {
            table.running.fetch_add(1, Ordering::Relaxed);
            table.begun.fetch_add(1, Ordering::Relaxed);
            Small(Arc::clone(&table))
        };
        regions.push(node.entities(kind().shards(SHARDS)).start(make).await?);
    }
    for region in &regions {
        let started = Instant::now();
        while !region.is_registered().await? {
            if started.elapsed() > PATIENCE {
                return Err("waited in vain until a coordinator knows all regions".into());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
    Ok(regions)
}

/// Tells every entity one message, from all nodes in turns; callers wait where a node is busy.
pub(crate) async fn tell_all(
    regions: &[Region<bool, ()>],
    entities: usize,
    waits: bool,
) -> Result<(), Failure> {
    let tellers = (0..TELLERS).map(|teller| {
        let regions = regions.to_vec();
        tokio::spawn(async move {
            for number in (teller..entities).step_by(TELLERS) {
                let Some(region) = regions.get(number % regions.len()) else {
                    continue;
                };
                region.entity(id(number)).tell(&waits).await?;
            }
            Ok::<_, quorate_tokio::TellError>(())
        })
    });
    for teller in tellers.collect::<Vec<_>>() {
        teller.await??;
    }
    Ok(())
}

/// Waits until this is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), Failure> {
    let started = Instant::now();
    while !is_so() {
        if started.elapsed() > PATIENCE {
            return Err(format!("waited in vain until {what}").into());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

/// Ends them; nothing of them is left in memory afterwards.
pub(crate) async fn stop(nodes: Vec<Cluster>, table: &Table) -> Result<(), Failure> {
    for node in nodes {
        node.stop().await;
    }
    until("no entity runs", || table.running.load(Ordering::Relaxed) == 0).await
}
