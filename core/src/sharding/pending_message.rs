//! A message to an entity while this node is responsible for it, and what becomes of one that cannot be
//! delivered: its asker is answered, or it becomes a dead letter. Never decides where it goes. Spec: sharding
//! 3, reliability I-44.

use crate::config::ValidConfig;
use crate::cx::OfSharding;
use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::message::{AskReply, AskTicket, EntityEnvelope, ShardingMsg};
use crate::messaging::{AskCount, AskingMachine, Asks};
use crate::sharding::Cx;
use crate::sharding::slots::EntitySlots;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{KindId, ShardId};
use crate::stats::ShardingCounters;
use crate::time::Instant;
use crate::timer::ShardingTimer;

/// What a message waits for that has not left this node: the home of a shard of a kind.
pub(crate) type Waits = (KindId, ShardId);

/// The surroundings of a region's calls: the node's and the two tables that all kinds share.
pub(crate) struct RegionContext<'a, 'c> {
    pub(crate) cx: &'a mut Cx<'c>,
    pub(crate) asks: &'a mut Asks<Waits>,
    pub(crate) slots: &'a mut EntitySlots,
}

/// A message that is neither delivered nor refused yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingMessage {
    pub(crate) envelope: EntityEnvelope,
    /// When the asker stops waiting, by this node's clock; `None` without an asker.
    pub(crate) deadline: Option<Instant>,
    /// The node whose user sent it; `None` for this node's own.
    pub(crate) from: Option<UniqueAddress>,
    /// It has been in a buffer of this node: it is kept, wherever it has to wait next.
    pub(crate) is_admitted: bool,
}

impl PendingMessage {
    /// A message of this node's user.
    pub(crate) const fn own(envelope: EntityEnvelope, deadline: Option<Instant>) -> Self {
        Self {
            envelope,
            deadline,
            from: None,
            is_admitted: false,
        }
    }

    /// A message that came over a link, which is one hop more.
    pub(crate) fn received(cx: &Cx<'_>, from: &UniqueAddress, mut envelope: EntityEnvelope) -> Self {
        envelope.hops = envelope.hops.saturating_add(1);
        let left = envelope.ask.as_ref().map(AskTicket::remaining);
        Self {
            deadline: left.map(|left| cx.mono() + left),
            envelope,
            from: Some(from.clone()),
            is_admitted: false,
        }
    }

    /// Whether another node's user sent it. This node either delivers it or hands it back, and never passes
    /// it on.
    pub(crate) const fn is_foreign(&self) -> bool {
        self.from.is_some()
    }

    /// Gives a message to the node whose user sent it, unhandled: this region does not serve its shard. That
    /// node asks for the home again. Nothing that another node sent is ever given back twice: it leaves this
    /// node here.
    pub(crate) fn hand_back(self, shared: &mut RegionContext<'_, '_>) {
        if self.is_expired(shared.cx) {
            return self.expire(shared);
        }
        let cx = &mut *shared.cx;
        let Self { envelope, from, .. } = self;
        let asker = envelope.ask.as_ref().map(|ticket| ticket.ask.asker.clone());
        match asker.or(from) {
            Some(to) => {
                cx.counters().entity_messages_handed_back += 1;
                cx.send(&to, ShardingMsg::HandBack(envelope));
            }
            None => fail(cx, shared.asks, envelope, AskFailure::HandedOff),
        }
    }

    /// What it takes of the buffer's bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.envelope
            .payload
            .len()
            .saturating_add(self.envelope.entity.as_bytes().len())
    }

    /// The number of the ask if this node is the asker.
    pub(crate) fn own_ask(&self, cx: &Cx<'_>) -> Option<u64> {
        let ask = &self.envelope.ask.as_ref()?.ask;
        (ask.asker == *cx.me()).then_some(ask.id)
    }

    /// Whether its asker has stopped waiting. This node's own asks are taken out of the buffer when their
    /// time is over, but after a pause whatever else was due may come first.
    pub(crate) fn is_expired(&self, cx: &Cx<'_>) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= cx.mono())
    }

    /// Ends it undelivered because its time is over. An asker elsewhere has been told by its own node.
    pub(crate) fn expire(self, shared: &mut RegionContext<'_, '_>) {
        shared.cx.counters().entity_messages_expired += 1;
        if self.own_ask(shared.cx).is_some() {
            self.fail(shared, AskFailure::TimeoutBuffered);
        }
    }

    /// Ends it undelivered.
    pub(crate) fn fail(self, shared: &mut RegionContext<'_, '_>, reason: AskFailure) {
        fail(shared.cx, shared.asks, self.envelope, reason);
    }
}

/// Ends an undelivered message: its asker hears why, or it is a dead letter.
pub(crate) fn fail(cx: &mut Cx<'_>, asks: &mut Asks<Waits>, envelope: EntityEnvelope, reason: AskFailure) {
    let Some(ticket) = envelope.ask else {
        cx.counters().dead_letters += 1;
        let shard = envelope.shard;
        cx.notify_sharding(envelope.kind, ShardingEvent::DeadLetter { shard, reason });
        return;
    };
    asks.end(cx, ticket, reason);
}

impl AskingMachine for OfSharding {
    type Place = Waits;

    fn deadline() -> ShardingTimer {
        ShardingTimer::AskDeadline
    }

    fn open_asks_max(config: &ValidConfig) -> usize {
        config.sharding.open_asks_max
    }

    fn counter(counters: &mut ShardingCounters, of: AskCount) -> &mut u64 {
        match of {
            AskCount::Opened => &mut counters.asks_opened,
            AskCount::Answered => &mut counters.asks_answered,
            AskCount::Failed => &mut counters.asks_failed,
            AskCount::Late => &mut counters.ask_replies_late,
        }
    }

    fn reply(reply: AskReply) -> ShardingMsg {
        ShardingMsg::AskReply(reply)
    }
}
