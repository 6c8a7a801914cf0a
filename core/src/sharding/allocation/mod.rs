//! Which region gets a shard, and which shards should move. Pure functions of values: no time, no chance, no
//! sending. Never decides that a move happens; the coordinator does. Spec: sharding 1.7.

mod external;
mod hashing;
mod least_shards;

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::config::ShardingConfig;
use crate::ident::UniqueAddress;
use crate::membership::state::member::Status;
use crate::ordered::OrderedSet;
use crate::planner::gate::is_settled;
use crate::sharding::state::ids::ShardId;

pub use crate::planner::gate::Neighbour;
pub(crate) use crate::planner::gate::neighbours;
pub use crate::sharding::state::allocation::{
    AllocationError, AllocationSettings, AllocationStrategy, CustomAllocation, HashingLimits,
    PLACED_NAME_BYTES_MAX, PLACES_KEY_PREFIX, RebalanceLimits, RegionLoad, SimultaneousLimits,
    VIRTUAL_NODES_MAX,
};
pub use external::DesiredHomes;
pub use hashing::{RegionRing, Ring};

impl AllocationSettings {
    /// How shards of kinds without a strategy of their own are spread.
    #[must_use]
    pub fn configured(config: &ShardingConfig) -> Self {
        if config.rebalance_absolute_limit == 0 {
            return Self::LeastShardsOneByOne(SimultaneousLimits {
                threshold: config.rebalance_threshold,
                simultaneous: config.rebalance_max_simultaneous,
            });
        }
        Self::LeastShards(RebalanceLimits {
            absolute: config.rebalance_absolute_limit,
            relative: config.rebalance_relative_limit,
        })
    }

    /// The position of the region that gets a shard without a home; `None` without regions. `desired` counts
    /// for [`Self::External`] only, `ring` for consistent hashing: keep it for the next call. Linear in the
    /// regions; with consistent hashing in all their points when there are others than before.
    #[must_use]
    pub fn allocate(
        &self,
        ring: &mut RegionRing,
        requester: Option<&UniqueAddress>,
        shard: ShardId,
        regions: &[RegionLoad<'_>],
        desired: &DesiredHomes,
    ) -> Option<usize> {
        let chosen = match self {
            // Who is asked answers later, and may leave it to this.
            Self::LeastShards(_) | Self::LeastShardsOneByOne(_) | Self::Asked(_) => None,
            Self::ConsistentHashing(limits) => hashing::allocate(ring, regions, shard, *limits),
            Self::External => {
                let wanted = desired.get(&shard).map(|wish| &wish.at);
                external::allocate(requester, wanted, regions)
            }
            Self::Custom(_) if regions.is_empty() => None,
            Self::Custom(custom) => custom.strategy().allocate(requester, shard, regions),
        };
        let chosen = chosen.filter(|at| *at < regions.len());
        chosen.or_else(|| most_suitable(regions))
    }

    /// The shards to take from their regions in one round, each once; none that is in progress. The caller
    /// has looked whether it [is a good time](is_good_time). `ring` is that of [`Self::allocate`].
    #[must_use]
    pub fn rebalance(
        &self,
        ring: &mut RegionRing,
        regions: &[RegionLoad<'_>],
        in_progress: &OrderedSet<ShardId>,
        desired: &DesiredHomes,
    ) -> Vec<ShardId> {
        if regions.is_empty() {
            return Vec::new();
        }
        match self {
            Self::LeastShards(limits) => least_shards::rebalance(regions, in_progress, *limits),
            Self::LeastShardsOneByOne(limits) => {
                least_shards::rebalance_one_by_one(regions, in_progress, *limits)
            }
            Self::ConsistentHashing(limits) => hashing::rebalance(ring, regions, in_progress, *limits),
            Self::External => external::rebalance(regions, in_progress, desired),
            Self::Asked(_) => Vec::new(),
            Self::Custom(custom) => {
                let wanted = custom.strategy().rebalance(regions, in_progress);
                let there: OrderedSet<ShardId> =
                    regions.iter().flat_map(|region| region.shards).copied().collect();
                let mut named = OrderedSet::new();
                let is_possible = |shard: &ShardId| there.contains(shard) && !in_progress.contains(shard);
                wanted
                    .into_iter()
                    .filter(|shard| is_possible(shard) && named.insert(*shard))
                    .collect()
            }
        }
    }
}

/// The position of the most suitable region; `None` without regions.
#[must_use]
pub fn most_suitable(regions: &[RegionLoad<'_>]) -> Option<usize> {
    let mut best: Option<(usize, &RegionLoad<'_>)> = None;
    for (at, region) in regions.iter().enumerate() {
        if best.is_none_or(|(_, best)| by_rank(region, best).is_lt()) {
            best = Some((at, region));
        }
    }
    best.map(|(at, _)| at)
}

/// The regions, the most suitable first.
#[must_use]
pub fn by_suitability<'r, 'a>(regions: &'r [RegionLoad<'a>]) -> Vec<&'r RegionLoad<'a>> {
    let mut sorted: Vec<&RegionLoad<'a>> = regions.iter().collect();
    sorted.sort_by(|one, other| by_rank(one, other));
    sorted
}

/// Whether shards may be moved for balance: there is a region, all of them run one version of the
/// application, and nobody of this data center is unreachable or about to become a member.
#[must_use]
pub fn is_good_time(regions: &[RegionLoad<'_>], here: impl IntoIterator<Item = Neighbour>) -> bool {
    let versions = regions.iter().map(|region| &region.app_version);
    !regions.is_empty() && is_settled(versions, here)
}

/// Most suitable first: members that stay, then the highest version, then the fewest shards; the lower node
/// of what is left, so that the order is total.
fn by_rank(one: &RegionLoad<'_>, other: &RegionLoad<'_>) -> Ordering {
    goes(one.status)
        .cmp(&goes(other.status))
        .then_with(|| other.app_version.cmp(&one.app_version))
        .then_with(|| one.shards.len().cmp(&other.shards.len()))
        .then_with(|| one.node.cmp(other.node))
}

/// Whether a member with this status is on its way out.
const fn goes(status: Status) -> bool {
    match status {
        Status::Leaving | Status::Exiting | Status::Down | Status::Removed => true,
        Status::Joining
        | Status::WeaklyUp
        | Status::Up
        | Status::PreparingForShutdown
        | Status::ReadyForShutdown => false,
    }
}

#[cfg(test)]
mod tests;
