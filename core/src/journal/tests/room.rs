//! How long a log may become, and how it becomes shorter. Spec: sharding 10.7.

use alloc::vec;
use alloc::vec::Vec;

use super::rules::{BOUNDS, acknowledge, answer, asked, bytes, open_within};
use crate::journal::protocol::{ReplicaAnswer, ReplicaAsk};
use crate::journal::state::{SnapshotHead, WriterError};
use crate::journal::writer::{LogWriter, WriterBounds, WriterOutput};

/// The owner of a log with these records, each appended alone.
fn with_records(texts: &[&str]) -> LogWriter {
    let mut writer = open_within(BOUNDS);
    let mut out = Vec::new();
    for (last, text) in texts.iter().enumerate() {
        writer
            .append(last as u64, vec![bytes(text)], false, &mut out)
            .unwrap();
        let requests = asked(&mut out);
        acknowledge(&mut writer, &requests);
    }
    writer
}

/// Through which entry a majority has forgotten the log, if it was asked to.
fn forget(writer: &mut LogWriter, through: u64) -> Option<SnapshotHead> {
    let mut out = Vec::new();
    writer.forget(through, &mut out).unwrap();
    let mut snapshot = None;
    let mut answered = Vec::new();
    for output in out.iter().take(2) {
        if let WriterOutput::Ask(request) = output
            && let ReplicaAsk::Keep { snapshot: head, .. } = &request.ask
        {
            snapshot = Some(*head);
            writer.on_reply(answer(request, ReplicaAnswer::Kept), &mut answered);
        }
    }
    let said = if snapshot.is_some() { answered } else { out };
    assert!(matches!(said[..], [WriterOutput::Kept { .. }]), "{said:?}");
    snapshot
}

#[test]
fn s_10_7_a_log_is_forgotten_from_its_beginning_as_far_as_is_asked_and_has_room_again() {
    let text = "x".repeat(100);
    // The owner's own entry and four of 204 bytes, of 1,000.
    let mut writer = with_records(&[&*text; 4]);
    let mut out = Vec::new();
    let more = || vec![bytes(&text)];
    assert_eq!(writer.append(4, more(), false, &mut out), Err(WriterError::Full));
    let snapshot = forget(&mut writer, 2).unwrap();
    assert_eq!((snapshot.through, snapshot.covers, snapshot.parts), (3, 2, 0));
    for last in 4..6 {
        writer.append(last, more(), false, &mut out).unwrap();
        let requests = asked(&mut out);
        acknowledge(&mut writer, &requests);
    }
    assert_eq!(writer.append(6, more(), false, &mut out), Err(WriterError::Full));
    // What was appended as one goes as one.
    assert_eq!(forget(&mut writer, 2), None, "nothing before it is left");
    assert_eq!(forget(&mut writer, 6).unwrap().covers, 6);
    assert_eq!(forget(&mut writer, 6), None, "nothing at all is left");
    writer
        .append(6, vec![bytes("a"), bytes("b")], false, &mut out)
        .unwrap();
    let requests = asked(&mut out);
    acknowledge(&mut writer, &requests);
    assert_eq!(forget(&mut writer, 7), None, "half of an append");
}

#[test]
fn s_10_7_a_full_log_has_room_for_what_makes_it_shorter_and_for_no_more_than_a_quarter_of_that() {
    let text = "x".repeat(100);
    let mut writer = with_records(&[&*text; 4]);
    let mut out = Vec::new();
    let more = || vec![bytes(&text)];
    assert_eq!(writer.append(4, more(), false, &mut out), Err(WriterError::Full));
    writer.append(4, more(), true, &mut out).unwrap();
    let requests = asked(&mut out);
    acknowledge(&mut writer, &requests);
    assert_eq!(writer.append(5, more(), true, &mut out), Err(WriterError::Full));
    forget(&mut writer, 1).unwrap();
    writer.append(5, more(), true, &mut out).unwrap();
}

#[test]
fn s_10_7_who_owns_a_log_hears_once_that_it_is_nearly_full_and_again_after_it_was_not() {
    let text = "x".repeat(100);
    let mut writer = with_records(&[&*text; 3]);
    let mut out = Vec::new();
    let mut append = |writer: &mut LogWriter, last| {
        writer.append(last, vec![bytes(&text)], true, &mut out).unwrap();
        let requests = asked(&mut out);
        acknowledge(writer, &requests)
    };
    let appended = |last| WriterOutput::Appended { last };
    let nearly_full = |bytes| WriterOutput::NearlyFull { bytes };
    assert_eq!(append(&mut writer, 3), [appended(4), nearly_full(912)]);
    assert_eq!(append(&mut writer, 4), [appended(5)], "it was said");
    forget(&mut writer, 4).unwrap();
    for last in 5..7 {
        assert_eq!(append(&mut writer, last), [appended(last + 1)]);
    }
    assert_eq!(append(&mut writer, 7), [appended(8), nearly_full(816)]);
}

#[test]
fn s_10_7_a_log_of_many_entries_is_cut_behind_every_few_and_its_last_one_stays() {
    let bounds = WriterBounds {
        log_bytes_max: 1 << 20,
        ..BOUNDS
    };
    let mut writer = open_within(bounds);
    let mut out = Vec::new();
    const RECORDS: u64 = 5_000;
    for last in 0..RECORDS {
        writer.append(last, vec![bytes("x")], false, &mut out).unwrap();
        let requests = asked(&mut out);
        acknowledge(&mut writer, &requests);
    }
    for through in [1_000, 2_000, 3_333] {
        let covers = forget(&mut writer, through).unwrap().covers;
        assert!(
            covers <= through && covers + RECORDS / 20 > through,
            "{covers} of {through}"
        );
    }
    assert_eq!(forget(&mut writer, RECORDS - 1).unwrap().covers, RECORDS - 1);
    // Nothing is counted twice: all of its bytes are there for others.
    for last in RECORDS..RECORDS + 9_000 {
        writer.append(last, vec![bytes("x")], false, &mut out).unwrap();
        let requests = asked(&mut out);
        acknowledge(&mut writer, &requests);
    }
}
