//! The least-shard strategies against the numbers of spec sharding 6.1 and 6.2. Shards are numbered from 1 in
//! allocation order: the first region's, then the second's, and so on.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::fixture::{member, node, picture};
use crate::membership::state::app_version::AppVersion;

const WIDE: RebalanceLimits = RebalanceLimits {
    absolute: 1000,
    relative: 1.0,
};

fn one_by_one(threshold: usize, simultaneous: usize) -> AllocationSettings {
    AllocationSettings::LeastShardsOneByOne(SimultaneousLimits {
        threshold,
        simultaneous,
    })
}

/// Regions and their shards.
#[derive(Clone, Debug)]
struct Regions {
    nodes: Vec<UniqueAddress>,
    shards: Vec<Vec<ShardId>>,
}

impl Regions {
    /// Regions of these sizes.
    fn new(sizes: &[usize]) -> Self {
        let mut next = 1..;
        let shards = sizes
            .iter()
            .map(|size| next.by_ref().take(*size).map(ShardId).collect());
        let nodes = (0..sizes.len()).map(|at| node(&alloc::format!("{at:03}"), 1));
        Self {
            nodes: nodes.collect(),
            shards: shards.collect(),
        }
    }

    fn loads(&self) -> Vec<RegionLoad<'_>> {
        let load = |(node, shards)| RegionLoad {
            node,
            status: Status::Up,
            app_version: AppVersion::default(),
            shards,
        };
        self.nodes
            .iter()
            .zip(self.shards.iter().map(Vec::as_slice))
            .map(load)
            .collect()
    }

    fn sizes(&self) -> Vec<usize> {
        self.shards.iter().map(Vec::len).collect()
    }

    /// What would move now, while this is in progress.
    fn moving(&self, strategy: &AllocationSettings, in_progress: &[u32]) -> Vec<u32> {
        let in_progress = in_progress.iter().copied().map(ShardId).collect();
        let moving = strategy.rebalance(
            &mut RegionRing::default(),
            &self.loads(),
            &in_progress,
            &DesiredHomes::new(),
        );
        moving.iter().map(|shard| shard.0).collect()
    }

    /// One round: what moves, and is allocated again.
    fn round(&mut self, strategy: &AllocationSettings) -> Vec<u32> {
        let moved = self.moving(strategy, &[]);
        for number in &moved {
            for shards in &mut self.shards {
                shards.retain(|kept| kept.0 != *number);
            }
        }
        for number in &moved {
            let at = strategy
                .allocate(
                    &mut RegionRing::default(),
                    None,
                    ShardId(*number),
                    &self.loads(),
                    &DesiredHomes::new(),
                )
                .unwrap();
            self.shards[at].push(ShardId(*number));
        }
        moved
    }
}

fn first_round(sizes: &[usize], limits: RebalanceLimits) -> (Vec<u32>, Vec<usize>) {
    let mut regions = Regions::new(sizes);
    let moved = regions.round(&AllocationSettings::LeastShards(limits));
    (moved, regions.sizes())
}

/// What moves in each of the first rounds.
fn rounds<const N: usize>(sizes: &[usize], strategy: &AllocationSettings) -> [Vec<u32>; N] {
    let mut regions = Regions::new(sizes);
    core::array::from_fn(|_| regions.round(strategy))
}

#[test]
fn s_001_an_empty_region_gets_the_next_shard() {
    assert_eq!(most_suitable(&Regions::new(&[1, 1, 0]).loads()), Some(2));
    assert_eq!(
        most_suitable(&Regions::new(&[1, 1, 1]).loads()),
        Some(0),
        "the lower node"
    );
    assert_eq!(most_suitable(&[]), None);
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
    let mut regions = Regions::new(&[5, 5, 0]);
    let wide = AllocationSettings::LeastShards(WIDE);
    assert_eq!(
        (regions.round(&wide), regions.sizes()),
        (vec![1, 6], vec![4, 4, 2])
    );
    assert_eq!((regions.round(&wide), regions.sizes()), (vec![2], vec![3, 4, 3]));
    assert_eq!((regions.round(&wide), regions.sizes()), (vec![], vec![3, 4, 3]));
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
    let all = Regions::new(&[10, 0, 0]);
    assert_eq!(all.moving(&AllocationSettings::LeastShards(WIDE), &[2, 3]), []);
}

#[test]
fn s_014_s_015_s_042_nothing_moves_with_mixed_versions_or_somebody_unreachable_or_joining() {
    let all = Regions::new(&[5, 5, 0]);
    let (a, b, c) = (node("a", 1), node("b", 2), node("c", 3));
    let up = |node| member(node, Status::Up);
    let steady = picture(&a, [up(&a), up(&b)], &[]);
    assert!(is_good_time(&all.loads(), neighbours(&steady)));
    assert!(!is_good_time(&[], neighbours(&steady)));
    let mut mixed = all.loads();
    mixed[1].app_version = "1.0.1".parse().unwrap();
    assert!(!is_good_time(&mixed, neighbours(&steady)));
    let split = picture(&a, [up(&a), up(&b)], &[(&a, &b)]);
    assert!(!is_good_time(&all.loads(), neighbours(&split)));
    for newcomer in [Status::Joining, Status::WeaklyUp] {
        let joining = picture(&a, [up(&a), up(&b), member(&c, newcomer)], &[]);
        assert!(!is_good_time(&all.loads(), neighbours(&joining)));
    }
}

#[test]
fn those_who_stay_come_before_newer_versions_before_fewer_shards() {
    let all = Regions::new(&[0, 1, 2]);
    let mut loads = all.loads();
    loads[2].app_version = "2.0".parse().unwrap();
    assert_eq!(most_suitable(&loads), Some(2), "the newer version");
    loads[2].status = Status::Leaving;
    assert_eq!(most_suitable(&loads), Some(0), "a leaving one comes last");
    let order: Vec<_> = by_suitability(&loads)
        .iter()
        .map(|region| region.shards.len())
        .collect();
    assert_eq!(order, [0, 1, 2]);
}

#[test]
fn s_021_to_s_025_the_older_algorithm_moves_one_at_a_time_above_a_threshold_of_one() {
    let strategy = one_by_one(1, 1);
    assert_eq!(Regions::new(&[2, 0, 0]).moving(&strategy, &[]), [1]);
    assert_eq!(Regions::new(&[2, 0, 0]).moving(&strategy, &[1]), []);
    assert_eq!(rounds(&[1, 1, 0], &strategy), [[]]);
    assert_eq!(rounds(&[3, 0, 0], &strategy), [vec![1], vec![2], vec![]]);
    assert_eq!(rounds(&[4, 4, 0], &strategy), [vec![1], vec![5]]);
}

#[test]
fn s_027_to_s_031_the_older_algorithm_moves_two_at_a_time_above_a_threshold_of_two() {
    let strategy = one_by_one(2, 2);
    assert_eq!(rounds(&[1, 2, 0], &strategy), [[]]);
    assert_eq!(rounds(&[1, 3, 0], &strategy), [vec![2], vec![]]);
    assert_eq!(rounds(&[2, 2, 0], &strategy), [[]]);
    // What is in progress does not count as its region's.
    let halves = Regions::new(&[3, 3, 0]);
    assert_eq!(halves.moving(&strategy, &[]), [1]);
    assert_eq!(halves.moving(&strategy, &[1]), [4]);
    assert_eq!(halves.moving(&strategy, &[1, 4]), []);
    let full = Regions::new(&[5, 5, 0]);
    assert_eq!(full.moving(&strategy, &[]), [1, 2]);
    assert_eq!(full.moving(&strategy, &[1, 2]), [], "two at once");
    let more = one_by_one(2, 5);
    assert_eq!(full.moving(&more, &[1, 2]), [6, 7]);
    assert_eq!(full.moving(&more, &[1, 2, 6, 7]), [3]);
    assert_eq!(
        rounds(&[50, 0, 50], &strategy),
        [vec![1, 2], vec![51, 52], vec![3, 4]]
    );
}

#[test]
fn s_032_the_older_algorithm_moves_no_more_than_may_move_at_once() {
    let strategy = one_by_one(3, 2);
    let regions = Regions::new(&[1, 10, 0]);
    assert_eq!(regions.moving(&strategy, &[]), [2, 3]);
    assert_eq!(regions.moving(&strategy, &[2, 3]), []);
    assert_eq!(regions.moving(&strategy, &[2]), [3]);
}

#[test]
fn s_034_the_older_algorithm_takes_dozens_of_rounds_where_the_newer_takes_one() {
    let settled = |strategy: &AllocationSettings| {
        let mut regions = Regions::new(&[100, 100, 0]);
        let rounds = (0..).find(|_| regions.round(strategy).is_empty()).unwrap();
        (rounds, regions.sizes())
    };
    assert_eq!(settled(&one_by_one(10, 3)), (20, vec![70, 70, 60]));
    assert_eq!(settled(&one_by_one(1, 3)), (66, vec![67, 67, 66]));
    assert_eq!(
        settled(&AllocationSettings::LeastShards(WIDE)),
        (1, vec![67, 67, 66])
    );
}

/// A strategy of an application that answers nonsense as well.
struct Stubborn;

impl AllocationStrategy for Stubborn {
    fn name(&self) -> &str {
        "stubborn"
    }

    fn allocate(
        &self,
        requester: Option<&UniqueAddress>,
        shard: ShardId,
        regions: &[RegionLoad<'_>],
    ) -> Option<usize> {
        match shard.0 {
            0 => None,
            1 => Some(regions.len()),
            2 => regions.iter().position(|region| Some(region.node) == requester),
            _ => Some(regions.len() - 1),
        }
    }

    fn rebalance(&self, _: &[RegionLoad<'_>], _: &OrderedSet<ShardId>) -> Vec<ShardId> {
        [3, 3, 99, 1, 2].map(ShardId).to_vec()
    }
}

#[test]
fn an_applications_strategy_decides_and_what_cannot_be_is_passed_over() {
    let strategy = AllocationSettings::Custom(CustomAllocation::new(Stubborn));
    let all = Regions::new(&[1, 2, 1]);
    let allocate = |shard| {
        strategy.allocate(
            &mut RegionRing::default(),
            Some(&all.nodes[1]),
            ShardId(shard),
            &all.loads(),
            &DesiredHomes::new(),
        )
    };
    assert_eq!([allocate(0), allocate(1)], [Some(0); 2], "the most suitable one");
    assert_eq!([allocate(2), allocate(3)], [Some(1), Some(2)]);
    assert_eq!(
        strategy.allocate(
            &mut RegionRing::default(),
            None,
            ShardId(3),
            &[],
            &DesiredHomes::new()
        ),
        None
    );
    assert_eq!(all.moving(&strategy, &[2]), [3, 1]);
    assert_eq!(strategy, strategy.clone());
    assert_ne!(
        strategy,
        AllocationSettings::Custom(CustomAllocation::new(Stubborn))
    );
}

#[test]
fn settings_out_of_range_are_refused() {
    let new =
        |absolute, relative| AllocationSettings::LeastShards(RebalanceLimits { absolute, relative }).check();
    assert_eq!(new(1, 1.0), Ok(()));
    assert!(
        new(0, 1.0).is_err() && new(1, 0.0).is_err() && new(1, 1.1).is_err() && new(1, f64::NAN).is_err()
    );
    assert!(one_by_one(0, 1).check().is_err() && one_by_one(1, 0).check().is_err());
    let ring = |virtual_nodes| {
        AllocationSettings::ConsistentHashing(HashingLimits {
            virtual_nodes,
            per_round: 0,
        })
        .check()
    };
    assert!(ring(0).is_err() && ring(1).is_ok() && ring(1_024).is_ok() && ring(1_025).is_err());
}

proptest! {
    #[test]
    fn s_018_two_rounds_without_limits_bring_sizes_within_one(sizes in prop::collection::vec(0_usize..100, 1..=5)) {
        let mut regions = Regions::new(&sizes);
        let wide = AllocationSettings::LeastShards(WIDE);
        regions.round(&wide);
        regions.round(&wide);
        let after = regions.sizes();
        let (most, least) = (after.iter().max().unwrap(), after.iter().min().unwrap());
        prop_assert!(most - least <= 1, "{sizes:?} became {after:?}");
    }

    #[test]
    fn s_020_a_round_moves_existing_shards_within_the_limit_and_never_unbalances(
        sizes in prop::collection::vec(0_usize..60, 1..=12),
        absolute in 1_usize..30,
        relative in 0.01_f64..1.0,
        threshold in 1_usize..6,
        in_progress in prop::collection::btree_set(1_u32..60, 0..4),
    ) {
        let limits = RebalanceLimits { absolute, relative };
        let total = sizes.iter().sum();
        for (strategy, most) in [
            (AllocationSettings::LeastShards(limits), limits.per_round(total)),
            (one_by_one(threshold, absolute), absolute),
            (AllocationSettings::ConsistentHashing(HashingLimits { virtual_nodes: 8, per_round: absolute }), absolute),
        ] {
            let regions = Regions::new(&sizes);
            let in_progress: Vec<u32> = in_progress.iter().copied().collect();
            let moved = regions.moving(&strategy, &in_progress);
            prop_assert!(moved.len() <= most);
            let unique: OrderedSet<u32> = moved.iter().copied().collect();
            prop_assert_eq!(unique.len(), moved.len());
            prop_assert!(moved.iter().all(|number| *number >= 1 && *number as usize <= total));
            prop_assert!(in_progress.iter().all(|number| !moved.contains(number)));
            if matches!(strategy, AllocationSettings::ConsistentHashing(_)) {
                continue;
            }
            let spread = |sizes: &[usize]| sizes.iter().max().unwrap() - sizes.iter().min().unwrap();
            let mut after = regions.clone();
            after.round(&strategy);
            prop_assert!(spread(&after.sizes()) <= spread(&sizes), "{:?} became {:?}", sizes, after.sizes());
        }
    }
}
