//! One durable entity against a keeper that the test plays.

mod schedules;

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::time::Duration;

use super::*;
use crate::log::{LogRequest, ReplayedPart, UnreadableLog};
use crate::store::{Bytes, LogState, Record, Sequence, Snapshot, StoreError};
use crate::token::Token;

const TOKEN: Token = Token { term: 1, count: 7 };

const FENCED: StoreError = StoreError::Fenced { held: TOKEN };

fn bytes(text: &str) -> Bytes {
    text.as_bytes().into()
}

fn record(sequence: Sequence) -> Record {
    Record {
        sequence,
        token: TOKEN,
        bytes: bytes(&format!("{sequence} ")),
    }
}

fn log(first: Sequence, last: Sequence, snapshot: Option<Sequence>) -> LogState {
    LogState {
        first,
        last,
        snapshot,
    }
}

fn retention(events: u64, keeps: RetentionKeeps) -> LogRetention {
    LogRetention {
        events,
        keeps,
        ..LogRetention::default()
    }
}

fn take(text: &mut String, found: ReplayedPart<'_>) -> Result<(), UnreadableLog> {
    match found {
        ReplayedPart::Beginning => text.clear(),
        ReplayedPart::Snapshot(snapshot) => text.push_str(&format!("[{}] ", snapshot.through)),
        ReplayedPart::Record(record) if record.bytes[..] == *b"?" => return Err(UnreadableLog),
        ReplayedPart::Record(record) => text.push_str(core::str::from_utf8(&record.bytes).unwrap()),
    }
    Ok(())
}

/// One that has found a log of so many records.
fn running(retention: LogRetention, has_an_end: bool, last: Sequence) -> DurableMachine {
    let mut entity = DurableMachine::new(retention, has_an_end);
    assert_eq!(entity.begin(), DurableStep::Ask(LogRequest::Claim));
    let mut text = String::new();
    let mut step = entity.on_claimed(log(1, last, None), &mut |found| take(&mut text, found));
    if let DurableStep::Ask(LogRequest::Read { from }) = step {
        let records: Vec<Record> = (from..=last).map(record).collect();
        step = entity.on_records(&records, &mut |found| take(&mut text, found));
    }
    assert_eq!(step, DurableStep::Recovered);
    entity
}

fn append(expected: Sequence) -> DurableStep {
    DurableStep::Ask(LogRequest::Append {
        expected,
        records: vec![bytes("new")],
        upkeep: false,
    })
}

fn write(entity: &mut DurableMachine) -> DurableStep {
    entity.write(vec![bytes("new")])
}

fn pause(step: &DurableStep) -> (u128, Option<DurableFailure>) {
    match step {
        DurableStep::Wait(wait) => (wait.pause.as_millis(), wait.told),
        _ => panic!("{step:?}"),
    }
}

#[test]
fn a_log_is_claimed_then_read_and_only_then_written() {
    let mut entity = DurableMachine::new(LogRetention::default(), false);
    assert_eq!(entity.begin(), DurableStep::Ask(LogRequest::Claim));
    let mut text = String::from("of before");
    let mut replay = |found: ReplayedPart<'_>| take(&mut text, found);
    let step = entity.on_claimed(log(1, 5, Some(2)), &mut replay);
    assert_eq!(step, DurableStep::Ask(LogRequest::ReadSnapshot));
    let snapshot = Snapshot {
        through: 2,
        token: TOKEN,
        state: bytes(""),
    };
    let step = entity.on_snapshot(Some(&snapshot), &mut replay);
    assert_eq!(step, DurableStep::Ask(LogRequest::Read { from: 3 }));
    let step = entity.on_records(&[record(3)], &mut replay);
    assert_eq!(step, DurableStep::Ask(LogRequest::Read { from: 4 }));
    // What is behind the end that was found is somebody else's.
    let records = [4, 5, 6].map(record);
    assert!(!entity.is_running());
    assert_eq!(entity.on_records(&records, &mut replay), DurableStep::Recovered);
    assert_eq!(text, "[2] 3 4 5 ");
    assert_eq!((entity.is_running(), entity.last()), (true, 5));
    assert_eq!(write(&mut entity), append(5));
    assert!(!entity.is_running(), "one thing at a time");
    assert_eq!(entity.on_appended(), DurableStep::Durable);
    assert_eq!((entity.is_running(), entity.last()), (true, 6));
    assert_eq!(
        entity.on_appended(),
        DurableStep::Nothing,
        "nobody waits for that"
    );
}

#[test]
fn of_records_that_are_the_whole_state_the_last_is_read_and_older_ones_go() {
    let mut entity = DurableMachine::new(LogRetention::newest_state(), false);
    let _ = entity.begin();
    let mut text = String::new();
    let mut replay = |found: ReplayedPart<'_>| take(&mut text, found);
    let step = entity.on_claimed(log(1, 9, None), &mut replay);
    assert_eq!(step, DurableStep::Ask(LogRequest::Read { from: 9 }));
    assert_eq!(
        entity.on_records(&[record(9)], &mut replay),
        DurableStep::Recovered
    );
    assert_eq!(text, "9 ");
    while !entity.is_due() {
        let _ = write(&mut entity);
        assert_eq!(entity.on_appended(), DurableStep::Durable);
    }
    assert_eq!(entity.last(), 17);
    let step = entity.retain(|| panic!("there are no snapshots"));
    assert_eq!(step, DurableStep::Ask(LogRequest::Forget { through: 16 }));
    assert_eq!(entity.on_kept(), DurableStep::Retained);
    assert!(entity.is_running() && !entity.is_due());
}

#[test]
fn what_may_pass_is_said_to_nobody_for_two_seconds_and_the_log_is_claimed_again_for_ever() {
    let mut entity = DurableMachine::new(LogRetention::default(), false);
    let mut step = entity.begin();
    let mut waits = Vec::new();
    while waits.len() < 9 {
        assert_eq!(step, DurableStep::Ask(LogRequest::Claim));
        waits.push(pause(&entity.on_failed(StoreError::Unavailable)));
        step = entity.on_waited();
    }
    let told: Vec<bool> = waits.iter().map(|(_, told)| told.is_some()).collect();
    assert_eq!(told, [false, false, false, false, false, false, true, true, true]);
    let pauses: Vec<u128> = waits.iter().map(|(pause, _)| *pause).collect();
    assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000, 2_000]);
    // A successor is waited for as well: it may be one that ends.
    for error in [FENCED, StoreError::Busy] {
        assert!(matches!(entity.on_failed(error), DurableStep::Wait(_)));
        assert_eq!(entity.on_waited(), DurableStep::Ask(LogRequest::Claim));
    }
    let step = entity.on_claimed(log(1, 0, None), &mut |_| Ok(()));
    assert_eq!(step, DurableStep::Recovered);
}

#[test]
fn what_waiting_cannot_help_is_said_at_once_and_tried_again() {
    let mut entity = DurableMachine::new(LogRetention::default(), false);
    let of = |step: &DurableStep| pause(step).1;
    let _ = entity.begin();
    assert_eq!(
        of(&entity.on_failed(StoreError::Corrupt)),
        Some(DurableFailure::Damaged)
    );
    assert_eq!(entity.on_waited(), DurableStep::Ask(LogRequest::Claim));
    assert_eq!(
        of(&entity.hinder(DurableFailure::SeveralHosts)),
        Some(DurableFailure::SeveralHosts)
    );
    assert_eq!(entity.on_waited(), DurableStep::Ask(LogRequest::Claim));
    let mut text = String::new();
    let mut replay = |found: ReplayedPart<'_>| take(&mut text, found);
    let _ = entity.on_claimed(log(1, 1, None), &mut replay);
    let unreadable = Record {
        sequence: 1,
        token: TOKEN,
        bytes: bytes("?"),
    };
    let step = entity.on_records(&[unreadable], &mut replay);
    assert_eq!(of(&step), Some(DurableFailure::Unreadable));
    assert_eq!(entity.on_waited(), DurableStep::Ask(LogRequest::Claim));
    // A gap is looked at twice: a later owner's snapshot may have covered it meanwhile.
    let _ = entity.on_claimed(log(1, 3, None), &mut replay);
    let step = entity.on_records(&[record(2)], &mut replay);
    assert_eq!(step, DurableStep::Ask(LogRequest::Claim));
    let _ = entity.on_claimed(log(1, 3, None), &mut replay);
    let step = entity.on_records(&[], &mut replay);
    assert_eq!(of(&step), Some(DurableFailure::Damaged));
    let DurableStep::Wait(wait) = step else {
        panic!("it waits")
    };
    assert_eq!(wait.why, RecoveryError::Missing);
}

#[test]
fn the_same_is_written_until_it_is_known_what_became_of_it() {
    let mut entity = running(LogRetention::default(), false, 2);
    assert_eq!(write(&mut entity), append(2));
    assert!(matches!(
        entity.on_failed(StoreError::OutcomeUnknown),
        DurableStep::Wait(_)
    ));
    for _ in 0..20 {
        assert_eq!(entity.on_waited(), append(2));
        // What is surely not done now may be by the first try.
        let DurableStep::Wait(wait) = entity.on_failed(StoreError::Full) else {
            panic!("it waits");
        };
        assert!(wait.is_unknown && wait.pause <= Duration::from_secs(2));
    }
    assert_eq!(entity.on_waited(), append(2));
    let stopped = DurableStep::Stopped(DurableFailure::FencedUnknown);
    assert_eq!(entity.clone().on_failed(FENCED), stopped);
    assert_eq!(entity.on_appended(), DurableStep::Durable);
}

#[test]
fn what_is_surely_not_done_is_given_up_after_two_seconds_and_the_entity_goes_on() {
    let mut entity = running(LogRetention::default(), false, 2);
    let mut step = write(&mut entity);
    let mut waited = Duration::ZERO;
    loop {
        assert_eq!(step, append(2));
        match entity.on_failed(StoreError::Unavailable) {
            DurableStep::Wait(wait) => waited += wait.pause,
            step => {
                assert_eq!(step, DurableStep::NotDone(DurableFailure::Unavailable));
                break;
            }
        }
        step = entity.on_waited();
    }
    assert!(waited >= Duration::from_secs(2) && entity.is_running());
    for (error, failure) in [
        (StoreError::Full, DurableFailure::Full),
        (StoreError::TooLarge, DurableFailure::TooLarge),
        (StoreError::NoStore, DurableFailure::Unavailable),
        (StoreError::Corrupt, DurableFailure::Damaged),
    ] {
        assert_eq!(write(&mut entity), append(2));
        assert_eq!(entity.on_failed(error), DurableStep::NotDone(failure));
    }
    assert_eq!(write(&mut entity), append(2));
    assert_eq!(
        entity.on_failed(FENCED),
        DurableStep::Stopped(DurableFailure::Fenced)
    );
    assert_eq!(entity.on_waited(), DurableStep::Nothing);
    assert!(!entity.is_running());
}

#[test]
fn a_snapshot_is_due_by_records_or_bytes_and_what_it_covers_goes_if_it_may() {
    let mut entity = running(retention(3, RetentionKeeps::BehindSnapshot), false, 2);
    assert!(!entity.is_due());
    let _ = write(&mut entity);
    assert_eq!(entity.on_appended(), DurableStep::Durable);
    assert!(entity.is_due());
    let keep = DurableStep::Ask(LogRequest::Keep {
        covers: 3,
        state: bytes("all"),
    });
    assert_eq!(entity.retain(|| Some(bytes("all"))), keep);
    assert_eq!(
        entity.on_kept(),
        DurableStep::Ask(LogRequest::Forget { through: 3 })
    );
    assert_eq!(entity.on_kept(), DurableStep::Retained);
    assert!(!entity.is_due() && entity.is_running());
    let large = LogRetention {
        bytes: 3,
        ..retention(100, RetentionKeeps::Everything)
    };
    let mut entity = running(large, false, 0);
    let _ = write(&mut entity);
    assert_eq!(entity.on_appended(), DurableStep::Durable);
    assert!(entity.is_due());
    let _ = entity.retain(|| Some(bytes("all")));
    assert_eq!(entity.on_kept(), DurableStep::Retained, "all events stay");
}

#[test]
fn a_snapshot_that_cannot_be_kept_is_tried_again_some_records_later_unless_another_owns_the_log() {
    let mut entity = running(retention(2, RetentionKeeps::Everything), false, 2);
    assert!(entity.is_due());
    assert_eq!(entity.retain(|| None), DurableStep::Retained, "it is too large");
    assert!(!entity.is_due());
    for last in 3..=4 {
        let _ = write(&mut entity);
        assert_eq!(entity.on_appended(), DurableStep::Durable);
        assert_eq!(entity.is_due(), last == 4);
    }
    let _ = entity.retain(|| Some(bytes("all")));
    assert_eq!(entity.on_failed(StoreError::Unavailable), DurableStep::Retained);
    assert!(entity.is_running() && !entity.is_due());
    let _ = entity.retain(|| Some(bytes("all")));
    assert_eq!(
        entity.on_failed(FENCED),
        DurableStep::Stopped(DurableFailure::Fenced)
    );
}

#[test]
fn a_log_that_is_full_has_room_behind_a_snapshot_and_is_asked_once_more() {
    for keeps in [RetentionKeeps::Everything, RetentionKeeps::BehindSnapshot] {
        let mut entity = running(retention(100, keeps), true, 2);
        for is_room in [false, true] {
            assert_eq!(write(&mut entity), append(2));
            assert_eq!(entity.on_failed(StoreError::Full), DurableStep::MakeRoom);
            let mut step = entity.retain(|| Some(bytes("all")));
            assert!(matches!(
                step,
                DurableStep::Ask(LogRequest::Keep { covers: 2, .. })
            ));
            if !is_room {
                assert_eq!(entity.on_failed(StoreError::Unavailable), append(2));
                // Not for ever.
                let not_done = DurableStep::NotDone(DurableFailure::Full);
                assert_eq!(entity.on_failed(StoreError::Full), not_done);
                continue;
            }
            step = entity.on_kept();
            if keeps == RetentionKeeps::BehindSnapshot {
                assert_eq!(step, DurableStep::Ask(LogRequest::Forget { through: 2 }));
                step = entity.on_kept();
            }
            assert_eq!(step, append(2), "{keeps:?}");
            assert_eq!(entity.on_appended(), DurableStep::Durable);
        }
        let _ = entity.retain(|| Some(bytes("all")));
        let _ = entity.on_kept();
        while !entity.is_running() {
            let _ = entity.on_kept();
        }
        let _ = write(&mut entity);
        assert_eq!(
            entity.on_failed(StoreError::Full),
            DurableStep::NotDone(DurableFailure::Full),
            "a snapshot says nothing new"
        );
    }
    for (last, step) in [
        (1, DurableStep::NotDone(DurableFailure::Full)),
        (2, DurableStep::MakeRoom),
    ] {
        let mut entity = running(retention(100, RetentionKeeps::Last), true, last);
        let _ = write(&mut entity);
        assert_eq!(entity.on_failed(StoreError::Full), step, "the last one stays");
    }
    let mut elsewhere = running(LogRetention::default(), false, 2);
    let _ = write(&mut elsewhere);
    assert_eq!(
        elsewhere.on_failed(StoreError::Full),
        DurableStep::NotDone(DurableFailure::Full)
    );
}

#[test]
fn each_failure_has_a_byte_of_its_own() {
    let known: Vec<DurableFailure> = (0..=255).filter_map(DurableFailure::of).collect();
    assert_eq!(known.len(), 12);
    for failure in known {
        assert_eq!(DurableFailure::of(failure.code()), Some(failure));
    }
}
