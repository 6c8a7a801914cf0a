//! What a store has to show: [`crate::store_conformance`]. Spec: sharding 10.7, 10.10; reliability I-80,
//! I-82, I-84.

use quorate_core::store::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use quorate_core::store::{
    Bytes, Change, LogName, LogState, Outcome, Record, Snapshot, Space, StoreAnswer, StoreError,
    StoreIdentity, StoreOrder,
};
use quorate_core::token::Token;
use quorate_driver::store::Store;

/// Opens the store of one test; each time it is called it is the same store, closed before.
pub type Reopen<'a> = &'a mut dyn FnMut() -> Box<dyn Store>;

pub(super) const SPACE: Space = Space(2);
const LOG: &str = "conformance/journal 1";

pub(super) fn log() -> LogName {
    LOG.into()
}

fn bytes(text: &str) -> Bytes {
    Bytes::from(text.as_bytes())
}

pub(super) const fn token(term: u64) -> Token {
    Token::new(term, 1)
}

pub(super) fn put(key: &str, value: &[u8]) -> StoreOrder {
    StoreOrder::Write {
        batch: vec![Change::Put {
            key: bytes(key),
            value: value.into(),
        }],
    }
}

pub(super) fn get(key: &str) -> StoreOrder {
    StoreOrder::Read { key: bytes(key) }
}

pub(super) fn open_log(term: u64) -> StoreOrder {
    StoreOrder::Open {
        log: log(),
        token: token(term),
        opener: term,
    }
}

pub(super) fn append(term: u64, expected: u64, records: &[&str]) -> StoreOrder {
    StoreOrder::Append {
        log: log(),
        token: token(term),
        expected,
        records: records.iter().map(|record| bytes(record)).collect(),
    }
}

pub(super) fn read_log(from: u64) -> StoreOrder {
    StoreOrder::ReadLog {
        log: log(),
        from,
        bytes_max: usize::MAX,
    }
}

pub(super) fn opened(store: Reopen<'_>) -> Box<dyn Store> {
    let mut store = store();
    store.open().expect("the store can be opened");
    store
}

pub(super) fn commit(store: &mut dyn Store, orders: &[StoreOrder]) -> Vec<Outcome> {
    let orders: Vec<(Space, &StoreOrder)> = orders.iter().map(|order| (SPACE, order)).collect();
    store.commit(&orders).expect("the store can be asked")
}

pub(super) fn one(store: &mut dyn Store, order: &StoreOrder) -> Outcome {
    let mut outcomes = store.commit(&[(SPACE, order)]).expect("the store can be asked");
    assert_eq!(outcomes.len(), 1, "one outcome for one order");
    outcomes.remove(0)
}

pub(super) fn value(value: &[u8]) -> Outcome {
    Ok(StoreAnswer::Value(Some(value.into())))
}

const NOTHING: Outcome = Ok(StoreAnswer::Value(None));

pub(super) fn written(outcomes: &[Outcome]) {
    for outcome in outcomes {
        assert_eq!(*outcome, Ok(StoreAnswer::Written));
    }
}

pub(super) fn records(outcome: Outcome) -> Vec<(u64, u64, String)> {
    match outcome {
        Ok(StoreAnswer::Records { records, more: false }) => records
            .iter()
            .map(
                |Record {
                     sequence,
                     token,
                     bytes,
                 }| { (*sequence, token.term, String::from_utf8_lossy(bytes).into_owned()) },
            )
            .collect(),
        other => panic!("not a whole log: {other:?}"),
    }
}

/// What was acknowledged is there after the store was closed and opened, and every opening has a higher
/// number.
pub fn i_84_a_store_keeps_what_it_acknowledged_and_counts_its_lives(reopen: Reopen<'_>) {
    let mut lives: Vec<StoreIdentity> = Vec::new();
    for life in 0..4_u8 {
        let mut store = reopen();
        let identity = store.open().expect("the store can be opened");
        assert_eq!(
            one(&mut *store, &StoreOrder::Identify),
            Ok(StoreAnswer::Identity(identity))
        );
        if let Some(before) = lives.last() {
            assert_eq!(identity.id, before.id, "the same store");
            assert!(identity.boot > before.boot, "{identity:?} after {before:?}");
        }
        lives.push(identity);
        for earlier in 0..life {
            assert_eq!(
                one(&mut *store, &get(&format!("life {earlier}"))),
                value(&[earlier; 100])
            );
        }
        written(&[one(&mut *store, &put(&format!("life {life}"), &[life; 100]))]);
    }
}

/// A batch is there whole; keys are any bytes, values empty to the largest; what is deleted is gone.
pub fn a_batch_is_atomic_and_bytes_come_back_as_they_were(reopen: Reopen<'_>) {
    let largest = vec![0xA5; VALUE_BYTES_MAX];
    let odd: Bytes = [0, 0xFF, b'\'', b'\\', 0].as_slice().into();
    let longest: Bytes = vec![0xFF; KEY_BYTES_MAX].into();
    let change = |key: &Bytes, value: &[u8]| Change::Put {
        key: key.clone(),
        value: value.into(),
    };
    let batch = vec![
        change(&odd, b""),
        change(&longest, &largest),
        change(&bytes("gone"), b"x"),
        Change::Delete { key: bytes("gone") },
        change(&bytes(""), b"empty key"),
    ];
    {
        let mut store = opened(reopen);
        written(&[one(&mut *store, &StoreOrder::Write { batch })]);
    }
    let mut store = opened(reopen);
    let read = |key: &Bytes| StoreOrder::Read { key: key.clone() };
    let outcomes = commit(&mut *store, &[read(&odd), read(&longest), get("gone"), get("")]);
    assert_eq!(
        outcomes,
        [value(b""), value(&largest), NOTHING, value(b"empty key")]
    );
    written(&[one(&mut *store, &put("", b"another"))]);
    assert_eq!(one(&mut *store, &get("")), value(b"another"));
    let beyond = put("k", &vec![1; VALUE_BYTES_MAX + 1]);
    assert_eq!(one(&mut *store, &beyond), Err(StoreError::TooLarge));
    let beyond = StoreOrder::Read {
        key: vec![0; KEY_BYTES_MAX + 1].into(),
    };
    assert_eq!(one(&mut *store, &beyond), Err(StoreError::TooLarge));
}

/// Within a group each order sees those before it, and one that is refused keeps none of the others from
/// being done.
pub fn a_refused_order_does_not_spoil_its_group(reopen: Reopen<'_>) {
    let group = [
        put("a", b"1"),
        get("a"),
        append(1, 0, &["not opened"]),
        open_log(2),
        append(2, 0, &["one"]),
        append(1, 1, &["stale"]),
        append(2, 7, &["gap"]),
        put("b", b"2"),
        read_log(0),
    ];
    let mut store = opened(reopen);
    let outcomes = commit(&mut *store, &group);
    let state = LogState {
        first: 1,
        last: 0,
        snapshot: None,
    };
    let expected: [Outcome; 8] = [
        Ok(StoreAnswer::Written),
        value(b"1"),
        Err(StoreError::Fenced { held: Token::NONE }),
        Ok(StoreAnswer::Opened(state)),
        Ok(StoreAnswer::Appended { last: 1 }),
        Err(StoreError::Fenced { held: token(2) }),
        Err(StoreError::SequenceConflict { last: 1 }),
        Ok(StoreAnswer::Written),
    ];
    assert_eq!(outcomes[..8], expected);
    assert_eq!(records(outcomes[8].clone()), [(1, 2, "one".to_owned())]);
    drop(store);
    let mut store = opened(reopen);
    assert_eq!(
        commit(&mut *store, &[get("a"), get("b")]),
        [value(b"1"), value(b"2")]
    );
}

/// Ranges are in order of bytes, within their bounds and their budget; spaces do not meet.
pub fn a_range_is_ordered_bounded_and_of_one_space(reopen: Reopen<'_>) {
    let mut store = opened(reopen);
    let keys = ["b", "a", "ab", "c", "\u{7f}"];
    let orders: Vec<StoreOrder> = keys.iter().map(|key| put(key, b"12345")).collect();
    written(&commit(&mut *store, &orders));
    let high = Change::Put {
        key: [0xFF, 1].as_slice().into(),
        value: bytes("12345"),
    };
    written(&[one(&mut *store, &StoreOrder::Write { batch: vec![high] })]);
    for neighbour in [Space(1), Space(3)] {
        let order = put("b", b"other");
        let done = store
            .commit(&[(neighbour, &order)])
            .expect("the store can be asked");
        written(&done);
    }
    let mut ask = |from: &str, to: Option<&str>, bytes_max| {
        let order = StoreOrder::Range {
            from: bytes(from),
            to: to.map(bytes),
            bytes_max,
        };
        match one(&mut *store, &order) {
            Ok(StoreAnswer::Items { items, more }) => {
                let keys = items.iter().map(|(key, value)| {
                    assert_eq!(**value, *b"12345");
                    key.to_vec()
                });
                (keys.collect::<Vec<_>>(), more)
            }
            other => panic!("{other:?}"),
        }
    };
    let names = |names: &[&[u8]]| names.iter().map(|name| name.to_vec()).collect::<Vec<_>>();
    let all = names(&[b"a", b"ab", b"b", b"c", b"\x7f", &[0xFF, 1]]);
    assert_eq!(ask("", None, usize::MAX), (all, false));
    assert_eq!(ask("a", Some("b"), 1_000), (names(&[b"a", b"ab"]), false));
    assert_eq!(ask("a", None, 13), (names(&[b"a", b"ab"]), true));
    assert_eq!(ask("c", Some("d"), 0), (names(&[b"c"]), false), "one always fits");
    assert_eq!(ask("b", Some("a"), 1_000), (names(&[]), false));
    let cut = Change::DeleteRange {
        from: bytes("ab"),
        to: Some(bytes("c")),
    };
    written(&[one(&mut *store, &StoreOrder::Write { batch: vec![cut] })]);
    let order = StoreOrder::Range {
        from: bytes(""),
        to: Some(bytes("c")),
        bytes_max: 1_000,
    };
    assert!(
        matches!(one(&mut *store, &order), Ok(StoreAnswer::Items { items, more: false }) if items.len() == 1)
    );
    let wipe = Change::DeleteRange {
        from: bytes(""),
        to: None,
    };
    written(&[one(&mut *store, &StoreOrder::Write { batch: vec![wipe] })]);
    let outcome = store.commit(&[(Space(3), &get("b")), (SPACE, &get("c"))]);
    assert_eq!(
        outcome.expect("the store can be asked"),
        [value(b"other"), NOTHING]
    );
}

/// §10.7: a token is written before anything is read, an append names the end that it knows, its exact
/// repetition succeeds, and all that holds after the store was opened again.
pub fn appends_are_fenced_by_token_and_expected_sequence(reopen: Reopen<'_>) {
    {
        let mut store = opened(reopen);
        let outcomes = commit(
            &mut *store,
            &[
                open_log(1),
                append(1, 0, &["a", "b"]),
                append(1, 0, &["a", "b"]),
                append(1, 2, &["c"]),
            ],
        );
        assert_eq!(
            outcomes[1..],
            [
                Ok(StoreAnswer::Appended { last: 2 }),
                Ok(StoreAnswer::Appended { last: 2 }),
                Ok(StoreAnswer::Appended { last: 3 }),
            ]
        );
    }
    let mut store = opened(reopen);
    let state = |first, last| {
        Ok(StoreAnswer::Opened(LogState {
            first,
            last,
            snapshot: None,
        }))
    };
    assert_eq!(
        one(&mut *store, &append(1, 3, &["d"])),
        Ok(StoreAnswer::Appended { last: 4 })
    );
    assert_eq!(one(&mut *store, &open_log(3)), state(1, 4));
    assert_eq!(
        one(&mut *store, &open_log(3)),
        state(1, 4),
        "the same opener repeats itself"
    );
    let usurper = StoreOrder::Open {
        log: log(),
        token: token(3),
        opener: 99,
    };
    let fenced = Err(StoreError::Fenced { held: token(3) });
    let conflict = |last| Err(StoreError::SequenceConflict { last });
    let refused = [
        (usurper, fenced.clone()),
        (open_log(2), fenced.clone()),
        (append(1, 4, &["late"]), fenced.clone()),
        (append(1, 3, &["d"]), fenced),
        (append(3, 3, &["d"]), conflict(4)),
        (append(3, 5, &["x"]), conflict(4)),
        (append(3, 2, &["c", "x"]), conflict(4)),
    ];
    for (order, expected) in refused {
        assert_eq!(one(&mut *store, &order), expected, "{order:?}");
    }
    assert_eq!(
        one(&mut *store, &append(3, 4, &["e"])),
        Ok(StoreAnswer::Appended { last: 5 })
    );
    let all = records(one(&mut *store, &read_log(0)));
    let expected = [(1, 1, "a"), (2, 1, "b"), (3, 1, "c"), (4, 1, "d"), (5, 3, "e")];
    assert_eq!(all, expected.map(|(at, term, text)| (at, term, text.to_owned())));
    assert_eq!(records(one(&mut *store, &read_log(5))).len(), 1);
    assert_eq!(records(one(&mut *store, &read_log(6))).len(), 0);
    let part = StoreOrder::ReadLog {
        log: log(),
        from: 2,
        bytes_max: 2,
    };
    let Ok(StoreAnswer::Records {
        records: some,
        more: true,
    }) = one(&mut *store, &part)
    else {
        panic!("a part of the log");
    };
    assert_eq!(some.len(), 2);
}

/// A snapshot replaces an earlier one, only its log's owner keeps one, and records may go once they are
/// covered.
pub fn a_snapshot_and_what_is_behind_it_survive(reopen: Reopen<'_>) {
    let keep = |term, through, state: &str| StoreOrder::Snapshot {
        log: log(),
        token: token(term),
        through,
        state: bytes(state),
    };
    let forget = |term, through| StoreOrder::DeleteRange {
        log: log(),
        token: token(term),
        through,
    };
    let read = StoreOrder::ReadSnapshot { log: log() };
    {
        let mut store = opened(reopen);
        assert_eq!(one(&mut *store, &read), Ok(StoreAnswer::Snapshot(None)));
        let outcomes = commit(
            &mut *store,
            &[
                open_log(1),
                append(1, 0, &["a", "b", "c"]),
                keep(1, 1, "a"),
                keep(1, 2, "ab"),
                keep(1, 1, "a"),
                keep(1, 4, "abc?"),
                keep(2, 3, "abc"),
                forget(2, 1),
                forget(1, 2),
            ],
        );
        let conflict = || Err(StoreError::SequenceConflict { last: 3 });
        let fenced = || Err(StoreError::Fenced { held: token(1) });
        let kept = || Ok(StoreAnswer::Kept);
        let expected: [Outcome; 7] = [
            kept(),
            kept(),
            conflict(),
            conflict(),
            fenced(),
            fenced(),
            Ok(StoreAnswer::Deleted),
        ];
        assert_eq!(outcomes[2..], expected);
    }
    let mut store = opened(reopen);
    let snapshot = Snapshot {
        through: 2,
        token: token(1),
        state: bytes("ab"),
    };
    assert_eq!(one(&mut *store, &read), Ok(StoreAnswer::Snapshot(Some(snapshot))));
    let state = LogState {
        first: 3,
        last: 3,
        snapshot: Some(2),
    };
    assert_eq!(one(&mut *store, &open_log(2)), Ok(StoreAnswer::Opened(state)));
    assert_eq!(records(one(&mut *store, &read_log(0))), [(3, 1, "c".to_owned())]);
    assert_eq!(one(&mut *store, &forget(2, u64::MAX)), Ok(StoreAnswer::Deleted));
    assert_eq!(
        one(&mut *store, &append(2, 3, &["d"])),
        Ok(StoreAnswer::Appended { last: 4 })
    );
    assert_eq!(records(one(&mut *store, &read_log(0))), [(4, 2, "d".to_owned())]);
}
