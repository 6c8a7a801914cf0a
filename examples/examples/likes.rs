//! Counters and sets without a database: every node has them, each writes alone, and all agree once they have
//! heard of each other. `cargo run --example likes`
#![forbid(unsafe_code)]

use quorate_tokio::data::{CounterKind, ObservedSet, Read, Write};
use quorate_tokio::{Cluster, Security};

type Failed = Box<dyn std::error::Error>;

async fn node(seed: Option<&Cluster>) -> Result<Cluster, Failed> {
    let builder = quorate_tokio::builder("likes").bind("127.0.0.1:0").fast_profile();
    let cluster = builder.security(Security::insecure_plaintext()).start().await?;
    cluster
        .join([seed.unwrap_or(&cluster).address().address()])
        .await?;
    cluster.up().await?;
    Ok(cluster)
}

/// Somebody likes a post, and is heard of on this node.
async fn like(node: &Cluster, who: &str, post: &str) -> Result<(), Failed> {
    let (post, data) = (post.to_owned(), node.data());
    let fans = data.map::<String, ObservedSet<String>>("fans");
    fans.add(&post, who.to_owned(), Write::Local).await?;
    // At least a majority has it when this returns.
    let likes = data.map::<String, CounterKind>("likes");
    match likes.increment(&post, 1, Write::Majority).await {
        // It counts here and spreads; to try again would count it twice.
        Err(error) if error.may_have_been_handled() => println!("not confirmed yet: {error}"),
        result => result?,
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let first = node(None).await?;
    let (second, third) = (node(Some(&first)).await?, node(Some(&first)).await?);
    for (node, who) in [
        (&first, "ada"),
        (&second, "grace"),
        (&third, "edsger"),
        (&second, "ada"),
    ] {
        like(node, who, "hello").await?;
    }

    // Asks a majority; what every node has anyway is `Read::Local`.
    let data = third.data();
    let likes = data
        .map::<String, CounterKind>("likes")
        .read(Read::Majority)
        .await?;
    let fans = data
        .map::<String, ObservedSet<String>>("fans")
        .read(Read::All)
        .await?;
    println!("likes: {likes:?}");
    println!("fans: {fans:?}");

    for node in [third, second, first] {
        node.leave().await?;
    }
    Ok(())
}
