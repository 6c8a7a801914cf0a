//! Which region gets a shard, and which shards should move. Pure functions of values: no time, no chance, no sending.
//! Never decides that a move happens; the coordinator does. Spec: sharding 1.7.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::membership::state::app_version::AppVersion;
use crate::membership::state::member::{Member, Status};
use crate::sharding::state::ids::ShardId;
use crate::view::View;

/// A region as allocation sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionLoad<'a> {
    /// The status of the region's member.
    pub status: Status,
    /// The application version of the region's member.
    pub app_version: AppVersion,
    /// Its shards, the one allocated first at the front.
    pub shards: &'a [ShardId],
}

/// How much one round of rebalancing may move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RebalanceLimits {
    /// Most shards per round (>= 1).
    pub absolute: usize,
    /// Most shards per round, as a share of all shards (above 0 to 1); at least one shard may always move.
    pub relative: f64,
}

impl RebalanceLimits {
    /// Most shards that one round may move when there are `total`.
    #[must_use]
    pub fn per_round(&self, total: usize) -> usize {
        // Shards are at most 65,536 per kind, so the product is exact enough and the cast cannot lose anything.
        let share = libm::trunc(self.relative * total as f64) as usize;
        share.min(self.absolute).max(1)
    }
}

/// The position of the region that should get the next shard; `None` without regions. Linear in the regions.
#[must_use]
pub fn allocate(regions: &[RegionLoad<'_>]) -> Option<usize> {
    // `min_by_key` returns the first of equal minima, so ties keep the order of the input.
    let ranked = regions.iter().enumerate();
    ranked
        .min_by_key(|(_, region)| suitability(region))
        .map(|(at, _)| at)
}

/// The shards to take from their regions in one round, oldest allocated first. Moves nothing while another round is in
/// progress. After it, sizes differ by no more than before; a few rounds bring them within one.
#[must_use]
pub fn rebalance(
    regions: &[RegionLoad<'_>],
    in_progress: &BTreeSet<ShardId>,
    limits: RebalanceLimits,
) -> Vec<ShardId> {
    if regions.is_empty() || !in_progress.is_empty() {
        return Vec::new();
    }
    let mut sorted: Vec<&RegionLoad<'_>> = regions.iter().collect();
    sorted.sort_by_key(|region| suitability(region));
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

/// Whether shards may be moved now: there is a region, all of them run one version of the application, and in this data
/// center nobody is unreachable, nobody is about to become a member and nobody prepares for a full shutdown.
#[must_use]
pub fn is_good_time(view: &View, regions: &[RegionLoad<'_>]) -> bool {
    let Some(first) = regions.first() else {
        return false;
    };
    let one_version = regions
        .iter()
        .all(|region| region.app_version == first.app_version);
    let own = view.self_member().map(Member::data_center);
    let mut here = view
        .members()
        .iter()
        .filter(|member| own.is_none_or(|dc| member.data_center() == dc));
    one_version && here.all(|member| works_on(member.status) && view.is_reachable(&member.node))
}

/// Whether a member with this status lets the others move shards: it is no newcomer, and the cluster does not end.
const fn works_on(status: Status) -> bool {
    match status {
        Status::Up | Status::Leaving | Status::Exiting | Status::Down | Status::Removed => true,
        Status::Joining | Status::WeaklyUp | Status::PreparingForShutdown | Status::ReadyForShutdown => false,
    }
}

/// Most suitable first: members that stay, then the highest version, then the fewest shards.
fn suitability<'r>(region: &'r RegionLoad<'_>) -> (bool, Reverse<&'r AppVersion>, usize) {
    let stays = matches!(
        region.status,
        Status::Up | Status::PreparingForShutdown | Status::ReadyForShutdown
    );
    (!stays, Reverse(&region.app_version), region.shards.len())
}

#[cfg(test)]
mod tests;
