//! Consistent hashing: regions and shards are points of a ring, and a shard belongs to the region whose point
//! follows its own. Spec: sharding 1.7, S-035 to S-044.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;
use crate::sharding::state::allocation::{HashingLimits, RegionLoad};
use crate::sharding::state::ids::ShardId;

/// The ring of some nodes. The same names make the same ring on every node of every version: their points are
/// a published function of them.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    /// Where a point is and whose it is (by position in what the ring was made of), sorted.
    points: Vec<(i32, usize)>,
}

impl Ring {
    /// A ring with so many points for each of these names. Where two points meet, the name that comes first
    /// in the list has it.
    #[must_use]
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>, virtual_nodes: u16) -> Self {
        let mut points = Vec::new();
        for (at, name) in names.into_iter().enumerate() {
            let hash = murmur::of_text(name);
            let own = (1..=u32::from(virtual_nodes)).map(|number| (murmur::of_two(hash, number), at));
            points.extend(own);
        }
        points.sort_unstable();
        points.dedup_by_key(|(point, _)| *point);
        Self { points }
    }

    /// Whose a key is: the position of its node in the list that the ring was made of; `None` on an empty
    /// ring.
    #[must_use]
    pub fn node_of(&self, key: &str) -> Option<usize> {
        let hash = murmur::of_text(key);
        let next = self.points.partition_point(|(point, _)| *point < hash);
        let (_, at) = self.points.get(next).or_else(|| self.points.first())?;
        Some(*at)
    }
}

/// The ring of the regions that were asked about last: made anew only when there are others. Holds nothing
/// else, so that it may be forgotten at any time.
#[derive(Clone, Debug, Default)]
pub struct RegionRing {
    /// Whose it is, sorted.
    nodes: Vec<UniqueAddress>,
    virtual_nodes: u16,
    ring: Ring,
}

impl RegionRing {
    /// The positions of the regions in the order of their nodes, and their ring.
    fn of(&mut self, regions: &[RegionLoad<'_>], limits: HashingLimits) -> (Vec<usize>, &Ring) {
        let mut order: Vec<usize> = (0..regions.len()).collect();
        order.sort_by_key(|at| regions[*at].node);
        let nodes = || order.iter().map(|at| regions[*at].node);
        let is_theirs = self.virtual_nodes == limits.virtual_nodes && nodes().eq(&self.nodes);
        if !is_theirs {
            let names: Vec<_> = nodes().map(|node| node.address().to_string()).collect();
            self.ring = Ring::new(names.iter().map(|name| &**name), limits.virtual_nodes);
            self.nodes = nodes().cloned().collect();
            self.virtual_nodes = limits.virtual_nodes;
        }
        (order, &self.ring)
    }
}

/// Where a shard belongs.
pub(super) fn allocate(
    rings: &mut RegionRing,
    regions: &[RegionLoad<'_>],
    shard: ShardId,
    limits: HashingLimits,
) -> Option<usize> {
    let (nodes, ring) = rings.of(regions, limits);
    nodes.get(ring.node_of(&format!("{shard}"))?).copied()
}

/// The shards that are elsewhere than they belong, region by region in the order of their nodes.
pub(super) fn rebalance(
    rings: &mut RegionRing,
    regions: &[RegionLoad<'_>],
    in_progress: &OrderedSet<ShardId>,
    limits: HashingLimits,
) -> Vec<ShardId> {
    let (nodes, ring) = rings.of(regions, limits);
    let most = if limits.per_round == 0 {
        usize::MAX
    } else {
        limits.per_round.saturating_sub(in_progress.len())
    };
    let mut moving = Vec::new();
    for at in &nodes {
        for shard in regions[*at].shards {
            if moving.len() >= most {
                return moving;
            }
            let home = ring.node_of(&format!("{shard}"));
            let belongs_here = home.and_then(|home| nodes.get(home)) == Some(at);
            if !belongs_here && !in_progress.contains(shard) {
                moving.push(*shard);
            }
        }
    }
    moving
}

/// The 32-bit hash of Akka, a relative of MurmurHash 3 that takes two UTF-16 units at a time, so that rings
/// can be compared with it. Not for anything that an adversary may choose.
mod murmur {
    const VISIBLE_MAGIC: u32 = 0x971E_137B;
    const HIDDEN_MAGIC: (u32, u32) = (0x9554_3787, 0x2AD7_EB25);
    const VISIBLE_MIXER: u32 = 0x52DC_E729;
    const HIDDEN_MIXER: (u32, u32) = (0x7B7D_159C, 0x6BCE_6396);
    const FINAL_MIXER: (u32, u32) = (0x85EB_CA6B, 0xC2B2_AE35);
    const TEXT_SEED: u32 = 0xF7CA_7FD2;

    /// The hash of a text.
    pub(super) fn of_text(text: &str) -> i32 {
        let mut length = 0_u32;
        let mut hash = 0;
        let (mut a, mut b) = HIDDEN_MAGIC;
        let mut units = text.encode_utf16().map(u32::from);
        let mut pairs = alloc::vec::Vec::new();
        while let Some(first) = units.next() {
            let second = units.next();
            length += 1 + u32::from(second.is_some());
            pairs.push(second.map_or(first, |second| (first << 16).wrapping_add(second)));
        }
        hash ^= length.wrapping_mul(TEXT_SEED) ^ VISIBLE_MAGIC;
        for pair in pairs {
            hash = extend(hash, pair, a, b);
            a = a.wrapping_mul(5).wrapping_add(HIDDEN_MIXER.0);
            b = b.wrapping_mul(5).wrapping_add(HIDDEN_MIXER.1);
        }
        finish(hash)
    }

    /// The hash of a hash and a number.
    pub(super) fn of_two(hash: i32, number: u32) -> i32 {
        let start = hash.cast_unsigned() ^ VISIBLE_MAGIC;
        finish(extend(start, number, HIDDEN_MAGIC.0, HIDDEN_MAGIC.1))
    }

    const fn extend(hash: u32, value: u32, a: u32, b: u32) -> u32 {
        let mixed = hash ^ value.wrapping_mul(a).rotate_left(11).wrapping_mul(b);
        mixed.wrapping_mul(3).wrapping_add(VISIBLE_MIXER)
    }

    const fn finish(hash: u32) -> i32 {
        let mut mixed = (hash ^ (hash >> 16)).wrapping_mul(FINAL_MIXER.0);
        mixed = (mixed ^ (mixed >> 13)).wrapping_mul(FINAL_MIXER.1);
        (mixed ^ (mixed >> 16)).cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec;

    use super::*;
    use crate::fixture::node;
    use crate::membership::state::app_version::AppVersion;
    use crate::membership::state::member::Status;

    /// The names of Akka's test, without D.
    fn names(many: usize) -> Vec<String> {
        (1..=many)
            .map(|last| format!("pekko://myapp@127.0.0.{last}:252525"))
            .collect()
    }

    fn homes(many: usize, virtual_nodes: u16, keys: &[&str]) -> Vec<usize> {
        let names = names(many);
        let ring = Ring::new(names.iter().map(|name| &**name), virtual_nodes);
        keys.iter().map(|key| ring.node_of(key).unwrap()).collect()
    }

    #[test]
    fn s_035_and_s_037_the_ring_is_that_of_the_reference() {
        let keys = ["0", "1", "2", "3", "10", "14"];
        assert_eq!(homes(3, 10, &keys), [2, 1, 0, 0, 0, 0]);
        assert_eq!(homes(4, 10, &keys), [3, 1, 0, 0, 0, 0]);
        assert_eq!(Ring::new([], 10).node_of("0"), None);
    }

    #[test]
    fn a_point_that_two_names_share_belongs_to_the_first() {
        let ring = Ring::new(["a", "a"], 10);
        assert!((0..100).all(|key| ring.node_of(&format!("{key}")) == Some(0)));
    }

    const NUMBERS: [ShardId; 6] = [
        ShardId(0),
        ShardId(1),
        ShardId(2),
        ShardId(3),
        ShardId(10),
        ShardId(14),
    ];

    fn loads<'a>(nodes: &'a [UniqueAddress], shards: &'a [Vec<ShardId>]) -> Vec<RegionLoad<'a>> {
        let load = |(node, shards): (&'a UniqueAddress, &'a Vec<ShardId>)| RegionLoad {
            node,
            status: Status::Up,
            app_version: AppVersion::default(),
            shards,
        };
        nodes.iter().zip(shards).map(load).collect()
    }

    /// Nodes, and where they belong for some shards.
    fn placed(
        many: usize,
        limits: HashingLimits,
        all: &[ShardId],
    ) -> (Vec<UniqueAddress>, Vec<Vec<ShardId>>) {
        let nodes: Vec<UniqueAddress> = (0..many).map(|at| node(&format!("host{at:02}"), 1)).collect();
        let mut shards = vec![Vec::new(); many];
        for shard in all {
            let empty = vec![Vec::new(); many];
            let at = allocate(&mut RegionRing::default(), &loads(&nodes, &empty), *shard, limits).unwrap();
            shards[at].push(*shard);
        }
        (nodes, shards)
    }

    #[test]
    fn the_ring_is_made_anew_when_there_are_other_regions_and_only_then() {
        let nodes: Vec<UniqueAddress> = ["b", "a", "c", "d"].map(|host| node(host, 1)).into();
        let shards = vec![Vec::new(); 4];
        let all = loads(&nodes, &shards);
        let rings = &mut RegionRing::default();
        let limits = |virtual_nodes| HashingLimits {
            virtual_nodes,
            per_round: 0,
        };
        let (three, four, more) = (&all[..3], &all[..], limits(256));
        for (regions, limits, is_new) in [
            (three, limits(128), true),
            (three, limits(128), false),
            (four, limits(128), true),
            (three, limits(128), true),
            (three, more, true),
            (three, more, false),
        ] {
            let before = rings.ring.points.as_ptr();
            for shard in (0..100).map(ShardId) {
                let kept = allocate(rings, regions, shard, limits);
                assert_eq!(kept, allocate(&mut RegionRing::default(), regions, shard, limits));
            }
            assert_eq!(rings.ring.points.as_ptr() != before, is_new);
        }
        // The same regions in another order are the same ring, whose positions are others.
        let before = rings.ring.points.as_ptr();
        let turned: Vec<RegionLoad<'_>> = three.iter().rev().cloned().collect();
        for shard in (0..100).map(ShardId) {
            let at = allocate(rings, &turned, shard, more).unwrap();
            let straight = allocate(rings, three, shard, more).unwrap();
            assert_eq!(turned[at].node, three[straight].node);
        }
        assert_eq!(rings.ring.points.as_ptr(), before);
    }

    #[test]
    fn s_038_what_is_where_it_belongs_stays() {
        let limits = HashingLimits::default();
        let (nodes, shards) = placed(3, limits, &NUMBERS);
        let rings = &mut RegionRing::default();
        assert_eq!(
            rebalance(rings, &loads(&nodes, &shards), &OrderedSet::new(), limits),
            []
        );
    }

    #[test]
    fn s_040_and_s_041_what_is_elsewhere_moves_a_limited_number_at_a_time() {
        let limits = HashingLimits {
            virtual_nodes: 128,
            per_round: 2,
        };
        let (nodes, right) = placed(4, limits, &NUMBERS);
        // Everything is at the first region.
        let wrong = [NUMBERS.to_vec(), vec![], vec![], vec![]];
        let away: Vec<ShardId> = NUMBERS
            .into_iter()
            .filter(|shard| !right[0].contains(shard))
            .collect();
        assert!(away.len() > 3, "{right:?}");
        let moving = |shards: &[Vec<ShardId>], moving: &[ShardId]| {
            let rings = &mut RegionRing::default();
            rebalance(
                rings,
                &loads(&nodes, shards),
                &moving.iter().copied().collect(),
                limits,
            )
        };
        assert_eq!(moving(&wrong, &[]), away[..2]);
        assert_eq!(moving(&wrong, &away[..2]), [], "two are on their way");
        assert_eq!(moving(&wrong, &away[..4]), []);
        assert_eq!(moving(&wrong, &away[..1]), away[1..2]);
        let mut moved = wrong.clone();
        for shard in &away[..2] {
            moved[0].retain(|kept| kept != shard);
            let home = right.iter().position(|shards| shards.contains(shard)).unwrap();
            moved[home].push(*shard);
        }
        assert_eq!(moving(&moved, &[])[..1], away[2..3]);
        assert_eq!(moving(&right, &[]), []);
    }

    #[test]
    fn s_044_a_new_node_takes_its_part_from_all_and_nothing_moves_between_the_others() {
        let all: Vec<ShardId> = (0..10_000).map(ShardId).collect();
        let limits = HashingLimits::default();
        for many in [3, 10, 20] {
            let (_, before) = placed_by_ring(many, limits, &all);
            let (_, after) = placed_by_ring(many + 1, limits, &all);
            let mut taken = 0;
            for (shard, (old, new)) in before.iter().zip(&after).enumerate() {
                if old != new {
                    assert_eq!(*new, many, "shard {shard} moved between old nodes");
                    taken += 1;
                }
            }
            let part = all.len() / (many + 1);
            assert!((part / 2..part * 3 / 2).contains(&taken), "{taken} of {part}");
        }
    }

    #[test]
    fn more_points_spread_better_than_ten_do() {
        let all: Vec<ShardId> = (0..20_000).map(ShardId).collect();
        let fullest = |virtual_nodes| {
            let limits = HashingLimits {
                virtual_nodes,
                per_round: 0,
            };
            let (_, homes) = placed_by_ring(50, limits, &all);
            let loads = (0..50).map(|at| homes.iter().filter(|home| **home == at).count());
            loads.max().unwrap() as f64 / (all.len() as f64 / 50.0)
        };
        assert!(fullest(10) > 1.5, "{}", fullest(10));
        assert!(fullest(128) < 1.4, "{}", fullest(128));
    }

    /// As [`placed`], with one ring for all shards.
    fn placed_by_ring(
        many: usize,
        limits: HashingLimits,
        all: &[ShardId],
    ) -> (Vec<UniqueAddress>, Vec<usize>) {
        let nodes: Vec<UniqueAddress> = (0..many).map(|at| node(&format!("host{at:02}"), 1)).collect();
        let none = vec![Vec::new(); many];
        let mut rings = RegionRing::default();
        let (order, ring) = rings.of(&loads(&nodes, &none), limits);
        let home = |shard: &ShardId| order[ring.node_of(&format!("{shard}")).unwrap()];
        let homes = all.iter().map(home).collect();
        (nodes, homes)
    }
}
