//! What messages and events of links are called, for the trace and the history. Decides nothing.

use quorate_core::input::LinkEvent;
use quorate_core::message::{DetectorMsg, MembershipMsg, Message, PathMsg, ShardingMsg, SingletonMsg};

use super::history::message_number;

/// What a message to an entity is called: the one that takes room in a queue that has a bound.
pub(super) const ENTITY: &str = "Entity";

/// What a message to a path is called.
pub(super) const PATH_MESSAGE: &str = "PathMessage";

/// What a message is called.
pub(crate) const fn name(message: &Message) -> &'static str {
    match message {
        Message::Membership(MembershipMsg::InitJoin(_)) => "InitJoin",
        Message::Membership(MembershipMsg::InitJoinAck(_)) => "InitJoinAck",
        Message::Membership(MembershipMsg::InitJoinNack) => "InitJoinNack",
        Message::Membership(MembershipMsg::Join(_)) => "Join",
        Message::Membership(MembershipMsg::JoinRefused(_)) => "JoinRefused",
        Message::Membership(MembershipMsg::Removed { .. }) => "Removed",
        Message::Membership(MembershipMsg::Welcome(_)) => "Welcome",
        Message::Membership(MembershipMsg::Leave(_)) => "Leave",
        Message::Membership(MembershipMsg::Down(_)) => "Down",
        Message::Detector(DetectorMsg::Heartbeat(_)) => "Heartbeat",
        Message::Detector(DetectorMsg::HeartbeatRsp(_)) => "HeartbeatRsp",
        Message::Membership(MembershipMsg::ExitingConfirmed { .. }) => "ExitingConfirmed",
        Message::Membership(MembershipMsg::GossipStatus(_)) => "GossipStatus",
        Message::Membership(MembershipMsg::Gossip(_)) => "Gossip",
        Message::Membership(MembershipMsg::GossipDelta(_)) => "GossipDelta",
        Message::Membership(MembershipMsg::GossipSeen(_)) => "GossipSeen",
        Message::Sharding(ShardingMsg::Kind(_)) => "Sharding",
        Message::Sharding(ShardingMsg::Entity(_)) => ENTITY,
        Message::Sharding(ShardingMsg::AskReply(_)) => "AskReply",
        Message::Sharding(ShardingMsg::Registry(_)) => "Registry",
        Message::Sharding(ShardingMsg::HandBack(_)) => "HandBack",
        Message::Sharding(ShardingMsg::Survey(_)) => "Survey",
        Message::Sharding(ShardingMsg::Mark(_)) => "Mark",
        Message::Sharding(ShardingMsg::MarkAck(_)) => "MarkAck",
        Message::Sharding(ShardingMsg::Watch(_)) => "Watch",
        Message::Sharding(ShardingMsg::Start(_)) => "Start",
        Message::Sharding(ShardingMsg::Started(_)) => "Started",
        Message::Ddata(_) => "Ddata",
        Message::Singleton(_) => "Singleton",
        Message::Path(PathMsg::Delivery(_)) => PATH_MESSAGE,
        Message::Path(_) => "Path",
        Message::Journal(_) => "Journal",
        Message::Load(_) => "Load",
        Message::Kv(_) => "Kv",
    }
}

/// The workload's message in a message between nodes.
pub(crate) fn entity_message(message: &Message) -> Option<usize> {
    match message {
        Message::Sharding(ShardingMsg::Entity(envelope) | ShardingMsg::HandBack(envelope)) => {
            message_number(&envelope.payload)
        }
        Message::Singleton(SingletonMsg::Delivery(delivery)) => message_number(&delivery.payload),
        Message::Path(PathMsg::Delivery(delivery)) if delivery.payload.first_chunk() != Some(&[0xFF; 8]) => {
            message_number(&delivery.payload)
        }
        Message::Sharding(_)
        | Message::Singleton(_)
        | Message::Path(_)
        | Message::Membership(_)
        | Message::Detector(_)
        | Message::Ddata(_)
        | Message::Journal(_)
        | Message::Load(_)
        | Message::Kv(_) => None,
    }
}

/// A message in one line.
pub(super) struct Brief<'a>(pub(super) &'a Message);

impl core::fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Message::Sharding(ShardingMsg::Kind(message)) => write!(f, "{:?}", message.body),
            Message::Sharding(ShardingMsg::Entity(envelope) | ShardingMsg::HandBack(envelope)) => {
                let number = Number(entity_message(self.0));
                let (name, entity, shard) = (name(self.0), &envelope.entity, envelope.shard);
                write!(f, "{name}{number} for {entity} in {shard:?}")
            }
            Message::Sharding(ShardingMsg::AskReply(reply)) => write!(f, "AskReply {}", reply.id),
            Message::Singleton(SingletonMsg::Statement(it)) => {
                write!(f, "{:?} {} {:?}", it.singleton, it.epoch, it.body)
            }
            Message::Singleton(SingletonMsg::Delivery(it)) => {
                write!(f, "to {:?} {} {:?}", it.singleton, it.token, it.ask)
            }
            Message::Path(message) => write!(f, "{message:?}"),
            Message::Kv(message) => write!(f, "{message:?}"),
            other @ (Message::Sharding(_)
            | Message::Membership(_)
            | Message::Detector(_)
            | Message::Singleton(_)
            | Message::Ddata(_)
            | Message::Journal(_)
            | Message::Load(_)) => f.write_str(name(other)),
        }
    }
}

/// The number of the workload's message, where there is one.
pub(super) struct Number(pub(super) Option<usize>);

impl core::fmt::Display for Number {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.map_or(Ok(()), |number| write!(f, " {number}"))
    }
}

/// A link event without the bulk of a dropped message.
pub(super) struct LinkName<'a>(pub(super) &'a LinkEvent);

impl core::fmt::Debug for LinkName<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            LinkEvent::Dropped { to, message, reason } => {
                let (kind, number) = (name(message), Number(entity_message(message)));
                write!(f, "Dropped {kind}{number} to {to:?}: {reason:?}")
            }
            LinkEvent::WrongIncarnation { .. }
            | LinkEvent::Quarantined { .. }
            | LinkEvent::QuarantinedBy { .. }
            | LinkEvent::Down { .. }
            | LinkEvent::Room { .. } => {
                write!(f, "{:?}", self.0)
            }
        }
    }
}

/// The message that a host gives back, if it is one of those that the history knows.
pub(super) fn dropped_message(event: &LinkEvent) -> Option<usize> {
    match event {
        LinkEvent::Dropped { message, .. } => entity_message(message),
        LinkEvent::WrongIncarnation { .. }
        | LinkEvent::Quarantined { .. }
        | LinkEvent::QuarantinedBy { .. }
        | LinkEvent::Down { .. }
        | LinkEvent::Room { .. } => None,
    }
}
