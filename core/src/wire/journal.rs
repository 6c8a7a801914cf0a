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

use crate::bytes::{Reader, WireError, count_u16, put_node, text};
use crate::journal::protocol::{
    Ask, ENTRIES_MAX, LOG_NAME_BYTES_MAX, NUMBER_MAX, Page, Reply, Request, Said, VOTERS_MAX, VoterBody,
    VoterMsg,
};
use crate::journal::state::{Entry, Item, Place, SnapshotHead, StoreId, Voters};
use crate::message::{JournalMsg as Msg, Tag};
use crate::store::{Bytes, LogName};
use crate::token::Token;

const INTRODUCTION: u8 = 1;
const ELECT: u8 = 2;

const PROMISE: u8 = 1;
const READ: u8 = 2;
const ACCEPT: u8 = 3;
const KEEP: u8 = 4;

const PAGE: u8 = 1;
const ACCEPTED: u8 = 2;
const KEPT: u8 = 3;
const REFUSED: u8 = 4;

const NOTHING: u8 = 0;
const PART: u8 = 1;
const ENTRY: u8 = 2;

const AGREED: u8 = 1;
const SETTLED: u8 = 2;

/// The bytes of an entry without records: two numbers, a token and a count.
const ENTRY_BYTES_MIN: usize = 34;

const fn malformed<T>(what: &'static str) -> Result<T, WireError> {
    Err(WireError::Malformed { what })
}

pub(super) fn put(msg: &Msg, out: &mut Vec<u8>) -> Result<(), WireError> {
    match msg {
        Msg::Voter(voter) => put_voter(voter, out),
        Msg::Request(request) => put_request(request, out),
        Msg::Reply(reply) => put_reply(reply, out),
    }
}

pub(super) fn read(tag: Tag, reader: &mut Reader<'_>) -> Result<Msg, WireError> {
    Ok(match tag {
        Msg::VOTER => Msg::Voter(read_voter(reader)?),
        Msg::REQUEST => Msg::Request(read_request(reader)?),
        Msg::REPLY => Msg::Reply(read_reply(reader)?),
        Tag { kind, .. } => return Err(WireError::UnknownKind { kind }),
    })
}

fn put_voter(msg: &VoterMsg, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_node(out, &msg.to)?;
    match &msg.body {
        VoterBody::Introduction { asks, store, voters } => {
            out.push(INTRODUCTION);
            out.push(u8::from(*asks));
            out.push(u8::from(store.is_some()));
            if let Some(store) = store {
                put_store(*store, out);
            }
            match voters {
                None => out.push(NOTHING),
                Some(voters) => {
                    out.push(if voters.is_settled { SETTLED } else { AGREED });
                    put_stores(&voters.stores, out)?;
                }
            }
        }
        VoterBody::Elect { stores } => {
            out.push(ELECT);
            put_stores(stores, out)?;
        }
    }
    Ok(())
}

fn read_voter(reader: &mut Reader<'_>) -> Result<VoterMsg, WireError> {
    let to = reader.node()?;
    let body = match reader.u8()? {
        INTRODUCTION => VoterBody::Introduction {
            asks: reader.bool("introduction")?,
            store: match reader.bool("store")? {
                true => Some(read_store(reader)?),
                false => None,
            },
            voters: match reader.u8()? {
                NOTHING => None,
                state @ (AGREED | SETTLED) => Some(Voters {
                    stores: read_stores(reader)?,
                    is_settled: state == SETTLED,
                }),
                _ => return malformed("voters"),
            },
        },
        ELECT => VoterBody::Elect {
            stores: read_stores(reader)?,
        },
        _ => return malformed("voter"),
    };
    Ok(VoterMsg { to, body })
}

fn put_store(store: StoreId, out: &mut Vec<u8>) {
    out.extend_from_slice(&store.0.to_le_bytes());
}

fn read_store(reader: &mut Reader<'_>) -> Result<StoreId, WireError> {
    Ok(StoreId(u128::from_le_bytes(reader.array()?)))
}

fn put_stores(stores: &[StoreId], out: &mut Vec<u8>) -> Result<(), WireError> {
    let count = u8::try_from(stores.len()).map_err(|_| WireError::LimitExceeded { what: "voters" })?;
    out.push(count);
    for store in stores {
        put_store(*store, out);
    }
    Ok(())
}

fn read_stores(reader: &mut Reader<'_>) -> Result<Arc<[StoreId]>, WireError> {
    let count = usize::from(reader.u8()?);
    if count > VOTERS_MAX {
        return Err(WireError::LimitExceeded { what: "voters" });
    }
    let column = reader.column::<16>(count)?;
    let stores: Vec<StoreId> = column.iter().map(|id| StoreId(u128::from_le_bytes(id))).collect();
    if !Voters::are_possible(&stores) {
        return malformed("voters");
    }
    Ok(Arc::from(stores))
}

fn put_request(request: &Request, out: &mut Vec<u8>) -> Result<(), WireError> {
    // What stands around the entries takes less than a name and this.
    out.reserve(
        request
            .payload_bytes()
            .saturating_add(request.log.len())
            .saturating_add(128),
    );
    put_log(&request.log, out)?;
    put_store(request.store, out);
    put_number(request.opener, out);
    put_number(request.id, out);
    put_token(request.token, out);
    match &request.ask {
        Ask::Promise => out.push(PROMISE),
        Ask::Read { from } => {
            out.push(READ);
            put_place(Some(*from), out);
        }
        Ask::Accept { entries } => {
            out.push(ACCEPT);
            put_count(entries.len(), out)?;
            for entry in entries {
                put_entry(entry, out)?;
            }
        }
        Ask::Keep {
            snapshot,
            index,
            bytes,
        } => {
            out.push(KEEP);
            put_snapshot(snapshot, out);
            out.extend_from_slice(&index.to_le_bytes());
            put_bytes(bytes, out)?;
        }
    }
    Ok(())
}

fn read_request(reader: &mut Reader<'_>) -> Result<Request, WireError> {
    let log = read_log(reader)?;
    let store = read_store(reader)?;
    let (opener, id) = (reader.u64()?, reader.u64()?);
    let token = read_token(reader)?;
    let ask = match reader.u8()? {
        PROMISE => Ask::Promise,
        READ => match read_place(reader)? {
            Some(from) => Ask::Read { from },
            None => return malformed("place"),
        },
        ACCEPT => {
            let count = read_count(reader, ENTRY_BYTES_MIN)?;
            let entries = (0..count).map(|_| read_entry(reader));
            Ask::Accept {
                entries: entries.collect::<Result<_, _>>()?,
            }
        }
        KEEP => Ask::Keep {
            snapshot: read_snapshot(reader)?,
            index: reader.u32()?,
            bytes: read_bytes(reader)?,
        },
        _ => return malformed("log request"),
    };
    Ok(Request {
        log,
        store,
        opener,
        id,
        token,
        ask,
    })
}

fn put_reply(reply: &Reply, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.reserve(
        reply
            .payload_bytes()
            .saturating_add(reply.log.len())
            .saturating_add(128),
    );
    put_log(&reply.log, out)?;
    put_store(reply.store, out);
    put_number(reply.opener, out);
    put_number(reply.id, out);
    match &reply.said {
        Said::Page(page) => {
            out.push(PAGE);
            put_page(page, out)?;
        }
        Said::Accepted => out.push(ACCEPTED),
        Said::Kept => out.push(KEPT),
        Said::Refused { held } => {
            out.push(REFUSED);
            put_token(*held, out);
        }
    }
    Ok(())
}

fn read_reply(reader: &mut Reader<'_>) -> Result<Reply, WireError> {
    Ok(Reply {
        log: read_log(reader)?,
        store: read_store(reader)?,
        opener: reader.u64()?,
        id: reader.u64()?,
        said: match reader.u8()? {
            PAGE => Said::Page(read_page(reader)?),
            ACCEPTED => Said::Accepted,
            KEPT => Said::Kept,
            REFUSED => Said::Refused {
                held: read_token(reader)?,
            },
            _ => return malformed("log reply"),
        },
    })
}

fn put_page(page: &Page, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.push(u8::from(page.snapshot.is_some()));
    if let Some(snapshot) = &page.snapshot {
        put_snapshot(snapshot, out);
    }
    put_place(page.next, out);
    put_count(page.items.len(), out)?;
    for item in &page.items {
        match item {
            Item::Part { index, bytes } => {
                out.push(PART);
                out.extend_from_slice(&index.to_le_bytes());
                put_bytes(bytes, out)?;
            }
            Item::Entry { accepted, entry } => {
                out.push(ENTRY);
                put_token(*accepted, out);
                put_entry(entry, out)?;
            }
        }
    }
    Ok(())
}

fn read_page(reader: &mut Reader<'_>) -> Result<Page, WireError> {
    let snapshot = match reader.bool("snapshot")? {
        true => Some(read_snapshot(reader)?),
        false => None,
    };
    let next = read_place(reader)?;
    // A part without bytes is the smallest item.
    let count = read_count(reader, 9)?;
    let items = (0..count).map(|_| match reader.u8()? {
        PART => Ok(Item::Part {
            index: reader.u32()?,
            bytes: read_bytes(reader)?,
        }),
        ENTRY => Ok(Item::Entry {
            accepted: read_token(reader)?,
            entry: read_entry(reader)?,
        }),
        _ => malformed("item"),
    });
    Ok(Page {
        snapshot,
        items: items.collect::<Result<_, _>>()?,
        next,
    })
}

fn put_entry(entry: &Entry, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_number(entry.position, out);
    put_token(entry.origin, out);
    put_number(entry.first, out);
    put_count(entry.records.len(), out)?;
    for record in &entry.records {
        put_bytes(record, out)?;
    }
    Ok(())
}

fn read_entry(reader: &mut Reader<'_>) -> Result<Entry, WireError> {
    let position = read_number(reader)?;
    let origin = read_token(reader)?;
    let first = read_number(reader)?;
    let count = read_count(reader, 4)?;
    let records = (0..count).map(|_| read_bytes(reader));
    Ok(Entry {
        position,
        origin,
        first,
        records: records.collect::<Result<_, _>>()?,
    })
}

fn put_snapshot(snapshot: &SnapshotHead, out: &mut Vec<u8>) {
    put_number(snapshot.through, out);
    put_number(snapshot.covers, out);
    put_token(snapshot.token, out);
    out.extend_from_slice(&snapshot.parts.to_le_bytes());
}

fn read_snapshot(reader: &mut Reader<'_>) -> Result<SnapshotHead, WireError> {
    Ok(SnapshotHead {
        through: read_number(reader)?,
        covers: read_number(reader)?,
        token: read_token(reader)?,
        parts: reader.u32()?,
    })
}

fn put_place(place: Option<Place>, out: &mut Vec<u8>) {
    match place {
        None => out.push(NOTHING),
        Some(Place::Part(index)) => {
            out.push(PART);
            out.extend_from_slice(&index.to_le_bytes());
        }
        Some(Place::Entry(position)) => {
            out.push(ENTRY);
            put_number(position, out);
        }
    }
}

fn read_place(reader: &mut Reader<'_>) -> Result<Option<Place>, WireError> {
    Ok(match reader.u8()? {
        NOTHING => None,
        PART => Some(Place::Part(reader.u32()?)),
        ENTRY => Some(Place::Entry(reader.u64()?)),
        _ => return malformed("place"),
    })
}

fn put_log(log: &str, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.extend_from_slice(&count_u16(log.len(), "log")?.to_le_bytes());
    out.extend_from_slice(log.as_bytes());
    Ok(())
}

fn read_log(reader: &mut Reader<'_>) -> Result<LogName, WireError> {
    let len = usize::from(reader.u16()?);
    if !(1..=LOG_NAME_BYTES_MAX).contains(&len) {
        return Err(WireError::LimitExceeded { what: "log" });
    }
    text(reader.take(len)?, "log").map(LogName::from)
}

fn put_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// A place or the number of a record: far below where adding one overflows.
fn read_number(reader: &mut Reader<'_>) -> Result<u64, WireError> {
    let number = reader.u64()?;
    if number > NUMBER_MAX {
        return Err(WireError::LimitExceeded { what: "number" });
    }
    Ok(number)
}

fn put_count(count: usize, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.extend_from_slice(&count_u16(count, "count")?.to_le_bytes());
    Ok(())
}

/// A count of things that have so many bytes each, at least: nothing is allocated for what cannot be there.
fn read_count(reader: &mut Reader<'_>, bytes_each: usize) -> Result<usize, WireError> {
    let count = usize::from(reader.u16()?);
    if count > ENTRIES_MAX {
        return Err(WireError::LimitExceeded { what: "count" });
    }
    if count.saturating_mul(bytes_each) > reader.rest().len() {
        return Err(WireError::Incomplete);
    }
    Ok(count)
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
    let len = u32::try_from(bytes.len()).map_err(|_| WireError::LimitExceeded { what: "record" })?;
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

fn read_bytes(reader: &mut Reader<'_>) -> Result<Bytes, WireError> {
    let len = reader.u32()? as usize;
    reader.take(len).map(Bytes::from)
}

fn put_token(token: Token, out: &mut Vec<u8>) {
    put_number(token.term, out);
    put_number(token.count, out);
}

fn read_token(reader: &mut Reader<'_>) -> Result<Token, WireError> {
    let (term, count) = (reader.u64()?, reader.u64()?);
    Ok(Token::new(term, count))
}
