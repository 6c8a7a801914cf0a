//! What voters and owners of quorum logs say, as bytes. Unstable: these layouts may change with any version until they are declared
//! stable. Spec: sharding 10.7, `docs/WIRE.md` 4.10.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::declare::{Form, List, Maybe, by_hand, choice, number_as, record};
use crate::bytes::{Reader, WireError, count_u16, text};
use crate::config::Limits;
use crate::ident::UniqueAddress;
use crate::journal::protocol::{
    Ask, ENTRIES_MAX, LOG_NAME_BYTES_MAX, NUMBER_MAX, Page, Reply, Request, Said, VOTERS_MAX, VoterBody,
    VoterMsg,
};
use crate::journal::state::{Entry, Item, Place, SnapshotHead, StoreId, Voters};
use crate::message::{JournalMsg as Msg, Tag};
use crate::store::{Bytes, LogName};
use crate::token::Token;

/// Who votes, if anybody does.
struct Elected;
/// The stores of those who vote.
struct Stores;
/// A position or the number of a record: far below where adding one overflows.
struct Number;
/// Where to go on, if anywhere.
struct Next;

const NOTHING: u8 = 0;
const AGREED: u8 = 1;
const SETTLED: u8 = 2;

number_as! {
    StoreId: u128, "u128", |store: StoreId| store.0, StoreId;
}

by_hand! {
    Stores: Arc<[StoreId]>, "stores", 1, put_stores, read_stores;
    Elected: Option<Voters>, "voters", 1, |voters, what, limits, out| match voters {
        None => u8::put(&NOTHING, what, limits, out),
        Some(voters) => {
            out.push(if voters.is_settled { SETTLED } else { AGREED });
            Stores::put(&voters.stores, what, limits, out)
        }
    }, |reader, what| match reader.u8()? {
        NOTHING => Ok(None),
        state @ (AGREED | SETTLED) => Ok(Some(Voters {
            stores: Stores::read(reader, what)?,
            is_settled: state == SETTLED,
        })),
        _ => Err(WireError::Malformed { what }),
    };
    Number: u64, "u64", 8, |number, what, limits, out| u64::put(number, what, limits, out), |reader, what| {
        match reader.u64()? {
            number if number > NUMBER_MAX => Err(WireError::LimitExceeded { what }),
            number => Ok(number),
        }
    };
    Next: Option<Place>, "place", 1, |next, what, limits, out| match next {
        None => u8::put(&NOTHING, what, limits, out),
        Some(place) => Place::put(place, what, limits, out),
    }, |reader, what| {
        if reader.rest().first() == Some(&NOTHING) {
            return reader.u8().map(|_| None);
        }
        Place::read(reader, what).map(Some)
    };
    LogName: LogName, "log", 3, |log, what, _, out| {
        out.extend_from_slice(&count_u16(log.len(), what)?.to_le_bytes());
        out.extend_from_slice(log.as_bytes());
        Ok(())
    }, |reader, what| match usize::from(reader.u16()?) {
        len @ 1..=LOG_NAME_BYTES_MAX => text(reader.take(len)?, what).map(LogName::from),
        _ => Err(WireError::LimitExceeded { what }),
    };
    Bytes: Bytes, "bytes", 4, |bytes, what, _, out| {
        let len = u32::try_from(bytes.len()).map_err(|_| WireError::LimitExceeded { what })?;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(bytes);
        Ok(())
    }, |reader, _| {
        let len = reader.u32()? as usize;
        reader.take(len).map(Bytes::from)
    };
}

record! { VoterMsg as "voter" { to: UniqueAddress, body: VoterBody } }

choice! {
    VoterBody as "voter" {
        1 Introduction { asks: bool, store: Maybe<StoreId>, voters: Elected },
        2 Elect { stores: Stores },
    }
}

record! {
    Request as "request" { log: LogName, store: StoreId, opener: u64, id: u64, token: Token, ask: Ask }
}

choice! {
    Ask as "log request" {
        1 Promise,
        2 Read { from: Place },
        3 Accept { entries: List<u16, Entry, ENTRIES_MAX> },
        4 Keep { snapshot: SnapshotHead, index: u32, bytes: Bytes },
    }
}

record! { Reply as "reply" { log: LogName, store: StoreId, opener: u64, id: u64, said: Said } }

choice! {
    Said as "log reply" {
        1 Page(page: Page),
        2 Accepted,
        3 Kept,
        4 Refused { held: Token },
    }
}

record! {
    Page as "page" { snapshot: Maybe<SnapshotHead>, next: Next, items: List<u16, Item, ENTRIES_MAX> }
}

choice! {
    Item as "item" {
        1 Part { index: u32, bytes: Bytes },
        2 Entry { accepted: Token, entry: Entry },
    }
}

record! {
    Entry as "entry" { position: Number, origin: Token, first: Number, records: List<u16, Bytes, ENTRIES_MAX> }
}

record! { SnapshotHead as "snapshot" { through: Number, covers: Number, token: Token, parts: u32 } }

choice! {
    Place as "place" {
        1 Part(part: u32),
        2 Entry(position: u64),
    }
}

pub(super) fn put(msg: &Msg, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
    match msg {
        Msg::Voter(voter) => VoterMsg::put(voter, "", limits, out),
        Msg::Request(request) => {
            reserve(request.payload_bytes(), request.log.len(), out);
            Request::put(request, "", limits, out)
        }
        Msg::Reply(reply) => {
            reserve(reply.payload_bytes(), reply.log.len(), out);
            Reply::put(reply, "", limits, out)
        }
    }
}

pub(super) fn read(tag: Tag, reader: &mut Reader<'_>) -> Result<Msg, WireError> {
    Ok(match tag {
        Msg::VOTER => Msg::Voter(VoterMsg::read(reader, "")?),
        Msg::REQUEST => Msg::Request(Request::read(reader, "")?),
        Msg::REPLY => Msg::Reply(Reply::read(reader, "")?),
        Tag { kind, .. } => return Err(WireError::UnknownKind { kind }),
    })
}

/// What stands around the entries takes less than a name and this.
fn reserve(payload: usize, name: usize, out: &mut Vec<u8>) {
    out.reserve(payload.saturating_add(name).saturating_add(128));
}

fn put_stores(
    stores: &Arc<[StoreId]>,
    what: &'static str,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let count = u8::try_from(stores.len()).map_err(|_| WireError::LimitExceeded { what })?;
    out.push(count);
    stores
        .iter()
        .try_for_each(|store| StoreId::put(store, what, limits, out))
}

fn read_stores(reader: &mut Reader<'_>, what: &'static str) -> Result<Arc<[StoreId]>, WireError> {
    let count = usize::from(reader.u8()?);
    if count > VOTERS_MAX {
        return Err(WireError::LimitExceeded { what });
    }
    let column = reader.column::<16>(count)?;
    let stores: Vec<StoreId> = column.iter().map(|id| StoreId(u128::from_le_bytes(id))).collect();
    if !Voters::are_possible(&stores) {
        return Err(WireError::Malformed { what });
    }
    Ok(Arc::from(stores))
}
