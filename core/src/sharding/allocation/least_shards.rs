//! Regions with about as many shards each: two algorithms. Spec: sharding 1.7.

use alloc::vec::Vec;

use super::by_suitability;
use crate::ordered::OrderedSet;
use crate::sharding::state::allocation::{RebalanceLimits, RegionLoad, SimultaneousLimits};
use crate::sharding::state::ids::ShardId;

/// The shards to take from their regions in one round, oldest allocated first. Moves nothing while another
/// round is in progress. After it, sizes differ by no more than before; a few rounds bring them within one.
pub(super) fn rebalance(
    regions: &[RegionLoad<'_>],
    in_progress: &OrderedSet<ShardId>,
    limits: RebalanceLimits,
) -> Vec<ShardId> {
    if regions.is_empty() || !in_progress.is_empty() {
        return Vec::new();
    }
    let sorted = by_suitability(regions);
    let total: usize = sorted.iter().map(|region| region.shards.len()).sum();
    let optimal = total.div_ceil(sorted.len());
    let limit = limits.per_round(total);
    let above: Vec<ShardId> = sorted
        .iter()
        .flat_map(|region| {
            let excess = region.shards.len().saturating_sub(optimal);
            region.shards.iter().take(excess)
        })
        .take(limit)
        .copied()
        .collect();
    if !above.is_empty() {
        return above;
    }
    let below: usize = sorted
        .iter()
        .map(|region| optimal.saturating_sub(1).saturating_sub(region.shards.len()))
        .sum();
    let full = sorted.iter().filter(|region| region.shards.len() >= optimal);
    full.filter_map(|region| region.shards.first())
        .take(below.min(limit))
        .copied()
        .collect()
}

/// The shards to take from the fullest region, lowest number first. What is in progress does not count as its
/// own, but the emptiest region counts all it has.
pub(super) fn rebalance_one_by_one(
    regions: &[RegionLoad<'_>],
    in_progress: &OrderedSet<ShardId>,
    limits: SimultaneousLimits,
) -> Vec<ShardId> {
    let room = limits.simultaneous.saturating_sub(in_progress.len());
    let sorted = by_suitability(regions);
    let Some(emptiest) = sorted.first().filter(|_| room > 0) else {
        return Vec::new();
    };
    let mut fullest: Vec<ShardId> = Vec::new();
    for region in &sorted {
        let stays = |shard: &&ShardId| !in_progress.contains(*shard);
        let staying: Vec<ShardId> = region.shards.iter().filter(stays).copied().collect();
        if staying.len() > fullest.len() {
            fullest = staying;
        }
    }
    let more = fullest.len().saturating_sub(emptiest.shards.len());
    let too_many = more.saturating_sub(limits.threshold);
    fullest.sort_unstable();
    fullest.truncate(too_many.min(limits.threshold).min(room));
    fullest
}
