//! Nodes that own the ranges of one bucket, and one that owns nothing and calls.

use std::time::{Duration, Instant};

use quorate_bench::payload::Bytes;
use quorate_tokio::kv::Kv;
use quorate_tokio::{Cluster, Security};

use super::Failure;

/// Copies of each value, and owners to begin with.
pub(crate) const COPIES: usize = 3;

const ROLE: &str = "owner";
const BUCKET: &str = "bench";

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(900);

const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The owners, and how a node that owns nothing calls.
pub(crate) struct Nodes {
    owners: Vec<Cluster>,
    caller: Cluster,
    pub(crate) bucket: Kv<Bytes>,
}

async fn join(seed: Option<&Cluster>, role: &str) -> Result<(Cluster, Kv<Bytes>), Failure> {
    let builder = quorate_tokio::builder("ranges")
        .bind("127.0.0.1:0")
        .role(role)
        .security(Security::insecure_plaintext())
        // More than is put: what is measured is not the limit.
        .config(|config| config.kv.store_bytes_max = 16 << 30);
    let node = builder.start().await?;
    match seed {
        Some(seed) => node.join([seed.address().address()]).await?,
        None => node.form().await?,
    }
    node.up().await?;
    let bucket = node.kv(BUCKET).role(ROLE).memory().copies(COPIES as u8).open();
    let bucket = bucket.await?;
    Ok((node, bucket))
}

impl Nodes {
    /// As many owners as there are copies, each of all ranges.
    pub(crate) async fn start() -> Result<Self, Failure> {
        let mut owners: Vec<Cluster> = Vec::new();
        for _ in 0..COPIES {
            owners.push(join(owners.first(), ROLE).await?.0);
        }
        let (caller, bucket) = join(owners.first(), "caller").await?;
        let nodes = Self {
            owners,
            caller,
            bucket,
        };
        let first = nodes.owners.first().ok_or("no owner")?;
        until("all ranges have owners", async || {
            Ok(owned(first, None).await?.0 == 0)
        })
        .await?;
        Ok(nodes)
    }

    /// One more owner joins. Completes once it owns its share and nothing moves any more; says how many
    /// ranges it has then, and how long that took from when it had opened the bucket.
    pub(crate) async fn grow(&mut self) -> Result<(usize, Duration), Failure> {
        let first = self.owners.first().ok_or("no owner")?;
        let (newcomer, _) = join(Some(first), ROLE).await?;
        let began = Instant::now();
        let mut moved = 0;
        until("the newcomer owns its share", async || {
            let (unsettled, owns) = owned(first, Some(&newcomer)).await?;
            moved = owns;
            Ok(unsettled == 0 && owns >= share(first).await?)
        })
        .await?;
        let took = began.elapsed();
        self.owners.push(newcomer);
        Ok((moved, took))
    }

    pub(crate) async fn stop(self) {
        self.caller.stop().await;
        for owner in self.owners {
            owner.stop().await;
        }
    }
}

/// Ranges that one of four owners has when all have as many, rounded down.
async fn share(node: &Cluster) -> Result<usize, Failure> {
    let states = node.kv_state().await?;
    let ranges = states.first().map_or(0, |state| state.ranges.len());
    Ok(ranges * COPIES / (COPIES + 1))
}

/// Ranges that nobody owns or that change owners; and those that `whose` store owns.
async fn owned(node: &Cluster, whose: Option<&Cluster>) -> Result<(usize, usize), Failure> {
    let states = node.kv_state().await?;
    let state = states.first().ok_or("the bucket is not open")?;
    let mut unsettled = 0;
    let mut owns = 0;
    for range in &state.ranges {
        let Some(configuration) = &range.configuration else {
            unsettled += 1;
            continue;
        };
        let (owners, joining) = configuration.owners.sets();
        unsettled += usize::from(joining.is_some());
        let is_of = |store| state.stores.get(store) == whose.map(Cluster::address);
        owns += usize::from(whose.is_some() && owners.iter().any(is_of));
    }
    Ok((unsettled, owns))
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let started = Instant::now();
    while !is_so().await? {
        if started.elapsed() > PATIENCE {
            return Err(format!("waited in vain until {what}").into());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}
