//! What voters and owners of quorum logs say. Of the logs that others open it names no entries and no
//! snapshots: who writes a log decides what it holds, and a voter is believed of what it has accepted
//! (`SECURITY.md`, 0x0121 and 0x0122), so that these stand in logs of its own. Spec: sharding 10.7, 10.16,
//! `docs/WIRE.md` 4.10.

use std::sync::Arc;

use quorate_core::journal::protocol::{
    Msg, NUMBER_MAX, ReplicaAnswer, ReplicaAsk, ReplicaPage, ReplicaReply, ReplicaRequest, VoterBody,
    VoterMsg,
};
use quorate_core::journal::state::{LogEntry, LogItem, LogPlace, SnapshotHead, StoreId, Voters};
use quorate_core::message::Message;
use quorate_core::token::Token;

use super::Lie;
use super::numbers::{DIGEST, LOG_PART, LOG_TERM, OPENER, POSITION, REQUEST};

/// See [`super::Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of the messages")]
pub enum Kind {
    Introduction,
    Elect,
    Promise,
    Read,
    Accept,
    Keep,
    Page,
    Accepted,
    Kept,
    Refused,
}

impl Kind {
    pub(super) const ALL: [Self; 10] = [
        Self::Introduction,
        Self::Elect,
        Self::Promise,
        Self::Read,
        Self::Accept,
        Self::Keep,
        Self::Page,
        Self::Accepted,
        Self::Kept,
        Self::Refused,
    ];

    pub(super) const fn of(msg: &Msg) -> Self {
        match msg {
            Msg::Voter(msg) => match &msg.body {
                VoterBody::Introduction { .. } => Self::Introduction,
                VoterBody::Elect { .. } => Self::Elect,
            },
            Msg::Request(request) => match &request.ask {
                ReplicaAsk::Promise => Self::Promise,
                ReplicaAsk::Read { .. } => Self::Read,
                ReplicaAsk::Accept { .. } => Self::Accept,
                ReplicaAsk::Keep { .. } => Self::Keep,
            },
            Msg::Reply(reply) => match &reply.said {
                ReplicaAnswer::Page(_) => Self::Page,
                ReplicaAnswer::Accepted => Self::Accepted,
                ReplicaAnswer::Kept => Self::Kept,
                ReplicaAnswer::Refused { .. } => Self::Refused,
            },
        }
    }
}

pub(super) fn say(kind: Kind, lie: &mut Lie<'_>) -> Message {
    match kind {
        Kind::Introduction => {
            let store = lie.flag().then(|| store(lie));
            let voters = lie.flag().then(|| Voters {
                stores: stores(lie),
                is_settled: lie.flag(),
            });
            let asks = lie.flag();
            voter(VoterBody::Introduction { asks, store, voters }, lie)
        }
        Kind::Elect => {
            let stores = stores(lie);
            voter(VoterBody::Elect { stores }, lie)
        }
        Kind::Promise => request(lie, log, |_, _| ReplicaAsk::Promise),
        Kind::Read => request(lie, log, |lie, _| ReplicaAsk::Read { from: place(lie) }),
        Kind::Accept => request(lie, own_log, |lie, token| ReplicaAsk::Accept {
            entries: vec![entry(lie, token)],
        }),
        Kind::Keep => request(lie, own_log, |lie, token| {
            let snapshot = snapshot(lie, token);
            ReplicaAsk::Keep {
                snapshot,
                index: lie.number_u32(LOG_PART),
                bytes: lie.bytes().into(),
            }
        }),
        Kind::Page if lie.flag() => {
            let page = page(lie);
            reply(lie, own_log, ReplicaAnswer::Page(page))
        }
        Kind::Page => {
            let page = empty_page(lie);
            reply(lie, log, ReplicaAnswer::Page(page))
        }
        Kind::Accepted => reply(lie, log, ReplicaAnswer::Accepted),
        Kind::Kept => reply(lie, log, ReplicaAnswer::Kept),
        Kind::Refused => {
            let held = token(lie);
            reply(lie, log, ReplicaAnswer::Refused { held })
        }
    }
}

fn voter(body: VoterBody, lie: &Lie<'_>) -> Message {
    let to = lie.to.clone();
    Msg::Voter(VoterMsg { to, body }).into()
}

fn store(lie: &mut Lie<'_>) -> StoreId {
    match lie.one(&lie.known.stores) {
        Some(store) if lie.chance.per_mille(700) => store,
        _ => StoreId(u128::from(lie.number(DIGEST)) << 64 | u128::from(lie.number(DIGEST))),
    }
}

fn stores(lie: &mut Lie<'_>) -> Arc<[StoreId]> {
    let mut stores = lie.few(store);
    stores.push(store(lie));
    stores.sort_unstable();
    stores.dedup();
    Arc::from(stores)
}

fn log(lie: &mut Lie<'_>) -> Arc<str> {
    match lie.one(&lie.known.logs) {
        Some(log) if lie.chance.per_mille(700) => log,
        _ => own_log(lie),
    }
}

/// A log that nobody else opens.
fn own_log(lie: &mut Lie<'_>) -> Arc<str> {
    Arc::from(format!("lie-{}", lie.chance.below(16)))
}

fn token(lie: &mut Lie<'_>) -> Token {
    Token::new(lie.number(LOG_TERM), lie.number(LOG_TERM))
}

fn request(
    lie: &mut Lie<'_>,
    log: impl FnOnce(&mut Lie<'_>) -> Arc<str>,
    ask: impl FnOnce(&mut Lie<'_>, Token) -> ReplicaAsk,
) -> Message {
    let token = token(lie);
    let ask = ask(lie, token);
    Msg::Request(ReplicaRequest {
        log: log(lie),
        store: store(lie),
        opener: lie.number(OPENER),
        id: lie.number(REQUEST),
        token,
        ask,
    })
    .into()
}

fn reply(lie: &mut Lie<'_>, log: impl FnOnce(&mut Lie<'_>) -> Arc<str>, said: ReplicaAnswer) -> Message {
    Msg::Reply(ReplicaReply {
        log: log(lie),
        store: store(lie),
        opener: lie.number(OPENER),
        id: lie.number(REQUEST),
        said,
    })
    .into()
}

fn place(lie: &mut Lie<'_>) -> LogPlace {
    if lie.flag() {
        LogPlace::Part(lie.number_u32(LOG_PART))
    } else {
        LogPlace::Entry(lie.number(POSITION).min(NUMBER_MAX))
    }
}

fn entry(lie: &mut Lie<'_>, token: Token) -> LogEntry {
    let origin = if lie.flag() { token } else { self::token(lie) };
    LogEntry {
        position: lie.number(POSITION),
        origin,
        first: lie.number(POSITION),
        records: vec![lie.bytes().into()],
    }
}

fn snapshot(lie: &mut Lie<'_>, token: Token) -> SnapshotHead {
    SnapshotHead {
        through: lie.number(POSITION),
        covers: lie.number(POSITION),
        token,
        parts: lie.number_u32(LOG_PART),
    }
}

/// Nothing is there, or there is more.
fn empty_page(lie: &mut Lie<'_>) -> ReplicaPage {
    let next = lie.flag().then(|| place(lie));
    ReplicaPage {
        snapshot: None,
        items: Vec::new(),
        next,
    }
}

fn page(lie: &mut Lie<'_>) -> ReplicaPage {
    let snapshot = lie.flag().then(|| {
        let token = token(lie);
        snapshot(lie, token)
    });
    let items = lie.few(|lie| {
        if lie.flag() {
            let index = lie.number_u32(LOG_PART);
            let bytes = vec![0xA5; 8].into();
            return LogItem::Part { index, bytes };
        }
        let token = token(lie);
        let entry = entry(lie, token);
        LogItem::Entry {
            accepted: token,
            entry,
        }
    });
    let next = lie.flag().then(|| place(lie));
    ReplicaPage {
        snapshot,
        items,
        next,
    }
}
