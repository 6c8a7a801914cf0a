//! Who takes part: a simple LRU, and the strategies as a shard uses them, with a look-up of the entity by its
//! id.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use quorate_core::sharding::passivation::{
    LimitSettings, Passivation, PassivationSettings, Replacement, Segments, SketchSettings, StrategyPlace,
};
use quorate_core::time;

use crate::simple::SimpleLru;

/// One that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    Simple,
    LeastRecent,
    Segmented,
    MostRecent,
    LeastFrequent,
    Aging,
    FilteredLeastRecent,
    Composite,
    CompositeIdle,
}

impl Contestant {
    pub(crate) const ALL: [Self; 9] = [
        Self::Simple,
        Self::LeastRecent,
        Self::Segmented,
        Self::MostRecent,
        Self::LeastFrequent,
        Self::Aging,
        Self::FilteredLeastRecent,
        Self::Composite,
        Self::CompositeIdle,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple LRU",
            Self::LeastRecent => "LRU",
            Self::Segmented => "segmented LRU",
            Self::MostRecent => "MRU",
            Self::LeastFrequent => "LFU",
            Self::Aging => "LFU with aging",
            Self::FilteredLeastRecent => "LRU behind a sketch",
            Self::Composite => "composite",
            Self::CompositeIdle => "composite and idle",
        }
    }

    /// Plays a trace; how many accesses found their entity running.
    pub(crate) fn play(self, ids: &[u64], limit: usize) -> usize {
        let Some(settings) = self.settings(limit) else {
            let mut simple = SimpleLru::new(limit);
            return ids.iter().filter(|id| simple.access(**id)).count();
        };
        let mut shard = Shard {
            passivation: Passivation::new(&settings),
            places: HashMap::new(),
            gone: Vec::new(),
        };
        ids.iter().filter(|id| shard.access(**id)).count()
    }

    fn settings(self, limit: usize) -> Option<PassivationSettings> {
        let per_region = NonZeroUsize::new(limit)?;
        let plain = |replacement| LimitSettings::plain(per_region, replacement);
        let composite = LimitSettings {
            per_region,
            ..LimitSettings::default()
        };
        Some(PassivationSettings::limit(match self {
            Self::Simple => return None,
            Self::LeastRecent => plain(Replacement::LeastRecentlyUsed),
            Self::Segmented => plain(Replacement::Segmented(Segments::default())),
            Self::MostRecent => plain(Replacement::MostRecentlyUsed),
            Self::LeastFrequent => plain(Replacement::LeastFrequentlyUsed { aging: false }),
            Self::Aging => plain(Replacement::LeastFrequentlyUsed { aging: true }),
            Self::FilteredLeastRecent => LimitSettings {
                filter: Some(SketchSettings::default()),
                ..plain(Replacement::LeastRecentlyUsed)
            },
            Self::Composite => composite,
            Self::CompositeIdle => {
                return PassivationSettings::limit(composite)
                    .and_idle(Duration::from_secs(3600))
                    .ok();
            }
        }))
    }
}

/// A strategy, and where its entities stand.
struct Shard {
    passivation: Passivation<u64>,
    places: HashMap<u64, StrategyPlace>,
    gone: Vec<u64>,
}

impl Shard {
    fn access(&mut self, id: u64) -> bool {
        if let Some(place) = self.places.get(&id) {
            return self.passivation.touch(time::Instant::ZERO, *place);
        }
        if let Some(place) = self.passivation.insert(time::Instant::ZERO, id, &mut self.gone) {
            self.places.insert(id, place);
        }
        for gone in self.gone.drain(..) {
            self.places.remove(&gone);
        }
        false
    }
}
