//! A coordinator that takes over: from those who keep the table, or from what stores know.

use core::slice::from_ref;

use super::*;
use crate::kv::ranges::recovery::first_epoch_after;
use crate::ordered::OrderedSet;

#[test]
fn a_new_coordinator_tells_a_joint_again_and_ends_it() {
    let mut before = Driven::moving();
    before.look();
    let table = before.coordinator.table().clone();
    let mut driven = Driven::new(settings(1));
    driven.coordinator = RangeCoordinator::new(settings(1));
    driven.coordinator.on_opened(Some(table), at(0));
    driven.stores(1..=4);
    let told = driven.look();
    assert_eq!(told.len(), 4, "all that it names");
    driven.adopt([2, 3], 2, &[]);
    driven.adopt([4], 2, &[2, 3]);
    assert_eq!(driven.news(), [ENDED]);
    assert_eq!(driven.owners(0), stable(3, [4, 2, 3]));
}

#[test]
fn i_100_the_epoch_of_a_range_is_what_its_coordinator_decides() {
    let mut driven = Driven::moving();
    driven.adopt([2, 3, 4], EPOCH_MAX, &[1, 2, 3]);
    driven
        .coordinator
        .on_found(id(2), &[(RangeId(0), stable(EPOCH_MAX, [2, 3, 4]))], true);
    driven.later(1);
    assert_eq!(driven.news(), []);
    assert_eq!(driven.owners(0), joint(2, [1, 2, 3], (1, 4)));
    let mut last = RangeTable::new();
    let entry = RangeEntry {
        configuration: stable(EPOCH_MAX, [1, 2, 3]),
        levels: settings(1).levels,
    };
    last.apply(TableChange {
        entries: vec![(RangeId(0), entry)],
        lost: OrderedSet::new(),
    });
    let mut driven = Driven::given();
    driven.coordinator = RangeCoordinator::new(settings(1));
    driven.coordinator.on_opened(Some(last), at(0));
    driven.stores([2, 3, 4]);
    driven.look();
    driven.later(200);
    assert_eq!(driven.news(), [], "it changes no more");
}

fn found(driven: &mut Driven, store: u128, known: &[Configuration]) {
    let known: Vec<_> = known.iter().map(|known| (RangeId(0), known.clone())).collect();
    driven.coordinator.on_found(id(store), &known, true);
}

fn finding() -> Driven {
    Driven::new(RangeSettings {
        is_kept: false,
        ..settings(1)
    })
}

#[test]
fn a_table_that_nobody_keeps_is_found_at_the_stores() {
    let mut driven = finding();
    driven.stores(1..=4);
    let asked = driven.look();
    assert_eq!(asked.len(), 4);
    let (before, after) = (stable(5, [1, 2, 3]), joint(6, [1, 2, 3], (1, 4)));
    for store in 1..=3 {
        found(&mut driven, store, from_ref(&before));
    }
    assert_eq!(driven.look(), [], "one has not spoken");
    let wrong = Configuration {
        epoch: 9,
        owners: Owners::Stable(vec![id(1)]),
    };
    found(&mut driven, 4, &[wrong, after.clone()]);
    driven.look();
    assert_eq!(driven.owners(0), after);
    driven.adopt([2, 3], 6, &[]);
    driven.adopt([4], 6, &[2, 3]);
    assert_eq!(driven.news(), [ENDED]);
    let left_out = stable(1 << 8, [4, 2, 3]);
    assert_eq!(
        driven.owners(0),
        left_out,
        "the step before may have been told to somebody"
    );
    driven.adopt([2], (1 << 8) + 1, &[]);
    assert_eq!(driven.look(), [RangeEffect::Outdone]);
    assert!(!driven.coordinator.is_active());
}

#[test]
fn nothing_is_decided_about_a_range_before_enough_of_its_owners_have_spoken() {
    let mut driven = finding();
    driven.stores([1, 4, 5, 6]);
    driven.look();
    for store in [1, 4, 5, 6] {
        found(&mut driven, store, &[stable(5, [1, 2, 3])]);
    }
    driven.look();
    driven.later(200);
    assert_eq!(driven.news(), [], "both others are away for long");
    driven.stores([1, 2, 4, 5, 6]);
    driven.look();
    found(&mut driven, 2, &[stable(5, [1, 2, 3])]);
    assert_eq!(driven.news(), [begun(3, 4, ChangeReason::Repair)]);
    assert_eq!(driven.owners(0), joint(1 << 8, [1, 2, 3], (3, 4)));
}

#[test]
fn a_range_that_is_not_found_among_others_may_be_away_with_its_owners() {
    let found_one = |is_durable| {
        let mut driven = Driven::new(RangeSettings {
            is_kept: false,
            is_durable,
            ..settings(2)
        });
        driven.stores(1..=3);
        driven.look();
        for store in 1..=3 {
            found(&mut driven, store, &[stable(5, [1, 2, 3])]);
        }
        driven.news()
    };
    assert_eq!(found_one(true), []);
    assert_eq!(found_one(false), [RangeEvent::Given { ranges: 1 }]);
}

#[test]
fn coordinators_that_find_the_same_table_step_to_epochs_of_their_own() {
    let mut told = OrderedSet::new();
    for number in 1..=50 {
        for count in 1..=20 {
            let term = Token { term: number, count };
            let first = first_epoch_after(7, term);
            assert!(
                first > 7 && (first..first + 200).all(|epoch| !told.contains(&epoch)),
                "{term:?}"
            );
            told.insert(first);
            // One that finds that begins further on still, at the same distance from all others.
            assert!(first_epoch_after(first, term) > first);
        }
    }
}
