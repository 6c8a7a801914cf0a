//! Handshakes that are under way, and which of them goes when there are too many. Those from where members
//! are have half of the places to themselves: a flood from elsewhere displaces none of them, so that members
//! whose links were cut come back at once. Decides that and nothing else: who calls it closes and counts.
//! Spec: reliability 3b, B-52.

use crate::crowd::{Crowd, Source};

/// How many may be under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Of all sources.
    pub max: usize,
    /// Of the source of the next one. `None` where members have links from there: who is behind it is judged
    /// by what it proves.
    pub per_source_max: Option<usize>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Pending {
    /// From sources that have members.
    known: Crowd,
    others: Crowd,
}

impl Pending {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.known.len() + self.others.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are of a source.
    #[must_use]
    pub fn count(&self, source: Source) -> usize {
        self.known.count(source) + self.others.count(source)
    }

    /// Adds one. `known`: its source has members.
    pub fn add(&mut self, id: u64, source: Source, known: bool) {
        match known {
            true => self.known.add(id, source),
            false => self.others.add(id, source),
        }
    }

    /// Forgets one; says whether it was there.
    pub fn remove(&mut self, id: u64, source: Source) -> bool {
        // A source may have got its first member meanwhile, or lost its last.
        self.others.remove(id, source) || self.known.remove(id, source)
    }

    /// Who has to go, by a random number, before another one of this source can come.
    #[must_use]
    pub fn victim(&self, source: Source, bounds: Bounds, random: u64) -> Option<u64> {
        if bounds.per_source_max.is_some_and(|max| self.count(source) >= max) {
            let other = self.others.one_of(source, random);
            return other.or_else(|| self.known.one_of(source, random));
        }
        (self.len() >= bounds.max)
            .then(|| self.one_of_the_most(random))
            .flatten()
    }

    /// One of the source that has the most, by a random number: not of those with members, unless these have
    /// more than half.
    #[must_use]
    pub fn one_of_the_most(&self, random: u64) -> Option<u64> {
        let crowd = if self.known.len() > self.others.len() {
            &self.known
        } else {
            &self.others
        };
        crowd.one_of_the_most(random)
    }
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use super::*;

    const MAX: usize = 100;
    const PER_SOURCE_MAX: usize = 4;

    fn source(number: u8) -> Source {
        Source::of(IpAddr::from([10, 0, 0, number]))
    }

    /// Adds one after whoever has to go.
    fn come(pending: &mut Pending, id: u64, from: u8, known: bool) {
        let bounds = Bounds {
            max: MAX,
            per_source_max: (!known).then_some(PER_SOURCE_MAX),
        };
        let random = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if let Some(victim) = pending.victim(source(from), bounds, random) {
            let crowds = (0..=u8::MAX).map(source);
            assert!(crowds.into_iter().any(|source| pending.remove(victim, source)));
        }
        pending.add(id, source(from), known);
    }

    #[test]
    fn a_flood_from_elsewhere_displaces_nobody_from_where_members_are() {
        let mut pending = Pending::default();
        for id in 0..50 {
            come(&mut pending, id, 1, true);
        }
        for id in 50..5_000 {
            come(&mut pending, id, u8::try_from(2 + id % 200).unwrap(), false);
        }
        assert_eq!((pending.count(source(1)), pending.len()), (50, MAX));
    }

    #[test]
    fn who_floods_from_where_members_are_leaves_the_others_half_of_the_places() {
        let mut pending = Pending::default();
        for id in 0..5_000 {
            come(&mut pending, id, 1, true);
        }
        assert_eq!(pending.count(source(1)), MAX);
        for id in 5_000..5_200 {
            come(&mut pending, id, u8::try_from(2 + id % 200).unwrap(), false);
            come(&mut pending, id + 1_000, 1, true);
        }
        assert_eq!(pending.len(), MAX);
        assert!(pending.count(source(1)).abs_diff(MAX / 2) <= 1);
    }

    #[test]
    fn a_source_that_has_lost_its_members_is_counted_as_any_other() {
        let mut pending = Pending::default();
        for id in 0..20 {
            come(&mut pending, id, 1, true);
        }
        come(&mut pending, 20, 1, false);
        assert_eq!(pending.count(source(1)), 20, "one has gone for it");
        assert!((0..=20).filter(|id| pending.remove(*id, source(1))).count() == 20);
        assert!(pending.is_empty());
    }
}
