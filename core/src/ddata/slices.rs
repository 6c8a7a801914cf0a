//! Which nodes hear of changes in a tick, and which keys a tick compares. Pure. Spec: sharding 1.12 (delta
//! propagation, full-state gossip).

use alloc::vec::Vec;

use crate::ident::UniqueAddress;

/// Nodes that get deltas in one tick, at most: a large cluster is told in turn, and gossip reaches it too.
const SLICE_MAX: usize = 10;

/// Chunks of digests sent in one tick, at most.
pub const CHUNKS_PER_TICK_MAX: usize = 10;

/// How many of `others` hear of changes in one tick.
#[must_use]
pub const fn slice_size(others: usize) -> usize {
    let fifth = others / 5 + 1;
    let wanted = if fifth < 2 { 2 } else { fifth };
    let cap = if others < SLICE_MAX { others } else { SLICE_MAX };
    if wanted < cap { wanted } else { cap }
}

/// Goes round a sorted list of nodes, a slice per tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin {
    told: usize,
}

impl RoundRobin {
    /// The next slice of the sorted nodes, in their order from where the last one ended.
    pub fn next(&mut self, sorted: &[UniqueAddress]) -> Vec<UniqueAddress> {
        let size = slice_size(sorted.len());
        if size == 0 {
            return Vec::new();
        }
        let start = self.told % sorted.len();
        self.told = (start + size) % sorted.len();
        let endless = sorted.iter().cycle().skip(start);
        endless.take(size).cloned().collect()
    }
}

/// In how many chunks the digests of so many entries are compared.
#[must_use]
pub const fn chunks_total(entries: usize, max_delta_elements: usize) -> usize {
    let chunks = entries / max_delta_elements;
    if chunks == 0 { 1 } else { chunks }
}

/// How many chunks one tick compares.
#[must_use]
pub const fn chunks_per_tick(total: usize) -> usize {
    if total < CHUNKS_PER_TICK_MAX {
        total
    } else {
        CHUNKS_PER_TICK_MAX
    }
}

/// The chunks of one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// The first of them.
    pub first: usize,
    /// How many; after the last one of all comes the first.
    pub count: usize,
    /// Of how many.
    pub total: usize,
}

/// Goes round the chunks of a node's keys, some per tick. A round keeps the number of chunks with which it
/// began: with another number every key has another chunk, so that a node whose keys become more with every
/// tick, as after a heal, would look at chance parts of them and miss some for several rounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    total: usize,
    next: usize,
}

impl Rounds {
    /// The chunks of this tick, for so many entries. A round is given up when its chunks would be twice as
    /// large as is meant.
    pub const fn advance(&mut self, entries: usize, max_delta_elements: usize) -> Chunks {
        let wanted = chunks_total(entries, max_delta_elements);
        if self.next >= self.total || wanted >= 2 * self.total {
            // What was looked at beyond the end is the beginning of the same round again.
            self.next = if wanted == self.total {
                self.next - self.total
            } else {
                0
            };
            self.total = wanted;
        }
        let (first, total) = (self.next, self.total);
        let count = chunks_per_tick(total);
        self.next += count;
        Chunks { first, count, total }
    }
}

/// The chunk of a key with this hash.
#[must_use]
pub const fn chunk_of(hash: u64, total: usize) -> usize {
    // A remainder is below `total`, which is a `usize`.
    #[allow(clippy::cast_possible_truncation, reason = "the remainder is below a usize")]
    let chunk = (hash % total as u64) as usize;
    chunk
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::node;

    #[test]
    fn s_208_a_slice_grows_with_the_cluster_up_to_ten() {
        let sizes = |range: core::ops::RangeInclusive<usize>| range.map(slice_size).collect::<Vec<_>>();
        assert_eq!(sizes(0..=2), [0, 1, 2]);
        assert!(sizes(2..=9).iter().all(|size| *size == 2));
        assert!(sizes(10..=14).iter().all(|size| *size == 3));
        assert!(sizes(15..=19).iter().all(|size| *size == 4));
        assert!(sizes(40..=44).iter().all(|size| *size == 9));
        assert!(sizes(45..=80).iter().all(|size| *size == 10));
    }

    #[test]
    fn every_node_has_its_turn() {
        let nodes: Vec<_> = (1..=7).map(|uid| node("n", uid)).collect();
        let mut turns = RoundRobin::default();
        let told: Vec<u64> = (0..7).flat_map(|_| turns.next(&nodes)).map(|n| n.uid()).collect();
        assert_eq!(told, [1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn s_257_each_key_is_in_one_of_two_chunks_of_1200_entries() {
        assert_eq!(chunks_total(1200, 500), 2);
        assert_eq!(chunks_per_tick(2), 2);
        assert_eq!(
            (0..6).map(|hash| chunk_of(hash, 2)).collect::<Vec<_>>(),
            [0, 1, 0, 1, 0, 1]
        );
        assert_eq!(
            (
                chunks_total(0, 500),
                chunks_total(100_000, 500),
                chunks_per_tick(200)
            ),
            (1, 200, 10)
        );
    }

    #[test]
    fn a_round_keeps_its_chunks_while_keys_come_and_is_given_up_when_they_are_twice_as_many() {
        let mut rounds = Rounds::default();
        let mut seen = Vec::new();
        for tick in 0..4 {
            let Chunks { first, count, total } = rounds.advance(20_000 + 1_000 * tick, 500);
            assert_eq!(total, 40);
            seen.extend((first..first + count).map(|chunk| chunk % total));
        }
        assert_eq!(seen, (0..40).collect::<Vec<_>>());
        let of = |first, count, total| Chunks { first, count, total };
        assert_eq!(rounds.advance(24_000, 500), of(0, 10, 48));
        assert_eq!(
            rounds.advance(48_000, 500),
            of(0, 10, 96),
            "its chunks were too large"
        );
        // Where nothing changes the next round begins where the last one ended.
        let mut rounds = Rounds::default();
        let firsts: Vec<usize> = (0..5).map(|_| rounds.advance(6_000, 500).first).collect();
        assert_eq!(firsts, [0, 10, 8, 6, 4]);
        assert_eq!(Rounds::default().advance(0, 500), of(0, 1, 1));
    }
}
