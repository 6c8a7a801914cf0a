//! Random sequences against models that are slow and plain: every entity in a list, searched from one end to
//! the other.

use alloc::vec;

use proptest::prelude::*;

use super::*;
use crate::ordered::OrderedSet;

/// One step of a random sequence.
#[derive(Clone, Copy, Debug)]
enum Step {
    Access(u64),
    Stopped(u64),
    Limit(usize),
    Shards(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0_u64..30).prop_map(Step::Access),
        2 => (0_u64..30).prop_map(Step::Stopped),
        1 => (1_usize..24).prop_map(Step::Limit),
        1 => (1_usize..5).prop_map(Step::Shards),
    ];
    prop::collection::vec(step, 1..400)
}

/// An entity as a model knows it.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: u64,
    /// When it was used last, counted in accesses.
    used: u64,
    /// When it got into its segment, or rose or sank.
    moved: u64,
    segment: usize,
    accesses: u64,
    priority: u64,
}

/// The rules in words: who goes is found by looking at everybody.
struct Model {
    replacement: Replacement,
    known: Vec<Known>,
    limit: usize,
    clock: u64,
    age: u64,
}

impl Model {
    fn new(replacement: Replacement, limit: usize) -> Self {
        Self {
            replacement,
            known: Vec::new(),
            limit,
            clock: 0,
            age: 0,
        }
    }

    fn segment_limit(&self, segment: usize) -> usize {
        let Replacement::Segmented(segments) = &self.replacement else {
            return self.limit;
        };
        segments.shares()[segment].of(self.limit)
    }

    fn victim(&self) -> usize {
        let key = |known: &Known| match self.replacement {
            Replacement::LeastRecentlyUsed => (0, known.used),
            Replacement::MostRecentlyUsed => (0, u64::MAX - known.used),
            Replacement::Segmented(_) => (known.segment as u64, known.moved),
            Replacement::LeastFrequentlyUsed { .. } => (known.priority, known.used),
        };
        let ranked = self.known.iter().enumerate();
        ranked.min_by_key(|(_, known)| key(known)).unwrap().0
    }

    fn evict(&mut self) -> u64 {
        let gone = self.known.remove(self.victim());
        if self.replacement == (Replacement::LeastFrequentlyUsed { aging: true }) {
            self.age = gone.priority;
        }
        gone.id
    }

    fn sink(&mut self, segment: usize) {
        while segment > 0
            && self.known.iter().filter(|k| k.segment == segment).count() > self.segment_limit(segment)
        {
            self.clock += 1;
            let clock = self.clock;
            let of = self.known.iter_mut().filter(|k| k.segment == segment);
            let oldest = of.min_by_key(|k| k.moved).unwrap();
            oldest.segment -= 1;
            oldest.moved = clock;
        }
    }

    fn access(&mut self, id: u64) -> Vec<u64> {
        self.clock += 1;
        let (clock, age) = (self.clock, self.age);
        let highest = match &self.replacement {
            Replacement::Segmented(segments) => segments.shares().len() - 1,
            _ => 0,
        };
        if let Some(known) = self.known.iter_mut().find(|known| known.id == id) {
            known.used = clock;
            known.moved = clock;
            known.accesses += 1;
            known.priority = known.accesses + age;
            known.segment = (known.segment + 1).min(highest);
            let mut full = known.segment;
            while full > 0 {
                self.sink(full);
                full -= 1;
            }
            return Vec::new();
        }
        let mut gone = Vec::new();
        while self.known.len() >= self.limit {
            gone.push(self.evict());
        }
        self.known.push(Known {
            id,
            used: clock,
            moved: clock,
            segment: 0,
            accesses: 1,
            priority: 1 + self.age,
        });
        gone
    }

    fn set_limit(&mut self, limit: usize) -> Vec<u64> {
        self.limit = limit;
        let mut gone = Vec::new();
        while self.known.len() > limit {
            if let Replacement::Segmented(segments) = self.replacement.clone() {
                for segment in (1..segments.shares().len()).rev() {
                    self.sink(segment);
                }
            }
            gone.push(self.evict());
        }
        gone
    }
}

fn check(replacement: &Replacement, steps: &[Step], moves_limits: bool) {
    let mut shard = Shard::new(&plain(8, replacement.clone()));
    let mut model = Model::new(replacement.clone(), 8);
    let (mut per_region, mut shards) = (8, 1);
    for step in steps {
        let (found, expected) = match *step {
            Step::Access(id) => (shard.access(id), model.access(id)),
            Step::Stopped(id) => {
                shard.stopped(id);
                model.known.retain(|known| known.id != id);
                (vec![], vec![])
            }
            Step::Limit(_) | Step::Shards(_) if !moves_limits => continue,
            Step::Limit(limit) => {
                per_region = limit;
                let limit = (per_region / shards).max(1);
                (shard.set_limit(per_region), model.set_limit(limit))
            }
            Step::Shards(number) => {
                shards = number;
                let limit = (per_region / shards).max(1);
                (shard.share_among(shards), model.set_limit(limit))
            }
        };
        assert_eq!(found, expected, "{replacement:?}, {step:?}");
        let active: OrderedSet<u64> = model.known.iter().map(|known| known.id).collect();
        assert_eq!(shard.active(), active.into_iter().collect::<Vec<_>>());
    }
}

proptest! {
    #[test]
    fn recency_and_frequency_agree_with_a_search_through_everybody(steps in steps()) {
        for replacement in [
            Replacement::LeastRecentlyUsed,
            Replacement::MostRecentlyUsed,
            Replacement::LeastFrequentlyUsed { aging: false },
            Replacement::LeastFrequentlyUsed { aging: true },
        ] {
            check(&replacement, &steps, true);
        }
    }

    #[test]
    fn segments_agree_with_a_search_through_everybody(steps in steps()) {
        for shares in [&[0.25, 0.75][..], &[0.5, 0.25, 0.25]] {
            // What a segment has too many of after a change of the limit may sink at once or later: both is
            // right.
            check(&Replacement::Segmented(Segments::new(shares).unwrap()), &steps, false);
        }
    }

    #[test]
    fn whatever_the_strategy_nobody_is_lost_and_the_limit_holds(
        steps in steps(),
        share in 0.0_f64..=1.0,
        policies in (0_usize..5, 0_usize..5),
        climbs in any::<bool>(),
        filters in any::<bool>(),
    ) {
        let policy = |at| match at {
            0 => Replacement::LeastRecentlyUsed,
            1 => Replacement::MostRecentlyUsed,
            2 => Replacement::Segmented(Segments::new(&[0.1, 0.2, 0.7]).unwrap()),
            3 => Replacement::LeastFrequentlyUsed { aging: false },
            _ => Replacement::LeastFrequentlyUsed { aging: true },
        };
        let climbing = ClimbingSettings::default().every(0.5).unwrap().step(0.3, 0.9).unwrap();
        let climbing = climbing.within(0.0, 1.0).unwrap();
        let window = WindowSettings {
            policy: policy(policies.0),
            proportion: Share::new(share).unwrap(),
            climbing: climbs.then_some(climbing),
        };
        let settings = PassivationSettings::limit(LimitSettings {
            per_region: NonZeroUsize::new(8).unwrap(),
            replacement: policy(policies.1),
            window: Some(window),
            filter: filters.then(SketchSettings::default),
        });
        let mut shard = Shard::new(&settings);
        let (mut per_region, mut shards) = (8, 1);
        let mut running = OrderedSet::new();
        for step in &steps {
            let gone = match *step {
                Step::Access(id) => {
                    running.insert(id);
                    shard.access(id)
                }
                Step::Stopped(id) => {
                    running.remove(&id);
                    shard.stopped(id);
                    vec![]
                }
                Step::Limit(limit) => {
                    per_region = limit;
                    shard.set_limit(limit)
                }
                Step::Shards(number) => {
                    shards = number;
                    shard.share_among(number)
                }
            };
            for id in &gone {
                prop_assert!(running.remove(id), "{id} was named and did not run");
            }
            prop_assert_eq!(shard.active(), running.iter().copied().collect::<Vec<_>>());
            prop_assert!(running.len() <= (per_region / shards).max(1));
        }
    }
}
