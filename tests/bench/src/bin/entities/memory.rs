//! What an entity takes in memory, when it waits for a message and in the middle of one.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quorate_tokio::Kind;
use quorate_tokio::sharding::PassivationSettings;

use super::nodes::{Table, host, start, stop, tell_all, until};
use super::{ALLOCATOR, Failure};

pub(super) async fn measure(entities: usize) -> Result<String, Failure> {
    let table = Table::new();
    let nodes = start(None, |_| {}).await?;
    let kind = || Kind::new("small").passivation(PassivationSettings::off());
    let regions = host(&nodes, kind, &table).await?;
    // All shards have homes and all buffers their sizes before anything is counted.
    let few = (entities / 50).max(1_000).min(entities);
    tell_all(&regions, few, false).await?;
    let handled = |count| {
        let table = &table;
        move || table.handled.load(Ordering::Relaxed) >= count
    };
    until("the first are there", handled(few)).await?;
    let base = settled().await;

    let started = Instant::now();
    tell_all(&regions, entities, false).await?;
    until("all have handled a message", handled(few + entities)).await?;
    let starts_per_s = entities as f64 / started.elapsed().as_secs_f64();
    let per = |now: usize, count: usize| now.saturating_sub(base) as f64 / count as f64;
    let new = entities - few;
    let idle = per(settled().await, new);

    tell_all(&regions, entities, true).await?;
    let inside = || table.inside.load(Ordering::Relaxed) == entities;
    until("all are in the middle of a message", inside).await?;
    // Those that were there before wait as well.
    let active = idle + (settled().await as f64 - (base as f64 + idle * new as f64)) / entities as f64;
    let resident = resident_bytes().unwrap_or(0) as f64 / entities as f64;
    table.gate.add_permits(entities);
    until("all are done", handled(few + 2 * entities)).await?;
    let after = per(settled().await, new);
    stop(nodes, &table).await?;

    println!(
        "memory: {entities} entities on three nodes, {starts_per_s:.0} started a second; bytes per entity: {idle:.0} idle, \
         {active:.0} in the middle of a message, {after:.0} idle again; resident {resident:.0} in all"
    );
    Ok(format!(
        "\"memory\":{{\"entities\":{entities},\"starts_per_s\":{starts_per_s:.0},\"idle_bytes\":{idle:.0},\
         \"active_bytes\":{active:.0},\"idle_again_bytes\":{after:.0},\"resident_bytes\":{resident:.0}}}"
    ))
}

/// What is allocated once it does not change any more.
async fn settled() -> usize {
    let mut last = usize::MAX;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = ALLOCATOR.allocated();
        if last.abs_diff(now) < 64 << 10 {
            return now;
        }
        last = now;
    }
    last
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}
