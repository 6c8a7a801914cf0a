//! At most so many entities: newcomers come into a window, from there into the main area if they are used
//! more often than who would have to go for them. Without a window every newcomer is a candidate at once,
//! without a filter every candidate gets in; with neither this is the main area's rule alone. Spec: sharding
//! 1.6 (composite).

use alloc::vec::Vec;

use super::area::LimitArea;
use super::climb::HillClimber;
use super::nodes::EntityNodes;
use super::sketch::AdmissionFilter;
use crate::sharding::state::passivation::LimitSettings;

/// The two areas and what decides between them.
#[derive(Clone, Debug)]
pub(super) struct LimitedAreas<F> {
    limit: usize,
    window: Option<WindowArea>,
    main: LimitArea,
    filter: Option<F>,
}

#[derive(Clone, Debug)]
struct WindowArea {
    area: LimitArea,
    proportion: f64,
    climb: Option<HillClimber>,
}

impl WindowArea {
    fn limit_of(&self, limit: usize) -> usize {
        // The share is from 0 to 1, so the cast loses nothing.
        (libm::trunc(self.proportion * limit as f64) as usize).min(limit)
    }
}

impl<F> LimitedAreas<F> {
    pub(super) fn new(settings: &LimitSettings, filter: Option<F>) -> Self {
        let window = settings.window.as_ref().map(|window| WindowArea {
            area: LimitArea::new(&window.policy),
            proportion: window.proportion.get(),
            climb: window.climbing.map(HillClimber::new),
        });
        Self {
            limit: 0,
            window,
            main: LimitArea::new(&settings.replacement),
            filter,
        }
    }

    pub(super) const fn limit(&self) -> usize {
        self.limit
    }

    /// The window's share, and how often it was changed.
    pub(super) fn window(&self) -> Option<(f64, u64)> {
        let window = self.window.as_ref()?;
        let adjustments = window.climb.as_ref().map_or(0, HillClimber::adjustments);
        Some((window.proportion, adjustments))
    }

    /// So many may run from now on; who is too many goes with [`Self::shrink`].
    pub(super) fn set_limit<K>(&mut self, limit: usize)
    where
        F: AdmissionFilter<K>,
    {
        if limit == self.limit {
            return;
        }
        self.limit = limit;
        self.divide();
        if let Some(filter) = &mut self.filter {
            filter.on_limit(limit);
        }
    }

    /// Whether [`Self::shrink`] has something to do.
    pub(super) fn is_over(&self) -> bool {
        let window = self.window.as_ref().is_some_and(|window| window.area.is_over());
        window || self.main.is_over()
    }

    /// Takes a newcomer in, or not. Who has to go for it is in no area any more.
    pub(super) fn insert<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32, gone: &mut Vec<u32>)
    where
        F: AdmissionFilter<K>,
    {
        self.on_access(nodes, at, false);
        match &mut self.window {
            Some(window) if window.area.limit() > 0 => {
                let mut candidates = Vec::new();
                while window.area.len() >= window.area.limit() {
                    candidates.extend(window.area.evict(nodes));
                }
                nodes.get_mut(at).in_window = true;
                window.area.insert(nodes, at);
                for candidate in candidates {
                    self.admit(nodes, candidate, gone);
                }
            }
            Some(_) | None => self.admit(nodes, at, gone),
        }
        self.adapt(nodes);
    }

    /// One of those who are in was used.
    pub(super) fn touch<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32)
    where
        F: AdmissionFilter<K>,
    {
        self.on_access(nodes, at, true);
        match &mut self.window {
            Some(window) if nodes.get(at).in_window => window.area.touch(nodes, at),
            Some(_) | None => self.main.touch(nodes, at),
        }
        self.adapt(nodes);
    }

    /// One has stopped by itself.
    pub(super) fn remove<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32) {
        match &mut self.window {
            Some(window) if nodes.get(at).in_window => window.area.remove(nodes, at),
            Some(_) | None => self.main.remove(nodes, at),
        }
    }

    /// Takes the next step towards the limit: first what the window has too many of are candidates for the
    /// main area as it is to be, then the main area gives up what it has too many of. `false` if nothing is
    /// left to do.
    pub(super) fn shrink<K>(&mut self, nodes: &mut EntityNodes<K>, gone: &mut Vec<u32>) -> bool
    where
        F: AdmissionFilter<K>,
    {
        if let Some(window) = &mut self.window
            && window.area.is_over()
        {
            if let Some(candidate) = window.area.shrink(nodes) {
                self.admit(nodes, candidate, gone);
            }
            return true;
        }
        if self.main.is_over() {
            gone.extend(self.main.shrink(nodes));
            return true;
        }
        false
    }

    fn on_access<K>(&mut self, nodes: &EntityNodes<K>, at: u32, is_hit: bool)
    where
        F: AdmissionFilter<K>,
    {
        if let Some(filter) = &mut self.filter {
            filter.on_access(&nodes.get(at).key);
        }
        let climb = self.window.as_mut().and_then(|window| window.climb.as_mut());
        if let Some(climb) = climb {
            climb.on_access(is_hit);
        }
    }

    /// Somebody who is in no area wants to be in the main one: the loser of two goes.
    fn admit<K>(&mut self, nodes: &mut EntityNodes<K>, candidate: u32, gone: &mut Vec<u32>)
    where
        F: AdmissionFilter<K>,
    {
        if self.main.len() >= self.main.limit() {
            let victim = self.main.victim().filter(|victim| {
                let used = |filter: &F, at| filter.estimate(&nodes.get(at).key);
                let is_used_more = |filter: &F| used(filter, candidate) > used(filter, *victim);
                self.filter.as_ref().is_none_or(is_used_more)
            });
            if victim.is_none() {
                return gone.push(candidate);
            }
            gone.extend(self.main.evict(nodes));
        }
        nodes.get_mut(candidate).in_window = false;
        self.main.insert(nodes, candidate);
    }

    /// Changes the window's share if it is time. What moves between window and main area goes on running.
    fn adapt<K>(&mut self, nodes: &mut EntityNodes<K>) {
        let Some(window) = &mut self.window else { return };
        let Some(climb) = &mut window.climb else { return };
        let Some(adjustment) = climb.adjustment(self.limit) else {
            return;
        };
        window.proportion = climb.changed(window.proportion, adjustment);
        let before = window.area.limit();
        self.divide();
        let Some(window) = &mut self.window else { return };
        let shrinks = window.area.limit() < before;
        let (from, to) = if shrinks {
            (&mut window.area, &mut self.main)
        } else {
            (&mut self.main, &mut window.area)
        };
        while from.is_over()
            && let Some(moved) = from.shrink(nodes)
        {
            nodes.get_mut(moved).in_window = !shrinks;
            to.insert(nodes, moved);
        }
    }

    fn divide(&mut self) {
        let mut in_window = 0;
        if let Some(window) = &mut self.window {
            in_window = window.limit_of(self.limit);
            window.area.set_limit(in_window);
        }
        self.main.set_limit(self.limit - in_window);
    }
}
