//! What an owner takes in memory for a key and its value.

use std::time::Duration;

use super::load::fill;
use super::nodes::{COPIES, Nodes};
use super::{ALLOCATOR, Failure};

const VALUE_BYTES: usize = 100;

pub(super) async fn measure(keys: usize) -> Result<String, Failure> {
    let nodes = Nodes::start().await?;
    // All buffers have their sizes before anything is counted.
    let few = keys / 10;
    fill(&nodes.bucket, 0..few, VALUE_BYTES).await?;
    let base = settled().await;
    fill(&nodes.bucket, few..keys, VALUE_BYTES).await?;
    let new = (keys - few) * COPIES;
    let per_key = settled().await.saturating_sub(base) as f64 / new as f64;
    nodes.stop().await;
    println!(
        "memory: {keys} keys of 16 B with values of {VALUE_BYTES} B, {per_key:.0} bytes for each at each owner"
    );
    Ok(format!(
        "\"memory\":{{\"keys\":{keys},\"bytes_per_key\":{per_key:.0}}}"
    ))
}

/// What is allocated once it does not change any more.
async fn settled() -> usize {
    let mut last = usize::MAX;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = ALLOCATOR.allocated();
        if last.abs_diff(now) < 64 << 10 {
            return now;
        }
        last = now;
    }
    last
}
