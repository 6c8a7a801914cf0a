//! What a shard has to write about its entities: one write is under way, and what comes meanwhile is the next
//! one. Pure. Spec: sharding 1.4 (store batching).

use crate::ordered::OrderedSet;
use crate::sharding::state::ids::EntityId;

/// What one write changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameUpdate {
    /// Entities that start once it is written.
    pub(crate) started: OrderedSet<EntityId>,
    /// Entities that are forgotten.
    pub(crate) stopped: OrderedSet<EntityId>,
}

impl NameUpdate {
    fn is_empty(&self) -> bool {
        self.started.is_empty() && self.stopped.is_empty()
    }
}

/// The write under way, and the next one. An entity is in one of the four sets at most.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameBatches {
    next: NameUpdate,
    in_flight: Option<NameUpdate>,
}

impl NameBatches {
    /// An entity is to be remembered.
    pub(crate) fn start(&mut self, entity: EntityId) {
        self.next.started.insert(entity);
    }

    /// An entity is to be forgotten.
    pub(crate) fn stop(&mut self, entity: EntityId) {
        self.next.stopped.insert(entity);
    }

    /// The write to begin with now, if none is under way.
    pub(crate) fn begin(&mut self) -> Option<&NameUpdate> {
        if self.in_flight.is_some() || self.next.is_empty() {
            return None;
        }
        self.in_flight = Some(core::mem::take(&mut self.next));
        self.in_flight.as_ref()
    }

    /// The write under way is done.
    pub(crate) fn finish(&mut self) -> Option<NameUpdate> {
        self.in_flight.take()
    }

    /// The shard stops: who has not been written yet is not started here. Gives those back.
    pub(crate) fn drop_starts(&mut self) -> OrderedSet<EntityId> {
        core::mem::take(&mut self.next.started)
    }

    /// Whether nothing is under way and nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_none() && self.next.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn id(number: u32) -> EntityId {
        EntityId::new(&number.to_be_bytes())
    }

    #[test]
    fn s_128_what_comes_during_a_write_is_the_next_one() {
        let mut batches = NameBatches::default();
        let mut written = Vec::new();
        (0..20).for_each(|number| batches.start(id(number)));
        let first = batches.begin().map(|update| update.started.len());
        written.extend(first);
        (20..60).for_each(|number| batches.start(id(number)));
        assert_eq!(batches.begin(), None, "one write at a time");
        assert_eq!(batches.finish().map(|update| update.started.len()), Some(20));
        written.extend(batches.begin().map(|update| update.started.len()));
        (60..80).for_each(|number| batches.stop(id(number)));
        batches.finish();
        written.extend(batches.begin().map(|update| update.stopped.len()));
        assert_eq!(written, [20, 40, 20]);
        batches.finish();
        assert!(batches.is_idle() && batches.begin().is_none());
    }
}
