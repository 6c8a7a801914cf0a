//! What regions and coordinators say, as bytes. Unstable: these layouts may change with any version until they are
//! declared stable. Spec: sharding 2.1, `docs/WIRE.md` 4.2.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::registry::{put_fields, read_fields};
use super::{entity, registry, stop, survey, watch};
use crate::bytes::WireError;
use crate::bytes::{Reader, put_node};
use crate::config::Limits;
use crate::membership::state::member::UpNumber;
use crate::message::{ShardMark, ShardingBody, ShardingMessage, ShardingMsg as Msg, Tag};
use crate::sharding::protocol::{EntityStarts, Part, STARTS_MAX};
use crate::sharding::state::ids::{KindId, SHARDS_MAX, ShardId, Term};
use crate::token::Token;

/// Shards are numbered `0..SHARDS_MAX`, which two bytes hold exactly.
const _: () = assert!(SHARDS_MAX == 1 << 16);

/// A node takes at least this many bytes (a host of one byte), which bounds a count of nodes by the bytes there are.
pub(super) const NODE_BYTES_MIN: usize = 1 + 1 + 2 + 8;

/// A shard and a token.
const PLACEMENT_BYTES: usize = 2 + 8 + 8;

const REGISTER: u8 = 1;
const REGISTER_ACK: u8 = 2;
const REGISTER_REFUSED: u8 = 3;
const REGION_QUERY: u8 = 4;
const NO_REGION: u8 = 5;
const GET_SHARD_HOME: u8 = 6;
const SHARD_HOMES: u8 = 7;
const HOST_SHARD: u8 = 8;
const SHARD_STARTED: u8 = 9;
const BEGIN_HAND_OFF: u8 = 10;
const BEGIN_HAND_OFF_ACK: u8 = 11;
const HAND_OFF: u8 = 12;
const SHARD_STOPPED: u8 = 13;
const GRACEFUL_SHUTDOWN_REQ: u8 = 14;
const REGION_STOPPED: u8 = 15;
const NOBODY_HOSTS: u8 = 16;
const SHARD_TOKENS: u8 = 17;
const STOP: u8 = 18;

pub(super) fn put(msg: &Msg, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
    match msg {
        Msg::Kind(body) => put_kind(body, out),
        Msg::Entity(body) | Msg::HandBack(body) => entity::put_envelope(body, limits, out),
        Msg::AskReply(body) => entity::put_reply(body, out),
        Msg::Registry(body) => registry::put(body, out),
        Msg::Survey(body) => survey::put(body, limits, out),
        Msg::Mark(mark) | Msg::MarkAck(mark) => {
            out.extend_from_slice(&mark.kind.raw().to_le_bytes());
            put_shard(mark.shard, out)?;
            out.extend_from_slice(&mark.number.to_le_bytes());
            Ok(())
        }
        Msg::Watch(body) => watch::put(body, limits, out),
        Msg::Start(body) | Msg::Started(body) => put_starts(body, limits, out),
    }
}

pub(super) fn read(tag: Tag, reader: &mut Reader<'_>, limits: &Limits) -> Result<Msg, WireError> {
    Ok(match tag {
        Msg::SHARDING => Msg::Kind(read_kind(reader)?),
        Msg::ENTITY => Msg::Entity(entity::read_envelope(reader, limits)?),
        Msg::ASK_REPLY => Msg::AskReply(entity::read_reply(reader)?),
        Msg::REGISTRY => Msg::Registry(registry::read(reader)?),
        Msg::SURVEY => Msg::Survey(survey::read(reader)?),
        Msg::WATCH => Msg::Watch(watch::read(reader)?),
        Msg::START => Msg::Start(read_starts(reader)?),
        Msg::STARTED => Msg::Started(read_starts(reader)?),
        Msg::HAND_BACK => Msg::HandBack(entity::read_envelope(reader, limits)?),
        Msg::MARK => Msg::Mark(read_mark(reader)?),
        Msg::MARK_ACK => Msg::MarkAck(read_mark(reader)?),
        Tag { kind, .. } => return Err(WireError::UnknownKind { kind }),
    })
}

fn read_mark(reader: &mut Reader<'_>) -> Result<ShardMark, WireError> {
    Ok(ShardMark {
        kind: KindId::from_raw(reader.u64()?),
        shard: read_shard(reader)?,
        number: reader.u64()?,
    })
}

fn put_starts(starts: &EntityStarts, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
    let count = u16::try_from(starts.entities.len()).unwrap_or(u16::MAX);
    if !(1..=STARTS_MAX).contains(&usize::from(count)) {
        return Err(WireError::Unencodable { what: "starts" });
    }
    out.extend_from_slice(&starts.kind.raw().to_le_bytes());
    put_shard(starts.from, out)?;
    put_shard(starts.shard, out)?;
    out.extend_from_slice(&count.to_le_bytes());
    let mut ids = starts.entities.iter();
    ids.try_for_each(|entity| entity::put_id(entity, limits, out))
}

fn read_starts(reader: &mut Reader<'_>) -> Result<EntityStarts, WireError> {
    let kind = KindId::from_raw(reader.u64()?);
    let (from, shard) = (read_shard(reader)?, read_shard(reader)?);
    let count = usize::from(reader.u16()?);
    if count == 0 {
        return Err(WireError::Malformed { what: "starts" });
    }
    if count > STARTS_MAX || count > reader.rest().len() / entity::ID_BYTES_MIN {
        return Err(WireError::LimitExceeded { what: "starts" });
    }
    let mut entities = Vec::with_capacity(count);
    for _ in 0..count {
        entities.push(entity::read_id(reader)?);
    }
    Ok(EntityStarts {
        kind,
        from,
        shard,
        entities,
    })
}

fn put_kind(message: &ShardingMessage, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.extend_from_slice(&message.kind.raw().to_le_bytes());
    match &message.body {
        ShardingBody::Register {
            fields,
            hosted,
            draining,
            part,
        } => {
            out.push(REGISTER);
            out.push(u8::from(*draining));
            put_fields(fields, out)?;
            put_part(*part, out)?;
            put_shards(hosted, out)
        }
        ShardingBody::RegisterAck { term } => put_term(REGISTER_ACK, term, out),
        ShardingBody::RegisterRefused { term, fields } => {
            put_term(REGISTER_REFUSED, term, out)?;
            put_fields(fields, out)
        }
        ShardingBody::RegionQuery { term } => put_term(REGION_QUERY, term, out),
        ShardingBody::NoRegion { term } => put_term(NO_REGION, term, out),
        ShardingBody::GetShardHome { shard } => {
            out.push(GET_SHARD_HOME);
            put_shard(*shard, out)
        }
        ShardingBody::ShardHomes { term, homes } => {
            put_term(SHARD_HOMES, term, out)?;
            let count = u32::try_from(homes.len()).map_err(|_| WireError::Unencodable { what: "homes" })?;
            out.extend_from_slice(&count.to_le_bytes());
            homes.iter().try_for_each(|(node, shards)| {
                put_node(out, node)?;
                put_shards(shards, out)
            })
        }
        ShardingBody::ShardTokens { tokens } => {
            out.push(SHARD_TOKENS);
            put_tokens(tokens, out)
        }
        ShardingBody::HostShard { term, shard, token } => {
            put_term_shard(HOST_SHARD, term, *shard, out)?;
            put_token(*token, out);
            Ok(())
        }
        ShardingBody::ShardStarted { term, shard } => put_term_shard(SHARD_STARTED, term, *shard, out),
        ShardingBody::BeginHandOff { term, shard, number } => {
            put_term_shard(BEGIN_HAND_OFF, term, *shard, out)?;
            out.extend_from_slice(&number.to_le_bytes());
            Ok(())
        }
        ShardingBody::BeginHandOffAck { term, shard, number } => {
            put_term_shard(BEGIN_HAND_OFF_ACK, term, *shard, out)?;
            out.extend_from_slice(&number.to_le_bytes());
            Ok(())
        }
        ShardingBody::HandOff {
            term,
            shard,
            by_force,
        } => {
            put_term_shard(HAND_OFF, term, *shard, out)?;
            out.push(u8::from(*by_force));
            Ok(())
        }
        ShardingBody::ShardStopped { term, shard } => put_term_shard(SHARD_STOPPED, term, *shard, out),
        ShardingBody::GracefulShutdownReq => {
            out.push(GRACEFUL_SHUTDOWN_REQ);
            Ok(())
        }
        ShardingBody::RegionStopped => {
            out.push(REGION_STOPPED);
            Ok(())
        }
        ShardingBody::NobodyHosts => {
            out.push(NOBODY_HOSTS);
            Ok(())
        }
        ShardingBody::Stop(message) => {
            out.push(STOP);
            stop::put(message, out)
        }
    }
}

fn read_kind(reader: &mut Reader<'_>) -> Result<ShardingMessage, WireError> {
    let kind = KindId::from_raw(reader.u64()?);
    let body = match reader.u8()? {
        REGISTER => ShardingBody::Register {
            draining: reader.bool("draining")?,
            fields: read_fields(reader)?,
            part: read_part(reader)?,
            hosted: read_shards(reader)?,
        },
        REGISTER_ACK => ShardingBody::RegisterAck {
            term: read_term(reader)?,
        },
        REGISTER_REFUSED => ShardingBody::RegisterRefused {
            term: read_term(reader)?,
            fields: read_fields(reader)?,
        },
        REGION_QUERY => ShardingBody::RegionQuery {
            term: read_term(reader)?,
        },
        NO_REGION => ShardingBody::NoRegion {
            term: read_term(reader)?,
        },
        GET_SHARD_HOME => ShardingBody::GetShardHome {
            shard: read_shard(reader)?,
        },
        SHARD_HOMES => read_homes(reader)?,
        SHARD_TOKENS => ShardingBody::ShardTokens {
            tokens: read_tokens(reader)?,
        },
        HOST_SHARD => ShardingBody::HostShard {
            term: read_term(reader)?,
            shard: read_shard(reader)?,
            token: Token::new(reader.u64()?, reader.u64()?),
        },
        SHARD_STARTED => ShardingBody::ShardStarted {
            term: read_term(reader)?,
            shard: read_shard(reader)?,
        },
        BEGIN_HAND_OFF => ShardingBody::BeginHandOff {
            term: read_term(reader)?,
            shard: read_shard(reader)?,
            number: reader.u64()?,
        },
        BEGIN_HAND_OFF_ACK => ShardingBody::BeginHandOffAck {
            term: read_term(reader)?,
            shard: read_shard(reader)?,
            number: reader.u64()?,
        },
        HAND_OFF => ShardingBody::HandOff {
            term: read_term(reader)?,
            shard: read_shard(reader)?,
            by_force: reader.bool("by force")?,
        },
        SHARD_STOPPED => ShardingBody::ShardStopped {
            term: read_term(reader)?,
            shard: read_shard(reader)?,
        },
        GRACEFUL_SHUTDOWN_REQ => ShardingBody::GracefulShutdownReq,
        REGION_STOPPED => ShardingBody::RegionStopped,
        NOBODY_HOSTS => ShardingBody::NobodyHosts,
        STOP => ShardingBody::Stop(stop::read(reader)?),
        _ => {
            return Err(WireError::Malformed {
                what: "sharding message",
            });
        }
    };
    Ok(ShardingMessage { kind, body })
}

fn put_part(part: Part, out: &mut Vec<u8>) -> Result<(), WireError> {
    if !part.is_legal() {
        return Err(WireError::Unencodable { what: "part" });
    }
    out.extend_from_slice(&part.list.to_le_bytes());
    out.extend_from_slice(&part.index.to_le_bytes());
    out.extend_from_slice(&part.count.to_le_bytes());
    Ok(())
}

fn read_part(reader: &mut Reader<'_>) -> Result<Part, WireError> {
    let part = Part {
        list: reader.u64()?,
        index: reader.u16()?,
        count: reader.u16()?,
    };
    if !part.is_legal() {
        return Err(WireError::Malformed { what: "part" });
    }
    Ok(part)
}

fn read_homes(reader: &mut Reader<'_>) -> Result<ShardingBody, WireError> {
    let term = read_term(reader)?;
    let count = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
    if count > reader.rest().len() / NODE_BYTES_MIN {
        return Err(WireError::LimitExceeded { what: "homes" });
    }
    let mut homes = Vec::with_capacity(count);
    for _ in 0..count {
        homes.push((reader.node()?, read_shards(reader)?));
    }
    Ok(ShardingBody::ShardHomes { term, homes })
}

pub(super) fn put_shards(shards: &[ShardId], out: &mut Vec<u8>) -> Result<(), WireError> {
    let count = u32::try_from(shards.len()).map_err(|_| WireError::LimitExceeded { what: "shards" })?;
    if count > SHARDS_MAX {
        return Err(WireError::LimitExceeded { what: "shards" });
    }
    out.extend_from_slice(&count.to_le_bytes());
    shards.iter().try_for_each(|shard| put_shard(*shard, out))
}

pub(super) fn read_shards(reader: &mut Reader<'_>) -> Result<Vec<ShardId>, WireError> {
    let count = reader.u32()?;
    if count > SHARDS_MAX {
        return Err(WireError::LimitExceeded { what: "shards" });
    }
    let column = reader.column::<2>(usize::try_from(count).unwrap_or(usize::MAX))?;
    Ok(column.u16s().map(|shard| ShardId(u32::from(shard))).collect())
}

fn put_token(token: Token, out: &mut Vec<u8>) {
    out.extend_from_slice(&token.term.to_le_bytes());
    out.extend_from_slice(&token.count.to_le_bytes());
}

/// With which token a shard was given: with some.
fn read_token(reader: &mut Reader<'_>) -> Result<Token, WireError> {
    match Token::new(reader.u64()?, reader.u64()?) {
        Token::NONE => Err(WireError::Malformed { what: "token" }),
        token => Ok(token),
    }
}

fn put_tokens(tokens: &[(ShardId, Token)], out: &mut Vec<u8>) -> Result<(), WireError> {
    let count = u32::try_from(tokens.len()).map_err(|_| WireError::LimitExceeded { what: "tokens" })?;
    if count > SHARDS_MAX {
        return Err(WireError::LimitExceeded { what: "tokens" });
    }
    out.extend_from_slice(&count.to_le_bytes());
    tokens.iter().try_for_each(|(shard, token)| {
        put_shard(*shard, out)?;
        put_token(*token, out);
        Ok(())
    })
}

fn read_tokens(reader: &mut Reader<'_>) -> Result<Vec<(ShardId, Token)>, WireError> {
    let count = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
    if count > reader.rest().len() / PLACEMENT_BYTES {
        return Err(WireError::LimitExceeded { what: "tokens" });
    }
    let mut tokens = Vec::with_capacity(count);
    for _ in 0..count {
        tokens.push((read_shard(reader)?, read_token(reader)?));
    }
    Ok(tokens)
}

pub(super) fn put_shard(shard: ShardId, out: &mut Vec<u8>) -> Result<(), WireError> {
    let number = u16::try_from(shard.0).map_err(|_| WireError::Unencodable { what: "shard" })?;
    out.extend_from_slice(&number.to_le_bytes());
    Ok(())
}

pub(super) fn read_shard(reader: &mut Reader<'_>) -> Result<ShardId, WireError> {
    reader.u16().map(|shard| ShardId(u32::from(shard)))
}

fn put_term_shard(tag: u8, term: &Term, shard: ShardId, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_term(tag, term, out)?;
    put_shard(shard, out)
}

pub(super) fn put_term(tag: u8, term: &Term, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.push(tag);
    out.extend_from_slice(&term.up_number.get().to_le_bytes());
    put_node(out, &term.node)
}

pub(super) fn read_term(reader: &mut Reader<'_>) -> Result<Term, WireError> {
    let up_number = read_up_number(reader.u32()?)?;
    Ok(Term {
        up_number,
        node: reader.node()?,
    })
}

/// A number above "none" would be read as "none" and written differently.
pub(super) fn read_up_number(number: u32) -> Result<UpNumber, WireError> {
    if number > UpNumber::NONE.get() {
        return Err(WireError::Malformed { what: "up number" });
    }
    Ok(UpNumber::new(number))
}
