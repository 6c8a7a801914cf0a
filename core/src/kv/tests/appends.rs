//! Logs of durable entities in a bucket, between the nodes that take them from each other.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::world::{World, change, put, settings, values};
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::kv::protocol::{BucketBody, KvCommandError};
use crate::kv::state::clock::VersionClock;
use crate::kv::state::exchange::KvAsk;
use crate::kv::state::level::Level;
use crate::kv::state::logged::{LogChange, LogDenial, LogRecord, LogWrite};
use crate::kv::state::outcome::{CallAnswer, CallError, CallGoal, LogHold};
use crate::kv::state::settings::BucketSettings;
use crate::store::{Bytes, Sequence};
use crate::token::Token;

const LOG: &str = "counter/7";

fn logged(
    world: &mut World,
    at: usize,
    change: LogChange,
    hold: Option<LogHold>,
) -> (Result<Option<Arc<LogRecord>>, LogDenial>, LogHold) {
    match world.call(at, LOG, CallGoal::Log { change, hold }) {
        Ok(CallAnswer::Logged { log, hold }) => (log, hold),
        other => panic!("{other:?}"),
    }
}

fn claim(world: &mut World, at: usize) -> (Arc<LogRecord>, LogHold) {
    let (log, hold) = logged(world, at, LogChange::Claim { placement: None }, None);
    (log.unwrap().unwrap(), hold)
}

fn append(token: Token, expected: Sequence, record: &str) -> LogChange {
    LogChange::Write(LogWrite::Append {
        token,
        expected,
        records: [Bytes::from(record.as_bytes())].into(),
    })
}

fn records(log: &LogRecord) -> Vec<&str> {
    let records = log.records().iter();
    records.map(|record| str::from_utf8(record).unwrap()).collect()
}

fn promises(world: &World) -> u64 {
    world.peers.iter().map(|peer| peer.fixture.stats.kv.asked).sum()
}

#[test]
fn s_10_7_a_late_write_of_an_earlier_owner_is_refused_and_counted() {
    let mut world = World::new(3);
    world.open(0..3);
    let (first, hold) = claim(&mut world, 0);
    let (written, mut hold) = logged(&mut world, 0, append(first.token(), 0, "a"), Some(hold));
    assert_eq!(written, Ok(None));
    let before = promises(&world);
    (_, hold) = logged(&mut world, 0, append(first.token(), 1, "b"), Some(hold));
    assert_eq!(promises(&world) - before, 3, "one question to each owner");

    let (second, theirs) = claim(&mut world, 1);
    assert_eq!(records(&second), ["a", "b"]);
    let held = second.token();
    assert!(held > first.token());
    // Within the turn that was its own, and in one of its own.
    for hold in [Some(hold), None] {
        let late = CallGoal::Log {
            change: append(first.token(), 2, "late"),
            hold,
        };
        let refused = world.call(0, LOG, late);
        let is_fenced = |log| log == Err(LogDenial::Fenced { held });
        match refused {
            // Nobody knows, once it was sent.
            Err(CallError::Timeout { .. }) => assert!(hold.is_some()),
            Ok(CallAnswer::Logged { log, .. }) => assert!(hold.is_none() && is_fenced(log)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.peers[0].fixture.stats.kv.logs_fenced, 1);
    // What was in its way is none for who has the log.
    let (written, _) = logged(&mut world, 1, append(held, 2, "c"), Some(theirs));
    assert_eq!(written, Ok(None));
    assert_eq!(records(&claim(&mut world, 2).0), ["a", "b", "c"]);
}

#[test]
fn an_owner_that_lacks_a_step_is_made_up_for_by_a_turn_and_by_comparing() {
    let mut world = World::new(3);
    world.open(0..3);
    let (log, mut hold) = claim(&mut world, 0);
    // The same owner never, each time another write.
    world.lose = |body| match body {
        BucketBody::Ask(asked) => {
            let first = asked.configuration.owners.sets().0[0];
            matches!(asked.ask, KvAsk::Extend { .. }) && asked.store == first
        }
        _ => false,
    };
    (_, hold) = logged(&mut world, 0, append(log.token(), 0, "a"), Some(hold));
    // Now another one is away as well: only with the one that lacks it there are enough.
    world.lose = |body| match body {
        BucketBody::Ask(asked) => asked.store == asked.configuration.owners.sets().0[1],
        _ => false,
    };
    let (written, _) = logged(&mut world, 0, append(log.token(), 1, "b"), Some(hold));
    assert_eq!(written, Ok(None));
    world.lose = |body| match body {
        BucketBody::Ask(asked) => asked.store == asked.configuration.owners.sets().0[2],
        _ => false,
    };
    assert_eq!(records(&claim(&mut world, 1).0), ["a", "b"]);
}

#[test]
fn a_log_is_no_value_and_a_value_no_log() {
    let mut world = World::new(3);
    world.open(0..3);
    let (log, hold) = claim(&mut world, 0);
    let (written, _) = logged(&mut world, 0, append(log.token(), 0, "a"), Some(hold));
    assert_eq!(written, Ok(None));
    assert_eq!(values(&world.get(1, LOG)), [""; 0]);
    let written = world.call(1, LOG, put("1", VersionClock::new()));
    assert_eq!(written, Err(CallError::Conditional));
    let conditional = CallGoal::Conditional {
        expected: None,
        change: change("1"),
    };
    assert_eq!(world.call(1, LOG, conditional), Err(CallError::Log));
    world.call(1, "value", put("1", VersionClock::new())).unwrap();
    let goal = CallGoal::Log {
        change: LogChange::Claim { placement: None },
        hold: None,
    };
    assert_eq!(world.call(2, "value", goal), Err(CallError::Ordinary));
    assert_eq!(records(&claim(&mut world, 2).0), ["a"]);
}

#[test]
fn a_bucket_of_which_a_read_may_miss_a_write_keeps_no_logs() {
    let mut world = World::new(3);
    let loose = BucketSettings {
        read_least: Level::One,
        ..settings()
    };
    for index in 0..3 {
        world.open_as(index, loose.clone());
    }
    let goal = CallGoal::Log {
        change: LogChange::Claim { placement: None },
        hold: None,
    };
    let token = world.begin(0, LOG, goal);
    let refused = AnyAnswer::Refused(AnyError::Kv(KvCommandError::NotStrict));
    assert_eq!(world.peers[0].answers.get(&token), Some(&refused));
}
