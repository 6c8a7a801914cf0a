//! Messages to frames and back: picks the body's codec by kind. Never decides whether a message is wanted.
//! Spec: membership 5, `docs/WIRE.md` 4.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::bytes::Reader;
use super::deflate::Packer;
use super::frame::{begin_frame, finish_frame};
use super::{WireError, entity, gossip, kind, membership, sharding};
use crate::config::Limits;
use crate::message::{GossipEnvelope, Lane, Message, Welcome};

/// Appends one whole frame. Hosts that send gossip keep an [`Encoder`] instead: it reuses its compressor.
///
/// # Errors
/// [`WireError::TooLarge`] if the body exceeds its lane's limit, [`WireError::Unencodable`] or
/// [`WireError::LimitExceeded`] if a part does not fit its field. `out` is unchanged then.
pub fn encode_message(
    message: &Message,
    epoch: u32,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    Encoder::new().encode(message, epoch, limits, out)
}

/// Writes frames, and keeps the buffers and the compressor that large gossip states need (about 300 KiB from the first
/// such state on).
#[derive(Debug, Default)]
pub struct Encoder {
    packer: Packer,
}

impl Encoder {
    /// An encoder that holds no memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one whole frame. The same message gives the same bytes, whatever was encoded before.
    ///
    /// # Errors
    /// As [`encode_message`]; `out` is unchanged then.
    pub fn encode(
        &mut self,
        message: &Message,
        epoch: u32,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        let start = out.len();
        begin_frame(out);
        let written = self
            .put_body(message, limits, out)
            .and_then(|()| finish_frame(out, start, message.lane(), kind::of(message), epoch, limits));
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    fn put_body(&mut self, message: &Message, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
        match message {
            Message::InitJoin(body) => membership::put_init_join(*body, out),
            Message::InitJoinAck(body) => membership::put_init_join_ack(*body, out),
            Message::InitJoinNack => membership::put_init_join_nack(out),
            Message::Join(body) => membership::put_join(body, out),
            Message::Leave(node) | Message::Down(node) => membership::put_node_only(node, out),
            Message::Heartbeat(body) | Message::HeartbeatRsp(body) => membership::put_heartbeat(body, out),
            Message::JoinRefused(body) => membership::put_join_refused(body, out),
            Message::ExitingConfirmed { to } | Message::Removed { to } => membership::put_node_only(to, out),
            Message::GossipStatus(body) => gossip::put_status(body, limits, out),
            Message::Welcome(body) => {
                gossip::put_addressed(&body.to, &body.gossip, limits, &mut self.packer, out)
            }
            Message::Gossip(body) => {
                gossip::put_addressed(&body.to, &body.gossip, limits, &mut self.packer, out)
            }
            Message::Sharding(body) => sharding::put(body, out),
            Message::Entity(body) => entity::put_envelope(body, limits, out),
            Message::AskReply(body) => entity::put_reply(body, out),
        }
    }
}

/// Reads the body of a frame. Checks counts against `limits` and against the bytes there are before it allocates.
///
/// # Errors
/// [`WireError::UnknownKind`] for a kind of a later version, otherwise what is wrong with the body.
pub fn decode_message(kind: u16, lane: Lane, body: &[u8], limits: &Limits) -> Result<Message, WireError> {
    let expected = kind::lane_of(kind).ok_or(WireError::UnknownKind { kind })?;
    if lane != expected {
        return Err(WireError::Malformed { what: "lane" });
    }
    let mut reader = Reader::new(body);
    let message = match kind {
        kind::INIT_JOIN => Message::InitJoin(membership::read_init_join(&mut reader)?),
        kind::INIT_JOIN_ACK => Message::InitJoinAck(membership::read_init_join_ack(&mut reader)?),
        kind::INIT_JOIN_NACK => {
            membership::read_init_join_nack(&mut reader)?;
            Message::InitJoinNack
        }
        kind::JOIN => Message::Join(membership::read_join(&mut reader)?),
        kind::JOIN_REFUSED => Message::JoinRefused(membership::read_join_refused(&mut reader)?),
        kind::REMOVED => Message::Removed { to: reader.node()? },
        kind::LEAVE => Message::Leave(reader.node()?),
        kind::DOWN => Message::Down(reader.node()?),
        kind::HEARTBEAT => Message::Heartbeat(membership::read_heartbeat(&mut reader)?),
        kind::HEARTBEAT_RSP => Message::HeartbeatRsp(membership::read_heartbeat(&mut reader)?),
        kind::EXITING_CONFIRMED => Message::ExitingConfirmed { to: reader.node()? },
        kind::GOSSIP_STATUS => Message::GossipStatus(gossip::read_status(&mut reader, limits)?),
        kind::WELCOME => {
            let (to, gossip) = gossip::read_addressed(&mut reader, limits)?;
            Message::Welcome(Welcome { to, gossip })
        }
        kind::GOSSIP => {
            let (to, gossip) = gossip::read_addressed(&mut reader, limits)?;
            Message::Gossip(GossipEnvelope { to, gossip })
        }
        kind::SHARDING => Message::Sharding(sharding::read(&mut reader)?),
        kind::ENTITY => Message::Entity(entity::read_envelope(&mut reader, limits)?),
        kind::ASK_REPLY => Message::AskReply(entity::read_reply(&mut reader)?),
        // `lane_of` knows no other kind.
        _ => return Err(WireError::UnknownKind { kind }),
    };
    reader.finish()?;
    Ok(message)
}
