//! A sloppy bucket over real links: others stand in for an owner that cannot be reached, where a strict one
//! fails. Spec: sharding 5.6, 10.19 e.

use std::time::Duration;

use quorate_conformance::support::{cluster_of, eventually, node};
use quorate_core::config::DowningStrategy;
use quorate_driver::Security;
use quorate_driver::kv::{CallError, KvContext, KvPutError, Level};
use quorate_driver::spi::Adapter;
use quorate_driver::stats::RangeState;

use crate::kv::{described, opened, values, whole};

/// Keys of which some lie in ranges of the lost owner: of three in four.
const KEYS: u32 = 12;

/// An owner is lost, and nobody downs it: a put at the level of all fails for good in the strict bucket. In
/// the sloppy one all of them succeed, a store that owns nothing of the range has kept a hint for each, and
/// gets find them.
pub async fn others_stand_in_for_an_owner_of_a_sloppy_bucket<A: Adapter>(security: &Security) {
    let builder = || node::<A>(security).config(|config| config.downing.strategy = DowningStrategy::Off);
    let mut nodes = cluster_of::<A>(4, builder).await;
    let mut sloppy = opened::<A, u32>(&nodes, |node| described(node, "sloppy").sloppy_quorum()).await;
    whole::<A>(&nodes).await;
    let strict = opened::<A, u32>(&nodes, |node| described(node, "strict")).await;
    let key = |number: u32| format!("w-{number}");
    for number in 0..KEYS {
        let put = strict[0].put(key(number), &number, &KvContext::default());
        put.level(Level::All).await.expect("all owners have it");
    }
    let lost = nodes.pop().expect("there are four");
    sloppy.pop();
    let lost_node = lost.address().clone();
    lost.stop().await;
    eventually::<A>("the owner is missed", async || {
        !nodes[0].view().is_reachable(&lost_node)
    })
    .await;
    for number in 0..KEYS {
        let put = sloppy[number as usize % sloppy.len()].put(key(number), &number, &KvContext::default());
        let put = put.level(Level::All).timeout(Duration::from_secs(30));
        put.await.expect("somebody stands in");
    }
    let mut failed = 0;
    for number in 0..KEYS {
        let put = strict[0].put(key(number), &number, &KvContext::default());
        let put = put.level(Level::All).timeout(Duration::from_millis(300)).await;
        failed += u32::from(matches!(put, Err(KvPutError::Failed(CallError::Timeout { .. }))));
    }
    assert!(failed > 0, "nobody stands in for an owner of a strict bucket");
    let mut hints = 0;
    for node in &nodes {
        let told = node.kv_state().await.expect("it runs");
        for bucket in told {
            hints += bucket.hints;
            let of_ranges = || bucket.ranges.iter().filter(|range| range.hints > 0);
            assert_eq!(of_ranges().map(|range| range.hints).sum::<usize>(), bucket.hints);
            let is_missed = |range: &RangeState| range.copies_missing == 1;
            assert!(of_ranges().all(is_missed), "hints for who is there: {bucket:?}");
        }
    }
    assert!(hints > 0, "no hint for an owner of three quarters of the ranges");
    for number in 0..KEYS {
        assert_eq!(values(&sloppy[0], &key(number)).await, [number]);
    }
}
