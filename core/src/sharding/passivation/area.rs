//! Entities in the order in which they are replaced: by recency, in segments, newest first, or by frequency.
//! Says who would go and takes it out; whether somebody has to is decided elsewhere. Spec: sharding 1.6.

use alloc::vec::Vec;

use super::nodes::{Chain, ChainOrder, EntityNodes};
use crate::ordered::OrderedMap;
use crate::sharding::state::passivation::{Replacement, Segments};

/// One area, and how many may be in it.
#[derive(Clone, Debug)]
pub(super) struct LimitArea {
    policy: AreaPolicy,
    limit: usize,
    len: usize,
}

#[derive(Clone, Debug)]
enum AreaPolicy {
    /// Oldest first.
    LeastRecent(Chain),
    /// Newest first.
    MostRecent(Chain),
    Segmented(SegmentedLru),
    Frequent(FrequencyOrder),
}

impl LimitArea {
    /// An area that may have nobody in it.
    pub(super) fn new(replacement: &Replacement) -> Self {
        let chain = Chain::new(ChainOrder::Replacement);
        let policy = match replacement {
            Replacement::LeastRecentlyUsed => AreaPolicy::LeastRecent(chain),
            Replacement::MostRecentlyUsed => AreaPolicy::MostRecent(chain),
            Replacement::Segmented(segments) => AreaPolicy::Segmented(SegmentedLru::new(segments)),
            Replacement::LeastFrequentlyUsed { aging } => AreaPolicy::Frequent(FrequencyOrder::new(*aging)),
        };
        Self {
            policy,
            limit: 0,
            len: 0,
        }
    }

    pub(super) const fn limit(&self) -> usize {
        self.limit
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are more than may be.
    pub(super) const fn is_over(&self) -> bool {
        self.len > self.limit
    }

    /// So many may be in it from now on. Who is too many stays until it is taken out.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        match &mut self.policy {
            AreaPolicy::Segmented(segmented) => segmented.divide(limit),
            AreaPolicy::LeastRecent(_) | AreaPolicy::MostRecent(_) | AreaPolicy::Frequent(_) => {}
        }
    }

    /// Takes one in as the newest.
    pub(super) fn insert<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32) {
        self.len += 1;
        match &mut self.policy {
            AreaPolicy::LeastRecent(chain) | AreaPolicy::MostRecent(chain) => chain.push(nodes, at),
            AreaPolicy::Segmented(segmented) => segmented.insert(nodes, at),
            AreaPolicy::Frequent(frequent) => frequent.insert(nodes, at),
        }
    }

    /// One of those here was used.
    pub(super) fn touch<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32) {
        match &mut self.policy {
            AreaPolicy::LeastRecent(chain) | AreaPolicy::MostRecent(chain) => chain.renew(nodes, at),
            AreaPolicy::Segmented(segmented) => segmented.touch(nodes, at),
            AreaPolicy::Frequent(frequent) => frequent.touch(nodes, at),
        }
    }

    /// Takes out one that has stopped by itself.
    pub(super) fn remove<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32) {
        self.len -= 1;
        match &mut self.policy {
            AreaPolicy::LeastRecent(chain) | AreaPolicy::MostRecent(chain) => chain.remove(nodes, at),
            AreaPolicy::Segmented(segmented) => segmented.remove(nodes, at),
            AreaPolicy::Frequent(frequent) => frequent.remove(nodes, at),
        }
    }

    /// Who would go if somebody had to.
    pub(super) fn victim(&self) -> Option<u32> {
        match &self.policy {
            AreaPolicy::LeastRecent(chain) => chain.first(),
            AreaPolicy::MostRecent(chain) => chain.last(),
            AreaPolicy::Segmented(segmented) => segmented.victim(),
            AreaPolicy::Frequent(frequent) => frequent.victim(),
        }
    }

    /// Takes out who has to go, to make room for another one.
    pub(super) fn evict<K>(&mut self, nodes: &mut EntityNodes<K>) -> Option<u32> {
        let at = self.victim()?;
        if let AreaPolicy::Frequent(frequent) = &mut self.policy {
            frequent.age_to(nodes.get(at).priority);
        }
        self.remove(nodes, at);
        Some(at)
    }

    /// Takes out who has to go because there are too many.
    pub(super) fn shrink<K>(&mut self, nodes: &mut EntityNodes<K>) -> Option<u32> {
        if let AreaPolicy::Segmented(segmented) = &mut self.policy {
            segmented.demote_overflow(nodes);
        }
        self.evict(nodes)
    }
}

/// Recency in segments. What is used rises by one, what a full segment has too many of sinks by one.
#[derive(Clone, Debug)]
struct SegmentedLru {
    segments: Segments,
    chains: Vec<Chain>,
    limits: Vec<usize>,
}

impl SegmentedLru {
    fn new(segments: &Segments) -> Self {
        let many = segments.shares().len();
        Self {
            segments: segments.clone(),
            chains: alloc::vec![Chain::new(ChainOrder::Replacement); many],
            limits: alloc::vec![0; many],
        }
    }

    /// Each segment but the lowest gets its share, the lowest one what is left. Where rounding leaves it
    /// nothing it takes one from the largest: an entity that comes in has to have a place.
    fn divide(&mut self, limit: usize) {
        let mut left = limit;
        let shares = self.segments.shares().iter().zip(&mut self.limits);
        for (share, of) in shares.skip(1) {
            *of = share.of(limit).min(left);
            left -= *of;
        }
        if left == 0
            && limit > 0
            && let Some(largest) = self.limits.iter_mut().skip(1).max()
        {
            *largest -= 1;
            left = 1;
        }
        if let Some(lowest) = self.limits.first_mut() {
            *lowest = left;
        }
    }

    fn insert<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32) {
        nodes.get_mut(at).segment = 0;
        self.chains[0].push(nodes, at);
    }

    fn touch<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32) {
        let from = nodes.get(at).segment as usize;
        let to = (from + 1).min(self.chains.len() - 1);
        if from == to {
            return self.chains[to].renew(nodes, at);
        }
        self.chains[from].remove(nodes, at);
        self.put(nodes, at, to);
        let mut full = to;
        while full > 0 && self.chains[full].len() > self.limits[full] {
            self.demote(nodes, full);
            full -= 1;
        }
    }

    fn remove<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32) {
        let segment = nodes.get(at).segment as usize;
        self.chains[segment].remove(nodes, at);
    }

    fn victim(&self) -> Option<u32> {
        self.chains.iter().find_map(Chain::first)
    }

    /// Lets every segment sink what it has too many of, from the highest down.
    fn demote_overflow<K>(&mut self, nodes: &mut EntityNodes<K>) {
        for segment in (1..self.chains.len()).rev() {
            while self.chains[segment].len() > self.limits[segment] {
                self.demote(nodes, segment);
            }
        }
    }

    /// The oldest of a segment becomes the newest of the one below.
    fn demote<K>(&mut self, nodes: &mut EntityNodes<K>, segment: usize) {
        if let Some(oldest) = self.chains[segment].first() {
            self.chains[segment].remove(nodes, oldest);
            self.put(nodes, oldest, segment - 1);
        }
    }

    fn put<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32, segment: usize) {
        nodes.get_mut(at).segment = u8::try_from(segment).expect("invariant: there are at most 16 segments");
        self.chains[segment].push(nodes, at);
    }
}

/// By frequency, and within one frequency by recency. With aging everybody who comes in or is used counts
/// from where the last one was that had to go.
#[derive(Clone, Debug)]
struct FrequencyOrder {
    /// By priority. As many as there are different ones, which are few: most entities have the same.
    chains: OrderedMap<u64, Chain>,
    aging: bool,
    age: u64,
}

impl FrequencyOrder {
    const fn new(aging: bool) -> Self {
        Self {
            chains: OrderedMap::new(),
            aging,
            age: 0,
        }
    }

    fn insert<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32) {
        nodes.get_mut(at).accesses = 0;
        self.count(nodes, at);
    }

    fn touch<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32) {
        self.remove(nodes, at);
        self.count(nodes, at);
    }

    fn count<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32) {
        let node = nodes.get_mut(at);
        node.accesses = node.accesses.saturating_add(1);
        node.priority = node.accesses.saturating_add(self.age);
        let chain = self.chains.entry(node.priority);
        let chain = chain.or_insert(Chain::new(ChainOrder::Replacement));
        chain.push(nodes, at);
    }

    fn remove<K>(&mut self, nodes: &mut EntityNodes<K>, at: u32) {
        let priority = nodes.get(at).priority;
        if let Some(chain) = self.chains.get_mut(&priority) {
            chain.remove(nodes, at);
            if chain.is_empty() {
                self.chains.remove(&priority);
            }
        }
    }

    fn victim(&self) -> Option<u32> {
        self.chains.first_key_value()?.1.first()
    }

    /// Somebody of this priority has to go.
    const fn age_to(&mut self, priority: u64) {
        if self.aging {
            self.age = priority;
        }
    }
}
