//! All nodes are stopped and started again on the same stores: how long until every remembered entity runs,
//! all at once and at a constant rate.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quorate_tokio::sharding::{EntityRecovery, RememberStore};
use quorate_tokio::{Kind, Region, store::MemoryStore};

use super::Failure;
use super::nodes::{NODES, Table, host, id, start, stop, until};

/// Asks of entities that are new at once: each waits until a majority remembers it.
const ASKERS: usize = 1_000;

/// Per node and tenth of a second, in the run at a constant rate.
const RATE: usize = 500;

pub(super) async fn measure(entities: usize) -> Result<String, Failure> {
    let stores = [(); NODES].map(|()| MemoryStore::new());
    let remembering = |config: &mut quorate_tokio::Config| {
        config.sharding.updating_state_timeout = Duration::from_secs(60);
    };
    let kind = || Kind::new("small").remember_entities(RememberStore::Data);
    let table = Table::new();
    let nodes = start(Some(&stores), remembering).await?;
    let regions = host(&nodes, kind, &table).await?;
    let started = Instant::now();
    ask_all(&regions, entities).await?;
    let remembered_per_s = entities as f64 / started.elapsed().as_secs_f64();
    stop(nodes, &table).await?;

    let mut seconds = Vec::new();
    let rate = EntityRecovery::ConstantRate {
        frequency: Duration::from_millis(100),
        entities: RATE,
    };
    for how in [EntityRecovery::All, rate] {
        let table = Table::new();
        let nodes = start(Some(&stores), move |config| {
            remembering(config);
            config.sharding.entity_recovery = how;
        })
        .await?;
        let started = Instant::now();
        let _regions = host(&nodes, kind, &table).await?;
        let running = || table.running.load(Ordering::Relaxed) >= entities;
        until("all run again", running).await?;
        seconds.push(started.elapsed().as_secs_f64());
        let begun = table.begun.load(Ordering::Relaxed);
        if begun != entities {
            return Err(format!("{begun} began of {entities} that are remembered").into());
        }
        stop(nodes, &table).await?;
    }
    let [all, constant] = <[f64; 2]>::try_from(seconds).map_err(|_| "two ways")?;
    println!(
        "recovery: {entities} entities remembered ({remembered_per_s:.0} new ones a second); all run {all:.1} s after they \
         were registered, {constant:.1} s at {RATE} per node and 100 ms"
    );
    Ok(format!(
        "\"recovery\":{{\"entities\":{entities},\"remembered_per_s\":{remembered_per_s:.0},\"all_s\":{all:.2},\
         \"constant_rate_s\":{constant:.2}}}"
    ))
}

async fn ask_all(regions: &[Region<bool, ()>], entities: usize) -> Result<(), Failure> {
    let next = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let askers = (0..ASKERS).map(|asker| {
        let (next, region) = (Arc::clone(&next), regions.get(asker % NODES).cloned());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(region) = region.as_ref().filter(|_| number < entities) else {
                    return;
                };
                // One whose write was late is asked again.
                while region
                    .entity(id(number))
                    .ask(false)
                    .timeout(Duration::from_secs(60))
                    .await
                    .is_err()
                {}
            }
        })
    });
    for asker in askers.collect::<Vec<_>>() {
        asker.await?;
    }
    Ok(())
}
