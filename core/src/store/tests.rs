//! The rules of a store over a map in memory: tokens, expected sequences, repetitions, limits, damage. Spec:
//! sharding 10.7, 10.10; reliability I-80.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::limits::*;
use super::memory::MemoryMap;
use super::*;

const SPACE: Space = Space(7);
const LOG: &str = "journal";

fn bytes(text: &str) -> Bytes {
    Bytes::from(text.as_bytes())
}

fn token(term: u64) -> Token {
    Token::new(term, 1)
}

fn open(term: u64, opener: u64) -> StoreOrder {
    StoreOrder::Open {
        log: LOG.into(),
        token: token(term),
        opener,
    }
}

fn append(term: u64, expected: Sequence, records: &[&str]) -> StoreOrder {
    StoreOrder::Append {
        log: LOG.into(),
        token: token(term),
        expected,
        records: records.iter().map(|record| bytes(record)).collect(),
    }
}

fn read_log(from: Sequence, bytes_max: usize) -> StoreOrder {
    StoreOrder::ReadLog {
        log: LOG.into(),
        from,
        bytes_max,
    }
}

fn put(key: &str, value: &str) -> Change {
    Change::Put {
        key: bytes(key),
        value: bytes(value),
    }
}

fn write(batch: Vec<Change>) -> StoreOrder {
    StoreOrder::Write { batch }
}

fn range(from: &str, to: Option<&str>, bytes_max: usize) -> StoreOrder {
    StoreOrder::Range {
        from: bytes(from),
        to: to.map(bytes),
        bytes_max,
    }
}

fn do_all(map: &mut MemoryMap, orders: &[StoreOrder]) -> Vec<Outcome> {
    orders.iter().map(|order| map.obey(SPACE, order)).collect()
}

fn keys(outcome: Outcome) -> (Vec<String>, bool) {
    match outcome {
        Ok(StoreAnswer::Items { items, more }) => {
            let keys = items
                .iter()
                .map(|(key, _)| String::from_utf8_lossy(key).into_owned());
            (keys.collect(), more)
        }
        other => panic!("{other:?}"),
    }
}

fn records(outcome: Outcome) -> (Vec<(Sequence, u64, String)>, bool) {
    match outcome {
        Ok(StoreAnswer::Records { records, more }) => {
            let show = |r: &Record| {
                (
                    r.sequence,
                    r.token.term,
                    String::from_utf8_lossy(&r.bytes).into_owned(),
                )
            };
            (records.iter().map(show).collect(), more)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_append_counts_only_for_the_token_that_opened_and_the_end_that_it_knows() {
    let mut map = MemoryMap::new();
    let outcomes = do_all(
        &mut map,
        &[
            append(1, 0, &["too early"]),
            open(1, 11),
            append(1, 0, &["a", "b"]),
            append(1, 1, &["x"]),
            append(1, 3, &["x"]),
            open(3, 12),
            append(1, 2, &["late"]),
            append(3, 2, &["c"]),
        ],
    );
    let state = |last| LogState {
        first: 1,
        last,
        snapshot: None,
    };
    assert_eq!(
        outcomes,
        [
            Err(StoreError::Fenced { held: Token::NONE }),
            Ok(StoreAnswer::Opened(state(0))),
            Ok(StoreAnswer::Appended { last: 2 }),
            Err(StoreError::SequenceConflict { last: 2 }),
            Err(StoreError::SequenceConflict { last: 2 }),
            Ok(StoreAnswer::Opened(state(2))),
            Err(StoreError::Fenced { held: token(3) }),
            Ok(StoreAnswer::Appended { last: 3 }),
        ]
    );
    let expected = [(1, 1, "a"), (2, 1, "b"), (3, 3, "c")];
    let expected = expected.map(|(at, term, text)| (at, term, String::from(text)));
    assert_eq!(
        records(map.obey(SPACE, &read_log(0, 1_000))),
        (expected.to_vec(), false)
    );
}

#[test]
fn an_exact_repetition_succeeds_and_changes_nothing_and_any_other_is_refused() {
    let mut map = MemoryMap::new();
    do_all(
        &mut map,
        &[open(2, 11), append(2, 0, &["a"]), append(2, 1, &["b", "c"])],
    );
    let before = map.clone();
    let repeated = do_all(&mut map, &[append(2, 1, &["b", "c"]), append(2, 0, &["a"])]);
    assert_eq!(repeated, vec![Ok(StoreAnswer::Appended { last: 3 }); 2]);
    let conflict = Err(StoreError::SequenceConflict { last: 3 });
    let other = [
        append(2, 1, &["b", "x"]),
        append(2, 1, &["b", "c", "d"]),
        append(2, 2, &["b"]),
    ];
    assert_eq!(do_all(&mut map, &other), vec![conflict; 3]);
    assert_eq!(map, before);
}

#[test]
fn what_another_token_appended_is_no_repetition() {
    let mut map = MemoryMap::new();
    do_all(&mut map, &[open(1, 11), append(1, 0, &["a"]), open(2, 12)]);
    let outcome = map.obey(SPACE, &append(2, 0, &["a"]));
    assert_eq!(outcome, Err(StoreError::SequenceConflict { last: 1 }));
}

#[test]
fn an_equal_token_is_admitted_again_only_for_who_took_it() {
    let mut map = MemoryMap::new();
    let outcomes = do_all(&mut map, &[open(5, 11), open(5, 11), open(5, 12), open(4, 11)]);
    assert!(outcomes[0].is_ok() && outcomes[1].is_ok());
    let fenced = Err(StoreError::Fenced { held: token(5) });
    assert_eq!(outcomes[2..], [fenced.clone(), fenced]);
    let none = StoreOrder::Open {
        log: "fresh".into(),
        token: Token::NONE,
        opener: 0,
    };
    assert_eq!(
        map.obey(SPACE, &none),
        Err(StoreError::Fenced { held: Token::NONE })
    );
}

#[test]
fn a_refused_order_leaves_no_trace() {
    let mut map = MemoryMap::new();
    do_all(&mut map, &[open(2, 11), append(2, 0, &["a"])]);
    let before = map.clone();
    let log: LogName = LOG.into();
    let stale = token(1);
    let refused = [
        open(1, 12),
        append(1, 1, &["x"]),
        append(2, 0, &["x"]),
        StoreOrder::Snapshot {
            log: log.clone(),
            token: stale,
            through: 1,
            state: bytes("s"),
        },
        StoreOrder::Snapshot {
            log: log.clone(),
            token: token(2),
            through: 2,
            state: bytes("s"),
        },
        StoreOrder::DeleteRange {
            log,
            token: stale,
            through: 1,
        },
        append(2, 1, &[]),
        write(vec![
            put("k", "v"),
            Change::Delete {
                key: vec![0; KEY_BYTES_MAX + 1].into(),
            },
        ]),
    ];
    for order in refused {
        assert!(map.obey(SPACE, &order).is_err(), "{order:?}");
        assert_eq!(map, before, "{order:?}");
    }
}

#[test]
fn a_snapshot_and_the_records_behind_it_are_what_a_new_owner_reads() {
    let mut map = MemoryMap::new();
    let log: LogName = LOG.into();
    let snapshot = |through, state| StoreOrder::Snapshot {
        log: log.clone(),
        token: token(1),
        through,
        state: bytes(state),
    };
    let forget = |through| StoreOrder::DeleteRange {
        log: log.clone(),
        token: token(1),
        through,
    };
    do_all(&mut map, &[open(1, 11), append(1, 0, &["a", "b", "c"])]);
    let outcomes = do_all(
        &mut map,
        &[snapshot(2, "ab"), snapshot(1, "a"), forget(2), forget(1)],
    );
    assert_eq!(
        outcomes,
        [
            Ok(StoreAnswer::Kept),
            Err(StoreError::SequenceConflict { last: 3 }),
            Ok(StoreAnswer::Deleted),
            Ok(StoreAnswer::Deleted),
        ]
    );
    let opened = map.obey(SPACE, &open(2, 12));
    let state = LogState {
        first: 3,
        last: 3,
        snapshot: Some(2),
    };
    assert_eq!(opened, Ok(StoreAnswer::Opened(state)));
    let kept = map.obey(SPACE, &StoreOrder::ReadSnapshot { log: log.clone() });
    let expected = Snapshot {
        through: 2,
        token: token(1),
        state: bytes("ab"),
    };
    assert_eq!(kept, Ok(StoreAnswer::Snapshot(Some(expected))));
    assert_eq!(
        records(map.obey(SPACE, &read_log(0, 1_000))).0,
        [(3, 1, String::from("c"))]
    );
    let all = StoreOrder::DeleteRange {
        log,
        token: token(2),
        through: u64::MAX,
    };
    do_all(&mut map, &[all]);
    assert_eq!(records(map.obey(SPACE, &read_log(0, 1_000))), (vec![], false));
    assert_eq!(
        map.obey(SPACE, &append(2, 3, &["d"])),
        Ok(StoreAnswer::Appended { last: 4 })
    );
}

#[test]
fn a_range_is_in_order_within_its_bounds_and_its_budget() {
    let mut map = MemoryMap::new();
    let batch = ["b", "a", "ab", "c", ""].map(|key| put(key, "12345"));
    assert_eq!(map.obey(SPACE, &write(batch.to_vec())), Ok(StoreAnswer::Written));
    let own = |names: &[&str]| names.iter().map(|name| String::from(*name)).collect::<Vec<_>>();
    let mut ask = |from, to, max| keys(map.obey(SPACE, &range(from, to, max)));
    assert_eq!(ask("", None, 1_000), (own(&["", "a", "ab", "b", "c"]), false));
    assert_eq!(ask("a", Some("b"), 1_000), (own(&["a", "ab"]), false));
    assert_eq!(ask("a", None, 13), (own(&["a", "ab"]), true));
    assert_eq!(ask("c", None, 0), (own(&["c"]), false), "one always fits");
    assert_eq!(ask("b", Some("a"), 1_000), (vec![], false));
}

#[test]
fn a_batch_deletes_what_it_says_and_spaces_do_not_meet() {
    let mut map = MemoryMap::new();
    let fill = write(["a", "b", "c", "d"].map(|key| put(key, "v")).to_vec());
    for space in [Space(6), SPACE, Space(8), Space(u16::MAX)] {
        assert!(map.obey(space, &fill).is_ok());
    }
    let cut = Change::DeleteRange {
        from: bytes("b"),
        to: None,
    };
    let batch = write(vec![cut, put("c", "again"), Change::Delete { key: bytes("a") }]);
    assert!(map.obey(SPACE, &batch).is_ok());
    assert_eq!(keys(map.obey(SPACE, &range("", None, 1_000))).0, ["c"]);
    let wipe = write(vec![Change::DeleteRange {
        from: bytes(""),
        to: None,
    }]);
    assert!(map.obey(Space(u16::MAX), &wipe).is_ok());
    assert_eq!(
        keys(map.obey(Space(u16::MAX), &range("", None, 1_000))).0,
        Vec::<String>::new()
    );
    for space in [Space(6), Space(8)] {
        assert_eq!(keys(map.obey(space, &range("", None, 1_000))).0.len(), 4);
    }
}

#[test]
fn logs_whose_names_begin_alike_do_not_meet() {
    let mut map = MemoryMap::new();
    for name in ["a", "ab", "a\u{0}", "b"] {
        let log: LogName = name.into();
        let records = vec![bytes(name)];
        let append = StoreOrder::Append {
            log: log.clone(),
            token: token(1),
            expected: 0,
            records,
        };
        let open = StoreOrder::Open {
            log,
            token: token(1),
            opener: 1,
        };
        assert!(do_all(&mut map, &[open, append]).iter().all(Result::is_ok));
    }
    for name in ["a", "ab", "a\u{0}", "b"] {
        let read = StoreOrder::ReadLog {
            log: name.into(),
            from: 0,
            bytes_max: 1_000,
        };
        assert_eq!(records(map.obey(SPACE, &read)).0, [(1, 1, String::from(name))]);
    }
}

#[test]
fn i_80_nothing_with_a_wrong_checksum_is_ever_given_out() {
    let mut clean = MemoryMap::new();
    let log: LogName = LOG.into();
    clean.boot(42);
    let snapshot = StoreOrder::Snapshot {
        log: log.clone(),
        token: token(1),
        through: 1,
        state: bytes("s"),
    };
    let fill = write(vec![put("k1", "v1"), put("k2", "v2")]);
    let filled = do_all(
        &mut clean,
        &[fill, open(1, 11), append(1, 0, &["a", "b"]), snapshot],
    );
    assert!(filled.iter().all(Result::is_ok));
    let questions = [
        StoreOrder::Identify,
        StoreOrder::Read { key: bytes("k1") },
        StoreOrder::Read { key: bytes("k2") },
        range("", None, 1_000),
        read_log(1, 1_000),
        read_log(2, 1_000),
        StoreOrder::ReadSnapshot { log },
    ];
    let answers: Vec<Outcome> = do_all(&mut clean, &questions);
    let entries: Vec<(Vec<u8>, Vec<u8>)> = clean.entries().map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
    let mut damaged_answers = 0;
    for (key, value) in entries {
        for bit in 0..value.len() * 8 {
            let mut map = clean.clone();
            let mut flipped = value.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            map.damage(&key, flipped);
            for (question, answer) in questions.iter().zip(&answers) {
                let outcome = map.obey(SPACE, question);
                if outcome != *answer {
                    damaged_answers += 1;
                    assert_is_part_of(&outcome, answer);
                }
            }
        }
    }
    assert!(damaged_answers > 500, "the damage was seen: {damaged_answers}");
}

/// An error, or what came before the damage.
fn assert_is_part_of(outcome: &Outcome, whole: &Outcome) {
    match (outcome, whole) {
        (Err(StoreError::Corrupt), _) => {}
        (Ok(StoreAnswer::Items { items, more: true }), Ok(StoreAnswer::Items { items: all, .. })) => {
            assert!(all.starts_with(items));
        }
        (Ok(StoreAnswer::Records { records, more: true }), Ok(StoreAnswer::Records { records: all, .. })) => {
            assert!(all.starts_with(records));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn i_80_a_missing_record_is_damage_and_not_an_end() {
    let mut map = MemoryMap::new();
    do_all(&mut map, &[open(1, 11), append(1, 0, &["a", "b", "c"])]);
    let key = layout::record_key(SPACE, LOG, 2);
    let Ok(()) = rules::WriteTransaction::delete(&mut map, &key);
    assert_eq!(
        records(map.obey(SPACE, &read_log(1, 1_000))),
        (vec![(1, 1, String::from("a"))], true)
    );
    assert_eq!(map.obey(SPACE, &read_log(2, 1_000)), Err(StoreError::Corrupt));
}

#[test]
fn every_limit_holds_to_the_byte() {
    let mut map = MemoryMap::new();
    let sized = |len: usize| -> Bytes { vec![7; len].into() };
    let put = |key: usize, value: usize| {
        write(vec![Change::Put {
            key: sized(key),
            value: sized(value),
        }])
    };
    let named = |len: usize| StoreOrder::Open {
        log: String::from_utf8_lossy(&vec![b'x'; len]).into(),
        token: token(1),
        opener: 1,
    };
    let many = |count: usize| write(vec![Change::Delete { key: bytes("k") }; count]);
    let within = [
        put(KEY_BYTES_MAX, VALUE_BYTES_MAX),
        named(LOG_NAME_BYTES_MAX),
        many(CHANGES_PER_BATCH_MAX),
        write(vec![]),
    ];
    for order in within {
        assert!(map.obey(SPACE, &order).is_ok());
    }
    let half = Change::Put {
        key: bytes(""),
        value: sized(VALUE_BYTES_MAX),
    };
    let beyond = [
        put(KEY_BYTES_MAX + 1, 1),
        put(1, VALUE_BYTES_MAX + 1),
        named(LOG_NAME_BYTES_MAX + 1),
        named(0),
        many(CHANGES_PER_BATCH_MAX + 1),
        write(vec![
            half.clone(),
            half,
            super::Change::Delete { key: bytes("k") },
        ]),
    ];
    for order in beyond {
        assert_eq!(map.obey(SPACE, &order), Err(StoreError::TooLarge));
    }
}

#[test]
fn i_84_every_life_of_a_store_has_a_higher_number() {
    let mut map = MemoryMap::new();
    assert_eq!(map.boot(42), StoreIdentity { id: 42, boot: 1 });
    let copy = map.clone();
    assert_eq!(map.boot(43), StoreIdentity { id: 42, boot: 2 });
    assert_eq!(
        map.obey(SPACE, &StoreOrder::Identify),
        Ok(StoreAnswer::Identity(StoreIdentity { id: 42, boot: 2 }))
    );
    // What went back in time shows a number that was there before.
    assert_eq!(copy.clone().boot(44), StoreIdentity { id: 42, boot: 2 });
}
