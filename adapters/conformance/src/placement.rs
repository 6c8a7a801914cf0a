//! Shards whose place is said from outside.

use quorate_core::sharding::allocation::AllocationSettings;
use quorate_core::sharding::ids::{EntityId, ShardId};
use quorate_driver::{Adapter, EntityContext, Kind, Security};

use super::support::{cluster_with, eventually, within};

/// Shards of the kind.
const SHARDS: u32 = 8;

/// S-050: a shard that is wanted elsewhere moves there, whoever says so, and its entity answers from there.
pub async fn s_050_a_shard_goes_where_it_is_wanted_from_outside<A: Adapter>(security: &Security) {
    let nodes = cluster_with::<A>(2, security, |config| {
        config.sharding.rebalance_interval = std::time::Duration::from_millis(200);
    })
    .await;
    let mut regions = Vec::new();
    for node in &nodes {
        let me = node.address().to_string();
        let kind = Kind::<(), String>::new("parcel")
            .shards(SHARDS)
            .allocation(AllocationSettings::External);
        let handle = move |_: EntityContext, (): ()| {
            let me = me.clone();
            async move { me }
        };
        regions.push(
            node.register_fn(kind, handle)
                .await
                .expect("the kind is registered"),
        );
    }
    let ask = async || within::<A, _>("an answer", regions[0].entity("ada").ask(&()).into_future()).await;
    let first = ask().await.expect("it is answered");
    assert_eq!(
        first,
        nodes[0].address().to_string(),
        "it began where it was asked for"
    );
    let shard = ShardId::of(&EntityId::from("ada"), SHARDS);
    let places = nodes[1].shard_places("parcel");
    assert_eq!(places.places().await, Ok(vec![]));
    let there = nodes[1].address();
    places
        .place(shard, there.address())
        .await
        .expect("a majority knows");
    assert_eq!(places.places().await, Ok(vec![(shard, there.address().clone())]));
    eventually::<A>("the shard has moved", async || {
        ask().await == Ok(there.to_string())
    })
    .await;
    places.forget(shard).await.expect("a majority knows");
    assert_eq!(nodes[0].shard_places("parcel").places().await, Ok(vec![]));
    assert_eq!(ask().await, Ok(there.to_string()), "it stays");
}
