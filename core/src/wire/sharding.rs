//! What regions and coordinators say, as bytes. Unstable: these layouts may change with any version until they are
//! declared stable. Spec: sharding 2.1, `docs/WIRE.md` 4.2.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::declare::{Form, List, by_hand, choice, number_as, record};
use super::registry::{put_fields, read_fields};
use super::{entity, registry, survey};
use crate::bytes::{Reader, WireError};
use crate::config::Limits;
use crate::ident::UniqueAddress;
use crate::membership::state::member::UpNumber;
use crate::message::{ShardMark, ShardingBody, ShardingMessage, ShardingMsg as Msg, Tag};
use crate::sharding::protocol::stop::StopMsg;
use crate::sharding::protocol::watch::WatchMsg;
use crate::sharding::protocol::{EntityStarts, Part, STARTS_MAX};
use crate::sharding::state::fields::KindFields;
use crate::sharding::state::ids::{EntityId, KindId, SHARDS_MAX, ShardId, Term};
use crate::token::Token;

/// Shards are numbered `0..SHARDS_MAX`, which two bytes hold exactly.
const _: () = assert!(SHARDS_MAX == SHARDS as u32);
const SHARDS: usize = 1 << 16;

/// Shards by number.
pub(super) struct Shards;

/// A token with which something was given: not none.
struct Given;

number_as! {
    KindId: u64, "u64", KindId::raw, KindId::from_raw;
}

by_hand! {
    ShardId: ShardId, "shard", 2, |shard, _, _, out| put_shard(*shard, out), |reader, _| read_shard(reader);
    Shards: Vec<ShardId>, "shards", 4, |shards, _, limits, out| {
        <List<u32, ShardId, SHARDS> as Form<_>>::put(shards, "shards", limits, out)
    }, |reader, _| <List<u32, ShardId, SHARDS> as Form<_>>::read(reader, "shards");
    Given: Token, "token" + ", not 0.0", 16, |token, what, limits, out| Token::put(token, what, limits, out), |reader, what| {
        match Token::read(reader, what)? {
            Token::NONE => Err(WireError::Malformed { what: "token" }),
            token => Ok(token),
        }
    };
    UpNumber: UpNumber, "u32", 4, |number, what, limits, out| u32::put(&number.get(), what, limits, out), |reader, _| {
        read_up_number(reader.u32()?)
    };
    EntityId: EntityId, "id", 3, |id, _, limits, out| entity::put_id(id, limits, out), |reader, _| entity::read_id(reader);
    KindFields: KindFields, "fields", 9, |fields, _, _, out| put_fields(fields, out), |reader, _| read_fields(reader);
}

record! { Term as "term" { up_number: UpNumber, node: UniqueAddress } }
record! { Token as "token" { term: u64, count: u64 } }
record! { Part as "part" { list: u64, index: u16, count: u16 } if |part| part.is_legal() }
record! { ShardMark as "mark" { kind: KindId, shard: ShardId, number: u64 } }
record! {
    EntityStarts as "starts" {
        kind: KindId,
        from: ShardId,
        shard: ShardId,
        entities: List<u16, EntityId, STARTS_MAX, 1>,
    }
}
record! { ShardingMessage as "sharding" { kind: KindId, body: ShardingBody } }

choice! {
    ShardingBody as "sharding message" {
        1 Register { draining: bool, fields: KindFields, part: Part, hosted: Shards },
        2 RegisterAck { term: Term },
        3 RegisterRefused { term: Term, fields: KindFields },
        4 RegionQuery { term: Term },
        5 NoRegion { term: Term },
        6 GetShardHome { shard: ShardId },
        7 ShardHomes { term: Term, homes: List<u32, (UniqueAddress, Shards), SHARDS> },
        8 HostShard { term: Term, shard: ShardId, token: Token },
        9 ShardStarted { term: Term, shard: ShardId },
        10 BeginHandOff { term: Term, shard: ShardId, number: u64 },
        11 BeginHandOffAck { term: Term, shard: ShardId, number: u64 },
        12 HandOff { term: Term, shard: ShardId, by_force: bool },
        13 ShardStopped { term: Term, shard: ShardId },
        14 GracefulShutdownReq,
        15 RegionStopped,
        16 NobodyHosts,
        17 ShardTokens { tokens: List<u32, (ShardId, Given), SHARDS> },
        18 Stop(stop: StopMsg),
    }
}

pub(super) fn put(msg: &Msg, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
    match msg {
        Msg::Kind(body) => ShardingMessage::put(body, "", limits, out),
        Msg::Entity(body) | Msg::HandBack(body) => entity::put_envelope(body, limits, out),
        Msg::AskReply(body) => entity::put_reply(body, out),
        Msg::Registry(body) => registry::put(body, limits, out),
        Msg::Survey(body) => survey::put(body, limits, out),
        Msg::Mark(body) | Msg::MarkAck(body) => ShardMark::put(body, "", limits, out),
        Msg::Watch(body) => WatchMsg::put(body, "", limits, out),
        Msg::Start(body) | Msg::Started(body) => EntityStarts::put(body, "", limits, out),
    }
}

pub(super) fn read(tag: Tag, reader: &mut Reader<'_>, limits: &Limits) -> Result<Msg, WireError> {
    Ok(match tag {
        Msg::SHARDING => Msg::Kind(ShardingMessage::read(reader, "")?),
        Msg::ENTITY => Msg::Entity(entity::read_envelope(reader, limits)?),
        Msg::ASK_REPLY => Msg::AskReply(entity::read_reply(reader)?),
        Msg::REGISTRY => Msg::Registry(registry::read(reader)?),
        Msg::SURVEY => Msg::Survey(survey::read(reader)?),
        Msg::WATCH => Msg::Watch(WatchMsg::read(reader, "")?),
        Msg::START => Msg::Start(EntityStarts::read(reader, "")?),
        Msg::STARTED => Msg::Started(EntityStarts::read(reader, "")?),
        Msg::HAND_BACK => Msg::HandBack(entity::read_envelope(reader, limits)?),
        Msg::MARK => Msg::Mark(ShardMark::read(reader, "")?),
        Msg::MARK_ACK => Msg::MarkAck(ShardMark::read(reader, "")?),
        Tag { kind, .. } => return Err(WireError::UnknownKind { kind }),
    })
}

pub(super) fn put_shard(shard: ShardId, out: &mut Vec<u8>) -> Result<(), WireError> {
    let number = u16::try_from(shard.0).map_err(|_| WireError::Unencodable { what: "shard" })?;
    out.extend_from_slice(&number.to_le_bytes());
    Ok(())
}

pub(super) fn read_shard(reader: &mut Reader<'_>) -> Result<ShardId, WireError> {
    reader.u16().map(|shard| ShardId(u32::from(shard)))
}

/// A number above "none" would be read as "none" and written differently.
fn read_up_number(number: u32) -> Result<UpNumber, WireError> {
    if number > UpNumber::NONE.get() {
        return Err(WireError::Malformed { what: "up number" });
    }
    Ok(UpNumber::new(number))
}
