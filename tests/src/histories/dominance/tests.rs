//! Histories that are right, and what is found in those that are not.

use quorate_core::journal::state::StoreId;
use quorate_core::kv::state::clock::Actor;

use super::*;

fn dot(store: u128, count: u64) -> VersionDot {
    let store = StoreId(store);
    let actor = Actor {
        store,
        boot: 1,
        since: 1,
    };
    VersionDot { actor, count }
}

fn sibling(dot: VersionDot, number: u64) -> Sibling {
    let dot = Some(dot);
    Sibling { number, dot }
}

fn clock(dots: &[(u128, u64)]) -> VersionClock {
    let mut clock = VersionClock::new();
    dots.iter()
        .for_each(|(store, count)| clock.add(dot(*store, *count), 0));
    clock
}

fn put(
    number: u64,
    context: &[(u128, u64)],
    (asked, answered): (u64, u64),
    written: &[(u128, u64)],
) -> PutCall {
    PutCall {
        number,
        is_delete: false,
        ends: None,
        context: clock(context),
        asked,
        outcome: PutOutcome::Written(answered, Some(clock(written))),
    }
}

fn get((asked, answered): (u64, u64), seen: &[(u128, u64)], shown: &[((u128, u64), u64)]) -> GetCall {
    let shown = shown
        .iter()
        .map(|((store, count), number)| sibling(dot(*store, *count), *number));
    GetCall {
        asked,
        answered,
        clock: clock(seen),
        shown: shown.collect(),
    }
}

/// Two blind puts at two stores, both shown, and a third that overwrites both.
fn good() -> KeyHistory {
    let seen = [(1, 1), (2, 1)];
    KeyHistory {
        puts: vec![
            put(10, &[], (1, 5), &[(1, 1)]),
            put(11, &[], (2, 6), &[(2, 1)]),
            put(12, &seen, (20, 25), &[(1, 2), (2, 1)]),
        ],
        gets: vec![
            get((3, 4), &[(2, 1)], &[((2, 1), 11)]),
            get((8, 9), &seen, &[((1, 1), 10), ((2, 1), 11)]),
            get((21, 22), &seen, &[((1, 1), 10), ((2, 1), 11)]),
            get((26, 27), &[(1, 2), (2, 1)], &[((1, 2), 12)]),
        ],
        grace: None,
    }
}

/// As somebody sees it who is not told which versions there are.
fn without_dots(history: &KeyHistory) -> KeyHistory {
    let mut history = history.clone();
    for put in &mut history.puts {
        if let PutOutcome::Written(_, written) = &mut put.outcome {
            *written = None;
        }
    }
    for shown in history.gets.iter_mut().flat_map(|get| &mut get.shown) {
        shown.dot = None;
    }
    history
}

/// What is wrong with the good one once something is changed: to whoever knows all dots, and to others.
fn both(change: impl FnOnce(&mut KeyHistory)) -> [Option<&'static str>; 2] {
    let mut history = good();
    change(&mut history);
    let blind = without_dots(&history);
    [history, blind].map(|history| judge(&history).err().map(|(invariant, _)| invariant))
}

fn broken(change: impl FnOnce(&mut KeyHistory)) -> &'static str {
    both(change)[0].expect("it is wrong")
}

#[test]
fn siblings_and_what_overwrites_them() {
    assert_eq!(judge(&good()), Ok(()));
    assert_eq!(judge(&without_dots(&good())), Ok(()));
}

#[test]
fn i_70_an_acknowledged_put_is_known_and_shown_or_overwritten() {
    let unknown = |history: &mut KeyHistory| history.gets[1] = get((8, 9), &[(2, 1)], &[((2, 1), 11)]);
    assert_eq!(both(unknown), [Some("I-70"); 2]);
    let lost = |history: &mut KeyHistory| {
        history.gets[1].shown.remove(0);
        history.gets[2].shown.remove(0);
        history.puts[2].context = clock(&[(2, 1)]);
        history.gets[3].shown[0].dot = Some(dot(1, 2));
    };
    assert_eq!(both(lost), [Some("I-70"); 2]);
}

#[test]
fn i_71_no_get_goes_back() {
    let back = |history: &mut KeyHistory| {
        history.puts[1].outcome = PutOutcome::Unknown;
        history.puts[0].outcome = PutOutcome::Unknown;
        history.gets[1] = get((8, 9), &[(1, 1)], &[((1, 1), 10)]);
    };
    assert_eq!(both(back), [Some("I-71"); 2]);
}

#[test]
fn i_72_siblings_are_the_maximal_versions() {
    let overwritten = |history: &mut KeyHistory| history.gets[3].shown.push(sibling(dot(2, 1), 11));
    assert_eq!(both(overwritten), [Some("I-72"); 2]);
    let unseen = |history: &mut KeyHistory| history.gets[0].clock = VersionClock::new();
    assert_eq!(broken(unseen), "I-72");
}

#[test]
fn i_73_a_put_is_one_version_or_none() {
    let twice = |history: &mut KeyHistory| history.gets[3].shown.push(sibling(dot(2, 2), 12));
    assert_eq!(broken(twice), "I-73");
    let shared = |history: &mut KeyHistory| history.gets[1].shown[0].dot = Some(dot(2, 1));
    assert_eq!(broken(shared), "I-73");
    let refused = |history: &mut KeyHistory| history.puts[2].outcome = PutOutcome::Nothing;
    assert_eq!(both(refused), [Some("I-73"); 2]);
    let invented = |history: &mut KeyHistory| history.puts.truncate(2);
    assert_eq!(both(invented), [Some("I-73"); 2]);
}

#[test]
fn i_75_nothing_overwritten_or_ended_returns() {
    let again = |history: &mut KeyHistory| {
        history
            .gets
            .push(get((30, 31), &[(1, 2), (2, 1)], &[((1, 1), 10)]));
    };
    assert_eq!(both(again), [Some("I-75"); 2]);
    let ended = |history: &mut KeyHistory| history.puts[2].ends = Some((25, 24));
    assert_eq!(broken(ended), "I-75");
}

#[test]
fn i_75_a_delete_is_forgotten_after_its_grace_and_not_before() {
    let mut history = good();
    let mut delete = put(13, &[(1, 2), (2, 1)], (40, 45), &[(1, 2), (2, 2)]);
    delete.is_delete = true;
    history.puts.push(delete);
    history.gets.push(get((46, 47), &[(1, 2), (2, 2)], &[]));
    assert_eq!(judge(&history), Ok(()));
    history.gets.push(get((90, 91), &[], &[]));
    history.grace = Some(50);
    assert_eq!(judge(&history), Ok(()));
    history.grace = Some(60);
    assert!(judge(&history).is_err(), "too early");
    history.grace = Some(50);
    history.gets.push(get((95, 96), &[(2, 1)], &[((2, 1), 11)]));
    assert_eq!(judge(&history).map_err(|(invariant, _)| invariant), Err("I-75"));
}

#[test]
fn a_delete_is_known_by_what_it_overwrote_where_nobody_was_told_its_clock() {
    let after = |seen: &[(u128, u64)], shown: &[_]| {
        let mut history = good();
        let mut delete = put(13, &[(1, 2), (2, 1)], (40, 45), &[(1, 2), (2, 2)]);
        delete.is_delete = true;
        history.puts.push(delete);
        history.gets.push(get((46, 47), seen, shown));
        judge(&without_dots(&history)).map_err(|(invariant, _)| invariant)
    };
    assert_eq!(after(&[(1, 2), (2, 2)], &[]), Ok(()));
    assert_eq!(after(&[(1, 2), (2, 1)], &[((1, 2), 12)]), Err("I-75"));
}

#[test]
fn a_put_that_was_overwritten_before_its_acknowledgement_is_not_lost() {
    let mut history = KeyHistory {
        puts: vec![
            put(10, &[], (1, 9), &[(1, 1), (2, 1)]),
            put(11, &[(1, 1)], (5, 6), &[(1, 1), (2, 1)]),
        ],
        gets: vec![get((10, 11), &[(1, 1), (2, 1)], &[((2, 1), 11)])],
        grace: None,
    };
    assert_eq!(judge(&history), Ok(()));
    history.puts[0].outcome = PutOutcome::Written(4, Some(clock(&[(1, 1), (2, 1)])));
    assert_eq!(judge(&history).map_err(|broken| broken.0), Err("I-70"));
}

#[test]
fn a_value_that_has_ended_is_shown_once_more_or_not() {
    let mut history = good();
    history.puts[2].ends = Some((28, 24));
    assert_eq!(judge(&history), Ok(()));
    history.gets.push(get((27, 28), &[(1, 2), (2, 1)], &[]));
    assert_eq!(judge(&history), Ok(()));
}
