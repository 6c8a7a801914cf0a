//! The books, called by hand.

use quorate_core::journal::state::StoreId;
use quorate_core::kv::state::clock::{Actor, VersionDot};

use super::*;

fn write(books: &mut Books, key: usize, (asked, answered): (u64, u64), told: Told) -> u64 {
    let number = books.next_number();
    let written = Written {
        number,
        is_delete: false,
    };
    let context = books.keys[key].context.clone();
    let is_judged = true;
    let put = Asked::Put {
        written,
        context,
        is_judged,
        lives: None,
    };
    let place = books.begin(key, asked, put);
    books.end(place, answered, told);
    number
}

fn read(books: &mut Books, key: usize, time: (u64, u64), numbers: &[u64]) {
    read_under(VersionClock::new(), books, (key, time), numbers);
}

/// A get that is answered with this clock.
fn read_under(
    clock: VersionClock,
    books: &mut Books,
    (key, (asked, answered)): (usize, (u64, u64)),
    numbers: &[u64],
) {
    let sibling = |number: &u64| Sibling {
        number: *number,
        dot: None,
    };
    let place = books.begin(key, asked, Asked::Get { is_judged: true });
    let told = Told::Found {
        clock,
        siblings: numbers.iter().map(sibling).collect(),
        decided: None,
    };
    books.end(place, answered, told);
}

#[test]
fn a_key_with_one_writer_waits_until_it_was_seen_and_ends_with_an_unknown_outcome() {
    let mut books = Books::default();
    let key = books.add_key("w".to_owned(), KeyUse::OneWriter);
    let number = write(&mut books, key, (1, 2), Told::Written(None));
    assert!(!books.keys[key].may_call(true), "nobody knows its version");
    read(&mut books, key, (3, 4), &[number]);
    assert!(books.keys[key].may_call(true));
    assert_eq!(books.judge(|_| 9, None), Ok(()));
    write(&mut books, key, (5, 6), Told::Unknown);
    assert!(books.keys[key].is_done() && !books.keys[key].may_call(true));
    read(&mut books, key, (7, 8), &[number]);
    assert_eq!(books.judge(|_| 9, None), Ok(()));
    read(&mut books, key, (9, 10), &[]);
    assert_eq!(books.judge(|_| 8, None), Ok(()), "not judged any more");
    assert_eq!(
        books.judge(|_| 10, None).map_err(|broken| broken.0),
        Err("linearizable")
    );
    books.excuse(8, |at| at == key);
    assert_eq!(books.judge(|_| 10, None), Ok(()));
}

#[test]
fn a_register_has_moments_in_which_nobody_waits() {
    let mut books = Books::default();
    let key = books.add_key("c".to_owned(), KeyUse::Conditional);
    let mut open = std::collections::VecDeque::new();
    let mut most = 0;
    for now in 0..100 {
        if books.keys[key].may_call(true) {
            open.push_back(books.begin(key, now, Asked::Get { is_judged: true }));
            most = most.max(open.len());
        } else if let Some(place) = open.pop_front() {
            books.end(place, now, Told::Nothing);
        }
    }
    assert_eq!(most, OPEN_MAX);
    assert!(books.keys[key].unbroken <= UNBROKEN_MAX, "it never breaks off");
}

#[test]
fn i_75_a_value_past_its_end_is_not_shown_and_may_be_missing_before() {
    let lives = TimeToLive {
        ttl: 100,
        made_within: 50,
        clocks_differ: 10,
    };
    assert_eq!(lives.ends(5, Some(9)), (119, 95));
    assert_eq!(lives.ends(5, None), (165, 95), "nobody knows when it was made");
    for (asked, shows, expected) in [
        (90, true, Ok(())),
        (90, false, Err("I-70")),
        (96, false, Ok(())),
        (119, true, Ok(())),
        (120, true, Err("I-75")),
        (120, false, Ok(())),
    ] {
        let mut books = Books::default();
        let key = books.add_key("s".to_owned(), KeyUse::Shared);
        let number = books.next_number();
        let written = Written {
            number,
            is_delete: false,
        };
        let (context, is_judged) = (VersionClock::new(), true);
        let put = Asked::Put {
            written,
            context,
            is_judged,
            lives: Some(lives),
        };
        let place = books.begin(key, 5, put);
        let mut clock = VersionClock::new();
        let actor = Actor {
            store: StoreId(1),
            boot: 1,
            since: 1,
        };
        clock.add(VersionDot { actor, count: 1 }, 0);
        books.end(place, 9, Told::Written(Some(clock.clone())));
        let numbers = if shows { &[number][..] } else { &[] };
        read_under(clock, &mut books, (key, (asked, asked)), numbers);
        let judged = books.judge(|_| 200, None).map_err(|broken| broken.0);
        assert_eq!(judged, expected, "a get at {asked} shows it: {shows}");
    }
}
