//! This end of a log that the core keeps on several stores: what it says when the node does not say what
//! became of something, and what it takes back. Spec: sharding 10.7.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use quorate_core::config::Config;
use quorate_core::effect::{Answer, CommandError, JournalAnswer, JournalCommandError};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::{DdataCommand, JournalCommand};
use quorate_core::journal::state::OpenedLog;
use quorate_core::store::{Bytes, LogName, Record, StoreError};
use quorate_core::token::Token;

use super::*;
use crate::background::Background;
use crate::background::Sleep;
use crate::commands::{DataCommand, LogCommand};
use crate::journal::{AppendPurpose, Journal, QuorumJournal};
use crate::shared::{Commands, Shared, SharedParts};
use crate::shutdown::Life;
use crate::sync::{self, Notify};

/// A node of which the test is the core.
fn node() -> (Arc<Shared>, Commands) {
    let config = Config::fast(ClusterName::new("durable").unwrap());
    let me = UniqueAddress::new(Address::new("127.0.0.1", 2551).unwrap(), 1);
    let parts = SharedParts {
        wake: Arc::new(Notify::default()),
        store: None,
        life: Life::new(&config, drop),
        background: Background::none(),
    };
    Shared::new(me, &config, parts)
}

fn journal(shared: &Arc<Shared>, is_late: bool) -> QuorumJournal {
    let sleep: Sleep = if is_late {
        Arc::new(|_| Box::pin(std::future::ready(())))
    } else {
        Arc::new(|_| Box::pin(std::future::pending()))
    };
    QuorumJournal::new(Arc::clone(shared), sleep, LogName::from("counter/7"), None).expect("a short name")
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// What the journal ordered next, and who waits for its answer.
fn ordered(commands: &Commands) -> (JournalCommand, sync::Sender<Answer>) {
    let Ok(LogCommand { command, reply }) = commands.logs.try_recv() else {
        panic!("it ordered nothing")
    };
    (command, reply)
}

/// Which opening was given up.
fn closed(commands: &Commands) -> Option<u64> {
    match commands.logs.try_recv() {
        Ok(LogCommand {
            command: JournalCommand::Close { opener, .. },
            ..
        }) => Some(opener),
        _ => None,
    }
}

/// Opens a log with such records.
fn open(journal: &mut QuorumJournal, commands: &Commands, records: Vec<Record>) {
    let last = records.last().map_or(0, |record| record.sequence);
    let mut opening = pin!(journal.open());
    assert!(poll(opening.as_mut()).is_pending());
    let (command, reply) = ordered(commands);
    assert!(matches!(command, JournalCommand::Open { .. }));
    reply.send(Answer::Journal(JournalAnswer::Opened(OpenedLog {
        token: Token::new(1, 1),
        snapshot: None,
        records,
        last,
    })));
    let Poll::Ready(Ok(found)) = poll(opening.as_mut()) else {
        panic!("it is open")
    };
    assert_eq!(found.last, last);
}

const fn refused(error: JournalCommandError) -> Option<Answer> {
    Some(Answer::Refused(CommandError::Journal(error)))
}

#[test]
fn s_10_7_an_append_that_was_cut_off_may_have_been_done() {
    let full = JournalCommandError::Refused(quorate_core::journal::state::WriterError::Full);
    for (answer, error) in [
        (None, StoreError::OutcomeUnknown),
        (
            Some(Answer::Refused(CommandError::Stopped)),
            StoreError::OutcomeUnknown,
        ),
        (refused(JournalCommandError::Closed), StoreError::OutcomeUnknown),
        (refused(full), StoreError::Full),
    ] {
        let (shared, commands) = node();
        let mut journal = journal(&shared, false);
        open(&mut journal, &commands, Vec::new());
        let mut appending = pin!(journal.append(0, vec![Bytes::from(*b"event")], AppendPurpose::Keep));
        assert!(poll(appending.as_mut()).is_pending());
        let (command, reply) = ordered(&commands);
        assert!(matches!(command, JournalCommand::Append { .. }));
        match answer {
            Some(answer) => reply.send(answer),
            None => drop(reply),
        }
        assert_eq!(poll(appending.as_mut()), Poll::Ready(Err(error)));
    }
}

#[test]
fn what_is_for_a_log_waits_behind_no_operation_on_replicated_data() {
    let (shared, commands) = node();
    let operation = || DataCommand::Operation {
        command: DdataCommand::Unsubscribe { subscriber: 1 },
        reply: sync::oneshot().0,
    };
    while shared.data.try_send(operation()).is_ok() {}
    let mut journal = journal(&shared, false);
    open(&mut journal, &commands, Vec::new());
}

/// A log that is long enough would never be opened otherwise.
#[test]
fn s_10_7_an_opening_that_took_too_long_goes_on_for_who_asks_again_and_is_taken_back_with_its_owner() {
    let (shared, commands) = node();
    for is_answered in [true, false] {
        let mut journal = journal(&shared, true);
        let late = Poll::Ready(Err(StoreError::Unavailable));
        assert_eq!(poll(pin!(journal.open())), late);
        let (JournalCommand::Open { opener, .. }, reply) = ordered(&commands) else {
            panic!("it was asked for")
        };
        assert_eq!(poll(pin!(journal.open())), late);
        assert!(commands.logs.try_recv().is_err(), "the same is waited for");
        assert_eq!(closed(&commands), None);
        if is_answered {
            let (token, snapshot, records) = (Token::new(1, 1), None, Vec::new());
            let (last, first) = (7, 8);
            let opened = OpenedLog {
                token,
                snapshot,
                records,
                last,
            };
            reply.send(Answer::Journal(JournalAnswer::Opened(opened)));
            let found = poll(pin!(journal.open()));
            assert!(matches!(found, Poll::Ready(Ok(log)) if (log.first, log.last) == (first, last)));
        }
        drop(journal);
        assert_eq!(closed(&commands), Some(opener));
    }
}

#[test]
fn who_lost_its_log_asks_for_nothing_before_it_has_opened_it_again() {
    let (shared, commands) = node();
    let mut journal = journal(&shared, false);
    open(&mut journal, &commands, Vec::new());
    {
        let mut keeping = pin!(journal.keep(1, Bytes::from(*b"state")));
        assert!(poll(keeping.as_mut()).is_pending());
        let (_, reply) = ordered(&commands);
        let answer = refused(JournalCommandError::NotOpen);
        reply.send(answer.expect("an answer"));
        let fenced = StoreError::Fenced { held: Token::NONE };
        assert_eq!(poll(keeping.as_mut()), Poll::Ready(Err(fenced)));
    }
    let mut appending = pin!(journal.append(0, vec![Bytes::from(*b"event")], AppendPurpose::Keep));
    let fenced = StoreError::Fenced { held: Token::NONE };
    assert_eq!(poll(appending.as_mut()), Poll::Ready(Err(fenced)));
    assert!(commands.logs.try_recv().is_err(), "nothing is asked for");
}

#[test]
fn what_was_found_is_read_from_any_record_on_until_the_first_append() {
    let (shared, commands) = node();
    let mut journal = journal(&shared, false);
    let records: Vec<Record> = (1..=3)
        .map(|sequence| Record {
            sequence,
            token: Token::new(1, 1),
            bytes: Bytes::from(*b"event"),
        })
        .collect();
    open(&mut journal, &commands, records);
    let read = |journal: &mut QuorumJournal, from| match poll(pin!(journal.read(from))) {
        Poll::Ready(Ok(records)) => records.iter().map(|record| record.sequence).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(read(&mut journal, 1), [1, 2, 3]);
    assert_eq!(read(&mut journal, 2), [2, 3]);
    assert!(
        poll(pin!(journal.append(
            3,
            vec![Bytes::from(*b"more")],
            AppendPurpose::Keep
        )))
        .is_pending()
    );
    assert_eq!(read(&mut journal, 2), [0; 0]);
}
