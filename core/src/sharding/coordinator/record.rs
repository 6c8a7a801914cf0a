//! How homes are written down: the bytes of the records and snapshots of a coordinator's log. They are on disks, so a version only
//! ever grows; numbers are little-endian. Spec: sharding 1.1 (domain events), 10.16.
//!
//! `version (1) | what (1) | shards of the kind (4) | nodes (2) | each node | entries (4) | each entry: shard (4), node (2)`.
//! Entries ascend. The node's number 65,535 means: no home. What is 0 for all homes there are, and 1 for changes of them.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::bytes::{Reader, WireError, count_u16, put_node};
use crate::ident::UniqueAddress;
use crate::sharding::state::ids::{SHARDS_MAX, ShardId};
use crate::store::Bytes;

const VERSION: u8 = 1;
const WHOLE: u8 = 0;
const CHANGES: u8 = 1;
const NOWHERE: u16 = u16::MAX;

/// Bytes of an entry.
const ENTRY_BYTES: usize = 6;

/// Homes by shard.
pub(super) type Homes = BTreeMap<ShardId, UniqueAddress>;

/// A change of a shard's home; `None`: it has none any more.
pub(super) type HomeChange = (ShardId, Option<UniqueAddress>);

/// All homes of a kind with so many shards.
pub(super) fn whole(shards: u32, homes: &Homes) -> Result<Bytes, WireError> {
    let entries = homes.iter().map(|(shard, home)| (*shard, Some(home)));
    encode(WHOLE, shards, entries.collect())
}

/// Some changes, their shards ascending.
pub(super) fn changes(shards: u32, changes: &[HomeChange]) -> Result<Bytes, WireError> {
    let entries = changes.iter().map(|(shard, home)| (*shard, home.as_ref()));
    encode(CHANGES, shards, entries.collect())
}

fn encode(
    what: u8,
    shards: u32,
    entries: Vec<(ShardId, Option<&UniqueAddress>)>,
) -> Result<Bytes, WireError> {
    let mut numbers: BTreeMap<&UniqueAddress, u16> = BTreeMap::new();
    let mut nodes = Vec::new();
    for node in entries.iter().filter_map(|(_, home)| *home) {
        if !numbers.contains_key(node) {
            let number = count_u16(numbers.len(), "homes")?;
            numbers.insert(node, number);
            put_node(&mut nodes, node)?;
        }
    }
    if numbers.len() >= usize::from(NOWHERE) {
        return Err(WireError::LimitExceeded { what: "homes" });
    }
    let mut out = Vec::with_capacity(12 + nodes.len() + entries.len() * ENTRY_BYTES);
    out.extend_from_slice(&[VERSION, what]);
    out.extend_from_slice(&shards.to_le_bytes());
    out.extend_from_slice(&count_u16(numbers.len(), "homes")?.to_le_bytes());
    out.extend_from_slice(&nodes);
    let count = u32::try_from(entries.len()).map_err(|_| WireError::LimitExceeded { what: "shards" })?;
    out.extend_from_slice(&count.to_le_bytes());
    for (shard, home) in entries {
        let number = home.and_then(|node| numbers.get(node)).copied();
        out.extend_from_slice(&shard.0.to_le_bytes());
        out.extend_from_slice(&number.unwrap_or(NOWHERE).to_le_bytes());
    }
    Ok(Bytes::from(out))
}

/// Applies what was written down to what is known so far. What was written when the kind had another number of shards says nothing
/// about these: it leaves no home.
///
/// # Errors
/// It was not written here; `homes` may hold a part of it.
pub(super) fn apply(bytes: &[u8], shards: u32, homes: &mut Homes) -> Result<(), WireError> {
    let mut reader = Reader::new(bytes);
    if reader.u8()? != VERSION {
        return Err(WireError::Malformed { what: "version" });
    }
    match reader.u8()? {
        WHOLE => homes.clear(),
        CHANGES => {}
        _ => return Err(WireError::Malformed { what: "what" }),
    }
    let written_with = reader.u32()?;
    if written_with == 0 || written_with > SHARDS_MAX {
        return Err(WireError::Malformed { what: "shards" });
    }
    let mut nodes = Vec::new();
    for _ in 0..reader.u16()? {
        nodes.push(reader.node()?);
    }
    let count = reader.u32()?;
    let mut before = None;
    for _ in 0..count {
        let (shard, number) = (reader.u32()?, reader.u16()?);
        if shard >= written_with || before.is_some_and(|before| before >= shard) {
            return Err(WireError::Malformed { what: "shard" });
        }
        before = Some(shard);
        let shard = ShardId(shard);
        if number == NOWHERE {
            homes.remove(&shard);
        } else {
            let node = nodes.get(usize::from(number));
            let node = node.ok_or(WireError::Malformed { what: "home" })?;
            homes.insert(shard, node.clone());
        }
    }
    reader.finish()?;
    if written_with != shards {
        homes.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::fixture::node;

    fn some_homes() -> Homes {
        let nodes = [node("a", 1), node("b", 2)];
        let shards = [0_u32, 3, 7, 63];
        let placed = shards.iter().zip(nodes.iter().cycle());
        placed
            .map(|(shard, node)| (ShardId(*shard), node.clone()))
            .collect()
    }

    #[test]
    fn homes_are_read_as_they_were_written() {
        let homes = some_homes();
        let mut read = BTreeMap::from([(ShardId(9), node("z", 9))]);
        apply(&whole(64, &homes).unwrap(), 64, &mut read).unwrap();
        assert_eq!(read, homes);
        let moved = vec![
            (ShardId(0), None),
            (ShardId(3), Some(node("c", 3))),
            (ShardId(4), Some(node("a", 1))),
        ];
        apply(&changes(64, &moved).unwrap(), 64, &mut read).unwrap();
        let mut expected = homes;
        expected.remove(&ShardId(0));
        expected.insert(ShardId(3), node("c", 3));
        expected.insert(ShardId(4), node("a", 1));
        assert_eq!(read, expected);
    }

    #[test]
    fn the_bytes_are_these_for_ever() {
        let moved = vec![(ShardId(1), Some(node("a", 7))), (ShardId(2), None)];
        let bytes = changes(64, &moved).unwrap();
        let expected = [
            &[1, 1, 64, 0, 0, 0, 1, 0, 1, b'a'][..],
            &7355_u16.to_le_bytes(),
            &7_u64.to_le_bytes(),
            &[2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff],
        ];
        assert_eq!(&*bytes, expected.concat());
    }

    #[test]
    fn another_number_of_shards_leaves_no_home() {
        let mut read = some_homes();
        apply(&whole(64, &some_homes()).unwrap(), 65, &mut read).unwrap();
        assert!(read.is_empty());
    }

    #[test]
    fn every_cut_and_every_wrong_byte_is_noticed_or_still_homes_of_the_kind() {
        let bytes = whole(64, &some_homes()).unwrap();
        for end in 0..bytes.len() {
            assert!(
                apply(&bytes[..end], 64, &mut Homes::new()).is_err(),
                "cut at {end}"
            );
        }
        for at in 0..bytes.len() {
            for wrong in [0, 1, 0x7f, 0xff] {
                let mut bytes = bytes.to_vec();
                bytes[at] = wrong;
                let mut read = Homes::new();
                if apply(&bytes, 64, &mut read).is_ok() {
                    assert!(read.keys().all(|shard| shard.0 < 64), "byte {at} is {wrong}");
                }
            }
        }
    }
}
