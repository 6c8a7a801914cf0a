//! The least-shard strategy against the numbers of spec sharding 6.1. Shards are numbered from 1 in allocation order: the
//! first region's, then the second's, and so on.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::fixture::{member, node, picture};

const WIDE: RebalanceLimits = RebalanceLimits {
    absolute: 1000,
    relative: 1.0,
};

/// Regions of these sizes.
fn regions(sizes: &[usize]) -> Vec<Vec<ShardId>> {
    let mut next = 1..;
    sizes
        .iter()
        .map(|size| next.by_ref().take(*size).map(ShardId).collect())
        .collect()
}

fn loads(regions: &[Vec<ShardId>]) -> Vec<RegionLoad<'_>> {
    let load = |shards| RegionLoad {
        status: Status::Up,
        app_version: AppVersion::default(),
        shards,
    };
    regions.iter().map(|shards| load(shards.as_slice())).collect()
}

/// One round: what moves, and the sizes after it was allocated again.
fn round(regions: &mut [Vec<ShardId>], limits: RebalanceLimits) -> (Vec<u32>, Vec<usize>) {
    let moved = rebalance(&loads(regions), &BTreeSet::new(), limits);
    for shard in &moved {
        for region in regions.iter_mut() {
            region.retain(|kept| kept != shard);
        }
    }
    for shard in &moved {
        let at = allocate(&loads(regions)).unwrap();
        regions[at].push(*shard);
    }
    let numbers = moved.iter().map(|shard| shard.0).collect();
    (numbers, regions.iter().map(Vec::len).collect())
}

fn first_round(sizes: &[usize], limits: RebalanceLimits) -> (Vec<u32>, Vec<usize>) {
    round(&mut regions(sizes), limits)
}

#[test]
fn s_001_an_empty_region_gets_the_next_shard() {
    assert_eq!(allocate(&loads(&regions(&[1, 1, 0]))), Some(2));
    assert_eq!(
        allocate(&loads(&regions(&[1, 1, 1]))),
        Some(0),
        "ties keep their order"
    );
    assert_eq!(allocate(&[]), None);
}

#[test]
fn s_002_to_s_005_what_is_above_the_optimum_moves() {
    assert_eq!(first_round(&[1, 2, 0], WIDE), (vec![2], vec![1, 1, 1]));
    assert_eq!(first_round(&[1, 1, 0], WIDE), (vec![], vec![1, 1, 0]));
    assert_eq!(first_round(&[3, 0, 0], WIDE), (vec![1, 2], vec![1, 1, 1]));
}

#[test]
fn s_007_a_region_far_below_the_optimum_gets_one_from_a_full_one() {
    assert_eq!(first_round(&[4, 4, 2], WIDE), (vec![1], vec![3, 4, 3]));
}

#[test]
fn s_008_three_rounds_balance_two_full_regions_and_an_empty_one() {
    let mut all = regions(&[5, 5, 0]);
    assert_eq!(round(&mut all, WIDE), (vec![1, 6], vec![4, 4, 2]));
    assert_eq!(round(&mut all, WIDE), (vec![2], vec![3, 4, 3]));
    assert_eq!(round(&mut all, WIDE), (vec![], vec![3, 4, 3]));
}

#[test]
fn s_010_s_011_s_017_a_round_is_limited_by_number_and_by_share() {
    let absolute = |absolute| RebalanceLimits { absolute, ..WIDE };
    assert_eq!(
        first_round(&[1, 9, 0], absolute(3)),
        (vec![2, 3, 4], vec![2, 6, 2])
    );
    let both = RebalanceLimits {
        absolute: 5,
        relative: 0.3,
    };
    assert_eq!(first_round(&[1, 9, 0], both), (vec![2, 3, 4], vec![2, 6, 2]));
    let tenth = RebalanceLimits {
        absolute: 1000,
        relative: 0.1,
    };
    assert_eq!(first_round(&[5, 0, 0], tenth).0, vec![1]);
}

#[test]
fn s_012_one_round_at_a_time() {
    let all = regions(&[10, 0, 0]);
    let moving = BTreeSet::from([ShardId(2), ShardId(3)]);
    assert_eq!(rebalance(&loads(&all), &moving, WIDE), vec![]);
}

#[test]
fn s_014_s_015_nothing_moves_with_mixed_versions_or_somebody_unreachable_or_joining() {
    let all = regions(&[5, 5, 0]);
    let (a, b, c) = (node("a", 1), node("b", 2), node("c", 3));
    let up = |node| member(node, Status::Up);
    let steady = picture(&a, [up(&a), up(&b)], &[]);
    assert!(is_good_time(&steady, &loads(&all)));
    assert!(!is_good_time(&steady, &[]));
    let mut mixed = loads(&all);
    mixed[1].app_version = "1.0.1".parse().unwrap();
    assert!(!is_good_time(&steady, &mixed));
    let split = picture(&a, [up(&a), up(&b)], &[(&a, &b)]);
    assert!(!is_good_time(&split, &loads(&all)));
    let joining = picture(&a, [up(&a), up(&b), member(&c, Status::Joining)], &[]);
    assert!(!is_good_time(&joining, &loads(&all)));
}

#[test]
fn those_who_stay_come_before_newer_versions_before_fewer_shards() {
    let all = regions(&[0, 1, 2]);
    let mut loads = loads(&all);
    loads[2].app_version = "2.0".parse().unwrap();
    assert_eq!(allocate(&loads), Some(2), "the newer version");
    loads[2].status = Status::Leaving;
    assert_eq!(allocate(&loads), Some(0), "a leaving one comes last");
}

proptest! {
    #[test]
    fn s_018_two_rounds_without_limits_bring_sizes_within_one(sizes in prop::collection::vec(0_usize..100, 1..=5)) {
        let mut all = regions(&sizes);
        round(&mut all, WIDE);
        let (_, after) = round(&mut all, WIDE);
        let (most, least) = (after.iter().max().unwrap(), after.iter().min().unwrap());
        prop_assert!(most - least <= 1, "{sizes:?} became {after:?}");
    }

    #[test]
    fn s_020_a_round_moves_existing_shards_within_the_limit_and_never_unbalances(
        sizes in prop::collection::vec(0_usize..60, 1..=12),
        absolute in 1_usize..30,
        relative in 0.01_f64..1.0,
    ) {
        let all = regions(&sizes);
        let limits = RebalanceLimits { absolute, relative };
        let total = sizes.iter().sum();
        let moved = rebalance(&loads(&all), &BTreeSet::new(), limits);
        prop_assert!(moved.len() <= limits.per_round(total));
        let unique: BTreeSet<ShardId> = moved.iter().copied().collect();
        prop_assert_eq!(unique.len(), moved.len());
        prop_assert!(moved.iter().all(|shard| all.iter().flatten().any(|kept| kept == shard)));
        let spread = |sizes: &[usize]| sizes.iter().max().unwrap() - sizes.iter().min().unwrap();
        let (_, after) = round(&mut regions(&sizes), limits);
        prop_assert!(spread(&after) <= spread(&sizes), "{:?} became {:?}", sizes, after);
    }
}
