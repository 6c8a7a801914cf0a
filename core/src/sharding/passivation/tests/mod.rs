//! The strategies against the sequences of spec sharding 6.4, and against simple models on random ones.

mod limits;
mod models;

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroUsize;
use core::time::Duration;

use super::*;
use crate::ordered::OrderedMap;

/// One shard, whose entities are numbers.
struct Shard {
    passivation: Passivation<u64>,
    places: OrderedMap<u64, StrategyPlace>,
    now: Instant,
}

impl Shard {
    fn new(settings: &PassivationSettings) -> Self {
        Self {
            passivation: Passivation::new(settings),
            places: OrderedMap::new(),
            now: Instant::from_millis(1_000),
        }
    }

    /// Gives an entity a message; who is passivated for it.
    fn access(&mut self, id: u64) -> Vec<u64> {
        let mut passivated = Vec::new();
        match self.places.get(&id) {
            Some(place) => assert!(self.passivation.touch(self.now, *place)),
            None => {
                if let Some(place) = self.passivation.insert(self.now, id, &mut passivated) {
                    self.places.insert(id, place);
                }
            }
        }
        self.forget(&passivated);
        passivated
    }

    /// The same for each of some entities, one after the other.
    fn access_all(&mut self, ids: impl IntoIterator<Item = u64>) -> Vec<Vec<u64>> {
        ids.into_iter().map(|id| self.access(id)).collect()
    }

    fn stopped(&mut self, id: u64) {
        if let Some(place) = self.places.remove(&id) {
            assert!(self.passivation.remove(place));
        }
    }

    fn share_among(&mut self, shards: usize) -> Vec<u64> {
        self.passivation.share_among(shards);
        self.shrink()
    }

    fn set_limit(&mut self, per_region: usize) -> Vec<u64> {
        self.passivation.set_limit(per_region);
        self.shrink()
    }

    fn shrink(&mut self) -> Vec<u64> {
        let mut passivated = Vec::new();
        assert_ne!(self.passivation.shrink(usize::MAX, &mut passivated), 0);
        self.forget(&passivated);
        passivated
    }

    fn forget(&mut self, passivated: &[u64]) {
        for id in passivated {
            self.places.remove(id);
        }
        self.check();
    }

    fn active(&self) -> Vec<u64> {
        self.places.keys().copied().collect()
    }

    fn check(&self) {
        assert_eq!(self.passivation.len(), self.places.len());
    }
}

/// At most `limit` entities by one rule.
fn plain(limit: usize, replacement: Replacement) -> PassivationSettings {
    let limit = NonZeroUsize::new(limit).unwrap();
    PassivationSettings::limit(LimitSettings::plain(limit, replacement))
}

fn segmented(limit: usize, shares: &[f64]) -> PassivationSettings {
    plain(limit, Replacement::Segmented(Segments::new(shares).unwrap()))
}

/// Everybody who came in went out again but one, `back` places before, from the one after `from` on.
fn each(ids: impl IntoIterator<Item = u64>, evicts: impl Fn(u64) -> Option<u64>) -> Vec<Vec<u64>> {
    ids.into_iter()
        .map(|id| evicts(id).into_iter().collect())
        .collect()
}

#[test]
fn an_entity_without_a_message_for_the_time_is_passivated_the_longest_unused_first() {
    let settings = PassivationSettings::idle(Duration::from_secs(10)).unwrap();
    let mut shard = Shard::new(&settings);
    let start = shard.now;
    let look = |shard: &mut Shard, millis: u64, most| {
        shard.now = start + Duration::from_millis(millis);
        let mut passivated = Vec::new();
        let more = shard.passivation.pass_time(shard.now, most, &mut passivated);
        shard.forget(&passivated);
        (passivated, more)
    };
    shard.access_all([1, 2, 3, 4]);
    shard.now = start + Duration::from_secs(5);
    shard.access_all([2]);
    assert_eq!(
        look(&mut shard, 10_000, 9),
        (vec![], false),
        "not longer than the time"
    );
    assert_eq!(
        look(&mut shard, 10_001, 2),
        (vec![1, 3], true),
        "no more than may be named"
    );
    assert_eq!(look(&mut shard, 10_001, 9), (vec![4], false));
    shard.stopped(2);
    assert_eq!(look(&mut shard, 60_000, 9), (vec![], false));
    assert_eq!(shard.active(), Vec::<u64>::new());
}

#[test]
fn idle_time_and_a_limit_work_together() {
    let two = NonZeroUsize::new(2).unwrap();
    let limit = LimitSettings::plain(two, Replacement::LeastRecentlyUsed);
    let settings = PassivationSettings::limit(limit)
        .and_idle(Duration::from_secs(1))
        .unwrap();
    let mut shard = Shard::new(&settings);
    assert_eq!(shard.access_all([1, 2, 3]), [vec![], vec![], vec![1]]);
    shard.now = shard.now + Duration::from_secs(2);
    shard.access(3);
    let mut passivated = Vec::new();
    shard.passivation.pass_time(shard.now, 9, &mut passivated);
    assert_eq!(passivated, [2]);
    shard.forget(&passivated);
    assert_eq!(shard.access_all([4, 5]), [vec![], vec![3]]);
}

#[test]
fn s_077_more_shards_than_the_limit_still_leave_one_entity_to_each() {
    for replacement in [
        Replacement::LeastRecentlyUsed,
        Replacement::MostRecentlyUsed,
        Replacement::Segmented(Segments::default()),
        Replacement::LeastFrequentlyUsed { aging: false },
        Replacement::LeastFrequentlyUsed { aging: true },
    ] {
        let mut shard = Shard::new(&plain(2, replacement));
        shard.share_among(3);
        assert_eq!(shard.passivation.limit(), Some(1));
        assert_eq!(shard.access(1), []);
        assert_eq!(shard.access(2), [1], "the one that has the message stays");
        assert_eq!(shard.access(2), []);
        assert_eq!(shard.active(), [2]);
    }
}

#[test]
fn s_078_a_kind_that_remembers_its_entities_has_no_strategy() {
    let settings = PassivationSettings::default();
    assert_eq!(
        settings.clone().unless_remembered(true),
        PassivationSettings::off()
    );
    assert_eq!(settings.clone().unless_remembered(false), settings);
    let mut shard = Shard::new(&settings.unless_remembered(true));
    shard.access_all(0..1_000);
    assert_eq!(shard.active().len(), 1_000);
}

#[test]
fn a_place_is_void_once_its_entity_was_passivated_or_has_stopped() {
    let mut passivation = Passivation::<u64>::new(&plain(1, Replacement::LeastRecentlyUsed));
    let mut passivated = Vec::new();
    let now = Instant::ZERO;
    let first = passivation.insert(now, 1, &mut passivated).unwrap();
    let second = passivation.insert(now, 2, &mut passivated).unwrap();
    assert_eq!(passivated, [1]);
    assert!(!passivation.touch(now, first) && !passivation.remove(first));
    let third = passivation.insert(now, 3, &mut passivated).unwrap();
    assert_ne!(
        first, third,
        "the position is used again, the place is another one"
    );
    assert!(!passivation.remove(first) && !passivation.remove(second) && passivation.remove(third));
    assert!(passivation.is_empty());
}

#[test]
fn a_lower_limit_is_reached_in_steps_and_what_is_used_meanwhile_counts() {
    let mut shard = Shard::new(&plain(10, Replacement::LeastRecentlyUsed));
    shard.access_all(1..=10);
    assert!(shard.passivation.set_limit(4) && !shard.passivation.clone().set_limit(10));
    let mut passivated = Vec::new();
    assert_eq!(shard.passivation.shrink(2, &mut passivated), 0);
    assert_eq!(passivated, [1, 2]);
    shard.forget(&passivated);
    shard.access(3);
    assert_eq!(shard.shrink(), [4, 5, 6, 7]);
    assert_eq!(shard.active(), [3, 8, 9, 10]);
}

#[test]
fn settings_out_of_range_are_refused() {
    assert_eq!(Segments::new(&[]), Err(PassivationError::BadSegments));
    assert_eq!(
        Segments::new(&[0.1; SEGMENTS_MAX + 1]),
        Err(PassivationError::BadSegments)
    );
    assert_eq!(Segments::new(&[0.6, 0.6]), Err(PassivationError::BadSegments));
    for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert!(Segments::new(&[bad]).is_err(), "{bad}");
        assert!(Share::new(bad).is_none());
        assert!(WindowSettings::fixed(bad).is_err());
        assert!(ClimbingSettings::default().step(bad, 0.5).is_err());
    }
    assert!(SketchSettings::new(0, 1.0).is_err() && SketchSettings::new(65, 1.0).is_err());
    assert_ne!(SketchSettings::new(4, 1.0), SketchSettings::new(4, 2.0));
    assert!(SketchSettings::new(4, 0.0).is_err() && SketchSettings::new(4, f64::NAN).is_err());
    assert_eq!(
        ClimbingSettings::default().within(0.5, 0.4),
        Err(PassivationError::BadRange)
    );
    assert_eq!(
        WindowSettings::climbing(0.001, ClimbingSettings::default()),
        Err(PassivationError::BadRange)
    );
    assert!(PassivationSettings::idle(Duration::ZERO).is_err());
    assert!(IdleSettings::new(Duration::from_secs(1), Duration::ZERO).is_err());
}
