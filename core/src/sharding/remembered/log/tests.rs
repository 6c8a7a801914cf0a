//! One log, one answer after the other, and what is asked for next.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec;

use super::*;
use crate::config::{Config, KindConfig};
use crate::fixture::{Fixture, node};
use crate::ident::ClusterName;
use crate::input::KindSettings;
use crate::journal::protocol::{Answer, JournalCommandError};
use crate::journal::state::{OpenedLog, WriterEnd, WriterError};
use crate::sharding::state::ids::ShardId;
use crate::store::{Record, Sequence, Snapshot};
use crate::token::Token;

const CLAIM: TokenClaim = TokenClaim::Placed(Token::new(2, 5));

struct Rig {
    fixture: Fixture,
    log: StoredLog,
    /// What lies in the log: the snapshot and the records behind it.
    snapshot: Option<Bytes>,
    records: Vec<Bytes>,
    last: Sequence,
    appends: Vec<usize>,
    kept: usize,
}

fn element(text: &str) -> Element {
    text.as_bytes().into()
}

fn elements(texts: &[&str]) -> Vec<Element> {
    texts.iter().map(|text| element(text)).collect()
}

fn texts(done: Option<QuestionOutcome>) -> Vec<String> {
    let Some(QuestionOutcome::Read(names)) = done else {
        panic!("{done:?}");
    };
    let text = |name: &Element| String::from_utf8(name.to_vec()).unwrap();
    names.iter().map(text).collect()
}

impl Rig {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::lan(ClusterName::new("test").unwrap());
        change(&mut config);
        let settings = KindSettings {
            config: Box::new(KindConfig::taken_from(&mut config.sharding)),
            ..KindSettings::new("alarm", 8, true)
        };
        let kind = RegisteredKind::new(
            KindId::of("alarm"),
            settings,
            &config.sharding,
            &config.downing.strategy,
        );
        Self {
            fixture: Fixture::with_config(node("b", 2), config),
            log: StoredLog::new(&kind, StoreUser::Shard(ShardId(3)), "log".into(), CLAIM),
            snapshot: None,
            records: Vec::new(),
            last: 0,
            appends: Vec::new(),
            kept: 0,
        }
    }

    fn act<T>(&mut self, call: impl FnOnce(&mut StoredLog, &mut Cx<'_>) -> T) -> T {
        call(&mut self.log, &mut self.fixture.cx())
    }

    fn next(&mut self) -> Option<(StoreAsk, Command)> {
        let (ask, command) = self.fixture.outbox.asked.pop_front()?;
        match command {
            AnyCommand::Journal(command) => Some((ask, command)),
            other => panic!("{other:?}"),
        }
    }

    fn answer(&mut self, ask: StoreAsk, answer: Answer) -> Option<QuestionOutcome> {
        self.act(|log, cx| log.on_answer(cx, ask, AnyAnswer::Journal(answer)))
    }

    fn refuse(&mut self, ask: StoreAsk, error: JournalCommandError) -> Option<QuestionOutcome> {
        self.act(|log, cx| log.on_answer(cx, ask, AnyAnswer::Refused(AnyError::Journal(error))))
    }

    /// Does all that is asked for, as a log does, until there is an answer.
    fn serve(&mut self) -> Option<QuestionOutcome> {
        let mut done = None;
        while let Some((ask, command)) = self.next() {
            let said = match command {
                Command::Open { claim, .. } => {
                    assert_eq!(claim, CLAIM);
                    self.opened()
                }
                Command::Append {
                    expected, records, ..
                } => {
                    assert_eq!(expected, self.last);
                    self.last += records.len() as u64;
                    self.appends
                        .push(records.iter().map(|record| usize::from(record[2])).sum());
                    self.records.extend(records);
                    Answer::Appended { last: self.last }
                }
                Command::Keep { covers, state, .. } => {
                    assert_eq!(covers, self.last);
                    self.snapshot = Some(state);
                    self.records.clear();
                    self.kept += 1;
                    Answer::Kept
                }
                Command::Close { .. } => {
                    let closed = self.act(|log, cx| log.on_answer(cx, ask, AnyAnswer::Done));
                    assert!(done.is_none() || closed.is_none(), "one answer to one question");
                    done = done.or(closed);
                    continue;
                }
                Command::Forget { .. } => panic!("nothing is forgotten without a snapshot"),
            };
            assert_eq!(done, None, "one answer to one question");
            done = self.answer(ask, said);
        }
        done
    }

    fn opened(&self) -> Answer {
        let token = Token::new(2, 1);
        let first = self.last + 1 - self.records.len() as u64;
        let records = (first..).zip(&self.records).map(|(sequence, bytes)| Record {
            sequence,
            token,
            bytes: Bytes::clone(bytes),
        });
        Answer::Opened(OpenedLog {
            token,
            snapshot: self.snapshot.clone().map(|state| Snapshot {
                through: first - 1,
                token,
                state,
            }),
            records: records.collect(),
            last: self.last,
        })
    }

    fn read(&mut self, request: u64) -> Vec<String> {
        self.act(|log, cx| log.read(cx, request));
        texts(self.serve())
    }

    fn write(&mut self, request: u64, add: &[&str], remove: &[&str]) -> Option<QuestionOutcome> {
        let (add, remove) = (elements(add), elements(remove));
        self.act(|log, cx| log.write(cx, request, add, remove));
        self.serve()
    }
}

#[test]
fn what_was_written_is_read_by_the_next_owner_however_often_it_was_trimmed() {
    for snapshot_after in [1, 2, 3, 1_000] {
        let mut rig = Rig::new(|config| config.sharding.snapshot_after = snapshot_after);
        assert_eq!(rig.read(1), [""; 0]);
        assert_eq!(
            rig.write(2, &["a", "b", "c"], &[]),
            Some(QuestionOutcome::Written)
        );
        assert_eq!(rig.write(3, &["d"], &["b"]), Some(QuestionOutcome::Written));
        assert_eq!(
            rig.write(4, &[], &["a", "unknown"]),
            Some(QuestionOutcome::Written)
        );
        assert_eq!(rig.read(5), ["c", "d"]);
        assert_eq!(rig.write(6, &["b"], &[]), Some(QuestionOutcome::Written));
        let mut next = Rig::new(|_| {});
        (next.snapshot, next.records, next.last) = (rig.snapshot, rig.records, rig.last);
        assert_eq!(next.read(1), ["b", "c", "d"]);
        assert_eq!(rig.kept > 0, snapshot_after < 1_000);
    }
}

#[test]
fn s_128_a_write_has_as_many_ids_as_the_settings_say_and_as_many_bytes_as_any_store_takes() {
    let ids: Vec<String> = (0..250).map(|number| number.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut rig = Rig::new(|_| {});
    rig.read(1);
    assert_eq!(rig.write(2, &ids, &[]), Some(QuestionOutcome::Written));
    assert_eq!(rig.appends, [100, 100, 50]);
    assert_eq!(rig.read(3).len(), 250);
    let mut rig = Rig::new(|config| config.sharding.remember_updates_per_write = 1_000);
    rig.read(1);
    let long: Vec<String> = (100..250)
        .map(|number| "x".repeat(1_000) + &number.to_string())
        .collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    assert_eq!(rig.write(2, &long, &[]), Some(QuestionOutcome::Written));
    assert_eq!(rig.appends, [65, 65, 20]);
}

#[test]
fn a_log_that_is_full_is_trimmed_and_the_write_goes_on() {
    let mut rig = Rig::new(|_| {});
    rig.read(1);
    rig.write(2, &["a"], &[]);
    let add = elements(&["b"]);
    rig.act(|log, cx| log.write(cx, 3, add, vec![]));
    let (ask, first) = rig.next().unwrap();
    let full = JournalCommandError::Refused(WriterError::Full);
    assert_eq!(rig.refuse(ask, full), None);
    let (ask, trim) = rig.next().unwrap();
    assert!(matches!(trim, Command::Keep { .. }));
    assert_eq!(rig.answer(ask, Answer::Kept), None);
    let (ask, again) = rig.next().unwrap();
    assert_eq!(again, first);
    // It is empty, and the write does not fit: nothing can be done about it.
    assert_eq!(rig.refuse(ask, full), Some(QuestionOutcome::Failed));
    assert!(matches!(rig.next(), Some((_, Command::Close { .. }))));
}

#[test]
fn whoever_was_refused_is_closed_and_hears_no_late_answer() {
    let held = Token::new(3, 1);
    let ends = [
        (
            JournalCommandError::Ended(WriterEnd::Fenced { held }),
            QuestionOutcome::Failed,
        ),
        (
            JournalCommandError::Ended(WriterEnd::Damaged),
            QuestionOutcome::Damaged,
        ),
        (JournalCommandError::TooMany, QuestionOutcome::Failed),
        (
            JournalCommandError::Refused(WriterError::TooLarge),
            QuestionOutcome::Failed,
        ),
    ];
    for (error, done) in ends {
        let mut rig = Rig::new(|_| {});
        rig.read(1);
        let add = elements(&["a"]);
        rig.act(|log, cx| log.write(cx, 2, add, vec![]));
        let (ask, _) = rig.next().unwrap();
        assert_eq!(rig.refuse(ask, error), Some(done));
        assert!(matches!(rig.next(), Some((_, Command::Close { .. }))));
        assert_eq!(rig.answer(ask, Answer::Appended { last: 1 }), None);
        assert_eq!(rig.refuse(ask, JournalCommandError::Closed), None);
        assert_eq!(rig.read(3), [""; 0], "it begins again");
        assert_eq!(
            rig.answer(ask, Answer::Appended { last: 9 }),
            None,
            "of another question"
        );
    }
}

#[test]
fn who_writes_without_having_read_opens_first_and_keeps_what_was_there() {
    let mut rig = Rig::new(|config| config.sharding.snapshot_after = 1);
    rig.read(1);
    rig.write(2, &["a"], &[]);
    rig.act(StoredLog::close);
    assert_eq!(rig.serve(), None);
    assert_eq!(rig.write(3, &["b"], &[]), Some(QuestionOutcome::Written));
    assert_eq!(
        (rig.read(4), rig.kept),
        (
            texts(Some(QuestionOutcome::Read(
                elements(&["a", "b"]).into_iter().collect()
            ))),
            1
        )
    );
}

#[test]
fn what_nobody_here_wrote_is_damaged() {
    let mut rig = Rig::new(|_| {});
    (rig.records, rig.last) = (vec![Bytes::from(*b"\x01\x09rubbish")], 1);
    rig.act(|log, cx| log.read(cx, 1));
    assert_eq!(rig.serve(), Some(QuestionOutcome::Damaged));
}

#[test]
fn more_than_a_snapshot_holds_is_refused_and_less_goes_on() {
    let mut rig = Rig::new(|config| config.sharding.snapshot_after = usize::MAX);
    rig.read(1);
    let long = |number: usize| "x".repeat(60_000) + &number.to_string();
    let ids: Vec<String> = (100..169).map(long).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    assert_eq!(rig.write(2, &ids, &[]), Some(QuestionOutcome::Written));
    assert_eq!(rig.write(3, &[&long(900)], &[]), Some(QuestionOutcome::Failed));
    assert_eq!(rig.read(4).len(), 69);
    assert_eq!(rig.write(5, &[], &[ids[0]]), Some(QuestionOutcome::Written));
    assert_eq!(rig.write(6, &[&long(900)], &[]), Some(QuestionOutcome::Written));
}
