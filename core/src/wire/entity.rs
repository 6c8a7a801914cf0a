//! The hot path: messages to entities and their answers. The payload is the rest of the body, so it is copied
//! once on each side and its length is the frame's business. Spec: sharding 10.5, `docs/WIRE.md` 4.3, 4.4.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::declare::{FieldSink, FieldSource, Rises, by_hand, codes};
use crate::bytes::{BodyReader, WireError, put_node};
use crate::config::Limits;
use crate::message::{AskReply, AskTicket, EntityEnvelope};
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{AskRef, EntityId, KindId, Payload, ShardId};

const FLAG_ASK: u8 = 1;
/// Beside [`FLAG_ASK`]: whose handlers wait.
const FLAG_CHAIN: u8 = 2;
const FLAG_BOTH: u8 = FLAG_ASK | FLAG_CHAIN;
/// A clock asks: nobody's handler waits.
const FLAG_WAKE_UP: u8 = FLAG_ASK | 4;

by_hand! {
    EntityEnvelope: EntityEnvelope, "entity", 15, |body, what, out| {
        let bytes = id_bytes(&body.entity, out.limits)?;
        KindId::put(&body.kind, what, out)?;
        ShardId::put(&body.shard, "shard", out)?;
        out.push(body.hops);
        put_ticket(body.ask.as_ref(), out)?;
        out.extend_from_slice(&bytes.to_le_bytes());
        out.extend_from_slice(body.entity.as_bytes());
        out.extend_from_slice(&body.payload);
        Ok(())
    }, |reader, what| {
        let (kind, shard) = (KindId::read(reader, what)?, ShardId::read(reader, what)?);
        let hops = reader.u8()?;
        let ask = read_ticket(reader)?;
        let bytes = usize::from(reader.u16()?);
        if bytes == 0 || bytes > reader.limits.entity_id_bytes_max {
            return Err(WireError::BadEntityId { bytes });
        }
        let entity = EntityId::new(reader.take(bytes)?);
        let payload = take_payload(reader);
        Ok(EntityEnvelope { kind, shard, entity, payload, ask, hops })
    };
    // One of several in a message: one that is too long is refused by who hears it, so that the others are
    // heard.
    EntityId: EntityId, "id", 3, |id, _, out| {
        let bytes = id_bytes(id, out.limits)?;
        out.extend_from_slice(&bytes.to_le_bytes());
        out.extend_from_slice(id.as_bytes());
        Ok(())
    }, |reader, what| match usize::from(reader.u16()?) {
        0 => Err(WireError::Malformed { what }),
        bytes => Ok(EntityId::new(reader.take(bytes)?)),
    };
    AskReply: AskReply, "reply", 21, |body, what, out| {
        out.extend_from_slice(&body.id.to_le_bytes());
        put_node(out, &body.to)?;
        match &body.result {
            Ok(payload) => {
                out.push(0);
                out.extend_from_slice(payload);
                Ok(())
            }
            Err(failure) => AskFailure::put(failure, what, out),
        }
    }, |reader, what| {
        let (id, to) = (reader.u64()?, reader.node()?);
        let result = match reader.rest().first() {
            Some(0) => {
                reader.u8()?;
                Ok(take_payload(reader))
            }
            Some(_) | None => Err(AskFailure::read(reader, what)?),
        };
        Ok(AskReply { id, to, result })
    };
}

codes! {
    AskFailure as "ask failure" {
        1 TimeoutBuffered,
        2 TimeoutSent,
        3 PeerLost,
        4 BufferFull,
        5 MailboxFull,
        6 HandedOff,
        7 UnknownKind,
        8 ShardCountMismatch,
        9 BadEntityId,
        10 TooLarge,
        11 TooManyOpenAsks,
        12 EntityStopped,
        13 NodeStopped,
        14 Unreachable,
        15 NobodyHosts,
        16 ReplyTooLarge,
        17 NodeStoppedUnsent,
        18 EntityStoppedUnhandled,
        19 KindRefused,
        20 UnknownPath,
        21 NoInstance,
    }
}

impl Rises for EntityId {
    fn is_below(&self, next: &Self) -> bool {
        self < next
    }
}

/// The length of an entity's id as it is written.
fn id_bytes(id: &EntityId, limits: &Limits) -> Result<u16, WireError> {
    let bytes = id.as_bytes().len();
    let written = u16::try_from(bytes)
        .ok()
        .filter(|_| (1..=limits.entity_id_bytes_max).contains(&bytes));
    written.ok_or(WireError::BadEntityId { bytes })
}

/// The flags, and what travels with an ask.
pub(super) fn put_ticket(ask: Option<&AskTicket>, out: &mut FieldSink<'_>) -> Result<(), WireError> {
    let Some(ticket) = ask else {
        out.push(0);
        return Ok(());
    };
    let names = ticket.chain.names();
    out.push(if !names.is_empty() {
        FLAG_BOTH
    } else if ticket.chain.is_of_a_clock() {
        FLAG_WAKE_UP
    } else {
        FLAG_ASK
    });
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
pub(super) fn read_ticket(reader: &mut FieldSource<'_>) -> Result<Option<AskTicket>, WireError> {
    match reader.u8()? {
        0 => Ok(None),
        flags @ (FLAG_ASK | FLAG_BOTH | FLAG_WAKE_UP) => read_asked(reader, flags).map(Some),
        _ => Err(WireError::Malformed { what: "entity flags" }),
    }
}

fn read_asked(reader: &mut FieldSource<'_>, flags: u8) -> Result<AskTicket, WireError> {
    let (id, remaining_ms) = (reader.u64()?, reader.u32()?);
    let asker = reader.node()?;
    let chain = match flags {
        FLAG_BOTH => read_chain(reader)?,
        FLAG_WAKE_UP => AskChain::of_a_clock(),
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
fn read_chain(reader: &mut FieldSource<'_>) -> Result<AskChain, WireError> {
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

/// The rest of the body.
pub(super) fn take_payload(reader: &mut FieldSource<'_>) -> Payload {
    let payload = Payload::from(reader.rest());
    reader.rest = BodyReader::new(&[]);
    payload
}
