//! What regions and coordinators say, as bytes. Unstable: these layouts may change with any version until
//! they are declared stable. Spec: sharding 2.1, `docs/WIRE.md` 4.2.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::declare::{Form, List, Rises, by_hand, choice, messages, number_as, record};
use crate::bytes::WireError;
use crate::ident::UniqueAddress;
use crate::membership::state::member::UpNumber;
use crate::message::{
    AskReply, EntityEnvelope, ShardMark, ShardingBody, ShardingMessage, ShardingMsg as Msg,
};
use crate::sharding::protocol::registry::RegistryMsg;
use crate::sharding::protocol::stop::StopMsg;
use crate::sharding::protocol::survey::SurveyMsg;
use crate::sharding::protocol::watch::WatchMsg;
use crate::sharding::protocol::{EntityStarts, ListPart, STARTS_MAX};
use crate::sharding::state::fields::KindFields;
use crate::sharding::state::ids::{EntityId, KindId, SHARDS_MAX, ShardId, Term};
use crate::token::Token;

/// Shards are numbered `0..SHARDS_MAX`, which two bytes hold exactly.
const _: () = assert!(SHARDS_MAX == SHARDS as u32);
pub(super) const SHARDS: usize = 1 << 16;

/// Shards by number.
pub(super) struct ShardNumbers;

/// A token with which something was given: not none.
struct GivenToken;

number_as! {
    KindId: u64, "u64", KindId::raw, KindId::from_raw;
}

by_hand! {
    ShardId: ShardId, "shard", 2, |shard, what, out| {
        let number = u16::try_from(shard.0).map_err(|_| WireError::Unencodable { what })?;
        u16::put(&number, what, out)
    }, |reader, _| reader.u16().map(|shard| ShardId(u32::from(shard)));
    ShardNumbers: Vec<ShardId>, "shards", 4, <List<u32, ShardId, SHARDS> as Form<_>>::put, <List<u32, ShardId, SHARDS> as Form<_>>::read;
    GivenToken: Token, "token" + ", not 0.0", 16, Token::put, |reader, what| match Token::read(reader, what)? {
        Token::NONE => Err(WireError::Malformed { what }),
        token => Ok(token),
    };
    // A number above "none" would be read as "none" and written differently.
    UpNumber: UpNumber, "u32", 4, |number, what, out| u32::put(&number.get(), what, out), |reader, what| match reader.u32()? {
        number if number > UpNumber::NONE.get() => Err(WireError::Malformed { what }),
        number => Ok(UpNumber::new(number)),
    };
}

impl Rises for ShardId {
    fn is_below(&self, next: &Self) -> bool {
        self < next
    }
}

record! { Term as "term" { up_number: UpNumber, node: UniqueAddress } }
record! { Token as "token" { term: u64, count: u64 } }
record! { ListPart as "part" { list: u64, index: u16, count: u16 } if |part| part.is_legal() }
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
        1 Register { draining: bool, fields: KindFields, part: ListPart, hosted: ShardNumbers },
        2 RegisterAck { term: Term },
        3 RegisterRefused { term: Term, fields: KindFields },
        4 RegionQuery { term: Term },
        5 NoRegion { term: Term },
        6 GetShardHome { shard: ShardId },
        7 ShardHomes { term: Term, homes: List<u32, (UniqueAddress, ShardNumbers), SHARDS> },
        8 HostShard { term: Term, shard: ShardId, token: Token },
        9 ShardStarted { term: Term, shard: ShardId },
        10 BeginHandOff { term: Term, shard: ShardId, number: u64 },
        11 BeginHandOffAck { term: Term, shard: ShardId, number: u64 },
        12 HandOff { term: Term, shard: ShardId, by_force: bool },
        13 ShardStopped { term: Term, shard: ShardId },
        14 GracefulShutdownReq,
        15 RegionStopped,
        16 NobodyHosts,
        17 ShardTokens { tokens: List<u32, (ShardId, GivenToken), SHARDS> },
        18 Stop(stop: StopMsg),
    }
}

messages! {
    Msg {
        SHARDING "Sharding" Kind(message: ShardingMessage),
        ENTITY "Entity" Entity(envelope: EntityEnvelope),
        ASK_REPLY "AskReply" AskReply(reply: AskReply),
        REGISTRY "Registry" Registry(message: RegistryMsg),
        HAND_BACK "HandBack" HandBack(envelope: EntityEnvelope),
        SURVEY "Survey" Survey(message: SurveyMsg),
        MARK "Mark" Mark(mark: ShardMark),
        MARK_ACK "MarkAck" MarkAck(mark: ShardMark),
        WATCH "Watch" Watch(message: WatchMsg),
        START "Start" Start(starts: EntityStarts),
        STARTED "Started" Started(starts: EntityStarts),
    }
}
