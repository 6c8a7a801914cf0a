//! A strategy that counts its rounds: a look at the balance that chooses something begins one, and the last
//! home that a shard of it is given ends it. Chooses as the strategy does that it wraps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quorate_core::ident::UniqueAddress;
use quorate_core::ordered::OrderedSet;
use quorate_core::sharding::allocation::{
    AllocationSettings, AllocationStrategy, CustomAllocation, DesiredHomes, RegionLoad, RegionRing,
};
use quorate_core::sharding::ids::ShardId;

/// One round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) moves: usize,
    /// How long the choice took.
    pub(super) choice: Duration,
    began: Instant,
    ended: Instant,
}

impl Round {
    /// From the choice until each of its shards had stopped and had a new home.
    pub(super) fn work(&self) -> Duration {
        self.ended.duration_since(self.began)
    }
}

#[derive(Debug, Default)]
struct Book {
    ring: RegionRing,
    rounds: Vec<Round>,
    at_rest: bool,
}

/// See the module; clones count together.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    settings: AllocationSettings,
    /// Regions without which nothing moves.
    regions: usize,
    book: Arc<Mutex<Book>>,
}

impl Counted {
    pub(super) fn new(settings: AllocationSettings, regions: usize) -> Self {
        Self {
            settings,
            regions,
            book: Arc::default(),
        }
    }

    pub(super) fn as_strategy(&self) -> AllocationSettings {
        AllocationSettings::Custom(CustomAllocation::new(self.clone()))
    }

    /// Whether a look at the balance of all regions has found nothing that should move, and nothing that
    /// moved.
    pub(super) fn is_at_rest(&self) -> bool {
        self.book().at_rest
    }

    pub(super) fn rounds(&self) -> Vec<Round> {
        self.book().rounds.clone()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AllocationStrategy for Counted {
    fn name(&self) -> &str {
        "counted"
    }

    fn allocate(
        &self,
        requester: Option<&UniqueAddress>,
        shard: ShardId,
        regions: &[RegionLoad<'_>],
    ) -> Option<usize> {
        let mut book = self.book();
        let desired = DesiredHomes::new();
        let chosen = self
            .settings
            .allocate(&mut book.ring, requester, shard, regions, &desired);
        if let Some(round) = book.rounds.last_mut() {
            round.ended = Instant::now();
        }
        chosen
    }

    /// A look while shards move chooses nothing. With the documented interval none would find any.
    fn rebalance(&self, regions: &[RegionLoad<'_>], in_progress: &OrderedSet<ShardId>) -> Vec<ShardId> {
        if regions.len() < self.regions || !in_progress.is_empty() {
            return Vec::new();
        }
        let mut book = self.book();
        let began = Instant::now();
        let chosen = self
            .settings
            .rebalance(&mut book.ring, regions, in_progress, &DesiredHomes::new());
        book.at_rest = chosen.is_empty();
        if !book.at_rest {
            book.rounds.push(Round {
                moves: chosen.len(),
                choice: began.elapsed(),
                began,
                ended: began,
            });
        }
        chosen
    }
}
