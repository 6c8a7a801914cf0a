//! How a replica keeps logs in the node's store: keys and values. Part of every file that a node wrote, so it only ever grows.
//! Spec: sharding 10.7.
//!
//! | first byte | key | value |
//! |---|---|---|
//! | 0 | nothing | settled (1), per voter its store's id (16) |
//! | 1 | log | promise (16), opener (8), then nothing or: through (8), covers (8), token (16), parts (4) |
//! | 2 | log, 0, part (4) | that part of the snapshot |
//! | 2 | log, 1, position (8) | accepted with (16), origin (16), first (8), per record its length (4) and itself |
//!
//! A log is the length of its name (2) and its name. Numbers are big-endian; the store seals each value.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::protocol::{ENTRIES_MAX, NUMBER_MAX, PARTS_MAX, POSITION_END, VOTERS_MAX};
use super::state::{Entry, Item, Place, Position, SnapshotHead, StoreId, Voters};
use crate::store::Bytes;
use crate::store::layout::Damaged;
use crate::token::Token;

const VOTERS: u8 = 0;
const HEAD: u8 = 1;
const ITEM: u8 = 2;
const PART: u8 = 0;
const ENTRY: u8 = 1;

/// What a replica has promised, and which snapshot it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) promise: Token,
    pub(super) opener: u64,
    pub(super) snapshot: Option<SnapshotHead>,
}

fn key(first: u8, log: &str, room: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(3 + log.len() + room);
    out.push(first);
    // Names are checked before they come here.
    out.extend_from_slice(&u16::try_from(log.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(log.as_bytes());
    out
}

pub(super) fn head_key(log: &str) -> Bytes {
    Arc::from(key(HEAD, log, 0))
}

pub(super) fn item_key(log: &str, place: Place) -> Bytes {
    let mut out = key(ITEM, log, 9);
    match place {
        Place::Part(index) => {
            out.push(PART);
            out.extend_from_slice(&index.to_be_bytes());
        }
        Place::Entry(position) => {
            out.push(ENTRY);
            out.extend_from_slice(&position.to_be_bytes());
        }
    }
    Arc::from(out)
}

/// Before this key lies everything of the log.
pub(super) fn end_key(log: &str) -> Bytes {
    item_key(log, Place::Entry(POSITION_END))
}

/// What lies at the end of an item's key.
fn parse_place(log: &str, key: &[u8]) -> Result<Place, Damaged> {
    let rest = key.get(3 + log.len()..).ok_or(Damaged)?;
    let (kind, rest) = rest.split_first().ok_or(Damaged)?;
    match *kind {
        PART => <[u8; 4]>::try_from(rest)
            .map(|index| Place::Part(u32::from_be_bytes(index)))
            .map_err(|_| Damaged),
        ENTRY => <[u8; 8]>::try_from(rest)
            .map(|position| Place::Entry(Position::from_be_bytes(position)))
            .map_err(|_| Damaged),
        _ => Err(Damaged),
    }
}

pub(super) fn parse_item(log: &str, key: &[u8], value: &Bytes) -> Result<Item, Damaged> {
    match parse_place(log, key)? {
        Place::Part(index) => Ok(Item::Part {
            index,
            bytes: Bytes::clone(value),
        }),
        Place::Entry(position) => parse_entry(position, value),
    }
}

pub(super) fn entry_value(accepted: Token, entry: &Entry) -> Bytes {
    let mut out = Vec::with_capacity(entry.bytes());
    out.extend_from_slice(&accepted.to_bytes());
    out.extend_from_slice(&entry.origin.to_bytes());
    out.extend_from_slice(&entry.first.to_be_bytes());
    for record in &entry.records {
        // An entry is checked to be far smaller.
        let len = u32::try_from(record.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(record);
    }
    Arc::from(out)
}

fn parse_entry(position: Position, value: &[u8]) -> Result<Item, Damaged> {
    let mut reader = Fields(value);
    let (accepted, origin, first) = (reader.token()?, reader.token()?, reader.number()?);
    let mut records = Vec::new();
    while !reader.0.is_empty() {
        if records.len() >= ENTRIES_MAX {
            return Err(Damaged);
        }
        let len = reader.short()? as usize;
        let (record, rest) = reader.0.split_at_checked(len).ok_or(Damaged)?;
        reader.0 = rest;
        records.push(Bytes::from(record));
    }
    let entry = Entry {
        position,
        origin,
        first,
        records,
    };
    Ok(Item::Entry { accepted, entry })
}

impl Head {
    pub(super) fn to_bytes(self) -> Bytes {
        let mut out = Vec::with_capacity(60);
        out.extend_from_slice(&self.promise.to_bytes());
        out.extend_from_slice(&self.opener.to_be_bytes());
        if let Some(snapshot) = self.snapshot {
            out.extend_from_slice(&snapshot.through.to_be_bytes());
            out.extend_from_slice(&snapshot.covers.to_be_bytes());
            out.extend_from_slice(&snapshot.token.to_bytes());
            out.extend_from_slice(&snapshot.parts.to_be_bytes());
        }
        Arc::from(out)
    }

    pub(super) fn parse(value: &[u8]) -> Result<Self, Damaged> {
        let mut reader = Fields(value);
        let (promise, opener) = (reader.token()?, reader.number()?);
        if reader.0.is_empty() {
            return Ok(Self {
                promise,
                opener,
                snapshot: None,
            });
        }
        let snapshot = SnapshotHead {
            through: reader.number()?,
            covers: reader.number()?,
            token: reader.token()?,
            parts: reader.short()?,
        };
        let possible = snapshot.through <= NUMBER_MAX && snapshot.parts <= PARTS_MAX;
        if !reader.0.is_empty() || !possible {
            return Err(Damaged);
        }
        Ok(Self {
            promise,
            opener,
            snapshot: Some(snapshot),
        })
    }
}

/// What is left of a value.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or(Damaged)?;
        self.0 = rest;
        Ok(*field)
    }

    fn number(&mut self) -> Result<u64, Damaged> {
        self.take().map(u64::from_be_bytes)
    }

    fn short(&mut self) -> Result<u32, Damaged> {
        self.take().map(u32::from_be_bytes)
    }

    fn token(&mut self) -> Result<Token, Damaged> {
        self.take().map(Token::from_bytes)
    }
}

/// Where the store keeps which voters it has agreed to.
pub(super) fn voters_key() -> Bytes {
    Arc::from([VOTERS].as_slice())
}

pub(super) fn voters_value(voters: &Voters) -> Bytes {
    let mut out = Vec::with_capacity(1 + voters.stores.len() * 16);
    out.push(u8::from(voters.is_settled));
    for store in voters.stores.iter() {
        out.extend_from_slice(&store.0.to_be_bytes());
    }
    Arc::from(out)
}

pub(super) fn parse_voters(value: &[u8]) -> Result<Voters, Damaged> {
    let (settled, rest) = value.split_first().ok_or(Damaged)?;
    let mut reader = Fields(rest);
    let mut stores = Vec::new();
    while !reader.0.is_empty() && stores.len() <= VOTERS_MAX {
        stores.push(StoreId(u128::from_be_bytes(reader.take()?)));
    }
    if *settled > 1 || !Voters::are_possible(&stores) {
        return Err(Damaged);
    }
    Ok(Voters {
        stores: Arc::from(stores),
        is_settled: *settled == 1,
    })
}
