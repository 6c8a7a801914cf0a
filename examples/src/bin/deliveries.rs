//! Reliable delivery, work pulling and daemons in one process: three nodes, of which one stops without a word in the middle. Every message is
//! confirmed, every job is done, and the daemons run elsewhere. `cargo run --release --bin deliveries`
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Duration;

use quorate_tokio::delivery::{Consumer, Delivery, Parcel, Receipt, ToEntitiesSettings};
use quorate_tokio::{Cluster, Daemon, DaemonContext, EntityContext, Kind, Security, WorkQueue};

const BASKETS: u32 = 20;
const ITEMS: u32 = 50;
const JOBS: u32 = 100;

#[derive(Default)]
struct Basket {
    items: u32,
}

impl Consumer for Basket {
    type Message = u32;

    async fn handle(&mut self, _: &EntityContext, delivery: Delivery<u32>) {
        self.items += 1;
        delivery.confirm();
    }
}

/// Says that it begins.
struct Clock(u32);

impl Daemon for Clock {
    async fn run(&mut self, daemon: &DaemonContext) {
        let (count, node) = (daemon.count(), daemon.entity().node());
        println!("  daemon {} of {count} runs on {node}", self.0);
        daemon.stopping().await;
    }
}

async fn node() -> Result<Cluster, Box<dyn Error>> {
    let builder = Cluster::builder("deliveries").bind("127.0.0.1:0").fast_profile();
    Ok(builder.security(Security::insecure_plaintext()).start().await?)
}

async fn work(queue: WorkQueue<u32>) {
    let mut worker = queue.worker();
    while let Some(job) = worker.next().await {
        // The place to do `job.message()`.
        job.confirm();
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let nodes = [node().await?, node().await?, node().await?];
    let seed = nodes[0].address().address().clone();
    for cluster in &nodes {
        cluster.join([&seed]).await?;
    }
    let (mut regions, mut queues, mut daemons) = (Vec::new(), Vec::new(), Vec::new());
    for cluster in &nodes {
        cluster.up().await?;
        let kind = Kind::<Parcel<u32>, Receipt>::new("basket").shards(30);
        regions.push(cluster.register_consumer(kind, |_| Basket::default()).await?);
        queues.push(cluster.work_queue("jobs").start::<u32>().await?);
        daemons.push(cluster.daemons("clocks").start(3, Clock).await?);
    }
    println!("three nodes are up, and three daemons are to run");
    for queue in &queues[..2] {
        tokio::spawn(work(queue.clone()));
    }

    let settings = ToEntitiesSettings {
        resend_idle: Duration::from_secs(1),
        ..ToEntitiesSettings::default()
    };
    let shop = regions[0].producer("shop").settings(settings).start().await?;
    for item in 0..ITEMS {
        for basket in 0..BASKETS {
            drop(shop.send(format!("basket-{basket}"), &item).await?);
        }
        if item == ITEMS / 2 {
            println!("{} stops without a word", nodes[2].address());
            nodes[2].stop().await;
        }
    }
    for job in 0..JOBS {
        queues[0].push(&job).await?;
    }
    shop.flushed().await?;
    let host = nodes[0].stats().await?.host;
    println!(
        "{} of {} messages are confirmed, {} were sent again",
        host.deliveries_confirmed,
        BASKETS * ITEMS,
        host.deliveries_resent
    );
    while queues[0].state().await?.unfinished > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{JOBS} of {JOBS} jobs are done");

    let state = daemons[0].rescale(5).await?;
    println!(
        "the daemons are {} now, revision {}:",
        state.count, state.revision
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    nodes[1].leave().await?;
    nodes[0].leave().await?;
    Ok(())
}
