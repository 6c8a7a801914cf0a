//! How durable buckets lie in the node's store: their keys. Part of every file that a node wrote, so it only
//! ever grows. Spec: sharding 10.10, 10.19.
//!
//! | key | value |
//! |---|---|
//! | bucket, 0 | the settings |
//! | bucket, 0, 1 | when the store was last known to be open, in milliseconds since the Unix epoch (8) |
//! | bucket, 1, range (2) | the range's head |
//! | bucket, 2, range (2), key | the entry |
//! | bucket, 3, store (16), key | since when a hint for that store is held, as above (8); its entry |
//!
//! A bucket is the length of its name (1) and its name. Numbers in keys are big-endian, so that they rise.
//! What an entry and a head are made of is theirs to say; what settings are, `wire`.

use alloc::vec::Vec;

use super::state::bucket::BucketName;
use super::state::table::RangeId;
use crate::ddata::state::key::Key;
use crate::journal::state::StoreId;
use crate::store::Bytes;

const SETTINGS: u8 = 0;
/// Behind [`SETTINGS`].
const SEEN: u8 = 1;
const HEAD: u8 = 1;
const ENTRY: u8 = 2;
const HINT: u8 = 3;

/// What lies under a key of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoredPlace {
    Settings,
    Seen,
    Head(RangeId),
    Entry(RangeId, Key),
    Hint(StoreId, Key),
}

fn key(bucket: &BucketName, place: u8) -> Vec<u8> {
    let name = bucket.as_str().as_bytes();
    let mut out = Vec::with_capacity(name.len() + 2);
    // Names are short.
    out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(name);
    out.push(place);
    out
}

fn range_key(bucket: &BucketName, place: u8, range: RangeId) -> Vec<u8> {
    let mut out = key(bucket, place);
    out.extend_from_slice(&range.0.to_be_bytes());
    out
}

pub(super) fn settings_key(bucket: &BucketName) -> Bytes {
    Bytes::from(key(bucket, SETTINGS))
}

pub(super) fn seen_key(bucket: &BucketName) -> Bytes {
    let mut out = key(bucket, SETTINGS);
    out.push(SEEN);
    Bytes::from(out)
}

pub(super) fn head_key(bucket: &BucketName, range: RangeId) -> Bytes {
    Bytes::from(range_key(bucket, HEAD, range))
}

pub(super) fn entry_key(bucket: &BucketName, range: RangeId, of: &Key) -> Bytes {
    let mut out = range_key(bucket, ENTRY, range);
    out.extend_from_slice(of.as_str().as_bytes());
    Bytes::from(out)
}

pub(super) fn hint_key(bucket: &BucketName, owner: StoreId, of: &Key) -> Bytes {
    let mut out = key(bucket, HINT);
    out.extend_from_slice(&owner.0.to_be_bytes());
    out.extend_from_slice(of.as_str().as_bytes());
    Bytes::from(out)
}

/// From the first key of a range's entries to before the first behind them.
pub(super) fn entries(bucket: &BucketName, range: RangeId) -> (Bytes, Bytes) {
    let from = range_key(bucket, ENTRY, range);
    let to = match range.0.checked_add(1) {
        Some(next) => range_key(bucket, ENTRY, RangeId(next)),
        None => key(bucket, ENTRY + 1),
    };
    (Bytes::from(from), Bytes::from(to))
}

/// From the first key of a bucket to before the first behind it.
pub(super) fn whole(bucket: &BucketName) -> (Bytes, Bytes) {
    (settings_key(bucket), Bytes::from(key(bucket, HINT + 1)))
}

/// What lies under this key of a bucket; `None` if nothing of it does.
pub(super) fn place(bucket: &BucketName, stored: &[u8]) -> Option<StoredPlace> {
    let mut name = key(bucket, SETTINGS);
    name.pop();
    let (place, rest) = stored.strip_prefix(&*name)?.split_first()?;
    match *place {
        SETTINGS if rest.is_empty() => Some(StoredPlace::Settings),
        SETTINGS if rest == [SEEN] => Some(StoredPlace::Seen),
        HEAD | ENTRY => {
            let (range, rest) = rest.split_first_chunk()?;
            let range = RangeId(u16::from_be_bytes(*range));
            if *place == HEAD {
                return rest.is_empty().then_some(StoredPlace::Head(range));
            }
            Some(StoredPlace::Entry(range, key_of(rest)?))
        }
        HINT => {
            let (owner, rest) = rest.split_first_chunk()?;
            Some(StoredPlace::Hint(
                StoreId(u128::from_be_bytes(*owner)),
                key_of(rest)?,
            ))
        }
        _ => None,
    }
}

fn key_of(bytes: &[u8]) -> Option<Key> {
    Key::new(core::str::from_utf8(bytes).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_found_again_and_ranges_do_not_meet() {
        let bucket = BucketName::new("carts").unwrap();
        let key = Key::new("a key").unwrap();
        for (stored, expected) in [
            (settings_key(&bucket), StoredPlace::Settings),
            (seen_key(&bucket), StoredPlace::Seen),
            (head_key(&bucket, RangeId(258)), StoredPlace::Head(RangeId(258))),
            (
                entry_key(&bucket, RangeId(258), &key),
                StoredPlace::Entry(RangeId(258), key.clone()),
            ),
            (
                hint_key(&bucket, StoreId(u128::MAX), &key),
                StoredPlace::Hint(StoreId(u128::MAX), key.clone()),
            ),
        ] {
            assert_eq!(place(&bucket, &stored), Some(expected));
            let (from, to) = whole(&bucket);
            assert!(from <= stored && stored < to);
            assert_eq!(place(&BucketName::new("cart").unwrap(), &stored), None);
        }
        for range in [0, 255, 256, u16::MAX] {
            let (from, to) = entries(&bucket, RangeId(range));
            for other in [0, 1, 254, 255, 256, 257, u16::MAX] {
                let stored = entry_key(&bucket, RangeId(other), &key);
                let is_within = from <= stored && stored < to;
                assert_eq!(is_within, other == range, "{range} {other}");
                let (from, to) = whole(&bucket);
                assert!(from <= stored && stored < to);
            }
        }
    }

    #[test]
    fn the_keys_are_these_for_ever() {
        let bucket = BucketName::new("ab").unwrap();
        assert_eq!(&*settings_key(&bucket), b"\x02ab\x00");
        assert_eq!(&*seen_key(&bucket), b"\x02ab\x00\x01");
        assert_eq!(&*head_key(&bucket, RangeId(0x0102)), b"\x02ab\x01\x01\x02");
        let key = Key::new("k").unwrap();
        assert_eq!(&*entry_key(&bucket, RangeId(3), &key), b"\x02ab\x02\x00\x03k");
        let hint = hint_key(&bucket, StoreId(0x0102), &key);
        assert_eq!(&*hint, b"\x02ab\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x02k");
    }
}
