//! Replicated data over real links: written, read and heard of on every node. Spec: sharding 1.12, I-63.

use quorate_conformance::support::{all_up, cluster, within};
use quorate_driver::data::{Read, ValueChange, Write};
use quorate_driver::spi::Adapter;
use quorate_driver::{Cluster, Security, Termination};

/// Counters and sets that all nodes change, on all of them; and on those that are left when one ends without
/// a word.
pub async fn i_63_replicated_data_is_on_every_node_and_outlives_one<A: Adapter>(security: &Security) {
    let mut nodes = cluster::<A>(3, security).await;
    let mut changes = nodes[2].data().counter("likes").changes();
    for node in &nodes {
        let likes = node.data().counter("likes");
        likes
            .increment(1, Write::Majority)
            .await
            .expect("a majority has it");
    }
    for node in &nodes {
        let likes = node.data().counter("likes").read(Read::Majority).await;
        assert_eq!(likes.expect("a majority says so"), 3);
    }
    within::<A, _>("a subscriber hears of the last value", async {
        loop {
            let change = changes.next().await.expect("the node runs");
            if change.expect("it can be read") == ValueChange::Value(3) {
                return;
            }
        }
    })
    .await;
    let tags = |node: &Cluster| node.data().set::<String>("tags");
    for tag in ["kept", "removed"] {
        let added = tags(&nodes[0]).add(tag.to_owned(), Write::All).await;
        added.expect("all have it");
    }
    let removed = tags(&nodes[1]).remove("removed".to_owned(), Write::All).await;
    removed.expect("none has it");
    for node in &nodes {
        let held = tags(node).read(Read::Local).await;
        assert_eq!(held.expect("it is there"), ["kept"]);
    }

    let lost = nodes.pop().expect("there are three");
    assert_eq!(lost.stop().await, Termination::Stopped);
    let likes = nodes[0].data().counter("likes");
    likes
        .increment(1, Write::Majority)
        .await
        .expect("two of three are a majority");
    for node in &nodes {
        all_up::<A>(node, 2).await;
    }
    let likes = nodes[1].data().counter("likes");
    likes.increment(1, Write::All).await.expect("both have it");
    for node in &nodes {
        let likes = node.data().counter("likes").read(Read::Local).await;
        assert_eq!(likes.expect("it is there"), 5);
    }
}
