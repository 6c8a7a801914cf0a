//! One message: to the entity here, to its home elsewhere, or into the buffer. Messages of a shard never overtake each
//! other on the way through a region, and a step moves a bounded number. Spec: sharding 1.3 (message delivery), 10.4.

use core::time::Duration;

use super::{Region, RegionLifecycle};
use crate::cx::Cx;
use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::message::{EntityEnvelope, Message, ShardingMsg};
use crate::sharding::pending_message::{PendingMessage, Shared};
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::ShardId;
use crate::timer::ShardingTimer;
use crate::timer::{RegionTimer, Timer};

/// Buffered messages that one step may move: about a millisecond of work, so that heartbeats are not kept waiting.
pub(super) const FLUSH_PER_STEP: usize = 256;

/// When the next step follows: after the host has had its turn, and before anything else is due.
const STEP: Duration = Duration::from_micros(1);

/// How often regions may pass a message on. Two happen in order (a stale home, whose region knows the new one); more
/// means that caches disagree in a circle.
pub(super) const HOPS_MAX: u8 = 3;

impl Region {
    /// A message from this node's user, or from another node. Ends exactly once: delivered, sent on, buffered, or failed.
    pub(crate) fn route(&mut self, shared: &mut Shared<'_, '_>, pending: PendingMessage) {
        let shard = pending.envelope.shard;
        if self.refused {
            pending.fail(shared, AskFailure::KindRefused);
        } else if self.buffers.has(shard) {
            self.buffer(shared, pending);
        } else {
            self.pass(shared, pending);
        }
    }

    /// An ask of this node expired in the buffer: its message may not be delivered any more.
    pub(crate) fn on_ask_expired(&mut self, cx: &Cx<'_>, shard: ShardId, id: u64) {
        let removed = self
            .buffers
            .remove_ask(shard, |pending| pending.own_ask(cx) == Some(id));
        debug_assert!(removed.is_some(), "a buffered ask has its message in the buffer");
        if !self.buffers.has(shard) {
            self.flushing.remove(&shard);
        }
    }

    /// Moves buffered messages of shards with a known home, oldest first, at most [`FLUSH_PER_STEP`]; asks to be woken at
    /// once if more are waiting.
    pub(super) fn flush(&mut self, shared: &mut Shared<'_, '_>) {
        let mut budget = FLUSH_PER_STEP;
        while let Some(shard) = self.flushing.first().copied() {
            if !self.buffers.has(shard) || !self.can_pass(shared.cx, shard) {
                self.flushing.remove(&shard);
                continue;
            }
            if budget == 0 {
                let at = shared.cx.mono() + STEP;
                shared.cx.wake(
                    Timer::Sharding(ShardingTimer::Region(self.kind.id, RegionTimer::Flush)),
                    at,
                );
                return;
            }
            match self.buffers.pop(shard) {
                Some(pending) => {
                    budget -= 1;
                    self.pass(shared, pending);
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

    /// Ends every buffered message.
    pub(super) fn fail_all(&mut self, shared: &mut Shared<'_, '_>, reason: AskFailure) {
        for shard in self.buffers.shards() {
            for pending in self.buffers.take(shard) {
                pending.fail(shared, reason);
            }
        }
        self.flushing.clear();
    }

    /// Whether the next message of a shard would leave the buffer for good.
    fn can_pass(&self, cx: &Cx<'_>, shard: ShardId) -> bool {
        match self.homes.get(&shard) {
            Some(home) if home == cx.me => {
                !self.paused && self.shards.get(&shard).is_some_and(|here| here.is_running())
            }
            Some(_) => true,
            None => false,
        }
    }

    /// Moves one message whose shard has nothing buffered before it.
    fn pass(&mut self, shared: &mut Shared<'_, '_>, pending: PendingMessage) {
        if pending.is_expired(shared.cx) {
            shared.cx.stats.entity_messages_expired += 1;
            return;
        }
        let shard = pending.envelope.shard;
        match self.homes.get(&shard) {
            Some(home) if home == shared.cx.me => match self.shards.get_mut(&shard) {
                Some(here) if here.is_running() && !self.paused => {
                    if let Err(pending) = here.deliver(shared, self.kind.id, pending) {
                        pending.fail(shared, AskFailure::MailboxFull);
                    }
                }
                Some(_) | None => self.buffer(shared, pending),
            },
            Some(home) => forward(shared, &home.clone(), pending),
            None => self.buffer(shared, pending),
        }
    }

    fn buffer(&mut self, shared: &mut Shared<'_, '_>, pending: PendingMessage) {
        if self.lifecycle == RegionLifecycle::Stopped {
            // What others sent here is certainly not handled; the user of a node that stops is told so.
            let forwarded = pending.envelope.hops > 0;
            let reason = if forwarded {
                AskFailure::HandedOff
            } else {
                AskFailure::NodeStoppedUnsent
            };
            pending.fail(shared, reason);
            return;
        }
        let shard = pending.envelope.shard;
        let first = !self.buffers.has(shard);
        match self.buffers.push(&shared.cx.config.sharding, pending) {
            Ok(()) => {
                shared.cx.stats.entity_messages_buffered += 1;
                if first && !self.homes.contains_key(&shard) {
                    self.ask_home(shared.cx, shard);
                }
            }
            Err(overflow) => {
                if overflow.first {
                    let messages = self.buffers.len();
                    let event = ShardingEvent::BufferFull { messages };
                    shared.cx.notify_sharding(self.kind.id, event);
                }
                overflow.pending.fail(shared, AskFailure::BufferFull);
            }
        }
    }
}

/// Sends a message to its home. One that came from elsewhere has been passed on once more by that.
fn forward(shared: &mut Shared<'_, '_>, home: &UniqueAddress, pending: PendingMessage) {
    let PendingMessage { envelope, deadline } = pending;
    if envelope.hops > HOPS_MAX {
        PendingMessage { envelope, deadline }.fail(shared, AskFailure::HandedOff);
        return;
    }
    let now = shared.cx.mono();
    let mut envelope: EntityEnvelope = envelope;
    if let (Some(ticket), Some(deadline)) = (&mut envelope.ask, deadline) {
        ticket.remaining_ms = millis(deadline.since(now));
        if ticket.ask.asker == *shared.cx.me {
            shared.asks.sent(ticket.ask.id, home);
        }
    }
    shared.cx.stats.entity_messages_forwarded += 1;
    shared
        .cx
        .send(home, Message::Sharding(ShardingMsg::Entity(envelope)));
}

/// Whole milliseconds, rounded up so that a short wait does not become none.
fn millis(left: Duration) -> u32 {
    u32::try_from(left.as_micros().div_ceil(1_000)).unwrap_or(u32::MAX)
}
