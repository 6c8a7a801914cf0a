//! Nodes in this process, over loopback, and one entity per shard that says where it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quorate_driver::EntityContext;
use quorate_tokio::sharding::{AllocationSettings, PassivationSettings, ShardExtractor};
use quorate_tokio::{Cluster, Entity, Kind, Region, Security};

use super::Failure;

/// Time between two looks at the balance: it does not change what a round does.
pub(super) const LOOKS: Duration = Duration::from_millis(10);

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(600);

const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What all entities of a cluster do together.
#[derive(Debug)]
pub(super) struct Table {
    /// By shard: how many entities of it run, on all nodes.
    running: Vec<AtomicUsize>,
    /// How often one began while it ran.
    pub(super) twice: AtomicUsize,
}

impl Table {
    pub(super) fn new(shards: u32) -> Arc<Self> {
        Arc::new(Self {
            running: (0..shards).map(|_| AtomicUsize::new(0)).collect(),
            twice: AtomicUsize::new(0),
        })
    }
}

/// The entity of a shard.
pub(super) struct Resident {
    table: Arc<Table>,
    shard: usize,
    /// The position of its node.
    node: usize,
}

impl Resident {
    fn new(table: &Arc<Table>, shard: usize, node: usize) -> Self {
        let before = table
            .running
            .get(shard)
            .map(|count| count.fetch_add(1, Ordering::AcqRel));
        if before != Some(0) {
            table.twice.fetch_add(1, Ordering::Relaxed);
        }
        Self {
            table: Arc::clone(table),
            shard,
            node,
        }
    }
}

impl Entity for Resident {
    type Message = ();
    type Reply = usize;

    async fn handle(&mut self, _: &EntityContext, (): ()) -> usize {
        self.node
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        if let Some(count) = self.table.running.get(self.shard) {
            count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

pub(super) fn id(shard: usize) -> [u8; 4] {
    u32::try_from(shard).unwrap_or(u32::MAX).to_be_bytes()
}

/// A node that is up. The first two wait for each other.
pub(super) async fn start(first: Option<&Cluster>) -> Result<Cluster, Failure> {
    let mut builder = quorate_tokio::builder("rebalance")
        .bind("127.0.0.1:0")
        .security(Security::insecure_plaintext())
        .config(|config| config.sharding.rebalance_interval = LOOKS);
    if let Some(first) = first {
        builder = builder.seeds([first.address().address()]);
    }
    let node = builder.start().await?;
    if first.is_none() {
        node.join([node.address().address()]).await?;
    }
    node.up().await?;
    Ok(node)
}

/// Registers the kind on the node in this position, and waits until the coordinator knows it.
pub(super) async fn host(
    (at, node): (usize, &Cluster),
    shards: u32,
    strategy: AllocationSettings,
    table: &Arc<Table>,
) -> Result<Region<(), usize>, Failure> {
    let kind = Kind::new("resident")
        .shards(shards)
        .extractor(ShardExtractor::custom("own-shard", |id, _| {
            <[u8; 4]>::try_from(id.as_bytes()).map_or(0, u32::from_be_bytes)
        }))
        .passivation(PassivationSettings::off())
        .allocation(strategy);
    let table = Arc::clone(table);
    let make = move |context: EntityContext| Resident::new(&table, context.shard().0 as usize, at);
    let region = node.entities(kind).start(make).await?;
    let started = Instant::now();
    while !region.is_registered().await? {
        wait(started, "a coordinator knows the region").await?;
    }
    Ok(region)
}

/// A short pause, unless that went on for too long.
pub(super) async fn wait(started: Instant, until: &str) -> Result<(), Failure> {
    if started.elapsed() > PATIENCE {
        return Err(format!("waited in vain until {until}").into());
    }
    tokio::time::sleep(LOOK_AGAIN).await;
    Ok(())
}
