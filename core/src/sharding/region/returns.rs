//! The receiver's side of the order that messages keep: what this region does not serve goes back, and then everything of that sender
//! and shard, even if the shard comes to run here meanwhile, until the sender has marked. Every mark is acknowledged at once, behind
//! what of that sender had to go back. Spec: sharding 10.14 b, d and e.

use super::Region;
use crate::ident::UniqueAddress;
use crate::message::{ShardMark, ShardingMsg};
use crate::sharding::pending_message::{PendingMessage, Shared};
use crate::sharding::shard::Shard;
use crate::sharding::state::ids::{EntityId, ShardId};

/// Entities whose messages go back one by one; past that a shard's all do. Each came with a message for which there was no room, and whose
/// sender marks as soon as it hears of it.
const RETURNING_FOR_MAX: usize = 1_024;

impl Region {
    /// A message of another node's user: delivered, kept for an entity, for the beginning of a shard or for the end of a pause, or given back.
    pub(super) fn receive(&mut self, shared: &mut Shared<'_, '_>, pending: PendingMessage) {
        let shard = pending.envelope.shard;
        if self.goes_back(shard, &pending) {
            return pending.hand_back(shared);
        }
        let here = self.shards.get(&shard).filter(|here| !here.is_stopping());
        let Some(here) = here else {
            if let Some(from) = pending.from.clone() {
                // What waits here for the end of a pause is older.
                self.hand_back_from(shared, shard, &from, None);
                self.returning.insert((shard, from));
            }
            pending.hand_back(shared);
            if !self.shards.contains_key(&shard) && !self.homes.contains_key(&shard) {
                // Somebody thinks that it is here. If the coordinator does too, it is to start.
                self.ask_home(shared.cx, shard);
            }
            return;
        };
        if self.paused || !here.is_running() || self.buffers.has_arrived(shard) {
            self.keep_arrived(shared, pending);
        } else if pending.is_expired(shared.cx) {
            pending.expire(shared);
        } else {
            self.deliver(shared, pending);
        }
    }

    /// Whether an earlier message of this one's sender for the shard went back, and no mark has come since.
    fn goes_back(&self, shard: ShardId, pending: &PendingMessage) -> bool {
        if self.returning.is_empty() && self.returning_for.is_empty() {
            return false;
        }
        pending.from.as_ref().is_some_and(|from| {
            let key = (shard, from.clone());
            self.returning.contains(&key) || {
                let (shard, from) = key;
                let key = (shard, from, pending.envelope.entity.clone());
                self.returning_for.contains(&key)
            }
        })
    }

    /// A node has marked behind what it sent for a shard. What of that waits here, for an entity's next incarnation, for the shard to
    /// begin or for the end of a pause, goes back, so that no sender waits for that; all else was delivered. Acknowledged behind it, and
    /// from here on that node's messages count again.
    pub(crate) fn on_mark(&mut self, shared: &mut Shared<'_, '_>, from: &UniqueAddress, mark: ShardMark) {
        self.returning.remove(&(mark.shard, from.clone()));
        if !self.returning_for.is_empty() {
            self.returning_for
                .retain(|(shard, of, _)| *shard != mark.shard || of != from);
        }
        self.hand_back_from(shared, mark.shard, from, None);
        shared.cx.send(from, ShardingMsg::MarkAck(mark));
    }

    /// There is no room for a message of another node: it goes back, behind what of that node's waits here and is older. If the shard
    /// runs, only what is for that entity: two nodes whose buffers are full would wait for each other's other entities otherwise.
    pub(super) fn hand_back_overflow(
        &mut self,
        shared: &mut Shared<'_, '_>,
        from: UniqueAddress,
        pending: PendingMessage,
    ) {
        let (shard, entity) = (pending.envelope.shard, pending.envelope.entity.clone());
        let takes = |here: &Shard| here.is_running();
        let runs =
            !self.paused && !self.buffers.has_arrived(shard) && self.shards.get(&shard).is_some_and(takes);
        let for_one = runs && self.returning_for.len() < RETURNING_FOR_MAX;
        self.hand_back_from(shared, shard, &from, for_one.then_some(&entity));
        pending.hand_back(shared);
        if for_one {
            self.returning_for.insert((shard, from, entity));
        } else {
            self.returning.insert((shard, from));
        }
    }

    /// Gives back what of one node's waits here for a shard, or for one of its entities, in order: nothing newer of it may go back before.
    fn hand_back_from(
        &mut self,
        shared: &mut Shared<'_, '_>,
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
    pub(super) fn hand_back_foreign(&mut self, shared: &mut Shared<'_, '_>, shard: ShardId) {
        self.buffers.gather(shard);
        for pending in self.buffers.take_foreign(shard) {
            self.returning
                .extend(pending.from.clone().map(|from| (shard, from)));
            pending.hand_back(shared);
        }
        self.admit_waiting(shared.cx);
    }

    /// Delivers others' messages that waited for the end of a pause or for a shard to begin, as long as `budget` lasts; `false` if it
    /// did not.
    pub(super) fn flush_arrived(&mut self, shared: &mut Shared<'_, '_>, budget: &mut usize) -> bool {
        if self.paused {
            return true;
        }
        for shard in self.buffers.arrived() {
            let here = self.shards.get(&shard).filter(|here| !here.is_stopping());
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

    /// Nothing comes from a node any more.
    pub(super) fn forget_sender(&mut self, node: &UniqueAddress) {
        self.returning.retain(|(_, from)| from != node);
        self.returning_for.retain(|(_, from, _)| from != node);
    }

    fn keep_arrived(&mut self, shared: &mut Shared<'_, '_>, mut pending: PendingMessage) {
        if self.is_turned_away(&pending) {
            return self.overflow(shared, pending);
        }
        self.admit(shared, &mut pending);
        match self.buffers.push_arrived(&self.kind.config, pending) {
            None => shared.cx.counters().entity_messages_buffered += 1,
            Some(pending) => self.overflow(shared, pending),
        }
    }
}
