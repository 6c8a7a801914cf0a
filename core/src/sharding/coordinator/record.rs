//! How homes are written down: the bytes of the records and snapshots of a coordinator's log. They are on disks, so a version only
//! ever grows; numbers are little-endian. Spec: sharding 1.1 (domain events), 10.16.
//!
//! `version (1) | what (1) | shards of the kind (4) | nodes (2) | each node | terms (2) | each term (8) | entries (4) | each entry:
//! shard (4), node (2), term (2), count (4)`. Entries ascend. The node's number 65,535 means: no home, and then term and count are 0.
//! What is 0 for all homes there are, and 1 for changes of them. Version 1 had neither terms nor counts: its placements have no token.
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
use crate::token::Token;

const VERSION: u8 = 2;
const WITHOUT_TOKENS: u8 = 1;
const WHOLE: u8 = 0;
const CHANGES: u8 = 1;
const NOWHERE: u16 = u16::MAX;

/// Bytes of an entry.
const ENTRY_BYTES: usize = 12;

/// Where a shard lives, and with which token it was placed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) node: UniqueAddress,
    pub(super) token: Token,
}

/// Homes by shard.
pub(super) type Homes = BTreeMap<ShardId, Placement>;

/// A change of a shard's home; `None`: it has none any more.
pub(super) type HomeChange = (ShardId, Option<Placement>);

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

fn encode(what: u8, shards: u32, entries: Vec<(ShardId, Option<&Placement>)>) -> Result<Bytes, WireError> {
    let mut numbers: BTreeMap<&UniqueAddress, u16> = BTreeMap::new();
    let mut nodes = Vec::new();
    let mut terms: BTreeMap<u64, u16> = BTreeMap::new();
    for Placement { node, token } in entries.iter().filter_map(|(_, home)| *home) {
        if !terms.contains_key(&token.term) {
            terms.insert(token.term, count_u16(terms.len(), "terms")?);
        }
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
    let mut by_number: Vec<(u16, u64)> = terms.iter().map(|(term, number)| (*number, *term)).collect();
    by_number.sort_unstable();
    out.extend_from_slice(&count_u16(by_number.len(), "terms")?.to_le_bytes());
    for (_, term) in by_number {
        out.extend_from_slice(&term.to_le_bytes());
    }
    let count = u32::try_from(entries.len()).map_err(|_| WireError::LimitExceeded { what: "shards" })?;
    out.extend_from_slice(&count.to_le_bytes());
    for (shard, home) in entries {
        let number = home.and_then(|home| numbers.get(&home.node)).copied();
        let term = home.and_then(|home| terms.get(&home.token.term)).copied();
        let count = u32::try_from(home.map_or(0, |home| home.token.count));
        let count = count.map_err(|_| WireError::LimitExceeded { what: "tokens" })?;
        out.extend_from_slice(&shard.0.to_le_bytes());
        out.extend_from_slice(&number.unwrap_or(NOWHERE).to_le_bytes());
        out.extend_from_slice(&term.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
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
    let with_tokens = match reader.u8()? {
        VERSION => true,
        WITHOUT_TOKENS => false,
        _ => return Err(WireError::Malformed { what: "version" }),
    };
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
    let mut terms = Vec::new();
    if with_tokens {
        for _ in 0..reader.u16()? {
            terms.push(reader.u64()?);
        }
    }
    let count = reader.u32()?;
    let mut before = None;
    for _ in 0..count {
        let (shard, number) = (reader.u32()?, reader.u16()?);
        // A kind that remembers its entities has had more shards once, or a region said so: they live somewhere as well.
        if shard >= SHARDS_MAX || before.is_some_and(|before| before >= shard) {
            return Err(WireError::Malformed { what: "shard" });
        }
        before = Some(shard);
        let token = match with_tokens {
            true => read_token(&mut reader, &terms)?,
            false => Some(Token::NONE),
        };
        let shard = ShardId(shard);
        if number == NOWHERE {
            // The term's number is 0, whether there is one or not.
            homes.remove(&shard);
        } else {
            let node = nodes.get(usize::from(number)).cloned();
            let (Some(node), Some(token)) = (node, token) else {
                return Err(WireError::Malformed { what: "home" });
            };
            homes.insert(shard, Placement { node, token });
        }
    }
    reader.finish()?;
    if written_with != shards {
        homes.clear();
    }
    Ok(())
}

/// A token; `None` if its term is none of those.
fn read_token(reader: &mut Reader<'_>, terms: &[u64]) -> Result<Option<Token>, WireError> {
    let (term, count) = (usize::from(reader.u16()?), u64::from(reader.u32()?));
    Ok(terms.get(term).map(|term| Token::new(*term, count)))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::fixture::node;

    fn placed(node: UniqueAddress, count: u64) -> Placement {
        let token = Token::new(7 + count % 2, count);
        Placement { node, token }
    }

    fn some_homes() -> Homes {
        let nodes = [node("a", 1), node("b", 2)];
        let shards = [0_u32, 3, 7, 63];
        let homes = shards.iter().zip(nodes.iter().cycle());
        homes
            .map(|(shard, node)| (ShardId(*shard), placed(node.clone(), u64::from(*shard))))
            .collect()
    }

    #[test]
    fn homes_of_shards_beyond_the_kinds_are_read_as_they_were_written() {
        let last = SHARDS_MAX - 1;
        let beyond = [64, last].map(|shard| (ShardId(shard), placed(node("a", 1), 5)));
        let mut read = Homes::new();
        apply(&whole(64, &Homes::from(beyond.clone())).unwrap(), 64, &mut read).unwrap();
        assert_eq!(read, Homes::from(beyond));
        let none = [(ShardId(SHARDS_MAX), None)];
        assert!(apply(&changes(64, &none).unwrap(), 64, &mut read).is_err());
    }

    #[test]
    fn homes_are_read_as_they_were_written() {
        let homes = some_homes();
        let mut read = BTreeMap::from([(ShardId(9), placed(node("z", 9), 1))]);
        apply(&whole(64, &homes).unwrap(), 64, &mut read).unwrap();
        assert_eq!(read, homes);
        let moved = vec![
            (ShardId(0), None),
            (ShardId(3), Some(placed(node("c", 3), 8))),
            (ShardId(4), Some(placed(node("a", 1), 9))),
        ];
        apply(&changes(64, &moved).unwrap(), 64, &mut read).unwrap();
        let mut expected = homes;
        expected.remove(&ShardId(0));
        expected.insert(ShardId(3), placed(node("c", 3), 8));
        expected.insert(ShardId(4), placed(node("a", 1), 9));
        assert_eq!(read, expected);
    }

    #[test]
    fn the_bytes_are_these_for_ever() {
        let moved = vec![(ShardId(1), Some(placed(node("a", 7), 5))), (ShardId(2), None)];
        let bytes = changes(64, &moved).unwrap();
        let expected = [
            &[2, 1, 64, 0, 0, 0, 1, 0, 1, b'a'][..],
            &7355_u16.to_le_bytes(),
            &7_u64.to_le_bytes(),
            &[1, 0, 8, 0, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0],
            &[2, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(&*bytes, expected.concat());
    }

    #[test]
    fn what_was_written_without_tokens_has_none() {
        let bytes = [
            &[1, 1, 64, 0, 0, 0, 1, 0, 1, b'a'][..],
            &7355_u16.to_le_bytes(),
            &7_u64.to_le_bytes(),
            &[2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff],
        ];
        let mut read = Homes::from([(ShardId(2), placed(node("z", 9), 1))]);
        apply(&bytes.concat(), 64, &mut read).unwrap();
        let (node, token) = (node("a", 7), Token::NONE);
        assert_eq!(read, Homes::from([(ShardId(1), Placement { node, token })]));
    }

    #[test]
    fn another_number_of_shards_leaves_no_home() {
        let mut read = some_homes();
        apply(&whole(64, &some_homes()).unwrap(), 65, &mut read).unwrap();
        assert!(read.is_empty());
    }

    #[test]
    fn every_cut_and_every_wrong_byte_is_noticed_or_still_homes_of_shards() {
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
                    assert!(
                        read.keys().all(|shard| shard.0 < SHARDS_MAX),
                        "byte {at} is {wrong}"
                    );
                }
            }
        }
    }
}
