//! Calls for many keys: as single calls, of which a bounded number is open at once. Links put what they send
//! to one owner into common writes. Decides nothing. Spec: sharding 5.6.

use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use quorate_core::ddata::state::key::Key;
use quorate_core::kv::state::level::Level;
use serde::de::DeserializeOwned;

use super::bucket::{Bucket, MANY_BYTES_MAX, MANY_KEYS_MAX};
use super::calls::KeyWrite;
use super::errors::{KvGetError, KvManyError, KvPutError};
use super::found::{KvContext, KvFound};
use crate::request::{Request, TIMEOUT_DEFAULT};

/// Calls that one request has open at once: enough to keep all owners busy, and few beside
/// `kv.open_calls_max`.
pub(super) const AT_ONCE_MAX: usize = 64;

/// Runs futures in their order, so many at once, and gives what they complete with in that order. One is made
/// when it begins.
pub(super) async fn in_turn<F: Future>(futures: impl Iterator<Item = F>, at_once: usize) -> Vec<F::Output> {
    let mut waiting = futures.fuse();
    let mut running: Vec<(usize, Pin<Box<F>>)> = Vec::new();
    let mut done: Vec<Option<F::Output>> = Vec::new();
    poll_fn(|cx| {
        loop {
            while running.len() < at_once
                && let Some(next) = waiting.next()
            {
                running.push((done.len(), Box::pin(next)));
                done.push(None);
            }
            let before = running.len();
            running.retain_mut(|(place, future)| match future.as_mut().poll(cx) {
                Poll::Ready(output) => {
                    done[*place] = Some(output);
                    false
                }
                Poll::Pending => true,
            });
            if running.is_empty() && before < at_once {
                return Poll::Ready(());
            }
            if running.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// A get of many keys: await it. Gives an outcome for each key, in the order in which they were named; one
/// that fails does not fail the others. Begins when it is awaited, with the bucket's least R and
/// [`TIMEOUT_DEFAULT`] for all of them unless it says otherwise.
///
/// # Errors
/// [`KvManyError`], before anything is asked.
///
/// # Cancel safety
/// Safe: a get changes nothing but that stale owners are repaired.
#[must_use = "nothing happens before it is awaited"]
pub struct KvGetMany<V> {
    bucket: Arc<Bucket<V>>,
    keys: Vec<Option<Key>>,
    level: Level,
    timeout: Duration,
}

impl<V> KvGetMany<V> {
    pub(super) fn new(bucket: Arc<Bucket<V>>, keys: Vec<Option<Key>>) -> Self {
        Self {
            level: bucket.reads,
            bucket,
            keys,
            timeout: TIMEOUT_DEFAULT,
        }
    }

    /// R, as of [`KvGet::level`](super::KvGet::level).
    pub const fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// How long to wait for all of them together, 1 ms to 1 h (clamped).
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }
}

impl<V: DeserializeOwned + Send + 'static> IntoFuture for KvGetMany<V> {
    type Output = Result<Vec<Result<KvFound<V>, KvGetError>>, KvManyError>;
    type IntoFuture = Request<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Request::new(self.timeout, async move |timeout| {
            let Self {
                bucket, keys, level, ..
            } = self;
            check_number(keys.len())?;
            let begun = Instant::now();
            let bytes = AtomicUsize::new(0);
            let get = async |key: Option<Key>| {
                let key = key.ok_or(KvGetError::BadKey)?;
                if bytes.load(Ordering::Relaxed) > MANY_BYTES_MAX {
                    return Err(KvGetError::ManyBytes);
                }
                let left = timeout.saturating_sub(begun.elapsed());
                let entry = bucket.entry(key, level, left).await?;
                bytes.fetch_add(entry.bytes(), Ordering::Relaxed);
                bucket.found(&entry)
            };
            Ok(in_turn(keys.into_iter().map(get), AT_ONCE_MAX).await)
        })
    }
}

/// A put of many keys: await it. Gives an outcome for each key, in the order in which they were named; one
/// that fails does not fail the others, and there is no order among them: no transaction. Begins when it is
/// awaited, with the bucket's least W and [`TIMEOUT_DEFAULT`] for all of them unless it says otherwise.
///
/// # Errors
/// [`KvManyError`], before anything is written.
///
/// # Cancel safety
/// Dropping it before it was polled changes nothing; afterwards any of them may take place.
#[must_use = "nothing happens before it is awaited"]
pub struct KvPutMany<V> {
    bucket: Arc<Bucket<V>>,
    writes: Vec<(Option<Key>, Option<KeyWrite>, KvContext)>,
    level: Level,
    timeout: Duration,
}

impl<V> KvPutMany<V> {
    pub(super) fn new(
        bucket: Arc<Bucket<V>>,
        writes: Vec<(Option<Key>, Option<KeyWrite>, KvContext)>,
    ) -> Self {
        Self {
            level: bucket.writes,
            bucket,
            writes,
            timeout: TIMEOUT_DEFAULT,
        }
    }

    /// W, as of [`KvPut::level`](super::KvPut::level).
    pub const fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Each value ends after this time, as of [`KvPut::ttl`](super::KvPut::ttl).
    pub fn ttl(mut self, life: Duration) -> Self {
        let changes = self
            .writes
            .iter_mut()
            .filter_map(|(_, change, _)| change.as_mut());
        changes.for_each(|change| change.set_ttl(life));
        self
    }

    /// How long to wait for all of them together, 1 ms to 1 h (clamped).
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }
}

impl<V: Send + Sync + 'static> IntoFuture for KvPutMany<V> {
    type Output = Result<Vec<Result<(), KvPutError>>, KvManyError>;
    type IntoFuture = Request<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Request::new(self.timeout, async move |timeout| {
            let Self {
                bucket,
                writes,
                level,
                ..
            } = self;
            check_number(writes.len())?;
            let changes = writes.iter().filter_map(|(_, change, _)| change.as_ref());
            if changes.map(KeyWrite::bytes).sum::<usize>() > MANY_BYTES_MAX {
                return Err(KvManyError::Bytes);
            }
            let begun = Instant::now();
            let put = async |(key, change, context): (_, Option<KeyWrite>, KvContext)| {
                let key = Option::<Key>::ok_or(key, KvPutError::BadKey)?;
                let change = change.ok_or(KvPutError::Encode)?;
                let left = timeout.saturating_sub(begun.elapsed());
                bucket.write(key, change, context, (level, left)).await
            };
            Ok(in_turn(writes.into_iter().map(put), AT_ONCE_MAX).await)
        })
    }
}

const fn check_number(keys: usize) -> Result<(), KvManyError> {
    if keys > MANY_KEYS_MAX {
        return Err(KvManyError::Keys { found: keys });
    }
    Ok(())
}

impl<V> fmt::Debug for KvGetMany<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KvGetMany")
            .field("keys", &self.keys.len())
            .field("level", &self.level)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl<V> fmt::Debug for KvPutMany<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KvPutMany")
            .field("keys", &self.writes.len())
            .field("level", &self.level)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use quorate_core::effect::{Answer, KvOutcome};
    use quorate_core::input::KvCommand;
    use quorate_core::kv::state::bucket::BucketName;
    use quorate_core::kv::state::clock::VersionClock;
    use quorate_core::kv::state::entry::KvEntry;
    use quorate_core::kv::state::outcome::{CallAnswer, CallError};
    use quorate_core::kv::state::settings::BucketSettings;

    use super::*;
    use crate::commands::DataCommand;
    use crate::kv::Kv;
    use crate::shared::Commands;
    use crate::testing::{block_on, idle_node};

    fn bucket<V>() -> (Kv<V>, Commands) {
        let (shared, commands) = idle_node(|_| {});
        let name = BucketName::new("b").unwrap();
        (Kv::new(shared, name, &BucketSettings::default(), None), commands)
    }

    /// Ready when it is polled for the second time.
    async fn later<T>(value: T) -> T {
        let mut polled = false;
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            if std::mem::replace(&mut polled, true) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        value
    }

    #[test]
    fn so_many_run_at_once_and_their_outputs_are_in_order() {
        let (running, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let futures = (0..10).map(|number| {
            let (running, most) = (Rc::clone(&running), Rc::clone(&most));
            running.set(running.get() + 1);
            most.set(most.get().max(running.get()));
            async move {
                // Every third is done at once.
                if number % 3 != 0 {
                    later(()).await;
                }
                running.set(running.get() - 1);
                number
            }
        });
        assert_eq!(block_on(in_turn(futures, 4)), (0..10).collect::<Vec<_>>());
        assert_eq!((most.get(), running.get()), (4, 0));
        let none = std::iter::empty::<std::future::Ready<u8>>();
        assert_eq!(block_on(in_turn(none, 4)), []);
    }

    /// Answers calls as they come, until a request is over.
    fn answered<T>(
        request: impl IntoFuture<Output = T, IntoFuture = Request<T>>,
        commands: &Commands,
        answer: impl Fn(&Key) -> Result<CallAnswer, CallError>,
    ) -> (T, usize) {
        let (mut request, mut calls) = (request.into_future(), 0);
        let output = block_on(poll_fn(|cx| {
            let polled = Pin::new(&mut request).poll(cx);
            while let Ok(DataCommand::Keyed { command, reply }) = commands.data.try_recv() {
                let KvCommand::Call { key, .. } = command else {
                    panic!("{command:?}")
                };
                calls += 1;
                reply.send(Answer::Kv(KvOutcome::Called(answer(&key))));
            }
            polled
        }));
        (output, calls)
    }

    const FAILED: CallError = CallError::Timeout { acknowledged: 1 };

    #[test]
    fn each_key_has_an_outcome_of_its_own() {
        let (bucket, commands) = bucket::<u32>();
        let fails = |key: &Key| key.as_str() == "b";
        let found = |key: &Key| match fails(key) {
            true => Err(FAILED),
            false => Ok(CallAnswer::Found(KvEntry::default())),
        };
        let long = "k".repeat(256);
        let (found, calls) = answered(bucket.get_many(["a", "b", &long, "c"]), &commands, found);
        let found = found.unwrap();
        assert!(found[0].is_ok() && found[3].is_ok());
        assert_eq!(found[1], Err(FAILED.into()));
        assert_eq!((&found[2], calls), (&Err(KvGetError::BadKey), 3));

        let context = KvContext::default();
        let written = |key: &Key| match fails(key) {
            true => Err(FAILED),
            false => Ok(CallAnswer::Written(VersionClock::new())),
        };
        let keys: Vec<String> = (0..200).map(|key| format!("k{key}")).collect();
        let puts = keys.iter().map(|key| (key.as_str(), &7, &context));
        let puts = puts.chain([("b", &7, &context), ("", &7, &context)]);
        let (put, calls) = answered(bucket.put_many(puts), &commands, written);
        let put = put.unwrap();
        assert!(put[..200].iter().all(Result::is_ok));
        assert_eq!(put[200..], [Err(FAILED.into()), Err(KvPutError::BadKey)]);
        assert_eq!(calls, 201);
    }

    #[test]
    fn more_than_fits_is_refused_before_anybody_is_asked() {
        let (bucket, commands) = bucket::<String>();
        let context = KvContext::default();
        let keys = vec!["k"; MANY_KEYS_MAX + 1];
        let refused = KvManyError::Keys { found: keys.len() };
        let value = "v".repeat(4_097);
        assert_eq!(block_on(bucket.get_many(&keys).into_future()), Err(refused));
        let puts = keys.iter().map(|key| (key, &value, &context));
        assert_eq!(block_on(bucket.put_many(puts).into_future()), Err(refused));
        let puts = keys[1..].iter().map(|key| (key, &value, &context));
        let put = block_on(bucket.put_many(puts).into_future());
        assert_eq!(put, Err(KvManyError::Bytes));
        assert!(commands.data.is_empty());
    }

    #[test]
    fn a_get_reads_no_further_key_when_it_has_found_as_many_bytes_as_it_may() {
        let (bucket, commands) = bucket::<String>();
        let mut entry = KvEntry::default();
        let text = crate::codec::encode(&"v".repeat(400_000)).unwrap();
        let (ballot, version) = Default::default();
        let content = quorate_core::kv::state::siblings::VersionContent::Value {
            bytes: text.into(),
            expires_ms: None,
        };
        let decision = quorate_core::kv::state::entry::DecidedVersion {
            version,
            before: None,
            at_ms: 1,
            content,
        };
        let decision = quorate_core::kv::state::entry::KeyDecision::Value(decision);
        entry
            .accept(&quorate_core::kv::state::entry::AcceptedDecision { ballot, decision })
            .unwrap();
        let keys = vec!["k"; 300];
        let found = |_: &Key| Ok(CallAnswer::Found(entry.clone()));
        let (found, calls) = answered(bucket.get_many(&keys), &commands, found);
        let full = found.unwrap().into_iter();
        let full = full.filter(|found| *found == Err(KvGetError::ManyBytes)).count();
        // Those that were open are answered.
        let most = MANY_BYTES_MAX / 400_000 + 1 + AT_ONCE_MAX;
        assert!(calls <= most && full == 300 - calls, "{calls}");
    }
}
