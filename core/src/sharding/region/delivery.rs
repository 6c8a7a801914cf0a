//! One message: to the entity here, to its home elsewhere, or into the buffer. Messages of a shard never
//! overtake each other on the way through a region, and a step moves a bounded number. Spec: sharding 1.3
//! (message delivery), 10.4.

use super::buffers::{BufferedFor, RegionBuffers};
use super::home::KnownHome;
use super::{RegionLifecycle, STEP, ShardRegion};
use crate::ident::{Address, UniqueAddress};
use crate::message::ShardingMsg;
use crate::sharding::Cx;
use crate::sharding::pending_message::{PendingMessage, RegionContext};
use crate::sharding::shard::{DeliveryOutcome, Shard};
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::ShardId;
use crate::timer::RegionTimer;

/// Buffered messages that one step may move: about a millisecond of work, so that heartbeats are not kept
/// waiting.
pub(super) const FLUSH_PER_STEP: usize = 256;

/// Up to so many hops, which is two times back, a message that was handed back has its home asked for at
/// once. Twice happens in order: a shard moves, and its next home is told to leave as well. After that it
/// waits for the region's next retry, so that nodes that disagree do not keep each other busy.
const HOPS_AT_ONCE: u8 = 4;

impl ShardRegion {
    /// A message of another node's user. Ends as one of this node's does; or it would have to wait, and
    /// [`Self::wait`] says whether it may.
    pub(crate) fn route_from_peer(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        pending: PendingMessage,
    ) -> Option<WaitingArrival> {
        if self.contact.acceptance.is_refused() {
            pending.fail(shared, AskFailure::KindRefused);
            return None;
        }
        self.receive(shared, pending)
    }

    /// A message of another node waits here. It does only as long as the regions of all kinds together are
    /// not `is_crowded`, so that many kinds cannot fill the memory that one may; else it goes back, in order,
    /// like one for which its region has no room.
    pub(crate) fn wait(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        waiting: WaitingArrival,
        is_crowded: bool,
    ) {
        let WaitingArrival {
            pending,
            waits_for,
            tends,
        } = waiting;
        if is_crowded && !pending.is_admitted {
            self.overflow(shared, pending);
        } else {
            self.keep(shared, pending, waits_for);
        }
        if let Some(shard) = tends {
            self.tend(shared, shard);
        }
    }

    /// A message from this node's user, or from another node. Ends exactly once: delivered, sent on,
    /// buffered, or failed.
    pub(crate) fn route(&mut self, shared: &mut RegionContext<'_, '_>, pending: PendingMessage) {
        let shard = pending.envelope.shard;
        if pending.is_foreign() {
            if let Some(waiting) = self.route_from_peer(shared, pending) {
                self.wait(shared, waiting, false);
            }
        } else if self.contact.acceptance.is_refused() {
            pending.fail(shared, AskFailure::KindRefused);
        } else if self.buffers.has(shard) || self.shards.is_marked(shard) {
            self.buffer(shared, pending);
        } else {
            self.pass(shared, pending, false);
        }
    }

    /// A message that this region sent to `from` comes back unhandled: the shard is not there. It was sent
    /// before everything that waits here for the shard, and goes out again before it, when nothing more can
    /// come back.
    pub(crate) fn on_handed_back(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        pending: PendingMessage,
    ) {
        let shard = pending.envelope.shard;
        let is_in_turn = self.stops_sending_to(shared.cx, shard, from);
        let reason = if self.contact.acceptance.is_refused() {
            Some(AskFailure::KindRefused)
        } else if self.lifecycle == RegionLifecycle::Stopped {
            Some(AskFailure::NodeStoppedUnsent)
        } else if !is_in_turn {
            // Its home was given up, later messages may have been handled.
            Some(AskFailure::HandedOff)
        } else {
            None
        };
        if let Some(reason) = reason {
            return pending.fail(shared, reason);
        }
        let is_first = !self.buffers.has(shard);
        self.buffers.push_handed_back(pending);
        if self.shards.is_marked(shard) {
            return;
        }
        if self.shards.has_home(shard) {
            self.flushing.insert(shard);
            self.flush(shared);
        } else if is_first && self.may_ask_at_once(shard) {
            self.ask_home(shared.cx, shard);
        } else {
            self.rearm_retry(shared.cx);
        }
    }

    /// A message of this region's came back from a node, and nobody waits for what becomes of it any more.
    pub(crate) fn on_came_back(&mut self, cx: &mut Cx<'_>, shard: ShardId, from: &UniqueAddress) {
        self.stops_sending_to(cx, shard, from);
    }

    /// The queue to a home has no room for a message that waited here. It goes on waiting, before everything
    /// that has not been offered; but if its host says so only after the home is gone, later ones may have
    /// been handled.
    pub(crate) fn on_refused(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        home: &UniqueAddress,
        pending: PendingMessage,
    ) {
        self.has_no_room(home.address());
        if self.contact.acceptance.is_refused() {
            return pending.fail(shared, AskFailure::KindRefused);
        }
        if self.lifecycle == RegionLifecycle::Stopped {
            return pending.fail(shared, AskFailure::NodeStoppedUnsent);
        }
        let shard = pending.envelope.shard;
        if !self.is_in_turn(shard, home) {
            return pending.fail(shared, AskFailure::HandedOff);
        }
        let is_first = !self.buffers.has(shard);
        self.buffers.push_refused(pending);
        if self.shards.is_marked(shard) {
            return;
        }
        if self.can_pass(shared.cx, shard) {
            self.flushing.insert(shard);
            self.flush(shared);
        } else if is_first && !self.shards.has_home(shard) {
            self.ask_home(shared.cx, shard);
        }
    }

    /// Nothing that waits is offered there before there is room.
    pub(crate) fn has_no_room(&mut self, address: &Address) {
        if !self.full.contains(address) {
            self.full.insert(address.clone());
        }
    }

    /// There is room again: what waits for shards there goes on.
    pub(crate) fn on_room(&mut self, shared: &mut RegionContext<'_, '_>, address: &Address) {
        if !self.full.remove(address) {
            return;
        }
        for shard in self.buffers.shards() {
            if self
                .shards
                .home(shard)
                .is_some_and(|home| home.address() == address)
            {
                self.flushing.insert(shard);
            }
        }
        self.flush(shared);
    }

    /// Whether the home of a shard's oldest message may be asked for now: it has not come back too often.
    pub(super) fn may_ask_at_once(&self, shard: ShardId) -> bool {
        self.buffers.first_hops(shard) <= HOPS_AT_ONCE
    }

    /// This node ends before what waits here can be delivered: others get theirs back, the users here hear
    /// so.
    pub(super) fn give_up_all(&mut self, shared: &mut RegionContext<'_, '_>) {
        for shard in self.buffers.shards_with_foreign() {
            self.hand_back_foreign(shared, shard);
        }
        self.fail_all(shared, AskFailure::NodeStoppedUnsent);
    }

    /// An ask of this node expired in the buffer: its message may not be delivered any more.
    pub(crate) fn on_ask_expired(&mut self, cx: &mut Cx<'_>, shard: ShardId, id: u64) {
        let removed = self
            .buffers
            .remove_ask(shard, |pending| pending.own_ask(cx) == Some(id));
        debug_assert!(removed.is_some(), "a buffered ask has its message in the buffer");
        if !self.buffers.has(shard) {
            self.flushing.remove(&shard);
        }
        self.admit_waiting(cx);
    }

    /// Moves buffered messages of entities that run again and of shards with a known home, oldest first, at
    /// most [`FLUSH_PER_STEP`]; asks to be woken at once if more are waiting.
    pub(super) fn flush(&mut self, shared: &mut RegionContext<'_, '_>) {
        self.flush_some(shared);
        self.admit_waiting(shared.cx);
    }

    fn flush_some(&mut self, shared: &mut RegionContext<'_, '_>) {
        let mut budget = FLUSH_PER_STEP;
        if !self.flush_entities(shared, &mut budget) || !self.flush_arrived(shared, &mut budget) {
            return self.flush_soon(shared);
        }
        while let Some(shard) = self.flushing.first().copied() {
            if !self.buffers.has(shard) || !self.can_pass(shared.cx, shard) {
                self.flushing.remove(&shard);
                continue;
            }
            if budget == 0 {
                return self.flush_soon(shared);
            }
            match self.buffers.pop(shard) {
                Some(pending) => {
                    budget -= 1;
                    self.pass(shared, pending, true);
                }
                None => {
                    self.flushing.remove(&shard);
                }
            }
        }
        if budget < FLUSH_PER_STEP {
            self.rearm_retry(shared.cx);
            self.try_finish(shared);
        }
    }

    fn flush_soon(&self, shared: &mut RegionContext<'_, '_>) {
        self.wake(shared.cx, RegionTimer::Flush, STEP);
    }

    /// Ends every buffered message.
    pub(super) fn fail_all(&mut self, shared: &mut RegionContext<'_, '_>, reason: AskFailure) {
        self.buffers.gather_all();
        for shard in self.buffers.arrived() {
            for pending in self.buffers.take_foreign(shard) {
                pending.fail(shared, reason);
            }
        }
        for shard in self.buffers.shards() {
            for pending in self.buffers.take(shard) {
                pending.fail(shared, reason);
            }
        }
        self.flushing.clear();
        self.admit_waiting(shared.cx);
    }

    /// Whether the next message of a shard would leave the buffer for good.
    fn can_pass(&self, cx: &Cx<'_>, shard: ShardId) -> bool {
        let Some(entry) = self.shards.known(shard) else {
            return false;
        };
        match &entry.home {
            KnownHome::Unknown | KnownHome::Marked(_) => false,
            KnownHome::Known { node, .. } if node == cx.me() => {
                !self.paused && entry.hosted().is_some_and(Shard::is_running)
            }
            KnownHome::Known { node, .. } => self.full.is_empty() || !self.full.contains(node.address()),
        }
    }

    /// Moves one message of this node's user whose shard has nothing buffered before it. One that has
    /// `waited` goes on waiting if the queue to its home is full; a new one is refused then, as its sender
    /// had to expect.
    fn pass(&mut self, shared: &mut RegionContext<'_, '_>, pending: PendingMessage, waited: bool) {
        if pending.is_expired(shared.cx) {
            return pending.expire(shared);
        }
        let shard = pending.envelope.shard;
        let Some(entry) = self.shards.known_mut(shard) else {
            return self.buffer(shared, pending);
        };
        let (home, here) = entry.parts();
        match home {
            KnownHome::Known { node, used } if node == shared.cx.me() => {
                let Some(here) = here.filter(|here| !self.paused && here.is_running()) else {
                    return self.buffer(shared, pending);
                };
                // What a lost home gives back from here on is older than what was handled.
                *used = true;
                let given = give(shared, &self.buffers, here, pending);
                self.after_giving(shared, shard, given);
            }
            KnownHome::Known { node, used } => {
                if !core::mem::replace(used, true) {
                    // What comes back from here on is older than all that waits. Before, a lost home's last
                    // words may still come.
                    self.buffers.nothing_comes_back(shard);
                }
                send(shared, node, pending, waited);
            }
            KnownHome::Unknown | KnownHome::Marked(_) => self.buffer(shared, pending),
        }
    }

    /// Gives a message to an entity of a shard that may run here, or keeps it: for the next incarnation of
    /// the entity, or of the shard.
    pub(super) fn deliver(&mut self, shared: &mut RegionContext<'_, '_>, pending: PendingMessage) {
        let shard = pending.envelope.shard;
        let here = self.shards.running_mut(shard).filter(|_| !self.paused);
        let Some(here) = here else {
            return self.buffer(shared, pending);
        };
        let given = give(shared, &self.buffers, here, pending);
        self.after_giving(shared, shard, given);
    }

    pub(super) fn after_giving(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        shard: ShardId,
        given: GiveOutcome,
    ) {
        match given {
            GiveOutcome::Behind(pending) => {
                self.keep(shared, pending, BufferedFor::Entity);
            }
            GiveOutcome::Taken(DeliveryOutcome::Done) => {}
            GiveOutcome::Taken(DeliveryOutcome::Waits(pending)) => {
                self.keep(shared, pending, BufferedFor::Entity);
                self.tend(shared, shard);
            }
            GiveOutcome::Taken(DeliveryOutcome::NoSlot(pending)) => {
                pending.fail(shared, AskFailure::MailboxFull)
            }
        }
    }

    pub(super) fn buffer(&mut self, shared: &mut RegionContext<'_, '_>, pending: PendingMessage) {
        if self.lifecycle == RegionLifecycle::Stopped {
            return pending.fail(shared, AskFailure::NodeStoppedUnsent);
        }
        let shard = pending.envelope.shard;
        let first = !self.buffers.has(shard);
        if self.keep(shared, pending, BufferedFor::Home) && first && !self.shards.has_home(shard) {
            self.ask_home(shared.cx, shard);
        }
    }

    /// Has a message wait here, if there is room for it. Whether it does.
    pub(super) fn keep(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        mut pending: PendingMessage,
        waits_for: BufferedFor,
    ) -> bool {
        self.admit(shared, &mut pending);
        match self.buffers.push(&self.kind.config, pending, waits_for) {
            None => {
                shared.cx.counters().entity_messages_buffered += 1;
                true
            }
            Some(pending) => {
                self.overflow(shared, pending);
                false
            }
        }
    }

    /// There is no room for a message. This node's user hears so; what another node sent goes back there and
    /// waits in its buffer.
    fn overflow(&mut self, shared: &mut RegionContext<'_, '_>, pending: PendingMessage) {
        match pending.from.clone() {
            None if self.refuse_caller(shared.cx) => {}
            None => pending.fail(shared, AskFailure::BufferFull),
            Some(from) => self.hand_back_overflow(shared, from, pending),
        }
    }
}

/// A message of another node that would have to wait here.
#[derive(Debug)]
pub(crate) struct WaitingArrival {
    pub(super) pending: PendingMessage,
    pub(super) waits_for: BufferedFor,
    /// Its shard, if that had it wait: it is to be seen to then.
    pub(super) tends: Option<ShardId>,
}

/// What became of a message for an entity of a shard that runs here.
#[derive(Debug)]
pub(super) enum GiveOutcome {
    /// The shard was asked.
    Taken(DeliveryOutcome),
    /// Others wait for the entity's next incarnation, and are older.
    Behind(PendingMessage),
}

/// Gives a message to an entity of a shard that runs here, unless others wait for it.
pub(super) fn give(
    shared: &mut RegionContext<'_, '_>,
    buffers: &RegionBuffers,
    here: &mut Shard,
    pending: PendingMessage,
) -> GiveOutcome {
    if buffers.has_for_entity(here.id, &pending.envelope.entity) {
        return GiveOutcome::Behind(pending);
    }
    let kind = pending.envelope.kind;
    GiveOutcome::Taken(here.deliver(shared, kind, pending))
}

/// Sends a message of this node's user to its home.
fn send(shared: &mut RegionContext<'_, '_>, home: &UniqueAddress, pending: PendingMessage, waited: bool) {
    let PendingMessage {
        mut envelope,
        deadline,
        ..
    } = pending;
    if let (Some(ticket), Some(deadline)) = (&mut envelope.ask, deadline) {
        shared.asks.leaves(shared.cx, ticket, deadline, home);
    }
    shared.cx.counters().entity_messages_forwarded += 1;
    let message = ShardingMsg::Entity(envelope);
    if waited {
        shared.cx.offer(home, message);
    } else {
        shared.cx.send(home, message);
    }
}
