//! What managers, proxies and voters of singletons say, as bytes. Unstable: these layouts may change with any version until they
//! are declared stable. Spec: sharding 2.2, `docs/WIRE.md` 4.9.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::entity::{self, put_ticket, read_ticket, take_payload};
use crate::bytes::{Reader, WireError, put_node};
use crate::message::{SingletonMsg as Msg, Tag};
use crate::singleton::protocol::{Body, Delivery, Statement};
use crate::singleton::state::SingletonId;
use crate::token::Token;

const HAND_OVER_TO_ME: u8 = 1;
const HAND_OVER_IN_PROGRESS: u8 = 2;
const HAND_OVER_DONE: u8 = 3;
const TAKE_OVER_FROM_ME: u8 = 4;
const IDENTIFY: u8 = 5;
const IDENTIFIED: u8 = 6;
const GONE: u8 = 7;
const CLAIM: u8 = 8;
const PROMISED: u8 = 9;
const REFUSED: u8 = 10;

pub(super) fn put(msg: &Msg, out: &mut Vec<u8>) -> Result<(), WireError> {
    match msg {
        Msg::Statement(statement) => put_statement(statement, out),
        Msg::Delivery(delivery) => put_delivery(delivery, out),
        Msg::Reply(reply) => entity::put_reply(reply, out),
    }
}

pub(super) fn read(tag: Tag, reader: &mut Reader<'_>) -> Result<Msg, WireError> {
    Ok(match tag {
        Msg::SINGLETON => Msg::Statement(read_statement(reader)?),
        Msg::SINGLETON_MESSAGE => Msg::Delivery(read_delivery(reader)?),
        Msg::SINGLETON_REPLY => Msg::Reply(entity::read_reply(reader)?),
        Tag { kind, .. } => return Err(WireError::UnknownKind { kind }),
    })
}

fn put_statement(statement: &Statement, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.extend_from_slice(&statement.singleton.raw().to_le_bytes());
    out.extend_from_slice(&statement.epoch.to_le_bytes());
    put_node(out, &statement.to)?;
    match &statement.body {
        Body::HandOverToMe => out.push(HAND_OVER_TO_ME),
        Body::HandOverInProgress => out.push(HAND_OVER_IN_PROGRESS),
        Body::HandOverDone { term } => put_number(HAND_OVER_DONE, *term, out),
        Body::TakeOverFromMe => out.push(TAKE_OVER_FROM_ME),
        Body::Identify => out.push(IDENTIFY),
        Body::Identified { token } => {
            out.push(IDENTIFIED);
            put_token(*token, out);
        }
        Body::Gone { token } => {
            out.push(GONE);
            put_token(*token, out);
        }
        Body::Claim { term } => put_number(CLAIM, *term, out),
        Body::Promised { term } => put_number(PROMISED, *term, out),
        Body::Refused { held } => put_number(REFUSED, *held, out),
    }
    Ok(())
}

fn read_statement(reader: &mut Reader<'_>) -> Result<Statement, WireError> {
    let singleton = SingletonId::from_raw(reader.u64()?);
    let epoch = reader.u64()?;
    let to = reader.node()?;
    let body = match reader.u8()? {
        HAND_OVER_TO_ME => Body::HandOverToMe,
        HAND_OVER_IN_PROGRESS => Body::HandOverInProgress,
        HAND_OVER_DONE => Body::HandOverDone { term: reader.u64()? },
        TAKE_OVER_FROM_ME => Body::TakeOverFromMe,
        IDENTIFY => Body::Identify,
        IDENTIFIED => Body::Identified {
            token: read_token(reader)?,
        },
        GONE => Body::Gone {
            token: read_token(reader)?,
        },
        CLAIM => Body::Claim { term: reader.u64()? },
        PROMISED => Body::Promised { term: reader.u64()? },
        REFUSED => Body::Refused { held: reader.u64()? },
        _ => {
            return Err(WireError::Malformed {
                what: "singleton statement",
            });
        }
    };
    Ok(Statement {
        singleton,
        to,
        epoch,
        body,
    })
}

fn put_delivery(delivery: &Delivery, out: &mut Vec<u8>) -> Result<(), WireError> {
    // Fixed fields of an ask with the longest host take under 320 bytes: one growth at most.
    out.reserve(delivery.payload.len().saturating_add(320));
    out.extend_from_slice(&delivery.singleton.raw().to_le_bytes());
    put_token(delivery.token, out);
    put_ticket(delivery.ask.as_ref(), out)?;
    out.extend_from_slice(&delivery.payload);
    Ok(())
}

fn read_delivery(reader: &mut Reader<'_>) -> Result<Delivery, WireError> {
    Ok(Delivery {
        singleton: SingletonId::from_raw(reader.u64()?),
        token: read_token(reader)?,
        ask: read_ticket(reader)?,
        payload: take_payload(reader),
    })
}

fn put_number(what: u8, number: u64, out: &mut Vec<u8>) {
    out.push(what);
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_token(token: Token, out: &mut Vec<u8>) {
    out.extend_from_slice(&token.term.to_le_bytes());
    out.extend_from_slice(&token.count.to_le_bytes());
}

fn read_token(reader: &mut Reader<'_>) -> Result<Token, WireError> {
    let (term, count) = (reader.u64()?, reader.u64()?);
    Ok(Token::new(term, count))
}
