//! A large state of replicated data crosses beside heartbeats and asks. Spec: sharding 1.12.

use std::time::{Duration, Instant};

use quorate_driver::data::{Read, Write};
use quorate_driver::spi::{Adapter, LinkKind};
use quorate_driver::{Cluster, Security};

use super::support::{cluster, joined, living_on, notebooks, read, sleep, suspected};

/// Values of the large state, and the length of each: some megabytes in all, in several frames.
const VALUES: usize = 24;
const VALUE_BYTES: usize = 200_000;

/// How long an ask may take beside it, on a machine that is busy with other tests.
const ASK_MAX: Duration = Duration::from_secs(3);

fn value(node: &Cluster, number: usize) -> quorate_driver::data::Register<String> {
    node.data().register(format!("value-{number}"))
}

/// Whether a node has all of the large state.
async fn has_all(node: &Cluster) -> bool {
    for number in 0..VALUES {
        let held = value(node, number).read(Read::Local).await;
        if !held.is_ok_and(|held| held.is_some_and(|held| held.len() == VALUE_BYTES)) {
            return false;
        }
    }
    true
}

async fn has_bulk_link(node: &Cluster) -> bool {
    let links = node.links().await.expect("the node runs");
    links.iter().any(|link| link.kind == LinkKind::Bulk)
}

/// Some megabytes cross to a neighbour and to one that joins, on a link of their own that is there when it is
/// needed; meanwhile every ask is answered and nobody is found unreachable, and nothing is shed.
pub async fn a_large_state_crosses_beside_heartbeats_and_asks<A: Adapter>(security: &Security) {
    let mut nodes = cluster::<A>(2, security).await;
    let (here, _there) = (notebooks(&nodes[0]).await, notebooks(&nodes[1]).await);
    let id = living_on::<A>(&here, nodes[1].address()).await;
    assert!(!has_bulk_link(&nodes[0]).await, "nothing was there for it");
    let mut events = nodes[0].events();
    for number in 0..VALUES {
        let written = value(&nodes[0], number)
            .set("x".repeat(VALUE_BYTES), Write::Local)
            .await;
        written.expect("it is written here");
    }
    nodes.push(joined::<A>(nodes[0].address().address(), security).await);
    let mut longest = Duration::ZERO;
    let begun = Instant::now();
    while !(has_all(&nodes[1]).await && has_all(&nodes[2]).await) {
        let asked = Instant::now();
        read::<A>(&here, &id).await;
        longest = longest.max(asked.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(60), "the state arrives");
        sleep::<A>(Duration::from_millis(5)).await;
    }
    // On a machine that does other work everything takes longer; what waits behind the state takes as long as
    // all of it.
    let limit = ASK_MAX.max(begun.elapsed() / 2);
    assert!(
        longest < limit,
        "an ask took {longest:?}, the state {:?}",
        begun.elapsed()
    );
    assert!(has_bulk_link(&nodes[0]).await, "it had a link of its own");
    assert_eq!(suspected::<A>(&mut events).await, 0);
    for node in &nodes {
        let stats = node.stats().await.expect("the node runs");
        assert_eq!(stats.links.dropped_queue_full, 0, "{stats:?}");
        assert_eq!(stats.links.links_closed_for_violation, 0, "{stats:?}");
    }
}
