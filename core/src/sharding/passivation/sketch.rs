//! How often entities were used, approximately and in little memory: a count-min sketch of four rows of
//! counters of four bits. Spec: sharding 1.6 (frequency sketch).

use alloc::vec;
use alloc::vec::Vec;

use crate::sharding::state::ids::EntityId;
use crate::sharding::state::passivation::SketchSettings;

/// Rows: an estimate is the least of as many counters.
const DEPTH: usize = 4;

/// Bits of a counter, counters in a word, and where a counter stops.
const BITS: u32 = 4;
const PER_WORD: usize = 16;
const COUNTER_MAX: u64 = 15;

/// Takes from each counter of a word what was shifted into it out of its neighbour.
const HALVED: u64 = 0x7777_7777_7777_7777;

/// Who may come into the main area: whoever is used more often than who would have to go.
pub trait AdmissionFilter<K> {
    /// So many may be in: forgets what was counted.
    fn on_limit(&mut self, limit: usize);

    /// One was used.
    fn on_access(&mut self, key: &K);

    /// How often one was used lately.
    fn estimate(&self, key: &K) -> u64;
}

/// What is found again by a hash that is spread evenly.
pub trait Hashed {
    /// The hash.
    fn hash(&self) -> u64;
}

impl Hashed for EntityId {
    fn hash(&self) -> u64 {
        self.hash64()
    }
}

impl Hashed for u64 {
    /// The finalizer of SplitMix64, which is a bijection.
    fn hash(&self) -> u64 {
        let mut z = self.wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// A count-min sketch. A counter stops at 15; when all entities together were used a number of times that
/// grows with the limit, every counter is halved, so that what was used long ago counts for less. Its memory
/// is taken with the first use: half a byte for each of `4 * width * limit` counters, the limit rounded up to
/// a power of two.
#[derive(Clone, Debug)]
pub struct FrequencySketch {
    settings: SketchSettings,
    limit: usize,
    /// Row after row; empty before the first use.
    words: Vec<u64>,
    /// Counters of a row less one: rows are powers of two.
    mask: usize,
    counted: u64,
}

impl FrequencySketch {
    /// A sketch that has counted nothing.
    #[must_use]
    pub const fn new(settings: SketchSettings) -> Self {
        Self {
            settings,
            limit: 1,
            words: Vec::new(),
            mask: 0,
            counted: 0,
        }
    }

    fn width(&self) -> usize {
        let width = self.settings.width_multiplier.next_power_of_two();
        (width * self.limit.next_power_of_two()).max(PER_WORD)
    }

    fn reset_at(&self) -> u64 {
        let at = self.settings.reset_multiplier.get() * self.limit as f64;
        // A limit is a number of entities in memory, so the product is far below 2^53.
        (libm::trunc(at) as u64).max(1)
    }

    /// The word and the bit at which a row's counter begins.
    fn position(&self, row: usize, hash: u64) -> (usize, u32) {
        let (low, high) = (hash as u32, (hash >> 32) as u32);
        let mixed = low.wrapping_add((high | 1).wrapping_mul(row as u32));
        let column = mixed as usize & self.mask;
        let word = row * ((self.mask + 1) / PER_WORD) + column / PER_WORD;
        (word, (column % PER_WORD) as u32 * BITS)
    }

    fn count(&mut self, hash: u64) {
        if self.words.is_empty() {
            let width = self.width();
            self.mask = width - 1;
            self.words = vec![0; DEPTH * width / PER_WORD];
        }
        let mut grew = false;
        for row in 0..DEPTH {
            let (word, bit) = self.position(row, hash);
            if (self.words[word] >> bit) & COUNTER_MAX < COUNTER_MAX {
                self.words[word] += 1 << bit;
                grew = true;
            }
        }
        if grew {
            self.counted += 1;
            if self.counted >= self.reset_at() {
                self.halve();
            }
        }
    }

    fn halve(&mut self) {
        for word in &mut self.words {
            *word = (*word >> 1) & HALVED;
        }
        self.counted /= 2;
    }

    fn least(&self, hash: u64) -> u64 {
        if self.words.is_empty() {
            return 0;
        }
        let counter = |row| {
            let (word, bit) = self.position(row, hash);
            (self.words[word] >> bit) & COUNTER_MAX
        };
        (0..DEPTH).map(counter).min().unwrap_or(0)
    }
}

impl<K: Hashed> AdmissionFilter<K> for FrequencySketch {
    fn on_limit(&mut self, limit: usize) {
        self.limit = limit.max(1);
        self.words = Vec::new();
        self.counted = 0;
    }

    fn on_access(&mut self, key: &K) {
        self.count(key.hash());
    }

    fn estimate(&self, key: &K) -> u64 {
        self.least(key.hash())
    }
}

#[cfg(test)]
mod tests {
    use crate::ordered::OrderedMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_is_hashed_as_splitmix64_does_from_there() {
        // The first three numbers of its generator from 0, and the first from 1.
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        assert_eq!(0_u64.hash(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(STEP.hash(), 0x6E78_9E6A_A1B9_65F4);
        assert_eq!(STEP.wrapping_mul(2).hash(), 0x06C4_5D18_8009_454F);
        assert_eq!(1_u64.hash(), 0x910A_2DEC_8902_5CC1);
    }

    fn sketch(limit: usize, reset: f64) -> FrequencySketch {
        let mut sketch = FrequencySketch::new(SketchSettings::new(4, reset).unwrap());
        AdmissionFilter::<u64>::on_limit(&mut sketch, limit);
        sketch
    }

    #[test]
    fn a_counter_stops_at_fifteen_and_a_new_limit_forgets_everything() {
        let mut sketch = sketch(100, 1_000.0);
        for _ in 0..40 {
            sketch.on_access(&7_u64);
        }
        assert_eq!((sketch.estimate(&7_u64), sketch.counted), (15, 15));
        assert_eq!(sketch.estimate(&8_u64), 0);
        AdmissionFilter::<u64>::on_limit(&mut sketch, 50);
        assert_eq!(sketch.estimate(&7_u64), 0);
    }

    #[test]
    fn all_counters_are_halved_after_as_many_uses_as_the_limit_says() {
        let mut sketch = sketch(10, 2.0);
        for access in 0..19 {
            sketch.on_access(&if access < 9 { 1_u64 } else { 2 });
        }
        assert_eq!((sketch.estimate(&1_u64), sketch.estimate(&2_u64)), (9, 10));
        sketch.on_access(&1_u64);
        assert_eq!((sketch.estimate(&1_u64), sketch.estimate(&2_u64)), (5, 5));
        assert_eq!(sketch.counted, 10);
    }

    proptest! {
        #[test]
        fn an_estimate_is_never_below_the_count_and_rarely_above(
            accesses in prop::collection::vec(0_u64..200, 1..1_000),
        ) {
            let mut sketch = sketch(200, 1_000.0);
            let mut counts = OrderedMap::new();
            for key in &accesses {
                sketch.on_access(key);
                *counts.entry(*key).or_insert(0_u64) += 1;
            }
            let exact = |(key, count): (&u64, &u64)| {
                let estimate = sketch.estimate(key);
                assert!(estimate >= (*count).min(COUNTER_MAX), "{key}: {estimate} for {count}");
                estimate == (*count).min(COUNTER_MAX)
            };
            let wrong = counts.iter().filter(|of| !exact(*of)).count();
            prop_assert!(wrong * 20 <= counts.len(), "{wrong} of {}", counts.len());
        }
    }
}
