//! What calls ask of the node, and what its answers are to their callers; nobody is behind it.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use quorate_core::effect::{Answer, CommandError, KvCommandError, KvOutcome};
use quorate_core::input::KvCommand;
use quorate_core::kv::state::bucket::BucketName;
use quorate_core::kv::state::call::{Ballot, CallId};
use quorate_core::kv::state::entry::{AcceptedDecision, DecidedVersion, KeyDecision, KvEntry, Register};
use quorate_core::kv::state::exchange::KvChange;
use quorate_core::kv::state::outcome::{CallAnswer, CallError, CallGoal};
use quorate_core::kv::state::settings::BucketSettings;
use quorate_core::kv::state::siblings::{Siblings, VersionContent};
use serde::{Serialize, Serializer};

use super::{Kv, KvContext, KvGetError, KvPutError, KvPutIfError, KvVersion, Level};
use crate::codec;
use crate::commands::DataCommand;
use crate::request::{Request, TIMEOUT_DEFAULT};
use crate::shared::Commands;
use crate::testing::{block_on, idle_node};

fn bucket<V>() -> (Kv<V>, Commands) {
    let (shared, commands) = idle_node(|_| {});
    let settings = BucketSettings {
        read_least: Level::Replicas(2),
        write_least: Level::All,
        ..BucketSettings::default()
    };
    let name = BucketName::new("b").unwrap();
    (Kv::new(shared, name, &settings, None), commands)
}

/// What a call asks for, and what it makes of an answer.
fn called<T>(
    call: impl IntoFuture<Output = T, IntoFuture = Request<T>>,
    commands: &Commands,
    answer: Answer,
) -> (T, CallGoal, Duration) {
    let mut call = call.into_future();
    let is_waiting = poll_fn(|cx| Poll::Ready(Pin::new(&mut call).poll(cx).is_pending()));
    assert!(block_on(is_waiting), "nobody has answered");
    let Ok(DataCommand::Keyed { command, reply }) = commands.data.try_recv() else {
        panic!("it is a call")
    };
    let KvCommand::Call {
        bucket,
        key,
        goal,
        timeout,
    } = command
    else {
        panic!("{command:?}")
    };
    assert_eq!((bucket.as_str(), key.as_str()), ("b", "k"));
    reply.send(answer);
    (block_on(call), goal, timeout)
}

fn ok(answer: CallAnswer) -> Answer {
    Answer::Kv(KvOutcome::Called(Ok(answer)))
}

fn failed(error: CallError) -> Answer {
    Answer::Kv(KvOutcome::Called(Err(error)))
}

const VERSION: CallId = CallId { origin: 7, number: 9 };
const SHORT: Duration = Duration::from_millis(70);

fn decided(content: VersionContent) -> KvEntry {
    let decision = KeyDecision::Value(DecidedVersion {
        version: VERSION,
        before: None,
        at_ms: 1,
        content,
    });
    let ballot = Ballot {
        round: 1,
        call: VERSION,
        step: 0,
    };
    KvEntry {
        siblings: Siblings::new(),
        register: Some(Box::new(Register {
            promise: ballot,
            accepted: Some(AcceptedDecision { ballot, decision }),
        })),
    }
}

#[test]
fn calls_ask_at_the_least_levels_unless_they_name_one() {
    let (bucket, commands) = bucket::<u32>();
    let nothing = || ok(CallAnswer::Found(KvEntry::default()));
    let (found, goal, timeout) = called(bucket.get("k"), &commands, nothing());
    let level = Level::Replicas(2);
    assert_eq!((goal, timeout), (CallGoal::Get { level }, TIMEOUT_DEFAULT));
    assert_eq!(found.unwrap().values, [0; 0]);
    let get = bucket.get("k").level(Level::One).timeout(SHORT);
    let (_, goal, timeout) = called(get, &commands, nothing());
    assert_eq!((goal, timeout), (CallGoal::Get { level: Level::One }, SHORT));

    let context = KvContext::default();
    let written = || ok(CallAnswer::Written(context.0.clone()));
    let write = |ttl_ms, level| CallGoal::Write {
        change: KvChange::Put {
            bytes: codec::encode(&5_u32).unwrap().into(),
            ttl_ms,
        },
        context: context.0.clone(),
        level,
    };
    let (put, goal, _) = called(bucket.put("k", &5, &context), &commands, written());
    assert_eq!((put, goal), (Ok(()), write(None, Level::All)));
    let put = bucket.put("k", &5, &context).ttl(SHORT).level(Level::One);
    let (_, goal, timeout) = called(put.timeout(SHORT), &commands, written());
    assert_eq!((goal, timeout), (write(Some(70), Level::One), SHORT));
    let (deleted, goal, _) = called(bucket.delete("k", &context).ttl(SHORT), &commands, written());
    let change = KvChange::Delete;
    let delete = CallGoal::Write {
        change,
        context: context.0.clone(),
        level: Level::All,
    };
    assert_eq!((deleted, goal), (Ok(()), delete));
}

#[test]
fn a_conditional_put_names_what_it_expects_and_gives_what_is_there() {
    let (bucket, commands) = bucket::<u32>();
    let expected = Some(KvVersion(VERSION));
    let decided = ok(CallAnswer::Decided(VERSION));
    let (put, goal, _) = called(bucket.put_if("k", None, &5).ttl(SHORT), &commands, decided);
    let bytes = codec::encode(&5_u32).unwrap().into();
    let change = KvChange::Put {
        bytes,
        ttl_ms: Some(70),
    };
    let conditional = |expected, change| CallGoal::Conditional { expected, change };
    assert_eq!((put, goal), (Ok(KvVersion(VERSION)), conditional(None, change)));
    let conflict = ok(CallAnswer::Conflict {
        present: Some(VERSION),
    });
    let delete = bucket.delete_if("k", expected).timeout(SHORT);
    let (delete, goal, timeout) = called(delete, &commands, conflict);
    let error = delete.unwrap_err();
    assert!(!error.is_timeout() && !error.may_have_been_handled());
    assert_eq!(error, KvPutIfError::Conflict { present: expected });
    assert_eq!(
        (goal, timeout),
        (conditional(Some(VERSION), KvChange::Delete), SHORT)
    );
}

#[test]
fn what_turns_have_decided_is_found_with_its_version() {
    let (bucket, commands) = bucket::<u32>();
    let value = VersionContent::Value {
        bytes: codec::encode(&5_u32).unwrap().into(),
        expires_ms: None,
    };
    for (content, values) in [(value, vec![5]), (VersionContent::Tombstone, vec![])] {
        let answer = ok(CallAnswer::Found(decided(content)));
        let (found, ..) = called(bucket.get("k"), &commands, answer);
        let found = found.unwrap();
        assert_eq!((found.values, found.version), (values, Some(KvVersion(VERSION))));
    }
    let other_type = VersionContent::Value {
        bytes: [0xff_u8; 9].as_slice().into(),
        expires_ms: None,
    };
    let answer = ok(CallAnswer::Found(decided(other_type)));
    assert_eq!(
        called(bucket.get("k"), &commands, answer).0,
        Err(KvGetError::Decode)
    );
}

#[test]
fn errors_say_whether_a_put_may_have_taken_place() {
    let (bucket, commands) = bucket::<u32>();
    let put = |answer| {
        let put = bucket.put("k", &5, &KvContext::default());
        let error = called(put, &commands, answer).0.unwrap_err();
        (error.is_timeout(), error.may_have_been_handled())
    };
    let get = |answer| called(bucket.get("k"), &commands, answer).0.unwrap_err();
    let put_if = |answer| {
        let error = called(bucket.put_if("k", None, &5), &commands, answer)
            .0
            .unwrap_err();
        (error.is_timeout(), error.may_have_been_handled())
    };
    let timeout = || failed(CallError::Timeout { acknowledged: 1 });
    assert_eq!((put(timeout()), put_if(timeout())), ((true, true), (true, true)));
    assert!(get(timeout()).is_timeout());
    let busy = || Answer::Refused(CommandError::Kv(KvCommandError::TooManyCalls));
    for refused in [busy, || failed(CallError::NoOwner)] {
        assert_eq!(
            (put(refused()), put_if(refused())),
            ((false, false), (false, false))
        );
        assert!(!get(refused()).is_timeout());
    }
    let stopped = || Answer::Refused(CommandError::Stopped);
    assert_eq!(
        (put(stopped()), put_if(stopped())),
        ((false, true), (false, true))
    );
    assert_eq!(get(stopped()), KvGetError::Stopped);
    drop(commands);
    let get = block_on(bucket.get("k").into_future());
    assert_eq!(get, Err(KvGetError::Stopped), "nobody takes it");
}

/// Cannot be serialised.
struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("never"))
    }
}

#[test]
fn what_cannot_be_a_key_or_a_value_is_refused_before_anybody_is_asked() {
    let (bucket, commands) = bucket::<Unwritable>();
    let context = KvContext::default();
    let put = bucket.put("k", &Unwritable, &context).ttl(SHORT);
    assert_eq!(block_on(put.into_future()), Err(KvPutError::Encode));
    let put_if = bucket.put_if("k", None, &Unwritable);
    assert_eq!(block_on(put_if.into_future()), Err(KvPutError::Encode.into()));
    let long = "k".repeat(256);
    for key in ["", &long] {
        let delete = bucket.delete(key, &context);
        assert_eq!(block_on(delete.into_future()), Err(KvPutError::BadKey));
        let delete = bucket.delete_if(key, None);
        assert_eq!(block_on(delete.into_future()), Err(KvPutError::BadKey.into()));
    }
    assert!(commands.data.is_empty());
}
