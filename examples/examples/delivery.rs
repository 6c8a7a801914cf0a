//! Messages that are sent again until they are confirmed, in order, while the entity that they are for moves
//! to another node. `cargo run --example delivery`
#![forbid(unsafe_code)]

use quorate_tokio::delivery::{Consumer, Delivery};
use quorate_tokio::{Cluster, EntityContext, Kind, Region, Security};

type Failed = Box<dyn std::error::Error>;

/// Takes what a basket is given.
struct Basket {
    node: String,
    items: Vec<u64>,
}

impl Consumer for Basket {
    type Message = u64;

    async fn handle(&mut self, context: &EntityContext, delivery: Delivery<u64>) {
        self.items.push(*delivery.message());
        println!("{} on {}: {:?}", context.id_text(), self.node, self.items);
        delivery.confirm(); // handled: it need not be sent again
    }
}

async fn node(seed: Option<&Cluster>) -> Result<(Cluster, Region<Delivery<u64>, ()>), Failed> {
    let builder = quorate_tokio::builder("shop").bind("127.0.0.1:0").fast_profile();
    let cluster = builder.security(Security::insecure_plaintext()).start().await?;
    cluster
        .join([seed.unwrap_or(&cluster).address().address()])
        .await?;
    cluster.up().await?;
    let node = cluster.address().address().to_string();
    let make = move |_| Basket {
        node: node.clone(),
        items: Vec::new(),
    };
    let baskets = cluster.entities(Kind::new("basket")).start_consumer(make).await?;
    Ok((cluster, baskets))
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let (first, _) = node(None).await?;
    let (second, baskets) = node(Some(&first)).await?;

    let shop = baskets.producer("shop").start().await?;
    for item in 1..=3 {
        shop.send("ada", &item).await?.await?; // the basket has confirmed it
    }
    // What is on its way when a node leaves arrives where the basket lives then.
    let confirmed: Vec<_> = [shop.send("ada", 4).await?, shop.send("ada", 5).await?].into();
    println!("{} leaves: {:?}", first.address(), first.leave().await?);
    for confirmed in confirmed {
        confirmed.await?;
    }
    shop.send("ada", 6).await?.await?;
    shop.flushed().await?;
    println!("everything is confirmed");

    drop(shop);
    second.leave().await?;
    Ok(())
}
