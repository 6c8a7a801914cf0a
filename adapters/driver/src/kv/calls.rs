//! Calls of a bucket: what can be set before they are awaited, and what an answer is to their caller. Decides
//! nothing. Spec: sharding 5.6, 10.7.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::ddata::state::key::Key;
use quorate_core::effect::{Answer, CommandError, KvOutcome};
use quorate_core::input::KvCommand;
use quorate_core::kv::state::entry::{KeyDecision, KvEntry};
use quorate_core::kv::state::exchange::KvChange;
use quorate_core::kv::state::level::Level;
use quorate_core::kv::state::outcome::{CallAnswer, CallError, CallGoal};
use quorate_core::store::Bytes;
use serde::de::DeserializeOwned;

use super::bucket::Bucket;
use super::errors::{KvGetError, KvPutError, KvPutIfError};
use super::found::{KvContext, KvFound};
use super::version::KvVersion;
use crate::request::{Request, TIMEOUT_DEFAULT};

/// What becomes of a key.
#[derive(Clone, Debug)]
pub(super) enum KeyWrite {
    Put { bytes: Bytes, ttl: Option<Duration> },
    Delete,
}

impl KeyWrite {
    /// Bytes of its value.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Put { bytes, .. } => bytes.len(),
            Self::Delete => 0,
        }
    }

    pub(super) fn set_ttl(&mut self, life: Duration) {
        match self {
            Self::Put { ttl, .. } => *ttl = Some(life),
            Self::Delete => {}
        }
    }
}

impl From<KeyWrite> for KvChange {
    fn from(change: KeyWrite) -> Self {
        match change {
            KeyWrite::Put { bytes, ttl } => Self::Put {
                bytes,
                // Too long a life for a u64 is too long for the core.
                ttl_ms: ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
            },
            KeyWrite::Delete => Self::Delete,
        }
    }
}

impl<V> Bucket<V> {
    /// Has the node make a call; nothing if it has stopped, or ends before there is an answer.
    async fn call(&self, key: Key, goal: CallGoal, timeout: Duration) -> Called {
        let command = KvCommand::Call {
            bucket: self.name.clone(),
            key,
            goal,
            timeout,
        };
        match self.shared.kv(command).await {
            Some(Answer::Kv(KvOutcome::Called(called))) => called.map_err(Uncalled::Failed),
            Some(Answer::Refused(CommandError::Stopped)) | None => Err(Uncalled::Stopped),
            Some(Answer::Refused(error)) => Err(Uncalled::Refused(error)),
            Some(
                Answer::Done
                | Answer::Asked(_)
                | Answer::Sharding(_)
                | Answer::Ddata(_)
                | Answer::Singleton(_)
                | Answer::Journal(_)
                | Answer::Kv(_),
            ) => Err(Uncalled::Stopped),
        }
    }

    /// What a key holds.
    pub(super) async fn entry(
        &self,
        key: Key,
        level: Level,
        timeout: Duration,
    ) -> Result<KvEntry, KvGetError> {
        match self.call(key, CallGoal::Get { level }, timeout).await? {
            CallAnswer::Found(entry) => Ok(entry),
            CallAnswer::Written(_)
            | CallAnswer::Decided(_)
            | CallAnswer::Conflict { .. }
            | CallAnswer::Resolved
            | CallAnswer::Logged { .. } => Err(KvGetError::Stopped),
        }
    }

    /// Changes what the context has seen of a key.
    pub(super) async fn write(
        &self,
        key: Key,
        change: KeyWrite,
        context: KvContext,
        (level, timeout): (Level, Duration),
    ) -> Result<(), KvPutError> {
        let goal = CallGoal::Write {
            change: change.into(),
            context: context.0,
            level,
        };
        match self.call(key, goal, timeout).await? {
            CallAnswer::Written(_) => Ok(()),
            CallAnswer::Found(_)
            | CallAnswer::Decided(_)
            | CallAnswer::Conflict { .. }
            | CallAnswer::Resolved
            | CallAnswer::Logged { .. } => Err(KvPutError::Stopped),
        }
    }
}

type Called = Result<CallAnswer, Uncalled>;

/// Why a call has no answer.
enum Uncalled {
    Failed(CallError),
    Refused(CommandError),
    Stopped,
}

impl From<Uncalled> for KvGetError {
    fn from(uncalled: Uncalled) -> Self {
        match uncalled {
            Uncalled::Failed(error) => Self::Failed(error),
            Uncalled::Refused(error) => Self::Refused(error),
            Uncalled::Stopped => Self::Stopped,
        }
    }
}

impl From<Uncalled> for KvPutError {
    fn from(uncalled: Uncalled) -> Self {
        match uncalled {
            Uncalled::Failed(error) => Self::Failed(error),
            Uncalled::Refused(error) => Self::Refused(error),
            Uncalled::Stopped => Self::Stopped,
        }
    }
}

/// A get: await it. Begins then, with the bucket's least R and [`TIMEOUT_DEFAULT`] unless it says otherwise.
///
/// # Errors
/// [`KvGetError`].
///
/// # Cancel safety
/// Safe: a get changes nothing but that stale owners are repaired.
#[must_use = "nothing happens before it is awaited"]
pub struct KvGet<V> {
    bucket: Arc<Bucket<V>>,
    key: Option<Key>,
    level: Level,
    timeout: Duration,
}

impl<V> KvGet<V> {
    pub(super) fn new(bucket: Arc<Bucket<V>>, key: Option<Key>) -> Self {
        Self {
            level: bucket.reads,
            bucket,
            key,
            timeout: TIMEOUT_DEFAULT,
        }
    }

    /// R: how many owners have to be heard. Below the bucket's least R a get guarantees nothing.
    pub const fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// How long to wait for them, 1 ms to 1 h (clamped).
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }
}

impl<V: DeserializeOwned + 'static> IntoFuture for KvGet<V> {
    type Output = Result<KvFound<V>, KvGetError>;
    type IntoFuture = Request<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Request::new(self.timeout, async move |timeout| {
            let key = self.key.ok_or(KvGetError::BadKey)?;
            let entry = self.bucket.entry(key, self.level, timeout).await?;
            self.bucket.found(&entry)
        })
    }
}

impl<V: DeserializeOwned> Bucket<V> {
    pub(super) fn found(&self, entry: &KvEntry) -> Result<KvFound<V>, KvGetError> {
        let merge = self.merge.as_ref();
        let context = KvContext(entry.siblings.clock().clone());
        let decided = match entry.accepted().map(|accepted| &accepted.decision) {
            Some(KeyDecision::Value(decided)) => Some(decided),
            Some(KeyDecision::Ordinary { .. }) | None => None,
        };
        let values = match decided {
            Some(decided) => KvFound::read(decided.content.value().map(|bytes| &**bytes).into_iter(), merge),
            None => KvFound::read(entry.siblings.values().map(|bytes| &**bytes), merge),
        };
        Ok(KvFound {
            values: values?,
            context,
            version: decided.map(|decided| KvVersion(decided.version)),
        })
    }
}

/// A put or a delete: await it. Begins then, with the bucket's least W and [`TIMEOUT_DEFAULT`] unless it says
/// otherwise.
///
/// # Errors
/// [`KvPutError`]; [`KvPutError::may_have_been_handled`] says whether it took place.
///
/// # Cancel safety
/// Dropping it before it was polled changes nothing; afterwards it may take place.
#[must_use = "nothing happens before it is awaited"]
pub struct KvPut<V> {
    bucket: Arc<Bucket<V>>,
    key: Option<Key>,
    /// Nothing if the value cannot be serialised.
    change: Option<KeyWrite>,
    context: KvContext,
    level: Level,
    timeout: Duration,
}

impl<V> KvPut<V> {
    pub(super) fn new(
        bucket: Arc<Bucket<V>>,
        key: Option<Key>,
        change: Option<KeyWrite>,
        context: KvContext,
    ) -> Self {
        Self {
            level: bucket.writes,
            bucket,
            key,
            change,
            context,
            timeout: TIMEOUT_DEFAULT,
        }
    }

    /// W: how many owners have to have it. Below the bucket's least W a put guarantees nothing.
    pub const fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// The value ends after this time, 1 ms to ten years: by the clock of the owner that makes the version,
    /// and on each owner by its own. It may be read once more within the difference of their clocks. Without
    /// meaning for a delete.
    pub fn ttl(mut self, life: Duration) -> Self {
        if let Some(change) = &mut self.change {
            change.set_ttl(life);
        }
        self
    }

    /// How long to wait for the owners, 1 ms to 1 h (clamped).
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }
}

impl<V: 'static> IntoFuture for KvPut<V> {
    type Output = Result<(), KvPutError>;
    type IntoFuture = Request<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Request::new(self.timeout, async move |timeout| {
            let key = self.key.ok_or(KvPutError::BadKey)?;
            let change = self.change.ok_or(KvPutError::Encode)?;
            let how = (self.level, timeout);
            self.bucket.write(key, change, self.context, how).await
        })
    }
}

/// A conditional put or delete: await it. It gives the version that the key has then, which the next one can
/// expect. Begins when it is awaited, with [`TIMEOUT_DEFAULT`] unless it says otherwise.
///
/// # Errors
/// [`KvPutIfError`]; [`KvPutIfError::may_have_been_handled`] says whether it took effect.
///
/// # Cancel safety
/// Dropping it before it was polled changes nothing; afterwards it may take effect.
#[must_use = "nothing happens before it is awaited"]
pub struct KvPutIf<V> {
    bucket: Arc<Bucket<V>>,
    key: Option<Key>,
    /// Nothing if the value cannot be serialised.
    change: Option<KeyWrite>,
    expected: Option<KvVersion>,
    timeout: Duration,
}

impl<V> KvPutIf<V> {
    pub(super) const fn new(
        bucket: Arc<Bucket<V>>,
        key: Option<Key>,
        change: Option<KeyWrite>,
        expected: Option<KvVersion>,
    ) -> Self {
        Self {
            bucket,
            key,
            change,
            expected,
            timeout: TIMEOUT_DEFAULT,
        }
    }

    /// See [`KvPut::ttl`]; the clock is that of the node that calls.
    pub fn ttl(mut self, life: Duration) -> Self {
        if let Some(change) = &mut self.change {
            change.set_ttl(life);
        }
        self
    }

    /// How long to wait for the owners, 1 ms to 1 h (clamped).
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }
}

impl<V: 'static> IntoFuture for KvPutIf<V> {
    type Output = Result<KvVersion, KvPutIfError>;
    type IntoFuture = Request<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Request::new(self.timeout, async move |timeout| {
            let key = self.key.ok_or(KvPutError::BadKey)?;
            let goal = CallGoal::Conditional {
                expected: self.expected.map(|version| version.0),
                change: self.change.ok_or(KvPutError::Encode)?.into(),
            };
            let called = self.bucket.call(key, goal, timeout).await;
            match called.map_err(KvPutError::from)? {
                CallAnswer::Decided(version) => Ok(KvVersion(version)),
                CallAnswer::Conflict { present } => Err(KvPutIfError::Conflict {
                    present: present.map(KvVersion),
                }),
                CallAnswer::Found(_)
                | CallAnswer::Written(_)
                | CallAnswer::Resolved
                | CallAnswer::Logged { .. } => Err(KvPutError::Stopped.into()),
            }
        })
    }
}

macro_rules! shown {
    ($($call:ident)+) => {
        $(
            impl<V> fmt::Debug for $call<V> {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.debug_struct(stringify!($call))
                        .field("key", &self.key)
                        .field("timeout", &self.timeout)
                        .finish_non_exhaustive()
                }
            }
        )+
    };
}

shown! { KvGet KvPut KvPutIf }
