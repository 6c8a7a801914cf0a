//! What regions and coordinators of a kind say to each other. Spec: sharding 2.1, `docs/WIRE.md` 4.2.

use quorate_core::message::{Message, ShardingBody, ShardingMessage, ShardingMsg};
use quorate_core::sharding::fields::KindFields;
use quorate_core::sharding::protocol::ListPart;
use quorate_core::sharding::protocol::stop::{StopMsg, StopRefusal};
use quorate_core::token::Token;

use super::Lie;
use super::numbers::{HAND_OFF, LIST, PART, PARTS, SHARDS};

/// See [`super::Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of the messages")]
pub enum Kind {
    Register,
    ShardTokens,
    RegisterAck,
    RegisterRefused,
    RegionQuery,
    NoRegion,
    GetShardHome,
    ShardHomes,
    HostShard,
    ShardStarted,
    BeginHandOff,
    BeginHandOffAck,
    HandOff,
    ShardStopped,
    GracefulShutdownReq,
    RegionStopped,
    NobodyHosts,
    Stop,
}

impl Kind {
    pub(super) const ALL: [Self; 18] = [
        Self::Register,
        Self::ShardTokens,
        Self::RegisterAck,
        Self::RegisterRefused,
        Self::RegionQuery,
        Self::NoRegion,
        Self::GetShardHome,
        Self::ShardHomes,
        Self::HostShard,
        Self::ShardStarted,
        Self::BeginHandOff,
        Self::BeginHandOffAck,
        Self::HandOff,
        Self::ShardStopped,
        Self::GracefulShutdownReq,
        Self::RegionStopped,
        Self::NobodyHosts,
        Self::Stop,
    ];

    pub(super) const fn of(body: &ShardingBody) -> Self {
        match body {
            ShardingBody::Register { .. } => Self::Register,
            ShardingBody::ShardTokens { .. } => Self::ShardTokens,
            ShardingBody::RegisterAck { .. } => Self::RegisterAck,
            ShardingBody::RegisterRefused { .. } => Self::RegisterRefused,
            ShardingBody::RegionQuery { .. } => Self::RegionQuery,
            ShardingBody::NoRegion { .. } => Self::NoRegion,
            ShardingBody::GetShardHome { .. } => Self::GetShardHome,
            ShardingBody::ShardHomes { .. } => Self::ShardHomes,
            ShardingBody::HostShard { .. } => Self::HostShard,
            ShardingBody::ShardStarted { .. } => Self::ShardStarted,
            ShardingBody::BeginHandOff { .. } => Self::BeginHandOff,
            ShardingBody::BeginHandOffAck { .. } => Self::BeginHandOffAck,
            ShardingBody::HandOff { .. } => Self::HandOff,
            ShardingBody::ShardStopped { .. } => Self::ShardStopped,
            ShardingBody::GracefulShutdownReq => Self::GracefulShutdownReq,
            ShardingBody::RegionStopped => Self::RegionStopped,
            ShardingBody::NobodyHosts => Self::NobodyHosts,
            ShardingBody::Stop(_) => Self::Stop,
        }
    }
}

/// A kind as it is, or with another number of shards.
pub(super) fn fields(lie: &mut Lie<'_>) -> KindFields {
    let mut fields = lie.fields().unwrap_or_else(|| KindFields {
        name: "lies".into(),
        role: None,
        shards: 1,
        extractor: "quorate".into(),
        keeping: None,
    });
    if lie.chance.per_mille(300) {
        fields.shards = lie.number_u32(SHARDS);
    }
    fields
}

fn part(lie: &mut Lie<'_>) -> ListPart {
    if lie.flag() {
        return ListPart::WHOLE;
    }
    let count = lie.number_u16(PARTS);
    ListPart {
        list: lie.number(LIST),
        index: lie.number_u16(PART).min(count - 1),
        count,
    }
}

fn token(lie: &mut Lie<'_>) -> Token {
    if lie.chance.per_mille(200) {
        return Token::NONE;
    }
    lie.token()
}

fn stop(lie: &mut Lie<'_>) -> StopMsg {
    let mut shards = lie.shards();
    if shards.is_empty() {
        shards.push(lie.shard());
    }
    match lie.chance.below(4) {
        0 => StopMsg::Stop { shards },
        1 => StopMsg::Stopped { shards },
        2 => StopMsg::Refused {
            why: StopRefusal::Remembers,
        },
        _ => StopMsg::Refused {
            why: StopRefusal::ShuttingDown,
        },
    }
}

pub(super) fn say(kind: Kind, lie: &mut Lie<'_>) -> Message {
    let body = match kind {
        Kind::Register => ShardingBody::Register {
            fields: fields(lie),
            hosted: lie.shards(),
            draining: lie.flag(),
            part: part(lie),
        },
        Kind::ShardTokens => ShardingBody::ShardTokens {
            tokens: lie.few(|lie| (lie.shard(), lie.token().max(Token::new(0, 1)))),
        },
        Kind::RegisterAck => ShardingBody::RegisterAck { term: lie.term() },
        Kind::RegisterRefused => ShardingBody::RegisterRefused {
            term: lie.term(),
            fields: fields(lie),
        },
        Kind::RegionQuery => ShardingBody::RegionQuery { term: lie.term() },
        Kind::NoRegion => ShardingBody::NoRegion { term: lie.term() },
        Kind::GetShardHome => ShardingBody::GetShardHome { shard: lie.shard() },
        Kind::ShardHomes => ShardingBody::ShardHomes {
            term: lie.term(),
            homes: vec![(lie.node(), lie.shards())],
        },
        Kind::HostShard => ShardingBody::HostShard {
            term: lie.term(),
            shard: lie.shard(),
            token: token(lie),
        },
        Kind::ShardStarted => ShardingBody::ShardStarted {
            term: lie.term(),
            shard: lie.shard(),
        },
        Kind::BeginHandOff => ShardingBody::BeginHandOff {
            term: lie.term(),
            shard: lie.shard(),
            number: lie.number(HAND_OFF),
        },
        Kind::BeginHandOffAck => ShardingBody::BeginHandOffAck {
            term: lie.term(),
            shard: lie.shard(),
            number: lie.number(HAND_OFF),
        },
        Kind::HandOff => ShardingBody::HandOff {
            term: lie.term(),
            shard: lie.shard(),
            by_force: lie.flag(),
        },
        Kind::ShardStopped => ShardingBody::ShardStopped {
            term: lie.term(),
            shard: lie.shard(),
        },
        Kind::GracefulShutdownReq => ShardingBody::GracefulShutdownReq,
        Kind::RegionStopped => ShardingBody::RegionStopped,
        Kind::NobodyHosts => ShardingBody::NobodyHosts,
        Kind::Stop => ShardingBody::Stop(stop(lie)),
    };
    let kind = lie.kind();
    ShardingMsg::Kind(ShardingMessage { kind, body }).into()
}
