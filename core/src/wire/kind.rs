//! The number of every message kind. Numbers are never given to another message. Spec: `docs/WIRE.md` 4.

use crate::message::{Lane, Message};

/// `InitJoin`.
pub const INIT_JOIN: u16 = 1;
/// `InitJoinAck`.
pub const INIT_JOIN_ACK: u16 = 2;
/// `InitJoinNack`.
pub const INIT_JOIN_NACK: u16 = 3;
/// `Join`.
pub const JOIN: u16 = 4;
/// `Welcome`.
pub const WELCOME: u16 = 5;
/// `Leave`.
pub const LEAVE: u16 = 6;
/// `Down`.
pub const DOWN: u16 = 7;
/// `Heartbeat`.
pub const HEARTBEAT: u16 = 8;
/// `HeartbeatRsp`.
pub const HEARTBEAT_RSP: u16 = 9;
/// `ExitingConfirmed`.
pub const EXITING_CONFIRMED: u16 = 10;
/// `GossipStatus`.
pub const GOSSIP_STATUS: u16 = 11;
/// `Gossip`.
pub const GOSSIP: u16 = 12;
/// Reserved for gossip that carries only what the receiver lacks; nothing sends or understands it yet.
pub const GOSSIP_DELTA_RESERVED: u16 = 13;
/// Reserved for changes pushed without waiting for a gossip round; nothing sends or understands it yet.
pub const EAGER_PUSH_RESERVED: u16 = 14;
/// `JoinRefused`.
pub const JOIN_REFUSED: u16 = 15;
/// `Removed`.
pub const REMOVED: u16 = 16;
/// `Sharding`; unstable.
pub const SHARDING: u16 = 0x0100;
/// `Entity`; unstable.
pub const ENTITY: u16 = 0x0101;
/// `AskReply`; unstable.
pub const ASK_REPLY: u16 = 0x0102;

/// The number of a message's kind.
#[must_use]
pub const fn of(message: &Message) -> u16 {
    match message {
        Message::InitJoin(_) => INIT_JOIN,
        Message::InitJoinAck(_) => INIT_JOIN_ACK,
        Message::InitJoinNack => INIT_JOIN_NACK,
        Message::Join(_) => JOIN,
        Message::JoinRefused(_) => JOIN_REFUSED,
        Message::Removed { .. } => REMOVED,
        Message::Welcome(_) => WELCOME,
        Message::Leave(_) => LEAVE,
        Message::Down(_) => DOWN,
        Message::Heartbeat(_) => HEARTBEAT,
        Message::HeartbeatRsp(_) => HEARTBEAT_RSP,
        Message::ExitingConfirmed { .. } => EXITING_CONFIRMED,
        Message::GossipStatus(_) => GOSSIP_STATUS,
        Message::Gossip(_) => GOSSIP,
        Message::Sharding(_) => SHARDING,
        Message::Entity(_) => ENTITY,
        Message::AskReply(_) => ASK_REPLY,
    }
}

/// The one lane on which a kind is legal; `None` for a kind this version does not know.
#[must_use]
pub const fn lane_of(kind: u16) -> Option<Lane> {
    match kind {
        INIT_JOIN | INIT_JOIN_ACK | INIT_JOIN_NACK | JOIN | LEAVE | DOWN | HEARTBEAT | HEARTBEAT_RSP
        | EXITING_CONFIRMED | JOIN_REFUSED | REMOVED | SHARDING => Some(Lane::Control),
        WELCOME | GOSSIP_STATUS | GOSSIP => Some(Lane::Gossip),
        ASK_REPLY => Some(Lane::Reply),
        ENTITY => Some(Lane::User),
        _ => None,
    }
}
