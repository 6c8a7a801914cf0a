//! When remembered entities of a region are started: those of shards that have begun, and those that crashed.
//! Pure: it is told the time and starts nothing. Spec: sharding 1.5 (starter).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::state::ids::{EntityId, ShardId};
use crate::sharding::state::remember::EntityRecovery;
use crate::time::Instant;

/// Entities that one step may start: as many as messages may be flushed, for the same reason.
const STARTS_PER_STEP: usize = 256;

/// When the next step follows: after the host has had its turn, and before anything else is due.
const STEP: Duration = Duration::from_micros(1);

/// Who is to be started. As long as what is remembered and does not run.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntitiesToStart {
    queue: VecDeque<(ShardId, EntityId)>,
    /// When the next of the queue may be started.
    next_at: Option<Instant>,
    restarts: OrderedSet<(Instant, ShardId, EntityId)>,
    /// The same by entity, each once: one that crashes again waits again.
    restart_at: OrderedMap<(ShardId, EntityId), Instant>,
}

impl EntitiesToStart {
    /// A shard has begun with these.
    pub(crate) fn add(&mut self, now: Instant, shard: ShardId, ids: impl IntoIterator<Item = EntityId>) {
        self.queue.extend(ids.into_iter().map(|id| (shard, id)));
        if self.next_at.is_none() && !self.queue.is_empty() {
            self.next_at = Some(now);
        }
    }

    /// An entity has crashed.
    pub(crate) fn restart_at(&mut self, at: Instant, shard: ShardId, entity: EntityId) {
        if let Some(before) = self.restart_at.insert((shard, entity.clone()), at) {
            self.restarts.remove(&(before, shard, entity.clone()));
        }
        self.restarts.insert((at, shard, entity));
    }

    /// A shard has stopped: its entities are started elsewhere.
    pub(crate) fn forget(&mut self, shard: ShardId) {
        self.queue.retain(|(of, _)| *of != shard);
        self.restarts.retain(|(_, of, _)| *of != shard);
        self.restart_at.retain(|(of, _), _| *of != shard);
    }

    /// Those to start now. They may have been started meanwhile, or be gone.
    pub(crate) fn take_due(&mut self, now: Instant, how: EntityRecovery) -> Vec<(ShardId, EntityId)> {
        let mut due = Vec::new();
        while due.len() < STARTS_PER_STEP {
            match self.restarts.first() {
                Some((at, ..)) if *at <= now => {}
                Some(_) | None => break,
            }
            if let Some((_, shard, entity)) = self.restarts.pop_first() {
                self.restart_at.remove(&(shard, entity.clone()));
                due.push((shard, entity));
            }
        }
        if self.next_at.is_some_and(|at| at <= now) {
            let (most, again) = match how {
                EntityRecovery::All => (STARTS_PER_STEP, STEP),
                EntityRecovery::ConstantRate { frequency, entities } => (entities.max(1), frequency),
            };
            let from = self.queue.front().map(|(shard, _)| *shard);
            let mut left = most;
            // A batch is of one shard: they are started one after the other.
            while left > 0 && self.queue.front().map(|(shard, _)| *shard) == from {
                let Some(next) = self.queue.pop_front() else { break };
                due.push(next);
                left -= 1;
            }
            self.next_at = (!self.queue.is_empty()).then(|| now + again);
        }
        due
    }

    /// When to look again.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let restart = self.restarts.first().map(|(at, ..)| *at);
        match (self.next_at, restart) {
            (Some(start), Some(restart)) => Some(start.min(restart)),
            (start, restart) => start.or(restart),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: ShardId = ShardId(3);

    fn ids(numbers: core::ops::Range<u32>) -> Vec<EntityId> {
        numbers
            .map(|number| EntityId::new(&number.to_be_bytes()))
            .collect()
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn s_138_a_constant_rate_starts_a_few_at_a_time() {
        let how = EntityRecovery::ConstantRate {
            frequency: Duration::from_secs(2),
            entities: 2,
        };
        let mut recovery = EntitiesToStart::default();
        recovery.add(at(0), S, ids(0..5));
        recovery.add(at(0), ShardId(4), ids(5..6));
        let mut batches = Vec::new();
        let mut now = at(0);
        while let Some(next) = recovery.next_due() {
            now = now.max(next);
            batches.push((now, recovery.take_due(now, how).len()));
        }
        assert_eq!(
            batches,
            [(at(0), 2), (at(2_000), 2), (at(4_000), 1), (at(6_000), 1)]
        );
    }

    #[test]
    fn all_are_started_a_bounded_number_per_step() {
        let mut recovery = EntitiesToStart::default();
        recovery.add(at(5), S, ids(0..600));
        let mut sizes = Vec::new();
        while let Some(next) = recovery.next_due() {
            assert!(next <= at(6), "without a pause");
            sizes.push(recovery.take_due(next, EntityRecovery::All).len());
        }
        assert_eq!(sizes, [256, 256, 88]);
    }

    #[test]
    fn one_that_crashes_again_waits_again() {
        let mut recovery = EntitiesToStart::default();
        let one = EntityId::from("one");
        recovery.restart_at(at(10), S, one.clone());
        recovery.restart_at(at(19), S, one.clone());
        assert_eq!(recovery.take_due(at(18), EntityRecovery::All), []);
        assert_eq!(recovery.take_due(at(19), EntityRecovery::All), [(S, one)]);
    }

    #[test]
    fn those_that_crashed_wait_and_those_of_a_stopped_shard_are_dropped() {
        let mut recovery = EntitiesToStart::default();
        let [one, two] = [EntityId::from("one"), EntityId::from("two")];
        recovery.restart_at(at(10), S, one.clone());
        recovery.restart_at(at(20), ShardId(4), two);
        recovery.add(at(0), ShardId(4), ids(0..3));
        recovery.forget(ShardId(4));
        assert_eq!(recovery.take_due(at(9), EntityRecovery::All), []);
        assert_eq!(recovery.next_due(), Some(at(10)));
        assert_eq!(recovery.take_due(at(10), EntityRecovery::All), [(S, one)]);
        assert_eq!(recovery.next_due(), None);
    }
}
