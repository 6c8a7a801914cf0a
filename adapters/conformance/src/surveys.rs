//! What hosts a kind, asked from any node: everybody answers, and who does not is named in time.

use std::time::Duration;

use quorate_driver::{Adapter, Security};

use super::support::{cluster, eventually, notebooks, read, until, within};

/// Far less than a test waits, far more than an answer takes.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Entities that are spread over three nodes are counted the same from each; one that ends without a word is named, or not waited for once it
/// is removed.
pub async fn a_kind_is_surveyed_from_any_node<A: Adapter>(security: &Security) {
    const ENTITIES: u64 = 30;
    let mut nodes = cluster::<A>(3, security).await;
    let mut regions = Vec::new();
    for node in &nodes {
        regions.push(notebooks(node).await);
    }
    for region in &regions {
        eventually::<A>("the region has a coordinator", async || {
            region.is_registered().await.expect("the node runs")
        })
        .await;
    }
    for id in 0..ENTITIES {
        read::<A>(&regions[0], &format!("counted-{id}")).await;
    }
    let survey = async |at: usize, timeout| within::<A, _>("a survey", regions[at].stats(timeout)).await;
    let first = survey(0, TIMEOUT).await.expect("the node runs");
    assert_eq!((first.silent.len(), first.regions.len()), (0, 3));
    let counted = first
        .regions
        .values()
        .flatten()
        .map(|counts| counts.entities_total);
    assert_eq!(counted.sum::<u64>(), ENTITIES);
    for at in 1..3 {
        assert_eq!(survey(at, TIMEOUT).await.expect("the node runs"), first);
    }
    let gone = nodes.pop().expect("there are three");
    let who = gone.address().clone();
    gone.stop().await;
    let after = survey(0, Duration::from_millis(100))
        .await
        .expect("the node runs");
    assert!(
        after.silent == [who.clone()] || !after.regions.contains_key(&who),
        "{after:?}"
    );
    until(&nodes[0], "the node is removed", |view| view.members().len() == 2).await;
    let later = survey(0, TIMEOUT).await.expect("the node runs");
    assert_eq!((later.silent.len(), later.regions.len()), (0, 2));
}
