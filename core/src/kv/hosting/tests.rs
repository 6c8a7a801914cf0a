//! What a store takes of its peers: keys of the range that they name, and no more than may wait for its disk.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::{BucketStore, HostSettings, StoredBucket};
use crate::ddata::state::key::Key;
use crate::fixture::node;
use crate::ident::UniqueAddress;
use crate::journal::state::StoreId;
use crate::kv::protocol::trees::{TreeAsk, TreeStatement};
use crate::kv::protocol::{BucketBody, OwnerAsk, Rejection};
use crate::kv::state::bucket::BucketName;
use crate::kv::state::call::RequestId;
use crate::kv::state::clock::VersionClock;
use crate::kv::state::configuration::{Configuration, Owners};
use crate::kv::state::exchange::{KvAsk, KvChange, Mint};
use crate::kv::state::node::MerkleNode;
use crate::kv::state::settings::range_of;
use crate::kv::state::table::{RangeId, RangeLevels};
use crate::store::{Bytes, StoreIdentity};
use crate::time::{Instant, Now};
use crate::token::Token;

const RANGES: u16 = 4;
const NOW: Now = Now {
    mono: Instant::ZERO,
    unix_ms: 1_000_000,
};

fn peer() -> UniqueAddress {
    node("peer", 7)
}

fn configuration() -> Configuration {
    Configuration {
        epoch: 1,
        owners: Owners::Stable([1, 2, 3].map(StoreId).to_vec()),
    }
}

fn key() -> Key {
    Key::new("a key").unwrap()
}

/// A durable store that owns all ranges, and has kept that.
fn store() -> BucketStore {
    let settings = HostSettings {
        ranges: RANGES,
        levels: RangeLevels::new(3, 2, 2).unwrap(),
        grace_ms: 1_000,
        ask_again: Duration::from_secs(1),
        bytes_max: usize::MAX,
        is_sloppy: false,
    };
    let identity = StoreIdentity { id: 1, boot: 1 };
    let mut store = BucketStore::open(identity, settings, StoredBucket::default(), NOW).unwrap();
    let told: Vec<_> = (0..RANGES)
        .map(|range| (RangeId(range), configuration()))
        .collect();
    store
        .on_tell(&peer(), Token::new(1, 1), &told, Instant::ZERO)
        .unwrap();
    keep(&mut store);
    store
}

fn keep(store: &mut BucketStore) {
    let bucket = BucketName::new("b").unwrap();
    while store.batch(&bucket).is_some() {
        store.on_kept(Instant::ZERO);
    }
    store.take_said(Instant::ZERO);
}

fn ask(store: &mut BucketStore, range: RangeId, ask: KvAsk) -> Result<(), Rejection> {
    let asked = OwnerAsk {
        store: store.id(),
        range,
        configuration: configuration(),
        key: key(),
        call: 1,
        step: 1,
        ask,
    };
    store.on_ask(&peer(), &asked, Now::default())
}

fn mint(store: &BucketStore, bytes: usize) -> KvAsk {
    let range = range_of(&key(), RANGES);
    let (_, held) = store.ranges().find(|(of, _)| *of == range).unwrap();
    let request = RequestId {
        call: Default::default(),
        attempt: 0,
    };
    KvAsk::Mint(Mint {
        request,
        open_from: 0,
        actor: held.replica().actor(),
        context: VersionClock::new(),
        is_proven: false,
        change: KvChange::Put {
            bytes: Bytes::from(vec![1; bytes]),
            ttl_ms: None,
        },
    })
}

#[test]
fn a_key_is_asked_about_in_its_range_alone() {
    let mut store = store();
    let own = range_of(&key(), RANGES);
    for range in (0..RANGES).map(RangeId) {
        let minted = mint(&store, 1);
        let expected = if range == own {
            Ok(())
        } else {
            Err(Rejection::KeyElsewhere(range))
        };
        assert_eq!(ask(&mut store, range, minted), expected);
    }
    let held: usize = store.ranges().map(|(_, held)| held.entries().len()).sum();
    assert_eq!(held, 1);
}

#[test]
fn what_waits_for_a_disk_that_stands_still_has_a_limit_in_bytes() {
    const BYTES: usize = 400_000;
    let (mut store, own) = (store(), range_of(&key(), RANGES));
    let minted = mint(&store, BYTES);
    ask(&mut store, own, minted).unwrap();
    keep(&mut store);
    // Something is not kept yet, so that every answer waits.
    let again = mint(&store, 1);
    ask(&mut store, own, again).unwrap();
    store.unkept.heads.insert(own);
    for _ in 0..1_000 {
        ask(&mut store, own, KvAsk::Get).unwrap();
        store
            .on_pull(&peer(), (own, &configuration()), None, Instant::ZERO)
            .unwrap();
    }
    let waiting: usize = store.said.iter().map(|(_, body)| body.bytes()).sum();
    assert!(waiting <= super::WAITING_BYTES_MAX + 2 * BYTES, "{waiting} bytes");
    assert!(store.take_said(Instant::ZERO).is_empty(), "nothing is kept yet");
    keep(&mut store);
    ask(&mut store, own, KvAsk::Get).unwrap();
    assert_eq!(store.said.len(), 1, "there is room again");
}

/// What the store says about trees.
fn said(store: &mut BucketStore) -> Vec<TreeStatement> {
    let said = store.take_said(Instant::ZERO).into_iter();
    let trees = said.filter_map(|(_, body)| match body {
        BucketBody::Trees(statement) => Some(*statement),
        _ => None,
    });
    trees.collect()
}

#[test]
fn i_74_trees_are_compared_between_owners_of_one_configuration_alone() {
    let (mut store, range) = (store(), range_of(&key(), RANGES));
    let minted = mint(&store, 10);
    ask(&mut store, range, minted).unwrap();
    keep(&mut store);
    let asked = |configuration| TreeAsk {
        store: StoreId(1),
        range,
        configuration,
        comparison: 7,
    };
    let root = [MerkleNode::ROOT];
    let present = asked(configuration());
    store.on_compare(&peer(), &present, &root, NOW).unwrap();
    let [TreeStatement::Sums { sums, .. }] = &said(&mut store)[..] else {
        panic!("the sums of the root's children")
    };
    assert_eq!(sums.iter().filter(|sum| **sum != 0).count(), 1);
    let leaf = MerkleNode::leaf_of(&key());
    assert_eq!(
        store.on_compare(&peer(), &present, &[leaf], NOW),
        Err(Rejection::Tree)
    );
    let unsorted = [leaf, MerkleNode::ROOT];
    let fetched = store.on_fetch(&peer(), &present, (&unsorted, None), NOW);
    assert_eq!(fetched, Err(Rejection::Tree));
    store.on_fetch(&peer(), &present, (&[leaf], None), NOW).unwrap();
    let [TreeStatement::Held { items, next, .. }] = &said(&mut store)[..] else {
        panic!("the key")
    };
    assert_eq!((items.len(), next), (1, &None));
    // Behind it there is nothing.
    let after = Some(Bytes::clone(&items[0].key));
    store.on_fetch(&peer(), &present, (&[leaf], after), NOW).unwrap();
    assert!(matches!(&said(&mut store)[..], [TreeStatement::Held { items, .. }] if items.is_empty()));
    // Who comes later than these owners hears nothing, and neither does anybody during a move.
    let joint = Configuration {
        epoch: 2,
        owners: Owners::Joint {
            from: [1, 2, 3].map(StoreId).to_vec(),
            to: [1, 2, 4].map(StoreId).to_vec(),
        },
    };
    store.on_compare(&peer(), &asked(joint), &root, NOW).unwrap();
    store.on_compare(&peer(), &present, &root, NOW).unwrap();
    let bucket = BucketName::new("b").unwrap();
    while store.batch(&bucket).is_some() {
        store.on_kept(Instant::ZERO);
    }
    assert_eq!(said(&mut store), []);
}
