//! Three nodes in one process share a thousand counters; one node leaves, and its counters start again
//! elsewhere: entities keep nothing but memory. `cargo run --example sharded_counter`
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use quorate_tokio::{Cluster, ClusterError, Entity, EntityContext, Kind, Region, Security};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
enum Count {
    Add(u64),
    Read,
}

/// The value, and the node that holds it.
type Value = (u64, String);

struct Counter {
    value: u64,
    node: String,
}

impl Entity for Counter {
    type Message = Count;
    type Reply = Value;

    async fn handle(&mut self, _: &EntityContext, message: Count) -> Value {
        match message {
            Count::Add(number) => self.value += number,
            Count::Read => {}
        }
        (self.value, self.node.clone())
    }
}

async fn node() -> Result<Cluster, Box<dyn std::error::Error>> {
    let builder = quorate_tokio::builder("counters")
        .bind("127.0.0.1:0")
        .fast_profile();
    Ok(builder.security(Security::insecure_plaintext()).start().await?)
}

async fn host(cluster: &Cluster) -> Result<Region<Count, Value>, ClusterError> {
    let node = cluster.address().address().to_string();
    let make = move |_: EntityContext| Counter {
        value: 0,
        node: node.clone(),
    };
    cluster
        .entities(Kind::new("counter").shards(30))
        .start(make)
        .await
}

/// Asks all counters and prints how many live where, and what they add up to.
async fn survey(region: &Region<Count, Value>) -> Result<u64, Box<dyn std::error::Error>> {
    let (mut homes, mut sum) = (BTreeMap::<String, u32>::new(), 0);
    for number in 0..1_000 {
        let (value, node) = region
            .entity(format!("counter-{number}"))
            .ask(Count::Read)
            .await?;
        *homes.entry(node).or_default() += 1;
        sum += value;
    }
    for (node, counters) in homes {
        println!("  {node} has {counters} counters");
    }
    println!("  their sum is {sum}");
    Ok(sum)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (first, second, third) = (node().await?, node().await?, node().await?);
    let seed = first.address().address().clone();
    for cluster in [&first, &second, &third] {
        host(cluster).await?;
        cluster.join([&seed]).await?;
    }
    for cluster in [&first, &second, &third] {
        cluster.up().await?;
    }
    println!("three nodes are up");

    let region = host(&first).await?;
    for number in 0..1_000 {
        region
            .entity(format!("counter-{number}"))
            .tell(Count::Add(1))
            .await?;
    }
    survey(&region).await?;

    println!("{} leaves: {:?}", third.address(), third.leave().await?);
    survey(&region).await?;

    second.leave().await?;
    first.leave().await?;
    Ok(())
}
