//! The nodes: three that own every range, and the one that calls. What is not said here is the documented
//! default, with the timings of one machine.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::zip;
use quorate_demo::process;
use quorate_demo::trust;
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{Cluster, Security};
use quorate_store_redb::Redb;

use super::{Bucket, OWNERS};
use crate::data::Disk;
use crate::{Failure, floor, sharded};

/// Between two looks at whether the ranges have owners.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What a process that owns has to know.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Where its store is, and the file that its bare link commits to.
    pub(super) folder: PathBuf,
    /// Whom it joins; the first forms the cluster.
    pub(super) seed: String,
}

impl Place {
    /// From the arguments of a process.
    pub(crate) fn read(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, Failure> {
        let mut next = || arguments.next().ok_or("an argument is missing");
        Ok(Self {
            folder: next()?.into(),
            seed: next()?.into_string().map_err(|_| "an address is text")?,
        })
    }
}

/// The bucket in memory, and the durable one.
async fn open(cluster: &Cluster) -> Result<[Bucket; 2], Failure> {
    let bucket = |name| cluster.kv(name).role(sharded::SERVER).copies(OWNERS as u8);
    Ok([
        bucket("memory").memory().open().await?,
        bucket("durable").open().await?,
    ])
}

/// The process that owns, hosts the entity, and is the other end of two bare links, of which one commits.
pub(crate) async fn serve<A: Adapter>(place: &Place) -> Result<(), Failure> {
    let security = trust::introduced(&process::introduction()?)?;
    process::end_with_parent()?;
    let folder = place.folder.clone();
    let (store, disk) = blocking::unblock(move || {
        std::fs::create_dir_all(&folder)?;
        let (store, disk) = (folder.join("store.redb"), folder.join("bare.redb"));
        Ok::<_, Failure>((Redb::open(store)?, Disk::create(&disk)?))
    })
    .await?;
    let seed = Some(place.seed.as_str()).filter(|seed| !seed.is_empty());
    let cluster = sharded::host::<A>(&security, seed, Some(store)).await?;
    let _buckets = open(&cluster).await?;
    let (plain, floor) = floor::listen::<A>(&security, None).await?;
    let (committed, committing) = floor::listen::<A>(&security, Some(Arc::new(disk))).await?;
    let mut out = std::io::stdout();
    writeln!(out, "{} {plain} {committed}", cluster.address().address())?;
    out.flush()?;
    zip(floor, committing).await;
    Ok(())
}

/// The node that calls, once every range has owners.
pub(super) async fn caller<A: Adapter>(
    seed: &str,
    security: &Security,
) -> Result<(Cluster, [Bucket; 2]), Failure> {
    let cluster = sharded::client::<A>(seed, security).await?;
    let buckets = open(&cluster).await?;
    let runtime = A::runtime()?;
    for bucket in &buckets {
        // A key of each range: a call waits for its range's owners, and fails if they take too long.
        for number in 0..1_024 {
            while bucket.get(format!("waits-{number}")).await.is_err() {
                runtime.sleep_until(runtime.now().mono + LOOK_AGAIN).await;
            }
        }
    }
    Ok((cluster, buckets))
}
