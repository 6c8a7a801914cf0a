//! The receiver's side of the order that messages keep: what this region does not serve goes back, and then
//! everything of that sender and shard, even if the shard comes to run here meanwhile, until the sender has
//! marked. Every mark is acknowledged at once, behind what of that sender had to go back. Spec: sharding
//! 10.14 b, d and e.

use super::ShardRegion;
use super::buffers::BufferedFor;
use super::delivery::{GiveOutcome, WaitingArrival, give};
use crate::ident::UniqueAddress;
use crate::message::{ShardMark, ShardingMsg};
use crate::sharding::pending_message::{PendingMessage, RegionContext};
use crate::sharding::shard::DeliveryOutcome;
use crate::sharding::state::ids::{EntityId, ShardId};

impl ShardRegion {
    /// A message of another node's user: delivered, given back, or to be kept, for an entity, for the
    /// beginning of a shard or for the end of a pause.
    pub(super) fn receive(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        pending: PendingMessage,
    ) -> Option<WaitingArrival> {
        let shard = pending.envelope.shard;
        if self.order.goes_back(&pending) {
            pending.hand_back(shared);
            return None;
        }
        let wait = |pending, waits_for, tends| WaitingArrival {
            pending,
            waits_for,
            tends,
        };
        match self.shards.hosted_mut(shard).filter(|here| !here.is_stopping()) {
            None => {
                if let Some(from) = pending.from.clone() {
                    // What waits here for the end of a pause is older.
                    self.hand_back_from(shared, shard, &from, None);
                    self.order.gives_back(shard, from, None);
                }
                pending.hand_back(shared);
                if self.shards.hosted(shard).is_none() && !self.shards.has_home(shard) {
                    // Somebody thinks that it is here. If the coordinator does too, it is to start.
                    self.ask_home(shared.cx, shard);
                }
            }
            Some(here) if self.paused || !here.is_running() || self.buffers.has_arrived(shard) => {
                return Some(wait(pending, BufferedFor::Shard, None));
            }
            Some(_) if pending.is_expired(shared.cx) => pending.expire(shared),
            Some(here) => match give(shared, &self.buffers, here, pending) {
                GiveOutcome::Behind(pending) => return Some(wait(pending, BufferedFor::Entity, None)),
                GiveOutcome::Taken(DeliveryOutcome::Waits(pending)) => {
                    return Some(wait(pending, BufferedFor::Entity, Some(shard)));
                }
                given @ GiveOutcome::Taken(DeliveryOutcome::Done | DeliveryOutcome::NoSlot(_)) => {
                    self.after_giving(shared, shard, given);
                }
            },
        }
        None
    }

    /// A node has marked behind what it sent for a shard. What of that waits here, for an entity's next
    /// incarnation, for the shard to begin or for the end of a pause, goes back, so that no sender waits for
    /// that; all else was delivered. Acknowledged behind it, and from here on that node's messages count
    /// again.
    pub(crate) fn on_mark(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        mark: ShardMark,
    ) {
        self.order.marked(mark.shard, from);
        self.hand_back_from(shared, mark.shard, from, None);
        shared.cx.send(from, ShardingMsg::MarkAck(mark));
    }

    /// There is no room for a message of another node: it goes back, behind what of that node's waits here
    /// and is older. If the shard runs, only what is for that entity: two nodes whose buffers are full would
    /// wait for each other's other entities otherwise.
    pub(super) fn hand_back_overflow(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: UniqueAddress,
        pending: PendingMessage,
    ) {
        let shard = pending.envelope.shard;
        let runs = !self.paused && !self.buffers.has_arrived(shard) && self.shards.running(shard).is_some();
        let for_one = runs && self.order.has_room_for_entity();
        let only = for_one.then(|| pending.envelope.entity.clone());
        self.hand_back_from(shared, shard, &from, only.as_ref());
        pending.hand_back(shared);
        self.order.gives_back(shard, from, only);
    }

    /// Gives back what of one node's waits here for a shard, or for one of its entities, in order: nothing
    /// newer of it may go back before.
    fn hand_back_from(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        shard: ShardId,
        from: &UniqueAddress,
        only: Option<&EntityId>,
    ) {
        for pending in self.buffers.take_from(shard, from, only) {
            pending.hand_back(shared);
        }
        self.admit_waiting(shared.cx);
    }

    /// Gives everything that other nodes sent for a shard back to them, what waits for its entities included.
    pub(super) fn hand_back_foreign(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        self.buffers.gather(shard);
        for pending in self.buffers.take_foreign(shard) {
            if let Some(from) = pending.from.clone() {
                self.order.gives_back(shard, from, None);
            }
            pending.hand_back(shared);
        }
        self.admit_waiting(shared.cx);
    }

    /// Delivers others' messages that waited for the end of a pause or for a shard to begin, as long as
    /// `budget` lasts; `false` if it did not.
    pub(super) fn flush_arrived(&mut self, shared: &mut RegionContext<'_, '_>, budget: &mut usize) -> bool {
        if self.paused {
            return true;
        }
        for shard in self.buffers.arrived() {
            let here = self.shards.hosted(shard).filter(|here| !here.is_stopping());
            let Some(here) = here else {
                self.hand_back_foreign(shared, shard);
                continue;
            };
            if !here.is_running() {
                continue;
            }
            while self.buffers.has_arrived(shard) {
                if *budget == 0 {
                    return false;
                }
                *budget -= 1;
                match self.buffers.pop_arrived(shard) {
                    Some(pending) if pending.is_expired(shared.cx) => pending.expire(shared),
                    Some(pending) => self.deliver(shared, pending),
                    None => break,
                }
            }
        }
        true
    }
}
