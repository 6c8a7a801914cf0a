//! Which entities of a shard are taken out of memory, and when: those without a message for a time, and those
//! that are too many. Pure structures: they know places, not entities, and are told the time. Each access
//! costs a few steps whatever the number of entities: a place is found without a search, and chains are
//! linked by positions. Never stops an entity; the shard does. Spec: sharding 1.6.
//!
//! ```
//! use std::num::NonZeroUsize;
//! use quorate_core::sharding::passivation::{LimitSettings, Passivation, PassivationSettings, Replacement};
//! use quorate_core::time::Instant;
//!
//! let ten = NonZeroUsize::new(10).ok_or("zero")?;
//! let settings = PassivationSettings::limit(LimitSettings::plain(ten, Replacement::LeastRecentlyUsed));
//! let mut passivation = Passivation::<u64>::new(&settings);
//! passivation.share_among(5); // of ten in the region, two in each of five shards
//! let mut out = Vec::new();
//! let first = passivation.insert(Instant::ZERO, 1, &mut out);
//! passivation.insert(Instant::ZERO, 2, &mut out);
//! if let Some(first) = first {
//!     passivation.touch(Instant::ZERO, first);
//! }
//! passivation.insert(Instant::ZERO, 3, &mut out);
//! assert_eq!(out, [2]);
//! # Ok::<(), &str>(())
//! ```

mod area;
mod climb;
mod limited;
mod nodes;
mod sketch;

use alloc::vec::Vec;

use crate::time::Instant;
use limited::LimitedAreas;
use nodes::{Chain, ChainOrder, EntityNodes};

pub use crate::sharding::state::passivation::{
    ClimbingSettings, Factor, IdleSettings, LimitSettings, PassivationError, PassivationSettings,
    Replacement, SEGMENTS_MAX, Segments, Share, SketchSettings, WindowSettings,
};
pub use nodes::StrategyPlace;
pub use sketch::{AdmissionFilter, FrequencySketch, Hashed};

/// The strategy of one shard over entities that are known by `K`.
///
/// Who is passivated is appended to a list of the caller's and is forgotten here at once: its place is void,
/// and when a message starts it again it comes in anew.
#[derive(Clone, Debug)]
pub struct Passivation<K, F = FrequencySketch> {
    nodes: EntityNodes<K>,
    idle: Option<IdleLimit>,
    limited: Option<LimitedAreas<F>>,
    per_region: usize,
    shards: usize,
    /// Kept between calls, so that an access does not allocate.
    gone: Vec<u32>,
}

#[derive(Clone, Debug)]
struct IdleLimit {
    settings: IdleSettings,
    /// In the order of the last use.
    chain: Chain,
}

impl<K: Hashed> Passivation<K> {
    /// A strategy without entities, for the only shard of a region.
    #[must_use]
    pub fn new(settings: &PassivationSettings) -> Self {
        Self::with_filter(settings, FrequencySketch::new)
    }
}

impl<K, F: AdmissionFilter<K>> Passivation<K, F> {
    /// The same, with another filter in the place of the frequency sketch, where the settings want one.
    #[must_use]
    pub fn with_filter(settings: &PassivationSettings, filter: impl FnOnce(SketchSettings) -> F) -> Self {
        let limited = settings.limit.as_ref().map(|limit| {
            let filter = limit.filter.map(filter);
            LimitedAreas::new(limit, filter)
        });
        let idle = settings.idle.map(|settings| IdleLimit {
            settings,
            chain: Chain::new(ChainOrder::Idle),
        });
        let per_region = settings.limit.as_ref().map_or(1, |limit| limit.per_region.get());
        let mut passivation = Self {
            nodes: EntityNodes::new(),
            idle,
            limited,
            per_region,
            shards: 1,
            gone: Vec::new(),
        };
        passivation.divide();
        passivation
    }

    /// How many may run in the region from now on. `true` if somebody is too many here: [`Self::shrink`]
    /// names them. Nothing happens without a limit.
    pub fn set_limit(&mut self, per_region: usize) -> bool {
        self.per_region = per_region;
        self.divide()
    }

    /// How many shards of the region share the limit from now on: each has its part of it, at least one
    /// entity. As [`Self::set_limit`].
    pub fn share_among(&mut self, shards: usize) -> bool {
        self.shards = shards;
        self.divide()
    }

    fn divide(&mut self) -> bool {
        let limit = (self.per_region / self.shards.max(1)).max(1);
        let Some(limited) = &mut self.limited else {
            return false;
        };
        limited.set_limit(limit);
        limited.is_over()
    }

    /// An entity was started for a message. Its place; `None` if it is one of those that are to be
    /// passivated, after that message.
    pub fn insert(&mut self, now: Instant, key: K, passivated: &mut Vec<K>) -> Option<StrategyPlace> {
        let place = self.nodes.add(key, now);
        if let Some(idle) = &mut self.idle {
            idle.chain.push(&mut self.nodes, place.at);
        }
        if let Some(limited) = &mut self.limited {
            limited.insert(&mut self.nodes, place.at, &mut self.gone);
        }
        self.let_go(passivated);
        self.nodes.holds(place).then_some(place)
    }

    /// A running entity got a message. `false` for a place that is void.
    pub fn touch(&mut self, now: Instant, place: StrategyPlace) -> bool {
        if !self.nodes.holds(place) {
            return false;
        }
        if let Some(idle) = &mut self.idle {
            self.nodes.get_mut(place.at).touched = now;
            idle.chain.renew(&mut self.nodes, place.at);
        }
        if let Some(limited) = &mut self.limited {
            limited.touch(&mut self.nodes, place.at);
        }
        true
    }

    /// An entity has stopped, or stops, for another reason. `false` for a place that is void.
    pub fn remove(&mut self, place: StrategyPlace) -> bool {
        if !self.nodes.holds(place) {
            return false;
        }
        if let Some(limited) = &mut self.limited {
            limited.remove(&mut self.nodes, place.at);
        }
        self.forget(place.at);
        true
    }

    /// Names entities that are too many, after at most `steps` steps; how many steps are left. With none left
    /// there may be more.
    pub fn shrink(&mut self, steps: usize, passivated: &mut Vec<K>) -> usize {
        let Some(limited) = &mut self.limited else {
            return steps;
        };
        let mut left = steps;
        while left > 0 && limited.shrink(&mut self.nodes, &mut self.gone) {
            left -= 1;
        }
        self.let_go(passivated);
        left
    }

    /// Names entities that were used last before `now` less the settings' timeout, the longest unused first,
    /// at most `most`. `true` if there may be more.
    pub fn pass_time(&mut self, now: Instant, most: usize, passivated: &mut Vec<K>) -> bool {
        let Some(idle) = &self.idle else { return false };
        // Before the timeout has passed for the first time nobody can be idle.
        let Some(since) = now.as_micros().checked_sub(micros(idle.settings.timeout())) else {
            return false;
        };
        let before = Instant::from_micros(since);
        for _ in 0..most {
            let oldest = self.idle.as_ref().and_then(|idle| idle.chain.first());
            let Some(at) = oldest.filter(|at| self.nodes.get(*at).touched < before) else {
                return false;
            };
            if let Some(limited) = &mut self.limited {
                limited.remove(&mut self.nodes, at);
            }
            passivated.push(self.forget(at));
        }
        true
    }

    /// Entities that it knows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it knows none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 0
    }

    /// How many may run in this shard; `None` without a limit.
    #[must_use]
    pub fn limit(&self) -> Option<usize> {
        self.limited.as_ref().map(LimitedAreas::limit)
    }

    /// The window's share of the limit now, and how often it was changed; `None` without a window.
    #[must_use]
    pub fn window(&self) -> Option<(f64, u64)> {
        self.limited.as_ref()?.window()
    }

    /// Names those who have to go, in order.
    fn let_go(&mut self, passivated: &mut Vec<K>) {
        let mut gone = core::mem::take(&mut self.gone);
        for at in gone.drain(..) {
            passivated.push(self.forget(at));
        }
        self.gone = gone;
    }

    /// Forgets one who is in no area any more.
    fn forget(&mut self, at: u32) -> K {
        if let Some(idle) = &mut self.idle {
            idle.chain.remove(&mut self.nodes, at);
        }
        self.nodes.remove(at)
    }
}

fn micros(duration: core::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
