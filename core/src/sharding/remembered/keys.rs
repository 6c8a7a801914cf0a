//! How what is remembered is called: in replicated data one name for each kind, shard and part, and a log for
//! each kind and shard. Ids of entities are elements there, byte for byte, and need no name. These names are
//! on disks: they never change. Spec: sharding 1.5; "keys are injective in kind and id".

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ddata::state::key::{KEY_BYTES_MAX, Key};
use crate::journal::protocol::LOG_NAME_BYTES_MAX;
use crate::sharding::state::ids::{SHARDS_MAX, ShardId};
use crate::store::{Bytes, LogName};

/// Keys per shard: a set of 10,000 ids of 36 bytes stays far below what one message carries.
const PARTS: u8 = 5;

/// Longest name of a kind that remembers its entities, in bytes: the rest of a key is for the number of a
/// shard.
pub(crate) const NAME_BYTES_MAX: usize = 230;

/// Everything that stands around a kind's name fits.
const _: () = assert!(NAME_BYTES_MAX + "shard-4294967295-4-".len() <= KEY_BYTES_MAX);

/// The keys of a shard's entities. The numbers come first, and the rest is the kind's name as it is: whoever
/// reads a key finds exactly one kind, shard and part. `None` for a name that is too long.
pub(crate) fn shard_keys(kind: &str, shard: ShardId) -> Option<Vec<Key>> {
    let keys = (0..PARTS).map(|part| key(kind, &format!("shard-{}-{part}-", shard.0)));
    keys.collect()
}

/// Shards in one key: a set with as many stays below a third of the largest value (`ddata.value_bytes_max`),
/// where all that a kind can have would be larger.
const SHARDS_PER_KEY: u32 = 16_384;

/// The keys of a kind's shards, by number: the first is that of kinds that are no larger. No shard is called
/// "all".
pub(crate) fn coordinator_keys(kind: &str) -> Option<Vec<Key>> {
    let all = ["shard-all-", "shard-all1-", "shard-all2-", "shard-all3-"];
    all.map(|before| key(kind, before)).into_iter().collect()
}

/// Which of [`coordinator_keys`] a shard is in.
pub(crate) const fn coordinator_part(shard: ShardId) -> u8 {
    match shard.0 / SHARDS_PER_KEY {
        0 => 0,
        1 => 1,
        2 => 2,
        _ => 3,
    }
}

/// The log of a shard's entities. What stands behind the last `/` is a number, and what a coordinator has is
/// called otherwise: whoever reads such a name finds exactly one kind and shard.
pub(crate) fn shard_log(kind: &str, shard: ShardId) -> LogName {
    Arc::from(format!("/sharding/{kind}/shard/{}", shard.0))
}

/// The log of a kind's shards.
pub(crate) fn shards_log(kind: &str) -> LogName {
    Arc::from(format!("/sharding/{kind}/shards"))
}

/// Every log in which it may be kept which entities a kind remembers, and which of its shards have some: for
/// a tool that looks at a store while no node runs. Most of the 65,537 are in no store; none for a kind whose
/// name is too long to remember entities.
pub fn remembered_logs(kind: &str) -> impl Iterator<Item = LogName> {
    let count = if kind.len() > NAME_BYTES_MAX {
        0
    } else {
        SHARDS_MAX
    };
    let all = (count > 0).then(|| shards_log(kind));
    all.into_iter()
        .chain((0..count).map(move |shard| shard_log(kind, ShardId(shard))))
}

/// Where a store holds, for durable replicated data, which entities a kind remembers and which of its shards
/// have some: every key there may be, for a tool that looks at a store while no node runs. Most of the
/// 327,684 are in no store; none for a kind whose name is too long.
pub fn remembered_keys(kind: &str) -> impl Iterator<Item = Bytes> {
    let shards = (0..SHARDS_MAX).filter_map(move |shard| shard_keys(kind, ShardId(shard)));
    let all = coordinator_keys(kind).into_iter().chain(shards).flatten();
    all.map(|key| key.stored())
}

/// From where to where a store holds [`remembered_keys`], of all kinds.
#[must_use]
pub fn remembered_range() -> (Bytes, Bytes) {
    let bound = |text: &str| Key::new(text).map_or_else(|_| Bytes::from([]), |key| key.stored());
    (bound("shard-"), bound("shard."))
}

/// Whether a key of a store is one of [`remembered_keys`].
#[must_use]
pub fn is_remembered_key(kind: &str, stored: &[u8]) -> bool {
    let number = |bytes: &[u8]| core::str::from_utf8(bytes).ok()?.parse::<u32>().ok();
    let name = stored.strip_suffix(kind.as_bytes());
    let mut parts = name.into_iter().flat_map(|name| name.split(|byte| *byte == b'-'));
    let shard = parts.nth(1).and_then(number).filter(|shard| *shard < SHARDS_MAX);
    let keys = match shard {
        Some(shard) => shard_keys(kind, ShardId(shard)),
        None => coordinator_keys(kind),
    };
    keys.is_some_and(|keys| keys.iter().any(|key| *key.stored() == *stored))
}

/// Every one of them is a name that a log may have.
const _: () = assert!(NAME_BYTES_MAX + "/sharding//shard/4294967295".len() <= LOG_NAME_BYTES_MAX);

fn key(kind: &str, before: &str) -> Option<Key> {
    if kind.len() > NAME_BYTES_MAX {
        return None;
    }
    Key::new(&format!("{before}{kind}")).ok()
}

#[cfg(test)]
mod tests {
    use crate::ordered::OrderedMap;
    use alloc::string::String;

    use super::*;

    /// All names of up to four of the parts that could be mistaken, with the numbers that could be.
    #[test]
    fn keys_are_injective_in_kind_shard_and_part() {
        let parts = ["a", "/", "%", "\0", "-", "1", "0", "all", "ä", "shard-"];
        let mut names: Vec<String> = alloc::vec![String::new()];
        for _ in 0..3 {
            let longer = names
                .iter()
                .flat_map(|name| parts.map(|part| format!("{name}{part}")));
            let longer: Vec<String> = longer.collect();
            names.extend(longer);
            names.sort();
            names.dedup();
        }
        let mut seen = OrderedMap::new();
        for name in &names {
            let shards = [0, 1, 10, 11, SHARDS_MAX - 1].map(ShardId);
            let all = shards.map(|shard| (Some(shard), shard_keys(name, shard).unwrap()));
            let coordinators = [(None, coordinator_keys(name).unwrap())];
            for (shard, keys) in all.into_iter().chain(coordinators) {
                for (part, key) in keys.into_iter().enumerate() {
                    let other = seen.insert(key.clone(), (name, shard, part));
                    assert_eq!(other, None, "{key} is also {name:?}, {shard:?}, {part}");
                }
            }
        }
        assert!(seen.len() > 20_000, "{}", seen.len());
    }

    #[test]
    fn a_stored_key_is_known_as_its_kinds_and_no_others() {
        let names = ["a", "-a", "1-a", "0-4-a", "all-a", "shard-0-0-a", "\u{e4}"];
        let (from, to) = remembered_range();
        for kind in names {
            let keys: Vec<Bytes> = remembered_keys(kind).collect();
            assert_eq!(keys.len(), 4 + 5 * SHARDS_MAX as usize);
            for key in keys.iter().step_by(4_999).chain(&keys[..9]) {
                assert!(from <= *key && *key < to);
                for other in names {
                    assert_eq!(is_remembered_key(other, key), other == kind, "{key:?} of {other}");
                }
            }
        }
        let strange = [
            "",
            "v",
            "vshard-",
            "vshard-0-5-a",
            "vshard-00-0-a",
            "vshard-65536-0-a",
            "shard-0-0-a",
        ];
        for strange in strange {
            assert!(!is_remembered_key("a", strange.as_bytes()), "{strange}");
        }
    }

    #[test]
    fn logs_are_injective_in_kind_and_shard_and_no_other_log_is_called_so() {
        let parts = ["a", "/shard/7", "/shards", "/coordinator", "/", "/sharding/a"];
        let mut kinds: Vec<String> = parts.map(String::from).to_vec();
        for first in parts {
            kinds.extend(parts.map(|second| format!("{first}{second}")));
        }
        kinds.sort();
        kinds.dedup();
        let mut seen = OrderedMap::new();
        for kind in &kinds {
            let shards =
                [0, 7, 77, SHARDS_MAX - 1].map(|shard| (Some(shard), shard_log(kind, ShardId(shard))));
            let others = [
                (None, shards_log(kind)),
                (Some(u32::MAX), crate::sharding::coordinator_log(kind)),
            ];
            for (what, log) in shards.into_iter().chain(others) {
                let other = seen.insert(log.clone(), (kind, what));
                assert_eq!(other, None, "{log} is also {kind:?}, {what:?}");
            }
        }
        assert_eq!(&*shard_log("cart", ShardId(7)), "/sharding/cart/shard/7");
        assert_eq!(&*shards_log("cart"), "/sharding/cart/shards");
        let logs: crate::ordered::OrderedSet<LogName> = remembered_logs("cart").collect();
        assert_eq!(logs.len(), SHARDS_MAX as usize + 1);
        let some = [shards_log("cart"), shard_log("cart", ShardId(SHARDS_MAX - 1))];
        assert!(some.iter().all(|log| logs.contains(log)));
        assert_eq!(remembered_logs(&"k".repeat(NAME_BYTES_MAX + 1)).next(), None);
    }

    #[test]
    fn names_are_readable_and_never_change() {
        let keys = shard_keys("cart", ShardId(7)).unwrap();
        let names: Vec<&str> = keys.iter().map(Key::as_str).collect();
        let expected = [
            "shard-7-0-cart",
            "shard-7-1-cart",
            "shard-7-2-cart",
            "shard-7-3-cart",
            "shard-7-4-cart",
        ];
        assert_eq!(names, expected);
        let all = coordinator_keys("cart").unwrap();
        let names: Vec<&str> = all.iter().map(Key::as_str).collect();
        assert_eq!(
            names,
            [
                "shard-all-cart",
                "shard-all1-cart",
                "shard-all2-cart",
                "shard-all3-cart"
            ]
        );
        let parts = [0, 16_383, 16_384, 40_000, 65_535].map(|shard| coordinator_part(ShardId(shard)));
        assert_eq!(parts, [0, 0, 1, 2, 3]);
        assert!(shard_keys(&"k".repeat(NAME_BYTES_MAX), ShardId(SHARDS_MAX)).is_some());
        assert!(shard_keys(&"k".repeat(NAME_BYTES_MAX + 1), ShardId(0)).is_none());
    }
}
