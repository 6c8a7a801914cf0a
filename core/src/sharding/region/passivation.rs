//! Entities that are taken out of memory while their shard stays: by themselves, after a time without a
//! message, or because the region runs too many. What comes for one meanwhile waits for its next incarnation,
//! which begins with it. Who goes is the strategy's decision. Spec: sharding 1.4, 1.6.

use alloc::vec::Vec;

use super::{STEP, ShardRegion};
use crate::ordered::OrderedSet;
use crate::sharding::passivation::PassivationSettings;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::shard::DeliveryOutcome;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{EntityId, ShardId, Slot};
use crate::timer::RegionTimer;

/// Entities that one step may passivate: as many as messages may be flushed, for the same reason.
const PASSIVATIONS_PER_STEP: usize = 256;

/// Who has to leave memory, and when that is looked at.
#[derive(Clone, Debug)]
pub(super) struct RegionPassivation {
    /// When entities are passivated.
    pub(super) settings: PassivationSettings,
    /// How many entities may run, if somebody has changed what the settings say.
    limit: Option<usize>,
    /// Each shard's part of that.
    each: usize,
    /// Shards that run more than their part, a bounded number of which stop per step.
    shrinking: OrderedSet<ShardId>,
    /// Where the present look for unused entities goes on.
    idle_from: Option<ShardId>,
}

impl RegionPassivation {
    /// Nothing runs yet.
    pub(super) const fn new(settings: PassivationSettings) -> Self {
        Self {
            settings,
            limit: None,
            each: 0,
            shrinking: OrderedSet::new(),
            idle_from: None,
        }
    }
}

impl ShardRegion {
    /// An entity wants to be passivated. Not while messages wait for it that it was started for: it goes on
    /// with those (S-080).
    pub(crate) fn on_passivate(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        shard: ShardId,
        entity: &EntityId,
        slot: Slot,
    ) {
        let Some(here) = self.shards.running_mut(shard) else {
            return;
        };
        if self.buffers.has_for_entity(shard, entity) || !here.passivate(shared.cx, entity, slot) {
            shared.cx.counters().passivations_ignored += 1;
        }
    }

    /// One of a shard's entities has failed, and all of them with it: they are stopped at once. What comes
    /// meanwhile waits for their next incarnations, as after passivation. Nothing happens if the shard stops
    /// already. Gives the slots of who ends by it.
    pub(crate) fn on_escalated(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        shard: ShardId,
        over: Slot,
    ) -> Vec<Slot> {
        match self.shards.running_mut(shard) {
            Some(here) => here.fail(shared.cx, over),
            None => Vec::new(),
        }
    }

    /// Changes how many entities this region may run, all its shards together; `false` if its strategy has no
    /// limit.
    pub(crate) fn set_entity_limit(&mut self, shared: &mut RegionContext<'_, '_>, per_region: usize) -> bool {
        if self.passivating.settings.limit.is_none() {
            return false;
        }
        self.passivating.limit = Some(per_region);
        self.share_entity_limit(shared, None);
        true
    }

    /// The number of shards has changed: each of them has its part of the limit. `new` has begun just now.
    pub(super) fn share_entity_limit(&mut self, shared: &mut RegionContext<'_, '_>, new: Option<ShardId>) {
        let settings = self.passivating.settings.limit.as_ref();
        let Some(configured) = settings.map(|limit| limit.per_region.get()) else {
            return;
        };
        let per_region = self.passivating.limit.unwrap_or(configured);
        let shards = self.shards.hosted_len();
        let each = (per_region / shards.max(1)).max(1);
        // Of thousands of shards most come and go without a change for the others.
        let concerns_all = core::mem::replace(&mut self.passivating.each, each) != each;
        for (id, shard) in self.shards.hosted_from_mut(ShardId(0)) {
            if (concerns_all || Some(id) == new) && shard.share_limit(per_region, shards) {
                self.passivating.shrinking.insert(id);
            }
        }
        self.shrink(shared);
    }

    /// Passivates who is too many, a bounded number per step.
    pub(super) fn shrink(&mut self, shared: &mut RegionContext<'_, '_>) {
        let mut budget = PASSIVATIONS_PER_STEP;
        while let Some(id) = self.passivating.shrinking.first().copied() {
            if budget == 0 {
                return self.wake(shared.cx, RegionTimer::Shrink, STEP);
            }
            if let Some(shard) = self.shards.hosted_mut(id) {
                budget = shard.shrink(shared.cx, budget);
            }
            if budget > 0 {
                self.passivating.shrinking.remove(&id);
            }
        }
    }

    /// A shard has begun here: entities that are not used are looked for from now on, unless they are
    /// already.
    pub(super) fn watch_idle(&self, shared: &mut RegionContext<'_, '_>) {
        if let Some(idle) = self.passivating.settings.idle
            && self.shards.hosted_len() == 1
        {
            self.wake(shared.cx, RegionTimer::Idle, idle.interval());
        }
    }

    /// Looks for entities that have had no message for too long, and passivates a bounded number of them per
    /// step.
    pub(super) fn on_idle_tick(&mut self, shared: &mut RegionContext<'_, '_>) {
        let Some(idle) = self.passivating.settings.idle else {
            return;
        };
        let now = shared.cx.mono();
        let mut budget = PASSIVATIONS_PER_STEP;
        let from = self.passivating.idle_from.take().unwrap_or(ShardId(0));
        for (id, shard) in self.shards.hosted_from_mut(from) {
            budget -= shard.passivate_idle(shared.cx, now, budget);
            if budget == 0 {
                self.passivating.idle_from = Some(id);
                break;
            }
        }
        let again = if self.passivating.idle_from.is_some() {
            STEP
        } else {
            idle.interval()
        };
        if self.shards.hosted_len() > 0 {
            self.wake(shared.cx, RegionTimer::Idle, again);
        }
    }

    /// Has an entity that has stopped begin again, if messages wait for it.
    pub(super) fn resume(&mut self, shard: ShardId, entity: &EntityId) {
        if self.buffers.has_for_entity(shard, entity) {
            self.resuming.insert((shard, entity.clone()));
        }
    }

    /// Gives entities that have begun again what waits for them, as long as `budget` lasts; `false` if it did
    /// not.
    pub(super) fn flush_entities(&mut self, shared: &mut RegionContext<'_, '_>, budget: &mut usize) -> bool {
        if self.paused {
            return true;
        }
        while let Some(key) = self.resuming.first().cloned() {
            let (shard, entity) = &key;
            let here = self.shards.running_mut(*shard);
            let here = here.filter(|here| !here.holds_back(entity));
            let (Some(here), true) = (here, self.buffers.has_for_entity(*shard, entity)) else {
                self.resuming.remove(&key);
                continue;
            };
            if *budget == 0 {
                return false;
            }
            let Some(pending) = self.buffers.pop_for_entity(*shard, entity) else {
                continue;
            };
            *budget -= 1;
            if pending.is_expired(shared.cx) {
                pending.expire(shared);
                continue;
            }
            match here.deliver(shared, self.kind.id, pending) {
                DeliveryOutcome::Done => {}
                DeliveryOutcome::NoSlot(pending) | DeliveryOutcome::Waits(pending) => {
                    pending.fail(shared, AskFailure::MailboxFull);
                }
            }
        }
        true
    }
}
