//! Operators and the ranges of a bucket over real links: what the nodes say about copies and calls, and
//! ranges that move by command. Spec: sharding 10.19 b.

use std::time::Duration;

use quorate_conformance::support::{both, cluster_of, eventually, joined, node};
use quorate_driver::kv::{
    KvCommandError, KvContext, Level, Owners, RangeCommand, RangeCommandError, RangeId,
};
use quorate_driver::spi::Adapter;
use quorate_driver::stats::BucketState;
use quorate_driver::{Cluster, ClusterError, CommandError, Security};

use crate::kv::{RANGES, copies, described, opened, values};

/// What a node says of its only bucket.
async fn state(node: &Cluster) -> BucketState {
    let mut buckets = node.kv_state().await.expect("it runs");
    buckets.pop().expect("it is open")
}

/// Two members cannot keep three copies: a call waits, and the nodes say that all copies are missing, until a
/// third one comes.
pub async fn missing_copies_and_waiting_calls_are_told<A: Adapter>(security: &Security) {
    let mut nodes = cluster_of::<A>(2, || node::<A>(security)).await;
    let words = opened::<A, u32>(&nodes, |node| described(node, "words")).await;
    let all = 3 * usize::from(RANGES);
    for node in &nodes {
        let told = state(node).await;
        assert_eq!((told.copies_missing, told.calls_waiting), (all, 0));
        assert_eq!(told.longest_wait, Duration::ZERO);
        assert!(told.ranges.iter().all(|range| range.copies_missing == 3));
    }
    let waits = async {
        let put = words[1].put("w", &1, &KvContext::default());
        put.timeout(Duration::from_secs(60))
            .await
            .expect("a third one comes");
    };
    let come = async {
        eventually::<A>("the call waits", async || {
            state(&nodes[1]).await.calls_waiting == 1
        })
        .await;
        let before = state(&nodes[1]).await.longest_wait;
        let ranges = state(&nodes[1]).await.ranges;
        let waiting: Vec<_> = ranges.iter().filter(|range| range.calls_waiting > 0).collect();
        let [waits] = waiting[..] else {
            panic!("a key is in one range: {waiting:?}");
        };
        assert!(
            waits.calls_waiting == 1 && waits.longest_wait >= before,
            "{waits:?}"
        );
        let others = ranges.iter().map(|range| range.longest_wait);
        assert_eq!(others.filter(|wait| *wait > Duration::ZERO).count(), 1);
        eventually::<A>("it waits longer", async || {
            state(&nodes[1]).await.longest_wait > before
        })
        .await;
        let third = joined::<A>(nodes[0].address().address(), security).await;
        opened::<A, u32>(std::slice::from_ref(&third), |node| described(node, "words")).await;
        third
    };
    let ((), third) = both(waits, come).await;
    nodes.push(third);
    eventually::<A>("no copy is missing where ranges are coordinated", async || {
        let told = state(&nodes[0]).await;
        let is_whole = told.ranges.iter().all(|range| range.copies_missing == 0);
        (told.copies_missing, told.calls_waiting, is_whole) == (0, 0, true)
    })
    .await;
    assert_eq!(state(&nodes[1]).await.longest_wait, Duration::ZERO);
}

/// A range moves where an operator wants it, on the node that coordinates the bucket and on no other.
pub async fn a_range_moves_by_command<A: Adapter>(security: &Security) {
    let nodes = cluster_of::<A>(4, || node::<A>(security)).await;
    let words = opened::<A, u32>(&nodes, |node| described(node, "words")).await;
    let share = 3 * u64::from(RANGES) / 4;
    eventually::<A>("ranges are spread evenly", async || {
        let mut is_even = true;
        for node in nodes.chunks(1) {
            is_even &= copies(node).await == share;
        }
        is_even
    })
    .await;
    let put = words[1].put("w", &1, &KvContext::default()).level(Level::All);
    put.await.expect("all owners have it");
    let before = state(&nodes[0]).await;
    assert_eq!((&*before.name, before.is_accepted), ("words", true));
    assert_eq!((before.copies_missing, before.calls_waiting), (0, 0));
    let (range, stores) = (RangeId(0), &before.stores);
    let owners = |bucket: &BucketState| {
        let known = bucket.ranges[0].configuration.as_ref();
        known.expect("it has some").owners.clone()
    };
    let Owners::Stable(owned) = owners(&before) else {
        panic!("no other one moves")
    };
    let to = stores.keys().find(|store| !owned.contains(store)).copied();
    let (from, to) = (owned[1], to.expect("four stores own ranges"));
    let command = RangeCommand::Move { range, from, to };
    for (node, word) in nodes.iter().zip(&words) {
        let coordinates = state(node).await.coordinates.is_some();
        let done = word.change_ranges(command).await;
        let refused = KvCommandError::Ranges(RangeCommandError::NotCoordinating);
        let refused = Err(ClusterError::Refused(CommandError::Kv(refused)));
        assert_eq!(done, if coordinates { Ok(()) } else { refused });
    }
    let wanted = vec![owned[0], to, owned[2]];
    eventually::<A>("the range is elsewhere", async || {
        owners(&state(&nodes[0]).await) == Owners::Stable(wanted.clone())
    })
    .await;
    for word in &words {
        assert_eq!(values(word, "w").await, [1]);
    }
    let repair = words[0].change_ranges(RangeCommand::Repair { range }).await;
    assert_eq!(repair, Ok(()));
}
