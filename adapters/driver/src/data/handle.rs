//! The handle of one replicated value: what all types (counter, set, map, register) have in common. Holds a
//! name and asks the core; never keeps a value of its own. Spec: sharding 1.12.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::ddata::crdt::Op;
use quorate_core::ddata::protocol::{Answer, Command};
use quorate_core::ddata::state::key::{Key, Pattern};

use super::changes::Changes;
use super::kind::DataKind;
use super::level::{DATA_TIMEOUT_DEFAULT, Read, Write};
use crate::error::{DataReadError, DataWriteError};
use crate::shared::Shared;

/// One replicated value, by name. Cheap to clone; holds no value and does not keep the node alive. The same
/// name must mean the same type on every node.
pub struct Replicated<T> {
    shared: Arc<Shared>,
    /// Nothing if the name is not legal; every operation says so.
    key: Option<Key>,
    timeout: Duration,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Replicated<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            key: self.key.clone(),
            timeout: self.timeout,
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
            timeout: DATA_TIMEOUT_DEFAULT,
            kind: PhantomData,
        }
    }

    /// Sets another time limit for operations on the value (default 5 s, 1 ms to 1 h, clamped).
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
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
    pub async fn read(&self, level: Read) -> Result<T::Value, DataReadError> {
        let key = self.key.clone().ok_or(DataReadError::BadKey)?;
        let command = Command::Get {
            key,
            consistency: level.into(),
            timeout: self.timeout,
        };
        match self.shared.data(command).await {
            Some(Answer::Value(Ok(data))) => T::value(&data),
            Some(Answer::Value(Err(error))) => Err(error.into()),
            Some(Answer::Written(_) | Answer::Subscribed(_) | Answer::Keys(_) | Answer::Replicas(_))
            | None => Err(DataReadError::Stopped),
        }
    }

    /// Deletes the key for good, everywhere: it can never be used again, and its tombstone stays. To only
    /// empty a value, remove what is in it.
    ///
    /// # Errors
    /// [`DataWriteError`]; [`DataWriteError::is_applied`] says whether it took place.
    ///
    /// # Cancel safety
    /// Dropping it may or may not delete.
    pub async fn delete(&self, level: Write) -> Result<(), DataWriteError> {
        let key = self.key.clone().ok_or(DataWriteError::BadKey)?;
        let command = Command::Delete {
            key,
            consistency: level.into(),
            timeout: self.timeout,
        };
        written(self.shared.data(command).await)
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
    /// [`DataWriteError`]; [`DataWriteError::is_applied`] says whether it took place.
    ///
    /// # Cancel safety
    /// Dropping it before it was polled changes nothing; afterwards the write may have taken place.
    pub async fn update(&self, op: Op, level: Write) -> Result<(), DataWriteError> {
        let key = self.key.clone().ok_or(DataWriteError::BadKey)?;
        let command = Command::Update {
            key,
            initial: T::empty(),
            op,
            consistency: level.into(),
            timeout: self.timeout,
        };
        written(self.shared.data(command).await)
    }

    /// [`Self::update`] with an operation whose elements may fail to be serialised.
    pub(super) async fn update_with(&self, op: Option<Op>, level: Write) -> Result<(), DataWriteError> {
        self.update(op.ok_or(DataWriteError::Encode)?, level).await
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
