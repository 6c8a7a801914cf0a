//! Histories of registers, and what is found in those that are none.

use super::*;

fn call(asked: u64, ask: RegisterAsk, answered: u64, answer: RegisterAnswer) -> RegisterCall {
    let (ends, answered) = (None, Some((answered, answer)));
    RegisterCall {
        asked,
        ask,
        ends,
        answered,
    }
}

const fn value(number: u64) -> Written {
    let is_delete = false;
    Written { number, is_delete }
}

const fn delete(number: u64) -> Written {
    let is_delete = true;
    Written { number, is_delete }
}

fn read(asked: u64, answered: u64, held: Option<u64>) -> RegisterCall {
    call(asked, RegisterAsk::Read, answered, RegisterAnswer::Holds(held))
}

fn write(asked: u64, answered: u64, number: u64) -> RegisterCall {
    call(
        asked,
        RegisterAsk::Write(value(number)),
        answered,
        RegisterAnswer::Done,
    )
}

fn set(
    (asked, answered): (u64, u64),
    expected: Option<u64>,
    then: Written,
    answer: RegisterAnswer,
) -> RegisterCall {
    let ask = RegisterAsk::CompareAndSet { expected, then };
    call(asked, ask, answered, answer)
}

const fn unknown(asked: u64, ask: RegisterAsk) -> RegisterCall {
    let (ends, answered) = (None, None);
    RegisterCall {
        asked,
        ask,
        ends,
        answered,
    }
}

#[test]
fn one_writer_and_readers_beside_it() {
    let good = [
        read(1, 2, None),
        write(3, 10, 1),
        read(4, 5, None),
        read(6, 9, Some(1)),
        read(11, 12, Some(1)),
        write(13, 20, 2),
        read(14, 15, Some(2)),
        read(16, 17, Some(2)),
        unknown(21, RegisterAsk::Write(value(3))),
        read(22, 23, Some(2)),
        read(24, 25, Some(3)),
        read(26, 27, Some(3)),
    ];
    assert_eq!(judge(&good), Ok(()));
    let backwards = |at: usize, held| {
        let mut bad = good;
        bad[at].answered = Some((bad[at].answered.unwrap().0, RegisterAnswer::Holds(held)));
        judge(&bad)
    };
    assert!(backwards(4, None).is_err(), "an acknowledged write is not found");
    assert!(
        backwards(7, Some(1)).is_err(),
        "two reads during one write go back"
    );
    assert!(
        backwards(11, Some(2)).is_err(),
        "two reads beside an unknown outcome go back"
    );
    assert!(backwards(11, Some(9)).is_err(), "what nobody wrote");
    assert!(backwards(3, None).is_ok(), "beside a write either is right");
}

#[test]
fn of_two_that_name_one_version_one_takes_effect() {
    let first = set((1, 2), None, value(1), RegisterAnswer::Done);
    let other = |answer| set((3, 9), Some(1), value(2), answer);
    let third = |answer| set((4, 8), Some(1), value(3), answer);
    let (done, conflict) = (RegisterAnswer::Done, RegisterAnswer::Conflict);
    let judge = |calls: &[RegisterCall]| judge(calls).is_ok();
    assert!(judge(&[first, other(done), third(conflict(Some(2)))]));
    assert!(judge(&[first, other(conflict(Some(3))), third(done)]));
    assert!(!judge(&[first, other(done), third(done)]), "both");
    assert!(
        !judge(&[first, other(conflict(Some(3))), third(conflict(Some(2)))]),
        "none"
    );
    assert!(
        !judge(&[first, other(conflict(Some(1)))]),
        "a conflict with what it named"
    );
    let lost = [
        first,
        other(done),
        third(conflict(Some(2))),
        read(10, 11, Some(1)),
    ];
    assert!(!judge(&lost), "an effect that is not there");
}

#[test]
fn what_is_deleted_has_a_version_and_no_value() {
    let (done, conflict) = (RegisterAnswer::Done, RegisterAnswer::Conflict);
    let first = [
        set((1, 2), None, value(1), done),
        set((3, 4), Some(1), delete(2), done),
    ];
    let then = |call: RegisterCall| judge(&[first[0], first[1], call]).is_ok();
    assert!(then(read(5, 6, None)) && then(read(5, 6, Some(2))));
    assert!(!then(read(5, 6, Some(1))), "what was deleted is back");
    assert!(then(set((5, 6), None, value(3), done)) && then(set((5, 6), Some(2), value(3), done)));
    assert!(then(set((5, 6), Some(1), value(3), conflict(Some(2)))));
    assert!(!then(set((5, 6), Some(1), value(3), done)), "of an older version");
}

#[test]
fn i_75_what_ends_by_itself_is_there_until_then_and_never_again() {
    let (done, conflict) = (RegisterAnswer::Done, RegisterAnswer::Conflict);
    let mut first = set((1, 2), None, value(1), done);
    // By the clocks of owners between 100 and 120.
    first.ends = Some((120, 100));
    let judge = |calls: &[RegisterCall]| {
        let mut all = vec![first];
        all.extend(calls);
        judge(&all).is_ok()
    };
    assert!(
        judge(&[read(90, 99, Some(1))]) && !judge(&[read(90, 99, None)]),
        "before"
    );
    for at in [100, 120] {
        assert!(judge(&[read(at, at, Some(1))]) && judge(&[read(at, at, None)]));
    }
    assert!(
        !judge(&[read(121, 130, Some(1))]) && judge(&[read(121, 130, None)]),
        "after"
    );
    assert!(judge(&[read(101, 102, Some(1)), read(104, 105, None)]));
    // Owners differ: who was told that it has ended may read it once more, until it has ended for all.
    let then = |call| judge(&[read(101, 102, None), call]);
    let put_where_none = |asked| set((asked, asked + 1), None, value(2), conflict(Some(1)));
    assert!(then(read(104, 105, Some(1))) && then(put_where_none(104)));
    assert!(
        !then(read(121, 122, Some(1))) && !then(put_where_none(121)),
        "it returns"
    );
    let absent = |at, answer| judge(&[set((at, at + 1), None, value(2), answer)]);
    assert!(!absent(90, done) && absent(90, conflict(Some(1))));
    assert!(absent(110, done) && absent(110, conflict(Some(1))));
    assert!(absent(121, done) && !absent(121, conflict(Some(1))));
    let named = |answer| judge(&[set((130, 131), Some(1), value(2), answer)]);
    assert!(
        named(done) && named(conflict(None)),
        "its version is known, or forgotten"
    );
    let open = unknown(
        20,
        RegisterAsk::CompareAndSet {
            expected: None,
            then: value(2),
        },
    );
    assert!(judge(&[open, read(90, 91, Some(1)), read(130, 131, Some(2))]));
    let overwritten = [set((50, 51), Some(1), value(2), done), read(200, 201, Some(2))];
    assert!(judge(&overwritten), "another value lives on");
}

#[test]
fn what_became_of_a_call_is_open() {
    let first = set((1, 2), None, value(1), RegisterAnswer::Done);
    let ask = RegisterAsk::CompareAndSet {
        expected: Some(1),
        then: value(2),
    };
    let open = unknown(3, ask);
    assert!(judge(&[first, open, read(4, 5, Some(1)), read(6, 7, Some(2))]).is_ok());
    assert!(judge(&[first, open, read(4, 5, Some(2)), read(6, 7, Some(1))]).is_err());
    let later = set((8, 9), Some(1), value(3), RegisterAnswer::Done);
    assert!(
        judge(&[first, open, later, read(10, 11, Some(3))]).is_ok(),
        "it never came"
    );
    assert!(
        judge(&[first, open, later, read(10, 11, Some(2))]).is_err(),
        "it came behind another"
    );
}

#[test]
fn two_hundred_calls_of_four_callers_take_no_time() {
    let mut calls = Vec::new();
    for round in 0..50 {
        let at = round * 10 + 1;
        calls.push(write(at, at + 5, round + 1));
        let found = |after| {
            if after {
                Some(round + 1)
            } else {
                round.checked_sub(1).map(|r| r + 1)
            }
        };
        calls.push(read(at + 1, at + 2, found(false)));
        calls.push(read(at + 1, at + 4, found(round % 2 == 0)));
        calls.push(read(at + 3, at + 5, found(true)));
    }
    assert_eq!(judge(&calls), Ok(()));
    calls[199].answered = Some((500, RegisterAnswer::Holds(Some(49))));
    calls[197].answered = Some((499, RegisterAnswer::Holds(Some(50))));
    calls[197].asked = 492;
    calls[199].asked = 500;
    assert!(judge(&calls).is_err());
}
