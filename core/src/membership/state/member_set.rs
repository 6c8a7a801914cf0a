//! A set of positions in a sorted member table, one bit each. Knows nothing about members; whoever changes
//! the table must open or close the gap here. Spec: membership 1.4 (seen).

use alloc::sync::Arc;
use alloc::vec::Vec;

const BITS: usize = u64::BITS as usize;

/// Positions of members. Up to 64 members it allocates nothing; cloning is one reference count, and a change
/// of a shared set copies it once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberSet {
    first: u64,
    /// The words after the first; never empty, never ends in a zero word, so that equal sets are equal
    /// values.
    rest: Option<Arc<Vec<u64>>>,
}

impl MemberSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { first: 0, rest: None }
    }

    /// Adds a position; `false` if it was there.
    pub fn insert(&mut self, position: usize) -> bool {
        let mask = mask(position);
        let word = self.word_mut(position / BITS);
        let new = *word & mask == 0;
        *word |= mask;
        new
    }

    /// Takes a position out; `false` if it was not there.
    pub fn remove(&mut self, position: usize) -> bool {
        if !self.contains(position) {
            return false;
        }
        *self.word_mut(position / BITS) &= !mask(position);
        self.trim();
        true
    }

    /// Adds everything of `other`.
    pub fn union_with(&mut self, other: &Self) {
        if other.is_subset(self) {
            return;
        }
        self.first |= other.first;
        if let Some(theirs) = &other.rest {
            let ours = Arc::make_mut(self.rest.get_or_insert_default());
            ours.resize(ours.len().max(theirs.len()), 0);
            for (our, their) in ours.iter_mut().zip(theirs.iter()) {
                *our |= their;
            }
        }
    }

    /// Empties the set.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Moves every position from `at` on one up, because a member was inserted there; `at` itself is then not
    /// in the set.
    pub fn open_gap(&mut self, at: usize) {
        *self = self
            .iter()
            .map(|position| if position < at { position } else { position + 1 })
            .collect();
    }

    /// Drops position `at` and moves every later one down, because the member there was removed.
    pub fn close_gap(&mut self, at: usize) {
        let kept = self.iter().filter(|position| *position != at);
        *self = kept
            .map(|position| if position < at { position } else { position - 1 })
            .collect();
    }

    /// Whether a position is in the set.
    #[must_use]
    pub fn contains(&self, position: usize) -> bool {
        self.word(position / BITS) & mask(position) != 0
    }

    /// How many positions are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        let ones: u32 = self.rest().iter().map(|word| word.count_ones()).sum();
        (self.first.count_ones() + ones) as usize
    }

    /// Whether no position is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first == 0 && self.rest.is_none()
    }

    /// Whether everything here is in `other` too.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.first & !other.first == 0
            && self
                .rest()
                .iter()
                .enumerate()
                .all(|(at, word)| word & !other.word(at + 1) == 0)
    }

    /// Whether every position whose bit is set in `bits`, lowest bit of the first byte first, is in the set.
    #[must_use]
    pub(crate) fn contains_bits(&self, bits: &[u8]) -> bool {
        bits.chunks(8).enumerate().all(|(at, chunk)| {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            u64::from_le_bytes(bytes) & !self.word(at) == 0
        })
    }

    /// The largest position.
    #[must_use]
    pub fn last(&self) -> Option<usize> {
        let (at, word) = match self.rest().last() {
            Some(word) => (self.rest().len(), *word),
            None => (0, self.first),
        };
        (word != 0).then(|| at * BITS + (BITS - 1 - word.leading_zeros() as usize))
    }

    /// The positions, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let words = core::iter::once(self.first).chain(self.rest().iter().copied());
        words
            .enumerate()
            .flat_map(|(at, word)| SetBits(word).map(move |bit| at * BITS + bit))
    }

    /// The bits, 64 in a word, lowest first; none of the last ones are zero.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let first = (!self.is_empty()).then_some(self.first);
        first.into_iter().chain(self.rest().iter().copied())
    }

    fn rest(&self) -> &[u64] {
        self.rest.as_ref().map_or(&[], |rest| rest.as_slice())
    }

    fn word(&self, at: usize) -> u64 {
        match at.checked_sub(1) {
            None => self.first,
            Some(at) => self.rest().get(at).copied().unwrap_or(0),
        }
    }

    fn word_mut(&mut self, at: usize) -> &mut u64 {
        match at.checked_sub(1) {
            None => &mut self.first,
            Some(at) => {
                let rest = Arc::make_mut(self.rest.get_or_insert_default());
                if rest.len() <= at {
                    rest.resize(at + 1, 0);
                }
                &mut rest[at]
            }
        }
    }

    fn trim(&mut self) {
        let Some(rest) = &mut self.rest else { return };
        let zeros = rest.iter().rev().take_while(|word| **word == 0).count();
        if zeros == rest.len() {
            self.rest = None;
        } else if zeros > 0 {
            let len = rest.len() - zeros;
            Arc::make_mut(rest).truncate(len);
        }
    }
}

impl FromIterator<usize> for MemberSet {
    fn from_iter<I: IntoIterator<Item = usize>>(positions: I) -> Self {
        let mut set = Self::new();
        for position in positions {
            set.insert(position);
        }
        set
    }
}

struct SetBits(u64);

impl Iterator for SetBits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

const fn mask(position: usize) -> u64 {
    1 << (position % BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn positions_beyond_one_word_are_kept_and_trimmed() {
        let mut set = MemberSet::new();
        assert!(set.insert(3) && set.insert(200) && !set.insert(200));
        assert_eq!((set.len(), set.last()), (2, Some(200)));
        assert!(set.remove(200) && !set.remove(200));
        assert_eq!(set, [3].into_iter().collect());
        assert_eq!((set.last(), set.contains(200)), (Some(3), false));
        set.clear();
        assert!(set.is_empty() && set.last().is_none());
    }

    #[test]
    fn gaps_shift_later_positions_only() {
        let mut set: MemberSet = [0, 5, 63, 64].into_iter().collect();
        set.open_gap(5);
        assert_eq!(set.iter().collect::<Vec<_>>(), vec![0, 6, 64, 65]);
        set.close_gap(6);
        assert_eq!(set.iter().collect::<Vec<_>>(), vec![0, 63, 64]);
    }

    #[test]
    fn union_and_subset_agree() {
        let small: MemberSet = [1, 70].into_iter().collect();
        let mut large: MemberSet = [2].into_iter().collect();
        assert!(!small.is_subset(&large));
        large.union_with(&small);
        assert!(small.is_subset(&large) && !large.is_subset(&small));
        assert_eq!(large.iter().collect::<Vec<_>>(), vec![1, 2, 70]);
    }
}
