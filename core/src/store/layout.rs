//! How orders lie in one ordered map: the keys, and the seal that tells damaged bytes. Part of every file
//! that a store wrote, so it only ever grows. Spec: reliability I-80.
//!
//! | first byte | key | value, behind its seal |
//! |---|---|---|
//! | 0 | nothing | store id (16), boots (8) |
//! | 1 | space (2), key | the value |
//! | 2 | log | token (16), opener (8), first (8), last (8), 1 + what the snapshot covers or 0 (8) |
//! | 3 | log, sequence (8) | token (16), record |
//! | 4 | log | covers (8), token (16), state |
//!
//! A log is its space (2), the length of its name (2) and its name. Numbers are big-endian.

use alloc::vec::Vec;

use super::{Sequence, Space, StoreIdentity};
use crate::token::Token;

/// What a value that is kept costs beside its own bytes.
pub const SEAL_BYTES: usize = 4;

const IDENTITY: u8 = 0;
const ITEM: u8 = 1;
const HEAD: u8 = 2;
const RECORD: u8 = 3;
const SNAPSHOT: u8 = 4;

/// What is stored fails its checksum, or is none of what is written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedBytes;

/// The state of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogHead {
    pub(super) token: Token,
    pub(super) opener: u64,
    pub(super) first: Sequence,
    pub(super) last: Sequence,
    pub(super) snapshot: Option<Sequence>,
}

/// The bytes to store for a key: a checksum over key and parts, then the parts. The key is part of it, so
/// that a value that turns up in another place is noticed too.
#[must_use]
pub fn seal(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(SEAL_BYTES + parts.iter().map(|part| part.len()).sum::<usize>());
    out.extend_from_slice(&checksum(key, parts).to_be_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}

/// What was sealed for this key.
///
/// # Errors
/// The checksum is wrong.
pub fn unseal<'a>(key: &[u8], sealed: &'a [u8]) -> Result<&'a [u8], DamagedBytes> {
    let (sum, rest) = sealed.split_first_chunk::<SEAL_BYTES>().ok_or(DamagedBytes)?;
    if u32::from_be_bytes(*sum) != checksum(key, &[rest]) {
        return Err(DamagedBytes);
    }
    Ok(rest)
}

fn checksum(key: &[u8], parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

pub(super) fn identity_key() -> Vec<u8> {
    alloc::vec![IDENTITY]
}

pub(super) fn item_key(space: Space, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(3 + key.len());
    out.push(ITEM);
    out.extend_from_slice(&space.0.to_be_bytes());
    out.extend_from_slice(key);
    out
}

/// The first key behind all items of a space.
pub(super) fn item_end(space: Space) -> Vec<u8> {
    space
        .0
        .checked_add(1)
        .map_or_else(|| alloc::vec![HEAD], |next| item_key(Space(next), &[]))
}

/// The part of an item's key that its owner knows.
pub(super) fn item_name(key: &[u8]) -> &[u8] {
    key.get(3..).unwrap_or_default()
}

fn log_key(first: u8, space: Space, log: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(13 + log.len());
    out.push(first);
    out.extend_from_slice(&space.0.to_be_bytes());
    let len = u16::try_from(log.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(log.as_bytes());
    out
}

pub(super) fn head_key(space: Space, log: &str) -> Vec<u8> {
    log_key(HEAD, space, log)
}

pub(super) fn record_key(space: Space, log: &str, sequence: Sequence) -> Vec<u8> {
    let mut out = log_key(RECORD, space, log);
    out.extend_from_slice(&sequence.to_be_bytes());
    out
}

pub(super) fn snapshot_key(space: Space, log: &str) -> Vec<u8> {
    log_key(SNAPSHOT, space, log)
}

pub(super) fn token_bytes(token: Token) -> [u8; 16] {
    let mut out = [0; 16];
    out[..8].copy_from_slice(&token.term.to_be_bytes());
    out[8..].copy_from_slice(&token.count.to_be_bytes());
    out
}

pub(super) fn take_number(bytes: &[u8]) -> Result<(u64, &[u8]), DamagedBytes> {
    let (number, rest) = bytes.split_first_chunk::<8>().ok_or(DamagedBytes)?;
    Ok((u64::from_be_bytes(*number), rest))
}

pub(super) fn take_token(bytes: &[u8]) -> Result<(Token, &[u8]), DamagedBytes> {
    let (term, rest) = take_number(bytes)?;
    let (count, rest) = take_number(rest)?;
    Ok((Token { term, count }, rest))
}

pub(super) fn identity_value(identity: StoreIdentity) -> [u8; 24] {
    let mut out = [0; 24];
    out[..16].copy_from_slice(&identity.id.to_be_bytes());
    out[16..].copy_from_slice(&identity.boot.to_be_bytes());
    out
}

pub(super) fn take_identity(bytes: &[u8]) -> Result<StoreIdentity, DamagedBytes> {
    let (id, rest) = bytes.split_first_chunk::<16>().ok_or(DamagedBytes)?;
    let (boot, rest) = take_number(rest)?;
    let id = u128::from_be_bytes(*id);
    rest.is_empty()
        .then_some(StoreIdentity { id, boot })
        .ok_or(DamagedBytes)
}

impl LogHead {
    pub(super) fn to_bytes(self) -> [u8; 48] {
        let mut out = [0; 48];
        out[..16].copy_from_slice(&token_bytes(self.token));
        let snapshot = self.snapshot.map_or(0, |covers| covers.saturating_add(1));
        for (place, number) in [self.opener, self.first, self.last, snapshot]
            .into_iter()
            .enumerate()
        {
            let at = 16 + place * 8;
            out[at..at + 8].copy_from_slice(&number.to_be_bytes());
        }
        out
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, DamagedBytes> {
        let (token, rest) = take_token(bytes)?;
        let (opener, rest) = take_number(rest)?;
        let (first, rest) = take_number(rest)?;
        let (last, rest) = take_number(rest)?;
        let (snapshot, rest) = take_number(rest)?;
        if !rest.is_empty() || first > last.saturating_add(1) {
            return Err(DamagedBytes);
        }
        let snapshot = snapshot.checked_sub(1);
        Ok(Self {
            token,
            opener,
            first,
            last,
            snapshot,
        })
    }
}
