//! Every strategy with the same limit: all entities run, then no more than may, and then all get a message
//! again while that limit holds. What a strategy leaves is known exactly; the program fails if it is another
//! number.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use quorate_tokio::sharding::{LimitSettings, PassivationSettings, Replacement, Segments, SketchSettings};
use quorate_tokio::{Cluster, Kind, Region};

use super::Failure;
use super::nodes::{NODES, Table, host, start, stop, tell_all, until};

/// What one strategy did.
struct Row {
    name: &'static str,
    before: usize,
    after: usize,
    passivated: u64,
    seconds: f64,
    /// Messages to all entities in turn, while no more than `after` may run.
    messages_per_s: f64,
    passivated_meanwhile: u64,
}

pub(super) async fn measure(entities: usize, limit: usize) -> Result<String, Failure> {
    let mut rows = Vec::new();
    println!("passivation: {entities} entities, of which {limit} may run");
    for (name, settings) in strategies(entities)? {
        let row = passivate(name, &settings, entities, limit).await?;
        println!(
            "  {name:<22} {:>8} before, {:>8} after {:>6.2} s, {:>8} passivated; then {:>7.0} messages/s, {:>8} passivated",
            row.before, row.after, row.seconds, row.passivated, row.messages_per_s, row.passivated_meanwhile
        );
        rows.push(format!(
            "{{\"strategy\":\"{}\",\"before\":{},\"after\":{},\"passivated\":{},\"seconds\":{:.3},\"messages_per_s\":{:.0},\
             \"passivated_meanwhile\":{}}}",
            row.name,
            row.before,
            row.after,
            row.passivated,
            row.seconds,
            row.messages_per_s,
            row.passivated_meanwhile
        ));
    }
    Ok(format!(
        "\"passivation\":{{\"entities\":{entities},\"limit\":{limit},\"strategies\":[{}]}}",
        rows.join(",")
    ))
}

async fn passivate(
    name: &'static str,
    settings: &LimitSettings,
    entities: usize,
    limit: usize,
) -> Result<Row, Failure> {
    let table = Table::new();
    let nodes = start(None, |_| {}).await?;
    let kind = || Kind::new("small").passivation(PassivationSettings::limit(settings.clone()));
    let regions = host(&nodes, kind, &table).await?;
    all_handle(&regions, &table, entities).await?;
    let before = running(&table);
    if before != entities {
        return Err(format!("{name}: {before} of {entities} run before there is a limit").into());
    }

    let most = most_left(&nodes, limit).await?;
    let started = Instant::now();
    for region in &regions {
        region.set_entity_limit(limit / NODES).await?;
    }
    until("those that are too many have gone", || running(&table) <= most).await?;
    let seconds = started.elapsed().as_secs_f64();
    let passivated = count_passivated(&nodes).await?;
    expect_left(name, &table, most, passivated)?;

    let started = Instant::now();
    all_handle(&regions, &table, entities).await?;
    let messages_per_s = entities as f64 / started.elapsed().as_secs_f64();
    until("no more run than may", || running(&table) <= most).await?;
    let in_all = count_passivated(&nodes).await?;
    expect_left(name, &table, most, in_all)?;
    for node in &nodes {
        let lost = node.stats().await?.core.sharding.dead_letters;
        if lost > 0 {
            return Err(format!("{name}: {lost} messages were lost").into());
        }
    }
    stop(nodes, &table).await?;
    Ok(Row {
        name,
        before,
        after: most,
        passivated,
        seconds,
        messages_per_s,
        passivated_meanwhile: in_all - passivated,
    })
}

fn running(table: &Table) -> usize {
    table.running.load(Ordering::Relaxed)
}

/// Has every entity handle one message more.
async fn all_handle(
    regions: &[Region<bool, ()>],
    table: &Arc<Table>,
    entities: usize,
) -> Result<(), Failure> {
    let wanted = table.handled.load(Ordering::Relaxed) + entities;
    tell_all(regions, entities, false).await?;
    let handled = || table.handled.load(Ordering::Relaxed) >= wanted;
    until("all have handled a message", handled).await
}

/// How many entities are left under a limit for all nodes together: each shard has its equal part of its
/// region's, at least one.
async fn most_left(nodes: &[Cluster], limit: usize) -> Result<usize, Failure> {
    let mut most = 0;
    for node in nodes {
        for kind in node.sharding_state().await? {
            let hosted = kind.region.hosted;
            let each = (limit / NODES / hosted.len().max(1)).max(1);
            most += hosted
                .iter()
                .map(|(_, running)| each.min(*running))
                .sum::<usize>();
        }
    }
    Ok(most)
}

async fn count_passivated(nodes: &[Cluster]) -> Result<u64, Failure> {
    let mut passivated = 0;
    for node in nodes {
        passivated += node.stats().await?.core.sharding.entities_passivated;
    }
    Ok(passivated)
}

/// Neither more nor fewer than this are left, and who has gone was passivated.
fn expect_left(name: &str, table: &Table, most: usize, passivated: u64) -> Result<(), Failure> {
    let (left, begun) = (running(table), table.begun.load(Ordering::Relaxed));
    if left != most || begun as u64 - passivated != left as u64 {
        let words =
            format!("{name}: {begun} have begun, {passivated} were passivated, {left} run, {most} should");
        return Err(words.into());
    }
    Ok(())
}

/// All strategies of the documentation, with a limit that nobody reaches at first.
fn strategies(entities: usize) -> Result<Vec<(&'static str, LimitSettings)>, Failure> {
    // The parts of the shards are equal, their entities are not.
    let per_region = NonZeroUsize::new(4 * entities).ok_or("a limit of nothing")?;
    let plain = |replacement| LimitSettings::plain(per_region, replacement);
    Ok(vec![
        ("LRU", plain(Replacement::LeastRecentlyUsed)),
        (
            "segmented LRU",
            plain(Replacement::Segmented(Segments::default())),
        ),
        ("MRU", plain(Replacement::MostRecentlyUsed)),
        ("LFU", plain(Replacement::LeastFrequentlyUsed { aging: false })),
        (
            "LFU with aging",
            plain(Replacement::LeastFrequentlyUsed { aging: true }),
        ),
        (
            "LRU behind a sketch",
            LimitSettings {
                filter: Some(SketchSettings::default()),
                ..plain(Replacement::LeastRecentlyUsed)
            },
        ),
        (
            // A window that climbs, a sketch, segments behind it.
            "composite",
            LimitSettings {
                per_region,
                ..LimitSettings::default()
            },
        ),
    ])
}
