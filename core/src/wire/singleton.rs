//! What managers, proxies and voters of singletons say, as bytes. Unstable: these layouts may change with any version until they
//! are declared stable. Spec: sharding 2.2, `docs/WIRE.md` 4.9.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::declare::{Form, choice, number_as, record};
use super::entity::{self, put_ticket, read_ticket, take_payload};
use crate::bytes::{Reader, WireError};
use crate::config::Limits;
use crate::ident::UniqueAddress;
use crate::message::{SingletonMsg as Msg, Tag};
use crate::singleton::protocol::{Body, Delivery, Statement};
use crate::singleton::state::SingletonId;
use crate::token::Token;

number_as! {
    SingletonId: u64, "u64", SingletonId::raw, SingletonId::from_raw;
}

record! { Statement as "singleton" { singleton: SingletonId, epoch: u64, to: UniqueAddress, body: Body } }

choice! {
    Body as "singleton statement" {
        1 HandOverToMe,
        2 HandOverInProgress,
        3 HandOverDone { term: u64 },
        4 TakeOverFromMe,
        5 Identify,
        6 Identified { token: Token },
        7 Gone { token: Token },
        8 Claim { term: u64 },
        9 Promised { term: u64 },
        10 Refused { held: u64 },
    }
}

pub(super) fn put(msg: &Msg, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
    match msg {
        Msg::Statement(statement) => Statement::put(statement, "", limits, out),
        Msg::Delivery(delivery) => put_delivery(delivery, limits, out),
        Msg::Reply(reply) => entity::put_reply(reply, out),
    }
}

pub(super) fn read(tag: Tag, reader: &mut Reader<'_>) -> Result<Msg, WireError> {
    Ok(match tag {
        Msg::SINGLETON => Msg::Statement(Statement::read(reader, "")?),
        Msg::SINGLETON_MESSAGE => Msg::Delivery(read_delivery(reader)?),
        Msg::SINGLETON_REPLY => Msg::Reply(entity::read_reply(reader)?),
        Tag { kind, .. } => return Err(WireError::UnknownKind { kind }),
    })
}

fn put_delivery(delivery: &Delivery, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
    // Fixed fields of an ask with the longest host take under 320 bytes: one growth at most.
    out.reserve(delivery.payload.len().saturating_add(320));
    out.extend_from_slice(&delivery.singleton.raw().to_le_bytes());
    Token::put(&delivery.token, "token", limits, out)?;
    put_ticket(delivery.ask.as_ref(), out)?;
    out.extend_from_slice(&delivery.payload);
    Ok(())
}

fn read_delivery(reader: &mut Reader<'_>) -> Result<Delivery, WireError> {
    Ok(Delivery {
        singleton: SingletonId::from_raw(reader.u64()?),
        token: Token::read(reader, "token")?,
        ask: read_ticket(reader)?,
        payload: take_payload(reader),
    })
}
