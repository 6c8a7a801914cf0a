//! Messages to entities, their answers and marks, watches, and entities that are remembered elsewhere. Spec:
//! sharding 10.2, 10.14, 1.17, `docs/WIRE.md` 4.3, 4.4, 4.12, 4.13.

use quorate_core::message::{AskReply, AskTicket, EntityEnvelope, Message, ShardMark, ShardingMsg};
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{AskRef, ShardId};
use quorate_core::sharding::protocol::EntityStarts;
use quorate_core::sharding::protocol::watch::{EntityEnd, WatchMsg, WatchStatement};

use super::Lie;
use super::numbers::{ASK, FIRST_STATEMENT, HOPS, MARK, REMAINING, STATEMENT, WATCH};

/// See [`super::Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of the messages")]
pub enum Kind {
    Entity,
    AskReply,
    HandBack,
    Mark,
    MarkAck,
    Say,
    Heard,
    Start,
    Started,
}

impl Kind {
    pub(super) const ALL: [Self; 9] = [
        Self::Entity,
        Self::AskReply,
        Self::HandBack,
        Self::Mark,
        Self::MarkAck,
        Self::Say,
        Self::Heard,
        Self::Start,
        Self::Started,
    ];

    pub(super) const fn of_watch(msg: &WatchMsg) -> Self {
        match msg {
            WatchMsg::Say { .. } => Self::Say,
            WatchMsg::Heard { .. } => Self::Heard,
        }
    }
}

pub(super) fn say(kind: Kind, lie: &mut Lie<'_>) -> Message {
    let msg = match kind {
        Kind::Entity => ShardingMsg::Entity(envelope(lie)),
        Kind::AskReply => ShardingMsg::AskReply(reply(lie)),
        Kind::HandBack => ShardingMsg::HandBack(envelope(lie)),
        Kind::Mark => ShardingMsg::Mark(mark(lie)),
        Kind::MarkAck => ShardingMsg::MarkAck(mark(lie)),
        Kind::Say => {
            let mut statements = lie.few(statement);
            statements.push(statement(lie));
            ShardingMsg::Watch(WatchMsg::Say {
                first: lie.number(FIRST_STATEMENT),
                statements,
            })
        }
        Kind::Heard => ShardingMsg::Watch(WatchMsg::Heard {
            up_to: lie.number(STATEMENT),
        }),
        Kind::Start => ShardingMsg::Start(starts(lie)),
        Kind::Started => ShardingMsg::Started(starts(lie)),
    };
    msg.into()
}

/// The shard of an entity, or another one.
fn envelope(lie: &mut Lie<'_>) -> EntityEnvelope {
    let (kind, entity) = (lie.kind(), lie.entity());
    let shard = match lie.fields() {
        Some(fields) if lie.chance.per_mille(700) => ShardId::of(&entity, fields.shards),
        _ => lie.shard(),
    };
    let ask = lie.flag().then(|| ticket(lie));
    EntityEnvelope {
        kind,
        shard,
        entity,
        payload: lie.bytes().into(),
        ask,
        hops: u8::try_from(lie.number(HOPS)).unwrap_or(u8::MAX),
    }
}

pub(super) fn ticket(lie: &mut Lie<'_>) -> AskTicket {
    AskTicket {
        ask: AskRef {
            asker: lie.node(),
            id: lie.number(ASK),
        },
        remaining_ms: lie.number_u32(REMAINING),
        chain: lie.chain(),
    }
}

pub(super) fn reply(lie: &mut Lie<'_>) -> AskReply {
    let failures = [
        AskFailure::TimeoutBuffered,
        AskFailure::PeerLost,
        AskFailure::MailboxFull,
        AskFailure::HandedOff,
        AskFailure::EntityStopped,
        AskFailure::KindRefused,
    ];
    let failure = lie.one(&failures).unwrap_or(AskFailure::UnknownKind);
    AskReply {
        id: lie.number(ASK),
        to: lie.to.clone(),
        result: if lie.flag() {
            Ok(lie.bytes().into())
        } else {
            Err(failure)
        },
    }
}

fn mark(lie: &mut Lie<'_>) -> ShardMark {
    ShardMark {
        kind: lie.kind(),
        shard: lie.shard(),
        number: lie.number(MARK),
    }
}

fn statement(lie: &mut Lie<'_>) -> WatchStatement {
    let id = lie.number(WATCH);
    match lie.chance.below(6) {
        0 => WatchStatement::Watch {
            id,
            kind: lie.kind(),
            entity: lie.entity(),
            known: lie.flag(),
        },
        1 => WatchStatement::Unwatch { id },
        2 => WatchStatement::Watching { id },
        3 => WatchStatement::Moved { id },
        4 => {
            let ends = [EntityEnd::Stopped, EntityEnd::Failed, EntityEnd::NotRunning];
            let why = lie.one(&ends).unwrap_or(EntityEnd::Stopped);
            WatchStatement::Ended { id, why }
        }
        _ => WatchStatement::Full { id },
    }
}

fn starts(lie: &mut Lie<'_>) -> EntityStarts {
    let mut entities = lie.few(Lie::entity);
    entities.push(lie.entity());
    EntityStarts {
        kind: lie.kind(),
        from: lie.shard(),
        shard: lie.shard(),
        entities,
    }
}
