//! What is answered to messages that belong to no kind of this node, or came back unsent, and to marks, which
//! are acknowledged in any case. Decides nothing about entities and keeps nothing. Spec: sharding 10.2, 10.4.

use crate::ident::{Address, UniqueAddress};
use crate::input::{DropReason, SendTarget};
use crate::message::{EntityEnvelope, ShardMark, ShardingBody, ShardingMessage, ShardingMsg};
use crate::messaging::{answer_again, unsent};
use crate::reject::ShardingRejection;
use crate::sharding::pending_message::{PendingMessage, RegionContext, fail};
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::KindId;
use crate::sharding::{Cx, Sharding};

impl Sharding {
    /// A node has marked behind what it sent for a shard. Acknowledged in any case: of a kind that is not
    /// here nothing waits.
    pub(super) fn on_mark(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, mark: ShardMark) {
        match self.kinds.get_mut(&mark.kind) {
            Some(machines) if !machines.region.kind().has(mark.shard) => {
                cx.reject(from, ShardingRejection::NO_SHARD);
            }
            Some(machines) => machines.region.on_mark(shared!(self, cx), from, mark),
            None => cx.send(from, ShardingMsg::MarkAck(mark)),
        }
    }

    /// Everything before a mark of this node has arrived.
    pub(super) fn on_mark_ack(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, mark: ShardMark) {
        if let Some(machines) = self.kinds.get_mut(&mark.kind) {
            machines.region.on_mark_ack(shared!(self, cx), from, mark);
        }
        self.say_if_drained(cx);
    }

    /// The links to a peer are gone: what was sent there may be lost.
    pub(crate) fn on_link_down(&mut self, cx: &mut Cx<'_>, peer: &UniqueAddress) {
        self.asks.on_node_lost(cx, peer);
    }

    /// A message that was offered to a link found no room there. It waits again, unless its asker has been
    /// answered in the meantime.
    fn on_refused(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress, envelope: EntityEnvelope) {
        let Some(machines) = self.kinds.get_mut(&envelope.kind) else {
            return fail(cx, &mut self.asks, envelope, AskFailure::MailboxFull);
        };
        let mut deadline = None;
        if let Some(ticket) = &envelope.ask {
            match self.asks.take_back(ticket.ask.id, node) {
                Ok(at) => deadline = Some(at),
                Err(_) => {
                    cx.counters().entity_messages_expired += 1;
                    machines.region.has_no_room(node.address());
                    return;
                }
            }
        }
        let pending = PendingMessage {
            is_admitted: true,
            ..PendingMessage::own(envelope, deadline)
        };
        machines.region.on_refused(shared!(self, cx), node, pending);
    }

    /// The queue to an address has room again. Marks go before what waits, which may fill it at once.
    pub(crate) fn on_room(&mut self, cx: &mut Cx<'_>, to: &Address) {
        for machines in self.kinds.values() {
            machines.region.repeat_marks_at(cx, to);
        }
        for machines in self.kinds.values_mut() {
            machines.region.on_room(shared!(self, cx), to);
        }
        self.say_if_drained(cx);
    }

    /// The host gives a message back that it did not send. What regions and coordinators say to each other is
    /// repeated by itself.
    pub(crate) fn on_dropped(
        &mut self,
        cx: &mut Cx<'_>,
        to: &SendTarget,
        msg: ShardingMsg,
        reason: DropReason,
    ) {
        match msg {
            ShardingMsg::Entity(envelope) if reason == DropReason::NoRoom && !self.halted => match to {
                SendTarget::Node(node) => self.on_refused(cx, node, envelope),
                SendTarget::Address(_) => fail(cx, &mut self.asks, envelope, AskFailure::MailboxFull),
            },
            ShardingMsg::Entity(envelope) | ShardingMsg::HandBack(envelope) => {
                fail(cx, &mut self.asks, envelope, unsent(reason, self.halted));
            }
            ShardingMsg::AskReply(reply) => answer_again(cx, to, reply, reason),
            ShardingMsg::Mark(mark) => match (to, reason) {
                // Nothing else makes a mark unsendable: the peer's version has none, and keeps no order
                // across a hand-off.
                (SendTarget::Node(node), DropReason::TooLarge) => self.on_mark_ack(cx, node, mark),
                (
                    SendTarget::Node(_) | SendTarget::Address(_),
                    DropReason::TooLarge
                    | DropReason::QueueFull
                    | DropReason::Unreachable
                    | DropReason::NoRoom,
                ) => {}
            },
            ShardingMsg::Kind(_)
            | ShardingMsg::Registry(_)
            | ShardingMsg::Survey(_)
            | ShardingMsg::Watch(_)
            | ShardingMsg::Start(_)
            | ShardingMsg::Started(_)
            | ShardingMsg::MarkAck(_) => {}
        }
    }
}

/// A node without the kind hosts nothing of it; a coordinator that recovers needs to know, and a region that
/// looks for its coordinator here can tell its users. The rest comes early, before the kind is registered
/// here, and is repeated by who sent it; nobody may be told to host what does not exist.
pub(super) fn answer_for_unknown_kind(
    cx: &mut Cx<'_>,
    from: &UniqueAddress,
    kind: KindId,
    body: ShardingBody,
) {
    match body {
        ShardingBody::RegionQuery { term } => {
            let body = ShardingBody::NoRegion { term };
            cx.send(from, ShardingMsg::Kind(ShardingMessage { kind, body }));
        }
        ShardingBody::Register { part, .. } if !part.is_last() => {}
        ShardingBody::Register { .. } => {
            let body = ShardingBody::NobodyHosts;
            cx.send(from, ShardingMsg::Kind(ShardingMessage { kind, body }));
        }
        ShardingBody::GetShardHome { .. }
        | ShardingBody::GracefulShutdownReq
        | ShardingBody::NobodyHosts
        | ShardingBody::Stop(_)
        | ShardingBody::RegionStopped
        | ShardingBody::ShardTokens { .. } => {}
        ShardingBody::RegisterAck { .. }
        | ShardingBody::RegisterRefused { .. }
        | ShardingBody::NoRegion { .. }
        | ShardingBody::ShardHomes { .. }
        | ShardingBody::HostShard { .. }
        | ShardingBody::ShardStarted { .. }
        | ShardingBody::BeginHandOff { .. }
        | ShardingBody::BeginHandOffAck { .. }
        | ShardingBody::HandOff { .. }
        | ShardingBody::ShardStopped { .. } => cx.reject(from, ShardingRejection::UnknownKind),
    }
}
