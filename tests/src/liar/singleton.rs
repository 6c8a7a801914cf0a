//! What managers, proxies and voters of singletons say. Spec: sharding 2.2, 10.7, `docs/WIRE.md` 4.9.

use quorate_core::message::{Message, SingletonMsg};
use quorate_core::singleton::protocol::{InstanceMessage, SingletonBody, SingletonStatement};

use super::numbers::{EPOCH, SINGLETON_TERM};
use super::{Lie, entities};

/// See [`super::Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of the messages")]
pub enum Kind {
    HandOverToMe,
    HandOverInProgress,
    HandOverDone,
    TakeOverFromMe,
    Identify,
    Identified,
    Gone,
    Claim,
    Promised,
    Refused,
    Delivery,
    Reply,
}

impl Kind {
    pub(super) const ALL: [Self; 12] = [
        Self::HandOverToMe,
        Self::HandOverInProgress,
        Self::HandOverDone,
        Self::TakeOverFromMe,
        Self::Identify,
        Self::Identified,
        Self::Gone,
        Self::Claim,
        Self::Promised,
        Self::Refused,
        Self::Delivery,
        Self::Reply,
    ];

    pub(super) const fn of(msg: &SingletonMsg) -> Self {
        match msg {
            SingletonMsg::Statement(statement) => match statement.body {
                SingletonBody::HandOverToMe => Self::HandOverToMe,
                SingletonBody::HandOverInProgress => Self::HandOverInProgress,
                SingletonBody::HandOverDone { .. } => Self::HandOverDone,
                SingletonBody::TakeOverFromMe => Self::TakeOverFromMe,
                SingletonBody::Identify => Self::Identify,
                SingletonBody::Identified { .. } => Self::Identified,
                SingletonBody::Gone { .. } => Self::Gone,
                SingletonBody::Claim { .. } => Self::Claim,
                SingletonBody::Promised { .. } => Self::Promised,
                SingletonBody::Refused { .. } => Self::Refused,
            },
            SingletonMsg::Delivery(_) => Self::Delivery,
            SingletonMsg::Reply(_) => Self::Reply,
        }
    }
}

pub(super) fn say(kind: Kind, lie: &mut Lie<'_>) -> Message {
    let body = match kind {
        Kind::HandOverToMe => SingletonBody::HandOverToMe,
        Kind::HandOverInProgress => SingletonBody::HandOverInProgress,
        Kind::HandOverDone => SingletonBody::HandOverDone {
            term: lie.number(SINGLETON_TERM),
        },
        Kind::TakeOverFromMe => SingletonBody::TakeOverFromMe,
        Kind::Identify => SingletonBody::Identify,
        Kind::Identified => SingletonBody::Identified { token: lie.token() },
        Kind::Gone => SingletonBody::Gone { token: lie.token() },
        Kind::Claim => SingletonBody::Claim {
            term: lie.number(SINGLETON_TERM),
        },
        Kind::Promised => SingletonBody::Promised {
            term: lie.number(SINGLETON_TERM),
        },
        Kind::Refused => SingletonBody::Refused {
            held: lie.number(SINGLETON_TERM),
        },
        Kind::Delivery => return SingletonMsg::Delivery(delivery(lie)).into(),
        Kind::Reply => return SingletonMsg::Reply(entities::reply(lie)).into(),
    };
    let statement = SingletonStatement {
        singleton: lie.singleton(),
        to: lie.to.clone(),
        epoch: lie.number(EPOCH),
        body,
    };
    SingletonMsg::Statement(statement).into()
}

fn delivery(lie: &mut Lie<'_>) -> InstanceMessage {
    InstanceMessage {
        singleton: lie.singleton(),
        token: lie.token(),
        ask: lie.flag().then(|| entities::ticket(lie)),
        payload: lie.bytes().into(),
    }
}
