//! The hot path: messages to entities and their answers. The payload is the rest of the body, so it is copied once on
//! each side and its length is the frame's business. Spec: sharding 10.5, `docs/WIRE.md` 4.3, 4.4.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::sharding::{put_shard, read_shard};
use crate::bytes::WireError;
use crate::bytes::{Reader, put_node};
use crate::config::Limits;
use crate::message::{AskReply, AskTicket, EntityEnvelope};
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{AskRef, EntityId, KindId, Payload};

const FLAG_ASK: u8 = 1;
/// Beside [`FLAG_ASK`]: whose handlers wait.
const FLAG_CHAIN: u8 = 2;
const FLAG_BOTH: u8 = FLAG_ASK | FLAG_CHAIN;

pub(super) fn put_envelope(
    body: &EntityEnvelope,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let entity = body.entity.as_bytes();
    let bad_id = WireError::BadEntityId { bytes: entity.len() };
    let entity_len = u16::try_from(entity.len()).map_err(|_| bad_id.clone())?;
    if entity_len == 0 || entity.len() > limits.entity_id_bytes_max {
        return Err(bad_id);
    }
    // Fixed fields of an ask with the longest host take under 320 bytes: one growth at most.
    out.reserve(
        entity
            .len()
            .saturating_add(body.payload.len())
            .saturating_add(320),
    );
    out.extend_from_slice(&body.kind.raw().to_le_bytes());
    put_shard(body.shard, out)?;
    out.push(body.hops);
    put_ticket(body.ask.as_ref(), out)?;
    out.extend_from_slice(&entity_len.to_le_bytes());
    out.extend_from_slice(entity);
    out.extend_from_slice(&body.payload);
    Ok(())
}

pub(super) fn read_envelope(reader: &mut Reader<'_>, limits: &Limits) -> Result<EntityEnvelope, WireError> {
    let kind = KindId::from_raw(reader.u64()?);
    let shard = read_shard(reader)?;
    let hops = reader.u8()?;
    let ask = read_ticket(reader)?;
    let bytes = usize::from(reader.u16()?);
    if bytes == 0 || bytes > limits.entity_id_bytes_max {
        return Err(WireError::BadEntityId { bytes });
    }
    let entity = EntityId::new(reader.take(bytes)?);
    let payload = take_payload(reader);
    Ok(EntityEnvelope {
        kind,
        shard,
        entity,
        payload,
        ask,
        hops,
    })
}

/// The fewest bytes of an entity's id: its length, and one.
pub(super) const ID_BYTES_MIN: usize = 3;

/// An entity's id with its length in front.
pub(super) fn put_id(entity: &EntityId, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
    let id = entity.as_bytes();
    let bad_id = WireError::BadEntityId { bytes: id.len() };
    let bytes = u16::try_from(id.len()).map_err(|_| bad_id.clone())?;
    if bytes == 0 || id.len() > limits.entity_id_bytes_max {
        return Err(bad_id);
    }
    out.extend_from_slice(&bytes.to_le_bytes());
    out.extend_from_slice(id);
    Ok(())
}

/// An entity's id that is not the only one of its message: one that is too long here is refused by who hears it, so that the others are
/// heard.
pub(super) fn read_id(reader: &mut Reader<'_>) -> Result<EntityId, WireError> {
    let bytes = usize::from(reader.u16()?);
    if bytes == 0 {
        return Err(WireError::Malformed { what: "entity id" });
    }
    Ok(EntityId::new(reader.take(bytes)?))
}

/// The flags, and what travels with an ask.
pub(super) fn put_ticket(ask: Option<&AskTicket>, out: &mut Vec<u8>) -> Result<(), WireError> {
    let Some(ticket) = ask else {
        out.push(0);
        return Ok(());
    };
    let names = ticket.chain.names();
    out.push(if names.is_empty() { FLAG_ASK } else { FLAG_BOTH });
    out.extend_from_slice(&ticket.ask.id.to_le_bytes());
    out.extend_from_slice(&ticket.remaining_ms.to_le_bytes());
    put_node(out, &ticket.ask.asker)?;
    if !names.is_empty() {
        let count = u8::try_from(names.len()).map_err(|_| WireError::Unencodable { what: "chain" })?;
        out.push(count);
        for name in names {
            out.extend_from_slice(&name.to_le_bytes());
        }
    }
    Ok(())
}

#[inline]
pub(super) fn read_ticket(reader: &mut Reader<'_>) -> Result<Option<AskTicket>, WireError> {
    match reader.u8()? {
        0 => Ok(None),
        flags @ (FLAG_ASK | FLAG_BOTH) => read_asked(reader, flags).map(Some),
        _ => Err(WireError::Malformed { what: "entity flags" }),
    }
}

fn read_asked(reader: &mut Reader<'_>, flags: u8) -> Result<AskTicket, WireError> {
    let (id, remaining_ms) = (reader.u64()?, reader.u32()?);
    let asker = reader.node()?;
    let chain = match flags {
        FLAG_BOTH => read_chain(reader)?,
        _ => AskChain::default(),
    };
    Ok(AskTicket {
        ask: AskRef { asker, id },
        remaining_ms,
        chain,
    })
}

/// At least one name; none is written without a flag.
#[inline(never)]
fn read_chain(reader: &mut Reader<'_>) -> Result<AskChain, WireError> {
    let count = usize::from(reader.u8()?);
    if count == 0 || count > AskChain::NAMES_MAX {
        return Err(WireError::Malformed { what: "chain" });
    }
    let mut names = [0; AskChain::NAMES_MAX];
    for name in names.iter_mut().take(count) {
        *name = reader.u64()?;
    }
    Ok(AskChain::of(names.get(..count).unwrap_or_default()))
}

pub(super) fn put_reply(body: &AskReply, out: &mut Vec<u8>) -> Result<(), WireError> {
    let (code, payload): (u8, &[u8]) = match &body.result {
        Ok(payload) => (0, payload),
        Err(failure) => (failure_code(*failure), &[]),
    };
    out.reserve(payload.len().saturating_add(320));
    out.extend_from_slice(&body.id.to_le_bytes());
    put_node(out, &body.to)?;
    out.push(code);
    out.extend_from_slice(payload);
    Ok(())
}

pub(super) fn read_reply(reader: &mut Reader<'_>) -> Result<AskReply, WireError> {
    let id = reader.u64()?;
    let to = reader.node()?;
    let result = match reader.u8()? {
        0 => Ok(take_payload(reader)),
        code => Err(failure_of(code)?),
    };
    Ok(AskReply { id, to, result })
}

pub(super) fn take_payload(reader: &mut Reader<'_>) -> Payload {
    let payload = Payload::from(reader.rest());
    *reader = Reader::new(&[]);
    payload
}

const fn failure_code(failure: AskFailure) -> u8 {
    match failure {
        AskFailure::TimeoutBuffered => 1,
        AskFailure::TimeoutSent => 2,
        AskFailure::PeerLost => 3,
        AskFailure::BufferFull => 4,
        AskFailure::MailboxFull => 5,
        AskFailure::HandedOff => 6,
        AskFailure::UnknownKind => 7,
        AskFailure::ShardCountMismatch => 8,
        AskFailure::BadEntityId => 9,
        AskFailure::TooLarge => 10,
        AskFailure::TooManyOpenAsks => 11,
        AskFailure::EntityStopped => 12,
        AskFailure::NodeStopped => 13,
        AskFailure::Unreachable => 14,
        AskFailure::NobodyHosts => 15,
        AskFailure::ReplyTooLarge => 16,
        AskFailure::NodeStoppedUnsent => 17,
        AskFailure::EntityStoppedUnhandled => 18,
        AskFailure::KindRefused => 19,
    }
}

const fn failure_of(code: u8) -> Result<AskFailure, WireError> {
    Ok(match code {
        1 => AskFailure::TimeoutBuffered,
        2 => AskFailure::TimeoutSent,
        3 => AskFailure::PeerLost,
        4 => AskFailure::BufferFull,
        5 => AskFailure::MailboxFull,
        6 => AskFailure::HandedOff,
        7 => AskFailure::UnknownKind,
        8 => AskFailure::ShardCountMismatch,
        9 => AskFailure::BadEntityId,
        10 => AskFailure::TooLarge,
        11 => AskFailure::TooManyOpenAsks,
        12 => AskFailure::EntityStopped,
        13 => AskFailure::NodeStopped,
        14 => AskFailure::Unreachable,
        15 => AskFailure::NobodyHosts,
        16 => AskFailure::ReplyTooLarge,
        17 => AskFailure::NodeStoppedUnsent,
        18 => AskFailure::EntityStoppedUnhandled,
        19 => AskFailure::KindRefused,
        _ => return Err(WireError::Malformed { what: "ask failure" }),
    })
}
