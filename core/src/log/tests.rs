//! One owner: what it asks, what it is told, and what that means to it.

use alloc::string::String;
use alloc::vec;

use super::*;
use crate::journal::protocol::{Answer, Command, JournalCommandError};
use crate::journal::state::{TokenClaim, WriterEnd, WriterError};
use crate::store::{LogName, StoreError};
use crate::token::Token;

type Told = LogProgress<&'static str>;

const TOKEN: Token = Token::new(3, 1);

/// An owner with what it has replayed, as one text.
#[derive(Default)]
struct Rig {
    owner: LogOwner<&'static str>,
    replayed: String,
}

fn bytes(text: &str) -> Bytes {
    text.as_bytes().into()
}

fn record(sequence: Sequence, text: &str) -> Record {
    Record {
        sequence,
        token: TOKEN,
        bytes: bytes(text),
    }
}

fn snapshot(through: Sequence, text: &str) -> Snapshot {
    Snapshot {
        through,
        token: TOKEN,
        state: bytes(text),
    }
}

fn state(first: Sequence, last: Sequence, snapshot: Option<Sequence>) -> LogState {
    LogState {
        first,
        last,
        snapshot,
    }
}

fn read(from: Sequence) -> Told {
    LogProgress::Ask(LogRequest::Read { from })
}

fn append(expected: Sequence, text: &str) -> LogRequest {
    LogRequest::Append {
        expected,
        records: vec![bytes(text)],
        upkeep: false,
    }
}

fn take(replayed: &mut String, found: ReplayedPart<'_>) -> Result<(), UnreadableLog> {
    let Some(taken) = found.bytes() else {
        replayed.clear();
        return Ok(());
    };
    let text = core::str::from_utf8(taken).map_err(|_| UnreadableLog)?;
    replayed.push_str(text);
    Ok(())
}

impl Rig {
    fn opened(last: Sequence) -> Self {
        let mut rig = Self::default();
        assert_eq!(rig.owner.claim(), LogRequest::Claim);
        assert_eq!(
            rig.claimed(state(last + 1, last, None), last + 1),
            LogProgress::Opened
        );
        rig
    }

    fn appending(last: Sequence) -> Self {
        let mut rig = Self::opened(last);
        assert_eq!(rig.append("what", "x"), append(last, "x"));
        rig
    }

    fn claimed(&mut self, found: LogState, from: Sequence) -> Told {
        self.owner
            .on_claimed(found, from, &mut |found| take(&mut self.replayed, found))
    }

    fn snapshot(&mut self, snapshot: Option<&Snapshot>) -> Told {
        self.owner
            .on_snapshot(snapshot, &mut |found| take(&mut self.replayed, found))
    }

    fn records(&mut self, records: &[Record]) -> Told {
        self.owner
            .on_records(records, &mut |found| take(&mut self.replayed, found))
    }

    fn append(&mut self, what: &'static str, text: &str) -> LogRequest {
        self.owner.append(what, vec![bytes(text)], false)
    }
}

/// A store that is damaged may say any number.
#[test]
fn a_log_whose_end_is_beyond_all_numbers_is_damaged() {
    for (last, snapshot) in [
        (NUMBER_MAX + 1, None),
        (Sequence::MAX, None),
        (7, Some(Sequence::MAX)),
    ] {
        let mut rig = Rig::default();
        rig.owner.claim();
        assert_eq!(rig.claimed(state(last, last, snapshot), 0), LogProgress::Damaged);
    }
    let mut rig = Rig::default();
    rig.owner.claim();
    let found = state(NUMBER_MAX, NUMBER_MAX, None);
    assert_eq!(rig.claimed(found, NUMBER_MAX), read(NUMBER_MAX));
    assert_eq!(rig.records(&[record(NUMBER_MAX, "x")]), LogProgress::Opened);
}

#[test]
fn a_log_is_read_page_by_page_from_its_snapshot_to_the_end_that_the_claim_found() {
    let mut rig = Rig::default();
    rig.owner.claim();
    assert!(rig.owner.is_opening() && !rig.owner.is_writing());
    let found = state(3, 6, Some(3));
    assert_eq!(rig.claimed(found, 0), LogProgress::Ask(LogRequest::ReadSnapshot));
    assert_eq!(rig.records(&[record(4, "early")]), LogProgress::Passed);
    assert_eq!(rig.snapshot(Some(&snapshot(3, "abc"))), read(4));
    assert_eq!(rig.records(&[record(4, "d"), record(5, "e")]), read(6));
    assert!(!rig.owner.is_idle());
    let beyond = [record(6, "f"), record(7, "of somebody else")];
    assert_eq!(rig.records(&beyond), LogProgress::Opened);
    assert_eq!(rig.replayed, "abcdef");
    let expected = LogExtent {
        first: 3,
        last: 6,
        covered: 3,
        bytes_behind: 3,
    };
    assert_eq!((rig.owner.extent(), rig.owner.extent().behind()), (expected, 3));
    assert!(rig.owner.is_idle());
}

#[test]
fn what_is_not_needed_is_not_read() {
    let mut rig = Rig::default();
    rig.owner.claim();
    assert_eq!(rig.claimed(state(1, 9, None), 9), read(9));
    assert_eq!(rig.records(&[record(9, "i")]), LogProgress::Opened);
    let mut rig = Rig::default();
    rig.owner.claim();
    rig.claimed(state(1, 9, Some(8)), 3);
    assert_eq!(rig.snapshot(Some(&snapshot(8, "h"))), read(9));
}

#[test]
fn what_is_missing_is_looked_for_once_more_and_then_damaged() {
    type Miss = fn(&mut Rig) -> Told;
    let misses: [Miss; 4] = [
        |rig| {
            rig.claimed(state(1, 3, Some(1)), 0);
            rig.snapshot(None)
        },
        |rig| {
            rig.claimed(state(1, 3, None), 0);
            rig.records(&[])
        },
        |rig| {
            rig.claimed(state(1, 3, None), 0);
            rig.records(&[record(1, "a"), record(3, "c")])
        },
        |rig| {
            rig.claimed(state(1, 3, None), 0);
            rig.records(&[record(4, "of somebody else")])
        },
    ];
    for miss in misses {
        let mut rig = Rig::default();
        rig.owner.claim();
        assert_eq!(miss(&mut rig), LogProgress::Ask(LogRequest::Claim));
        assert_eq!(miss(&mut rig), LogProgress::Damaged);
        assert!(!rig.owner.is_idle() && !rig.owner.is_opening());
        assert_eq!(
            (rig.owner.close(), rig.owner.close()),
            (Some(LogRequest::Close), None)
        );
        rig.owner.claim();
        assert_eq!(
            miss(&mut rig),
            LogProgress::Ask(LogRequest::Claim),
            "of another opening"
        );
    }
}

#[test]
fn nothing_is_kept_of_what_was_replayed_before_the_log_was_claimed_anew() {
    let mut rig = Rig::default();
    rig.owner.claim();
    rig.claimed(state(1, 3, None), 0);
    rig.records(&[record(1, "a")]);
    assert_eq!(rig.records(&[]), LogProgress::Ask(LogRequest::Claim));
    assert_eq!(
        rig.claimed(state(4, 3, Some(3)), 0),
        LogProgress::Ask(LogRequest::ReadSnapshot)
    );
    assert_eq!(rig.snapshot(Some(&snapshot(3, "all"))), LogProgress::Opened);
    assert_eq!(rig.replayed, "all");
}

#[test]
fn a_snapshot_behind_the_end_is_a_later_owners_and_what_nobody_wrote_is_damaged() {
    let mut rig = Rig::default();
    rig.owner.claim();
    rig.claimed(state(1, 3, Some(1)), 0);
    let later = LogProgress::Again { is_unknown: false };
    assert_eq!(rig.snapshot(Some(&snapshot(4, "later"))), later);
    assert_eq!(rig.owner.again(), Some(LogRequest::Claim));
    rig.claimed(state(1, 3, None), 0);
    let mut rubbish = record(1, "");
    rubbish.bytes = vec![0xff].into();
    assert_eq!(rig.records(&[rubbish]), LogProgress::Damaged);
}

#[test]
fn appends_stand_one_behind_the_other_and_a_snapshot_takes_their_place() {
    let mut rig = Rig::opened(2);
    assert_eq!(rig.append("one", "x"), append(2, "x"));
    assert!(rig.owner.is_writing() && !rig.owner.is_idle());
    assert_eq!(rig.owner.on_kept(), LogProgress::Passed);
    assert_eq!(rig.owner.on_appended(), LogProgress::Appended("one"));
    assert_eq!(rig.owner.on_appended(), LogProgress::Passed, "said again");
    assert!(!rig.owner.needs_snapshot(2) && rig.owner.needs_snapshot(1) && rig.owner.needs_snapshot(0));
    rig.owner.append("two", vec![bytes("y"), bytes("zz")], true);
    assert_eq!(rig.owner.on_appended(), LogProgress::Appended("two"));
    let extent = rig.owner.extent();
    assert_eq!((extent.last, extent.behind(), extent.bytes_behind), (5, 3, 4));
    let state = bytes("all");
    let covers = 5;
    assert_eq!(
        rig.owner.keep(Bytes::clone(&state)),
        LogRequest::Keep { covers, state }
    );
    assert!(rig.owner.is_writing());
    assert_eq!(rig.owner.on_appended(), LogProgress::Passed);
    assert_eq!(rig.owner.on_kept(), LogProgress::Trimmed);
    assert_eq!(rig.owner.extent().behind(), 0);
    assert_eq!(rig.owner.forget(5), LogRequest::Forget { through: 5 });
    assert_eq!(rig.owner.on_kept(), LogProgress::Trimmed);
    let extent = rig.owner.extent();
    assert_eq!((extent.first, extent.covered, extent.bytes_behind), (6, 5, 0));
    assert_eq!(rig.append("three", "w"), append(5, "w"));
}

#[test]
fn a_full_log_makes_room_once_by_a_snapshot() {
    let mut rig = Rig::appending(0);
    let gives_back = LogProgress::NotDone(Some("what"), LogFault::Full);
    assert_eq!(
        rig.owner.on_failed(LogFault::Full),
        gives_back,
        "there is nothing to trim"
    );
    rig.append("one", "x");
    rig.owner.on_appended();
    rig.append("two", "y");
    assert_eq!(rig.owner.on_failed(LogFault::Full), LogProgress::Full("two"));
    assert!(rig.owner.needs_snapshot(usize::MAX));
    rig.append("two", "y");
    let gives_back = LogProgress::NotDone(Some("two"), LogFault::Full);
    assert_eq!(
        rig.owner.on_failed(LogFault::Full),
        gives_back,
        "no snapshot was kept"
    );
    rig.owner.keep(bytes("x"));
    assert_eq!(rig.owner.on_kept(), LogProgress::Trimmed);
    assert!(!rig.owner.needs_snapshot(usize::MAX));
}

#[test]
fn what_may_be_written_is_asked_again_until_its_outcome_is_known() {
    let mut rig = Rig::appending(4);
    let known = LogProgress::Again { is_unknown: false };
    let unknown = LogProgress::Again { is_unknown: true };
    assert_eq!(rig.owner.on_failed(LogFault::Later), known);
    assert_eq!(rig.owner.again(), Some(append(4, "x")));
    assert_eq!(rig.owner.on_failed(LogFault::Unknown), unknown);
    for later in [
        LogFault::Full,
        LogFault::Never,
        LogFault::Corrupt,
        LogFault::Later,
        LogFault::Unknown,
    ] {
        assert_eq!(rig.owner.take_back(), None);
        assert_eq!(rig.owner.again(), Some(append(4, "x")));
        assert_eq!(rig.owner.on_failed(later), unknown, "{later:?}");
    }
    assert_eq!(rig.owner.on_appended(), LogProgress::Appended("what"));
    assert_eq!((rig.owner.again(), rig.owner.take_back()), (None, None));
    rig.append("next", "y");
    assert_eq!(rig.owner.on_failed(LogFault::Later), known);
    assert_eq!(rig.owner.take_back(), Some("next"));
    assert!(rig.owner.is_idle());
}

#[test]
fn who_is_outdone_has_lost_the_log_and_hears_whether_its_append_may_be_there() {
    let outdone = |may_be_done| LogFault::Outdone { may_be_done };
    let lost = |what, is_unknown| LogProgress::Lost { what, is_unknown };
    let mut rig = Rig::appending(1);
    assert_eq!(rig.owner.on_failed(outdone(false)), lost(Some("what"), false));
    assert_eq!(rig.owner.on_failed(outdone(false)), LogProgress::Passed);
    assert_eq!(rig.owner.on_appended(), LogProgress::Passed, "a late answer");
    assert_eq!(rig.owner.close(), Some(LogRequest::Close));
    let mut rig = Rig::appending(1);
    assert_eq!(rig.owner.on_failed(outdone(true)), lost(Some("what"), true));
    let mut rig = Rig::appending(1);
    rig.owner.on_failed(LogFault::Unknown);
    assert_eq!(rig.owner.on_failed(outdone(false)), lost(Some("what"), true));
    let mut rig = Rig::opened(1);
    rig.owner.keep(bytes("x"));
    assert_eq!(rig.owner.on_failed(outdone(true)), lost(None, false));
    rig.owner.claim();
    assert_eq!(rig.owner.on_failed(outdone(true)), lost(None, false));
    assert_eq!(
        rig.claimed(state(1, 0, None), 0),
        LogProgress::Passed,
        "a late answer"
    );
    rig.owner.claim();
    assert_eq!(
        rig.claimed(state(1, 0, None), 0),
        LogProgress::Opened,
        "it begins anew"
    );
}

#[test]
fn a_snapshot_that_cannot_be_kept_changes_nothing_and_a_claim_that_fails_has_ended() {
    for fault in [
        LogFault::Full,
        LogFault::Corrupt,
        LogFault::Unknown,
        LogFault::Later,
        LogFault::Never,
    ] {
        let mut rig = Rig::appending(0);
        rig.owner.on_appended();
        rig.owner.keep(bytes("x"));
        assert_eq!(rig.owner.on_failed(fault), LogProgress::NotDone(None, fault));
        assert_eq!(rig.owner.extent().behind(), 1);
        assert_eq!(rig.append("what", "y"), append(1, "y"));
    }
    for fault in [LogFault::Full, LogFault::Never] {
        let mut rig = Rig::default();
        rig.owner.claim();
        assert_eq!(rig.owner.on_failed(fault), LogProgress::NotDone(None, fault));
        assert_eq!((rig.owner.again(), rig.owner.is_opening()), (None, false));
    }
    for fault in [LogFault::Later, LogFault::Unknown] {
        let mut rig = Rig::default();
        rig.owner.claim();
        rig.claimed(state(1, 3, None), 0);
        let later = LogProgress::Again { is_unknown: false };
        assert_eq!(rig.owner.on_failed(fault), later);
        assert_eq!(rig.owner.again(), Some(LogRequest::Claim));
    }
}

#[test]
fn damage_ends_it_wherever_it_is_heard_of() {
    let mut rig = Rig::default();
    rig.owner.claim();
    assert_eq!(rig.owner.on_failed(LogFault::Corrupt), LogProgress::Damaged);
    rig.owner.claim();
    assert_eq!(rig.owner.on_failed(LogFault::Damaged), LogProgress::Damaged);
    let mut rig = Rig::appending(0);
    assert_eq!(rig.owner.on_failed(LogFault::Damaged), LogProgress::Damaged);
    assert!(!rig.owner.is_idle() && !rig.owner.is_writing());
    let mut rig = Rig::appending(0);
    let not_done = LogProgress::NotDone(Some("what"), LogFault::Corrupt);
    assert_eq!(
        rig.owner.on_failed(LogFault::Corrupt),
        not_done,
        "a store refuses one append"
    );
    rig.owner.keep(bytes("x"));
    assert_eq!(rig.owner.on_failed(LogFault::Damaged), LogProgress::Damaged);
}

#[test]
fn every_error_of_a_store_or_of_the_journal_says_whether_it_is_done() {
    let fenced = StoreError::Fenced { held: TOKEN };
    let conflict = StoreError::SequenceConflict { last: 1 };
    for (error, refuses) in [(fenced, true), (conflict, true), (StoreError::Busy, false)] {
        assert_eq!(
            LogFault::from(error) == LogFault::Outdone { may_be_done: false },
            refuses
        );
        assert_eq!(error.is_refusal(), refuses);
    }
    assert_eq!(LogFault::from(StoreError::OutcomeUnknown), LogFault::Unknown);
    assert_eq!(LogFault::from(StoreError::Unavailable), LogFault::Later);
    assert_eq!(LogFault::from(StoreError::NoStore), LogFault::Never);
    let ended = JournalCommandError::Ended(WriterEnd::Fenced { held: TOKEN });
    assert_eq!(LogFault::from(ended), LogFault::Outdone { may_be_done: true });
    assert_eq!(
        LogFault::from(JournalCommandError::NotOpen),
        LogFault::Outdone { may_be_done: false }
    );
    assert_eq!(LogFault::from(JournalCommandError::TooMany), LogFault::Later);
    assert_eq!(
        LogFault::from(JournalCommandError::Refused(WriterError::TooLarge)),
        LogFault::Never
    );
}

fn opened(
    snapshot: Option<Snapshot>,
    records: Vec<Record>,
    last: Sequence,
) -> Result<Answer, JournalCommandError> {
    Ok(Answer::Opened(OpenedLog {
        token: TOKEN,
        snapshot,
        records,
        last,
    }))
}

#[test]
fn a_majoritys_log_is_told_at_once_and_a_gap_in_it_is_damage() {
    let cases = [
        (opened(None, vec![], 0), Some("")),
        (opened(None, vec![], 7), Some("")),
        (opened(None, vec![record(3, "c"), record(4, "d")], 4), Some("cd")),
        (opened(Some(snapshot(4, "abcd")), vec![], 4), Some("abcd")),
        (
            opened(Some(snapshot(2, "ab")), vec![record(3, "c")], 3),
            Some("abc"),
        ),
        (opened(Some(snapshot(2, "ab")), vec![record(4, "d")], 4), None),
        (opened(Some(snapshot(2, "ab")), vec![record(3, "c")], 4), None),
        (opened(Some(snapshot(2, "ab")), vec![], 4), None),
        (opened(Some(snapshot(5, "abcde")), vec![], 4), None),
        (opened(None, vec![record(1, "a"), record(3, "c")], 3), None),
    ];
    for (answer, holds) in cases {
        let mut log = QuorumLog::<()>::new("log".into());
        log.open(5, TokenClaim::Term);
        let mut replayed = String::from("old");
        let told = log.on_answer(&answer, &mut |found| take(&mut replayed, found));
        match holds {
            Some(text) => assert_eq!((told, &*replayed), (LogProgress::Opened, text), "{answer:?}"),
            None => assert_eq!(told, LogProgress::Damaged, "{answer:?}"),
        }
    }
}

#[test]
fn a_majority_is_asked_in_the_name_of_the_opening() {
    let mut log = QuorumLog::new("log".into());
    let name = || LogName::from("log");
    assert_eq!(log.close(), None);
    let claim = TokenClaim::TermAbove(9);
    let open = Command::Open {
        log: name(),
        opener: 5,
        claim,
    };
    assert_eq!((log.open(5, claim), log.opener()), (open, 5));
    let mut nothing = |_: ReplayedPart<'_>| Ok(());
    assert_eq!(
        log.on_answer(&opened(None, vec![], 2), &mut nothing),
        LogProgress::Opened
    );
    let expected = Command::Append {
        log: name(),
        opener: 5,
        expected: 2,
        records: vec![bytes("x")],
        upkeep: false,
    };
    assert_eq!(log.append("what", vec![bytes("x")]), expected);
    let appended = Ok(Answer::Appended { last: 3 });
    assert_eq!(
        log.on_answer(&appended, &mut nothing),
        LogProgress::Appended("what")
    );
    let expected = Command::Keep {
        log: name(),
        opener: 5,
        covers: 3,
        state: bytes("s"),
    };
    assert_eq!(log.keep(bytes("s")), expected);
    assert_eq!(
        log.on_answer(&Ok(Answer::Kept), &mut nothing),
        LogProgress::Trimmed
    );
    let close = Command::Close {
        log: name(),
        opener: 5,
    };
    assert_eq!((log.close(), log.close()), (Some(close), None));
}
