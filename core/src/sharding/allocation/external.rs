//! Shards where somebody else wants them. Spec: sharding 1.7, S-047 to S-050.

use alloc::vec::Vec;

use crate::ident::{Address, UniqueAddress};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::state::allocation::RegionLoad;
use crate::sharding::state::ids::ShardId;
use crate::sharding::state::wish::Wish;

/// Where shards are wanted; those that are not in it may be anywhere.
pub type DesiredHomes = OrderedMap<ShardId, Wish>;

/// Most shards on the move at once: as many as a round of the other strategies moves by default.
const MOVING_MAX: usize = 1_000;

/// The region where the shard is wanted, if there is one; otherwise the one that asks.
pub(super) fn allocate(
    requester: Option<&UniqueAddress>,
    wanted: Option<&Address>,
    regions: &[RegionLoad<'_>],
) -> Option<usize> {
    let there = wanted.and_then(|address| region_at(regions, address));
    there.or_else(|| regions.iter().position(|region| Some(region.node) == requester))
}

/// Shards that are wanted at another region than the one that has them.
pub(super) fn rebalance(
    regions: &[RegionLoad<'_>],
    in_progress: &OrderedSet<ShardId>,
    desired: &DesiredHomes,
) -> Vec<ShardId> {
    let room = MOVING_MAX.saturating_sub(in_progress.len());
    let all = regions
        .iter()
        .flat_map(|region| region.shards.iter().map(move |shard| (region, shard)));
    let moves = all.filter(|(region, shard)| {
        let wanted = desired.get(shard).map(|wish| &wish.at);
        let wanted = wanted.filter(|address| *address != region.node.address());
        wanted.is_some_and(|address| region_at(regions, address).is_some()) && !in_progress.contains(shard)
    });
    moves.map(|(_, shard)| *shard).take(room).collect()
}

fn region_at(regions: &[RegionLoad<'_>], address: &Address) -> Option<usize> {
    regions.iter().position(|region| region.node.address() == address)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::fixture::node;
    use crate::membership::state::app_version::AppVersion;
    use crate::membership::state::member::Status;

    fn loads<'a>(nodes: &'a [UniqueAddress], shards: &'a [Vec<ShardId>]) -> Vec<RegionLoad<'a>> {
        let load = |(node, shards): (&'a UniqueAddress, &'a Vec<ShardId>)| RegionLoad {
            node,
            status: Status::Up,
            app_version: AppVersion::default(),
            shards,
        };
        nodes.iter().zip(shards).map(load).collect()
    }

    fn three() -> ([UniqueAddress; 2], UniqueAddress) {
        ([node("a", 1), node("b", 2)], node("nobody", 3))
    }

    #[test]
    fn s_047_a_shard_goes_where_it_is_wanted_and_otherwise_to_who_asks() {
        let (nodes, nobody) = three();
        let regions = [vec![], vec![]];
        let regions = loads(&nodes, &regions);
        let [a, b] = &nodes;
        assert_eq!(
            allocate(Some(b), None, &regions),
            Some(1),
            "nobody wants it anywhere"
        );
        assert_eq!(allocate(Some(b), Some(a.address()), &regions), Some(0));
        assert_eq!(
            allocate(Some(b), Some(nobody.address()), &regions),
            Some(1),
            "no region there"
        );
        assert_eq!(allocate(None, None, &regions), None, "the most suitable one");
    }

    #[test]
    fn s_048_what_is_elsewhere_than_wanted_moves_if_there_is_a_region() {
        let (nodes, nobody) = three();
        let [a, b] = &nodes;
        let shards = [vec![ShardId(1), ShardId(2), ShardId(3)], vec![ShardId(4)]];
        let regions = loads(&nodes, &shards);
        let to = |node: &UniqueAddress| Wish::at(node.address().clone());
        let desired: DesiredHomes = [
            (ShardId(1), to(b)),
            (ShardId(2), to(&nobody)),
            (ShardId(3), to(a)),
            (ShardId(9), to(b)),
        ]
        .into();
        assert_eq!(rebalance(&regions, &OrderedSet::new(), &desired), [ShardId(1)]);
        assert_eq!(rebalance(&regions, &OrderedSet::from([ShardId(1)]), &desired), []);
    }
}
