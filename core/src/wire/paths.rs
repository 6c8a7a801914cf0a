//! What nodes say about paths, as bytes. Unstable: these layouts may change with any version until they are
//! declared stable. Spec: sharding 2.5, `docs/WIRE.md` 4.16.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::sync::Arc;

use super::declare::{Form, Maybe, by_hand, choice, codes, messages, number_as, record, text_as};
use super::entity::{put_ticket, read_ticket, take_payload};
use crate::ident::UniqueAddress;
use crate::message::{AskReply, PathMsg as Msg};
use crate::paths::protocol::{
    MoveRef, PathBody, PathMark, PathMessage, PathRefusal, PathRequest, PathStatement, StateChunk,
};
use crate::paths::state::name::{PathId, PathName};
use crate::paths::state::settings::PathSettings;
use crate::paths::state::table::PathEpoch;
use crate::paths::state::written::{put_settings, read_settings};
use crate::planner::MoveError;

number_as! {
    PathId: u64, "u64", PathId::raw, PathId::from_raw;
}

text_as! {
    PathName: PathName, "text", PathName::as_str, |text| PathName::new(text).ok();
}

record! { PathEpoch as "path epoch" { counter: u64, leader: UniqueAddress } }

record! { MoveRef as "move" { path: PathId, slot: u16, id: PathEpoch } }

record! { PathStatement as "path statement" { to: UniqueAddress, body: PathBody } }

choice! {
    PathBody as "path statement body" {
        1 Request { number: u64, request: PathRequest },
        2 Answer { number: u64, refusal: Maybe<PathRefusal> },
        3 Init(change: MoveRef),
        4 Ready(change: MoveRef),
        5 Failed(change: MoveRef),
        6 Begin(change: MoveRef),
        7 Begun(change: MoveRef),
        8 Marked(change: MoveRef),
        9 ForwardMarked { change: MoveRef, sender: UniqueAddress },
        10 GiveUp(change: MoveRef),
        11 StateReceived { change: MoveRef, bytes: u64 },
    }
}

choice! {
    PathRequest as "path request" {
        1 Register { settings: SharedSettings, hosts: bool },
        2 Change(settings: SharedSettings),
        3 Remove(path: PathName),
        4 Move { path: PathName, slot: u16, to: UniqueAddress },
    }
}

choice! {
    PathRefusal as "path refusal" {
        1 Differs,
        2 Overlaps(path: PathName),
        3 SameId(path: PathName),
        4 TooManyPaths,
        5 TooManySlots,
        6 TooManyBytes,
        7 Unknown,
        8 Moving,
        9 Move(error: MoveError),
    }
}

codes! {
    MoveError as "move error" {
        1 UnknownUnit,
        2 UnknownSlot,
        3 OtherHost,
        4 InFlight,
        5 AlreadyThere,
        6 NotEligible,
    }
}

record! { PathMark as "mark" { change: MoveRef, origin: Maybe<UniqueAddress> } }

messages! {
    Msg {
        PATH "Path" Statement(statement: PathStatement),
        PATH_MESSAGE "PathMessage" Delivery(delivery: PathMessage),
        PATH_MARK "PathMark" Mark(mark: PathMark),
        PATH_STATE "PathState" State(chunk: StateChunk),
        PATH_REPLY "PathReply" Reply(reply: AskReply),
    }
}

/// Settings that several places share.
struct SharedSettings;

by_hand! {
    SharedSettings: Arc<PathSettings>, "path settings", 12, |settings, what, out| {
        PathName::put(&settings.name, what, out)?;
        put_settings(settings, out.bytes)
    }, |reader, what| {
        let name = PathName::read(reader, what)?;
        read_settings(&mut reader.rest, &name).map(Arc::new)
    };
    PathMessage: PathMessage, "path message", 21, |message, what, out| {
        PathId::put(&message.path, what, out)?;
        out.extend_from_slice(&message.slot.to_le_bytes());
        out.extend_from_slice(&message.known.to_le_bytes());
        out.push(u8::from(message.is_first));
        <Maybe<UniqueAddress> as Form<_>>::put(&message.origin, what, out)?;
        put_ticket(message.ask.as_ref(), out)?;
        out.extend_from_slice(&message.payload);
        Ok(())
    }, |reader, what| Ok(PathMessage {
        path: PathId::read(reader, what)?,
        slot: reader.u16()?,
        known: reader.u64()?,
        is_first: reader.bool("first")?,
        origin: <Maybe<UniqueAddress> as Form<_>>::read(reader, what)?,
        ask: read_ticket(reader)?,
        payload: take_payload(reader),
    });
    StateChunk: StateChunk, "state chunk", 46, |chunk, what, out| {
        MoveRef::put(&chunk.change, what, out)?;
        out.extend_from_slice(&chunk.total.to_le_bytes());
        out.extend_from_slice(&chunk.offset.to_le_bytes());
        out.extend_from_slice(&chunk.bytes);
        Ok(())
    }, |reader, what| Ok(StateChunk {
        change: MoveRef::read(reader, what)?,
        total: reader.u64()?,
        offset: reader.u64()?,
        bytes: take_payload(reader),
    });
}
