//! A table that nobody keeps.

use core::slice::from_ref;

use super::*;

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
    let left_out = stable(8, [4, 2, 3]);
    assert_eq!(
        driven.owners(0),
        left_out,
        "the step before may have been told to somebody"
    );
    driven.adopt([2], 9, &[]);
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
    assert_eq!(driven.owners(0), joint(7, [1, 2, 3], (3, 4)));
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
