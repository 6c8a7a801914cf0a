//! Homes as they are written down: what becomes a record or a snapshot of a coordinator's log, and back. The
//! bytes are `wire`'s business. Spec: sharding 1.1 (domain events), 10.16.

use alloc::vec::Vec;

use crate::bytes::{WireError, count_u16};
use crate::ident::UniqueAddress;
use crate::ordered::OrderedMap;
use crate::sharding::state::ids::ShardId;
use crate::sharding::state::kept::{HomeRecord, HomesChange, HomesRecord, NOWHERE};
use crate::store::Bytes;
use crate::token::Token;
use crate::wire::StoredForm;

/// Where a shard lives, and with which token it was placed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlacedHome {
    pub(super) node: UniqueAddress,
    pub(super) token: Token,
}

/// Homes by shard.
pub(super) type Homes = OrderedMap<ShardId, PlacedHome>;

/// A change of a shard's home; `None`: it has none any more.
pub(super) type HomeChange = (ShardId, Option<PlacedHome>);

/// Makes one change.
pub(super) fn change(homes: &mut Homes, shard: ShardId, home: Option<PlacedHome>) {
    match home {
        Some(home) => homes.insert(shard, home),
        None => homes.remove(&shard),
    };
}

/// All homes of a kind with so many shards.
pub(super) fn whole(shards: u32, homes: &Homes) -> Result<Bytes, WireError> {
    let homes = homes.iter().map(|(shard, home)| (*shard, Some(home)));
    encode(HomesChange::Whole, shards, homes)
}

/// Some changes, their shards ascending.
pub(super) fn changes(shards: u32, changes: &[HomeChange]) -> Result<Bytes, WireError> {
    let homes = changes.iter().map(|(shard, home)| (*shard, home.as_ref()));
    encode(HomesChange::Changes, shards, homes)
}

/// Values of which each stands in a list once.
struct IndexedList<T> {
    places: OrderedMap<T, u16>,
    all: Vec<T>,
}

impl<T: Clone + Ord> IndexedList<T> {
    const fn new() -> Self {
        Self {
            places: OrderedMap::new(),
            all: Vec::new(),
        }
    }

    fn place(&mut self, value: &T) -> Result<u16, WireError> {
        if let Some(place) = self.places.get(value) {
            return Ok(*place);
        }
        let place = count_u16(self.all.len(), "homes")?;
        self.places.insert(value.clone(), place);
        self.all.push(value.clone());
        Ok(place)
    }
}

fn encode<'a>(
    what: HomesChange,
    shards: u32,
    homes: impl Iterator<Item = (ShardId, Option<&'a PlacedHome>)>,
) -> Result<Bytes, WireError> {
    let (mut nodes, mut terms) = (IndexedList::new(), IndexedList::new());
    let homes = homes.map(|(ShardId(shard), home)| {
        let Some(PlacedHome { node, token }) = home else {
            let (node, term, count) = (NOWHERE, 0, 0);
            return Ok(HomeRecord {
                shard,
                node,
                term,
                count,
            });
        };
        let count = u32::try_from(token.count).map_err(|_| WireError::LimitExceeded { what: "tokens" })?;
        let (node, term) = (nodes.place(node)?, terms.place(&token.term)?);
        Ok(HomeRecord {
            shard,
            node,
            term,
            count,
        })
    });
    let homes = homes.collect::<Result<Vec<_>, WireError>>()?;
    let (nodes, terms) = (nodes.all, terms.all);
    HomesRecord {
        what,
        shards,
        nodes,
        terms,
        homes,
    }
    .to_bytes()
}

/// Applies what was written down to what is known so far. What was written when the kind had another number
/// of shards says nothing about these: it leaves no home.
///
/// # Errors
/// It was not written here; `homes` may hold a part of it.
pub(super) fn apply(bytes: &[u8], shards: u32, homes: &mut Homes) -> Result<(), WireError> {
    let record = HomesRecord::from_bytes(bytes)?;
    match record.what {
        HomesChange::Whole => homes.clear(),
        HomesChange::Changes => {}
    }
    for HomeRecord {
        shard,
        node,
        term,
        count,
    } in record.homes
    {
        if node == NOWHERE {
            homes.remove(&ShardId(shard));
            continue;
        }
        let node = record.nodes.get(usize::from(node)).cloned();
        let (Some(node), Some(term)) = (node, record.terms.get(usize::from(term))) else {
            return Err(WireError::DanglingIndex { what: "home" });
        };
        let token = Token::new(*term, u64::from(count));
        homes.insert(ShardId(shard), PlacedHome { node, token });
    }
    if record.shards != shards {
        homes.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::fixture::node;
    use crate::sharding::state::ids::SHARDS_MAX;

    fn placed(node: UniqueAddress, count: u64) -> PlacedHome {
        let token = Token::new(7 + count % 2, count);
        PlacedHome { node, token }
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
        assert!(changes(64, &none).is_err());
    }

    #[test]
    fn homes_are_read_as_they_were_written() {
        let homes = some_homes();
        let mut read = OrderedMap::from([(ShardId(9), placed(node("z", 9), 1))]);
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
