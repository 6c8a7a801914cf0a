//! The handle of one replicated value: what all types (counter, set, map, register) have in common. Holds a
//! name and asks the core; never keeps a value of its own. Spec: sharding 1.12.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::ddata::crdt::DataOp;
use quorate_core::ddata::protocol::{Answer, Command};
use quorate_core::ddata::state::key::{Key, Pattern};

use super::changes::Changes;
use super::kind::DataKind;
use super::level::{Read, Write};
use crate::error::{DataReadError, DataWriteError};
use crate::request::{Request, TIMEOUT_DEFAULT};
use crate::shared::Shared;

/// One replicated value, by name. Cheap to clone; holds no value and does not keep the node alive. The same
/// name must mean the same type on every node. Reads and writes wait for other replicas up to their time
/// limit: [`TIMEOUT_DEFAULT`], or what [`Request::timeout`] sets, 1 ms to 1 h (clamped).
pub struct Replicated<T> {
    shared: Arc<Shared>,
    /// Nothing if the name is not legal; every operation says so.
    key: Option<Key>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Replicated<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            key: self.key.clone(),
            kind: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Replicated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicated")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl<T> Replicated<T> {
    pub(super) fn new(shared: Arc<Shared>, key: &str) -> Self {
        Self {
            shared,
            key: Key::new(key).ok(),
            kind: PhantomData,
        }
    }
}

impl<T: DataKind> Replicated<T> {
    /// Reads the value, merged from the replicas that the level asks.
    ///
    /// # Errors
    /// [`DataReadError`]; a value that nobody has written yet is `NotFound`.
    ///
    /// # Cancel safety
    /// Safe: reading changes nothing but that stale replicas are repaired.
    pub fn read(&self, level: Read) -> Request<Result<T::Value, DataReadError>> {
        let (shared, key) = (Arc::clone(&self.shared), self.key.clone());
        Request::new(TIMEOUT_DEFAULT, async move |timeout| {
            let key = key.ok_or(DataReadError::BadKey)?;
            let command = Command::Get {
                key,
                consistency: level.into(),
                timeout,
            };
            match shared.data(command).await {
                Some(Answer::Value(Ok(data))) => T::value(&data),
                Some(Answer::Value(Err(error))) => Err(error.into()),
                Some(Answer::Written(_) | Answer::Subscribed(_) | Answer::Keys(_) | Answer::Replicas(_))
                | None => Err(DataReadError::Stopped),
            }
        })
    }

    /// Deletes the key for good, everywhere: it can never be used again, and its tombstone stays. To only
    /// empty a value, remove what is in it.
    ///
    /// # Errors
    /// [`DataWriteError`]; [`DataWriteError::may_have_been_handled`] says whether it took place.
    ///
    /// # Cancel safety
    /// Dropping it may or may not delete.
    pub fn delete(&self, level: Write) -> Request<Result<(), DataWriteError>> {
        self.write(move |key, timeout| {
            Ok(Command::Delete {
                key,
                consistency: level.into(),
                timeout,
            })
        })
    }

    /// Subscribes to changes of the value, beginning with its present one. A slow reader gets the newest
    /// value and skips those between. A refused stream yields its error and ends.
    pub fn changes(&self) -> Changes<T> {
        let pattern = self.key.clone().map(Pattern::Key);
        Changes::new(Arc::clone(&self.shared), pattern)
    }

    /// Applies an operation of the core; the typed methods use it.
    ///
    /// # Errors
    /// [`DataWriteError`]; [`DataWriteError::may_have_been_handled`] says whether it took place.
    ///
    /// # Cancel safety
    /// Dropping it before it was polled changes nothing; afterwards the write may have taken place.
    pub fn update(&self, op: DataOp, level: Write) -> Request<Result<(), DataWriteError>> {
        self.update_with(Some(op), level)
    }

    /// [`Self::update`] with an operation whose elements may fail to be serialised.
    pub(super) fn update_with(
        &self,
        op: Option<DataOp>,
        level: Write,
    ) -> Request<Result<(), DataWriteError>> {
        self.write(move |key, timeout| {
            Ok(Command::Update {
                key,
                initial: T::empty(),
                op: op.ok_or(DataWriteError::Encode)?,
                consistency: level.into(),
                timeout,
            })
        })
    }

    fn write(
        &self,
        command: impl FnOnce(Key, Duration) -> Result<Command, DataWriteError> + Send + 'static,
    ) -> Request<Result<(), DataWriteError>> {
        let (shared, key) = (Arc::clone(&self.shared), self.key.clone());
        Request::new(TIMEOUT_DEFAULT, async move |timeout| {
            let key = key.ok_or(DataWriteError::BadKey)?;
            written(shared.data(command(key, timeout)?).await)
        })
    }
}

fn written(answer: Option<Answer>) -> Result<(), DataWriteError> {
    match answer {
        Some(Answer::Written(outcome)) => outcome.map_err(DataWriteError::Failed),
        Some(Answer::Value(_) | Answer::Subscribed(_) | Answer::Keys(_) | Answer::Replicas(_)) | None => {
            Err(DataWriteError::Stopped)
        }
    }
}
