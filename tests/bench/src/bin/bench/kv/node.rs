//! The nodes: three that own every range, and the one that calls. What is not said here is the documented
//! default, with the timings of one machine.

use std::io::Write;
use std::time::Duration;

use quorate_demo::process;
use quorate_demo::trust;
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{Cluster, Security};

use super::{Bucket, OWNERS};
use crate::{Failure, floor, sharded};

/// Between two looks at whether the ranges have owners.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

async fn open(cluster: &Cluster) -> Result<Bucket, Failure> {
    let bucket = cluster.kv("bench").role(sharded::SERVER).memory();
    Ok(bucket.copies(OWNERS as u8).open().await?)
}

/// The process that owns, hosts the entity, and is the other end of a bare link.
pub(crate) async fn serve<A: Adapter>(seed: &str) -> Result<(), Failure> {
    let security = trust::introduced(&process::introduction()?)?;
    process::end_with_parent()?;
    let cluster = sharded::host::<A>(&security, Some(seed).filter(|seed| !seed.is_empty())).await?;
    let _bucket = open(&cluster).await?;
    let (address, floor) = floor::listen::<A>(&security).await?;
    let mut out = std::io::stdout();
    writeln!(out, "{} {address}", cluster.address().address())?;
    out.flush()?;
    floor.await;
    Ok(())
}

/// The node that calls, once every range has owners.
pub(super) async fn caller<A: Adapter>(
    seed: &str,
    security: &Security,
) -> Result<(Cluster, Bucket), Failure> {
    let cluster = sharded::client::<A>(seed, security).await?;
    let bucket = open(&cluster).await?;
    let runtime = A::runtime()?;
    // A key of each range: a call waits for its range's owners, and fails if they take too long.
    for number in 0..1_024 {
        while bucket.get(format!("waits-{number}")).await.is_err() {
            runtime.sleep_until(runtime.now().mono + LOOK_AGAIN).await;
        }
    }
    Ok((cluster, bucket))
}
