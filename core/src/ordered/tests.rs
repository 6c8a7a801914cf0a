//! Maps and sets beside those of `alloc`, which are the model.

use super::{Entry, OrderedMap, OrderedSet};
use alloc::collections::BTreeSet;
use alloc::collections::btree_map::{self, BTreeMap};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Bound;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Insert(u8, u32),
    Entry(u8, u32),
    Remove(u8),
    PopFirst,
    Retain(u8),
    SplitOff(u8),
    Change(u8),
    Clear,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        20 => (any::<u8>(), any::<u32>()).prop_map(|(key, value)| Op::Insert(key, value)),
        10 => (any::<u8>(), any::<u32>()).prop_map(|(key, value)| Op::Entry(key, value)),
        15 => any::<u8>().prop_map(Op::Remove),
        4 => Just(Op::PopFirst),
        2 => (2..9_u8).prop_map(Op::Retain),
        1 => any::<u8>().prop_map(Op::SplitOff),
        2 => any::<u8>().prop_map(Op::Change),
        1 => Just(Op::Clear),
    ];
    prop::collection::vec(op, 0..400)
}

/// Does the same to both and compares what they return.
fn play(op: Op, map: &mut OrderedMap<u8, u32>, model: &mut BTreeMap<u8, u32>) {
    match op {
        Op::Insert(key, value) => assert_eq!(map.insert(key, value), model.insert(key, value)),
        Op::Entry(key, value) => match (map.entry(key), model.entry(key)) {
            (Entry::Occupied(mut ours), btree_map::Entry::Occupied(mut theirs)) => {
                assert_eq!((ours.key(), ours.get()), (theirs.key(), theirs.get()));
                if value.is_multiple_of(2) {
                    assert_eq!(ours.remove(), theirs.remove());
                } else {
                    assert_eq!(ours.insert(value), theirs.insert(value));
                }
            }
            (Entry::Vacant(ours), btree_map::Entry::Vacant(theirs)) => {
                assert_eq!(ours.insert(value), theirs.insert(value));
            }
            _ => panic!("one has {key}, the other has not"),
        },
        Op::Remove(key) => assert_eq!(map.remove(&key), model.remove(&key)),
        Op::PopFirst => assert_eq!(map.pop_first(), model.pop_first()),
        Op::Retain(n) => {
            let mut keep = |key: &u8, value: &mut u32| {
                *value = value.wrapping_add(1);
                !key.is_multiple_of(n)
            };
            map.retain(&mut keep);
            model.retain(keep);
        }
        Op::SplitOff(key) => {
            let (rest, behind) = (map.split_off(&key), model.split_off(&key));
            assert!(rest.iter().eq(behind.iter()));
        }
        Op::Change(key) => {
            for (key, value) in map.iter_mut().rev() {
                *value = value.wrapping_mul(3).wrapping_add(u32::from(*key));
            }
            for (key, value) in model.iter_mut() {
                *value = value.wrapping_mul(3).wrapping_add(u32::from(*key));
            }
            assert!(map.range_mut(key..).eq(model.range_mut(key..)));
            assert!(map.iter_mut().rev().eq(model.iter_mut().rev()));
            assert!(map.clone().into_iter().rev().eq(model.clone().into_iter().rev()));
            map.values_mut().for_each(|value| *value /= 2);
            model.values_mut().for_each(|value| *value /= 2);
        }
        Op::Clear => {
            map.clear();
            model.clear();
        }
    }
}

proptest! {
    #[test]
    fn a_map_does_what_a_b_tree_does(ops in ops(), at in any::<u8>()) {
        let (mut map, mut model) = (OrderedMap::new(), BTreeMap::new());
        for op in ops {
            play(op, &mut map, &mut model);
            prop_assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
            prop_assert!(map.iter().eq(model.iter()));
            prop_assert_eq!(map.get(&at), model.get(&at));
        }
        prop_assert!(map.iter().rev().eq(model.iter().rev()));
        prop_assert!(map.keys().eq(model.keys()) && map.values().eq(model.values()));
        prop_assert!(map.range(at..).eq(model.range(at..)) && map.range(..=at).rev().eq(model.range(..=at).rev()));
        prop_assert_eq!(map.first_key_value(), model.first_key_value());
        prop_assert_eq!(map.last_key_value(), model.last_key_value());
        let next = map.next_mut(Bound::Excluded(&at)).map(|(key, value)| (*key, *value));
        let there = (Bound::Excluded(&at), Bound::Unbounded);
        prop_assert_eq!(next, model.range::<u8, _>(there).next().map(|(key, value)| (*key, *value)));
        prop_assert_eq!(format!("{map:?} {map:#?}"), format!("{model:?} {model:#?}"));
        let again: OrderedMap<u8, u32> = model.clone().into_iter().rev().collect();
        prop_assert_eq!(&map, &again);
        prop_assert!(map.clone().into_values().eq(model.clone().into_values()));
        prop_assert!(map.into_iter().eq(model));
    }

    #[test]
    fn a_set_does_what_a_b_tree_does(
        ours in prop::collection::vec(0..40_u8, 0..40), theirs in prop::collection::vec(0..40_u8, 0..40), at in 0..40_u8,
    ) {
        let mut sets: (OrderedSet<u8>, OrderedSet<u8>) = Default::default();
        let mut models: (BTreeSet<u8>, BTreeSet<u8>) = Default::default();
        for element in ours {
            prop_assert_eq!(sets.0.insert(element), models.0.insert(element));
        }
        sets.1.extend(theirs.iter());
        models.1.extend(theirs);
        prop_assert!(sets.0.union(&sets.1).eq(models.0.union(&models.1)));
        prop_assert!(sets.0.difference(&sets.1).eq(models.0.difference(&models.1)));
        prop_assert_eq!(sets.0.is_subset(&sets.1), models.0.is_subset(&models.1));
        prop_assert_eq!(sets.0.is_superset(&sets.1), models.0.is_superset(&models.1));
        prop_assert_eq!(sets.0.cmp(&sets.1), models.0.cmp(&models.1));
        prop_assert!(sets.0.range(at..).eq(models.0.range(at..)));
        prop_assert_eq!(format!("{:?}", sets.0), format!("{:?}", models.0));
        prop_assert_eq!(sets.0.contains(&at), models.0.contains(&at));
        prop_assert_eq!(sets.1.remove(&at), models.1.remove(&at));
        prop_assert_eq!((sets.0.first(), sets.0.last()), (models.0.first(), models.0.last()));
        prop_assert_eq!(sets.0.pop_first(), models.0.pop_first());
        sets.0.retain(|element| !element.is_multiple_of(3));
        models.0.retain(|element| !element.is_multiple_of(3));
        prop_assert!(sets.0.into_iter().eq(models.0));
    }
}

/// A place is used again, the last one that was given up first, and memory is given back once most is free.
#[test]
fn places_are_used_again_and_given_back() {
    let mut map: OrderedMap<u32, String> = (0..1_000).map(|key| (key, format!("value {key}"))).collect();
    assert_eq!(map.places(), 1_000);
    assert_eq!((map.iter().len(), map.iter_mut().len()), (1_000, 1_000));
    for key in 0..500 {
        map.remove(&key);
    }
    assert_eq!(map.places(), 1_000, "half of them are free, and stay");
    (1_000..1_500).for_each(|key| drop(map.insert(key, format!("value {key}"))));
    assert_eq!((map.len(), map.places()), (1_000, 1_000));
    map.retain(|key, _| key.is_multiple_of(10));
    assert_eq!(
        (map.len(), map.places()),
        (100, 100),
        "more than three quarters were free"
    );
    assert!(map.iter().all(|(key, value)| *value == format!("value {key}")));
    while map.pop_first().is_some() {}
    assert!(map.places() <= 64, "few are kept");
}
