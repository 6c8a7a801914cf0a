//! Replicated data over real sockets: counters and sets changed on three nodes, read on all, heard by who listens.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{cluster, within};
use quorate_tokio::data::{DataReadError, Read, ValueChange, Write};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_and_sets_changed_on_three_nodes_are_read_on_all_of_them() {
    let nodes = cluster(3).await;
    let mut changes = nodes[2].data().counter("likes").changes();
    for node in &nodes {
        let likes = node.data().counter("likes");
        let tags = node.data().set::<String>("tags");
        for number in 0..20_u32 {
            within(likes.increment(1, Write::Majority)).await.unwrap();
            within(tags.add(&format!("tag-{number}"), Write::Local))
                .await
                .unwrap();
        }
        within(tags.remove(&"tag-7".to_owned(), Write::All))
            .await
            .unwrap();
    }
    for node in &nodes {
        assert_eq!(
            within(node.data().counter("likes").read(Read::Majority)).await,
            Ok(60)
        );
        let tags = within(node.data().set::<String>("tags").read(Read::All))
            .await
            .unwrap();
        assert_eq!(tags.len(), 19);
        assert!(!tags.contains(&"tag-7".to_owned()));
        let wrong = within(node.data().flag("likes").read(Read::Local)).await;
        assert_eq!(wrong, Err(DataReadError::WrongType));
    }
    within(async { while changes.next().await != Some(Ok(ValueChange::Value(60))) {} }).await;
    let registers = nodes[0].data().register_map::<u32, String>("names");
    within(registers.put(&1, &"one".to_owned(), Write::All))
        .await
        .unwrap();
    let read = nodes[1].data().register_map::<u32, String>("names");
    assert_eq!(
        within(read.read(Read::Local)).await,
        Ok(vec![(1, "one".to_owned())])
    );
    assert_eq!(within(nodes[1].data().replicas()).await, Ok(3));
}
