//! The log of one entity in a bucket of the keyed store: on owners of its range, wherever the entity runs.
//! The core takes it over and writes it; this end asks and waits. Decides nothing. Spec: sharding 10.7,
//! 10.19 h.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::ddata::state::key::Key;
use quorate_core::effect::{Answer, KvOutcome};
use quorate_core::input::KvCommand;
use quorate_core::kv::state::bucket::BucketName;
use quorate_core::kv::state::logged::{LogChange, LogDenial, LogRecord, LogWrite};
use quorate_core::kv::state::outcome::{CallAnswer, CallError, CallGoal, LogHold};
use quorate_core::kv::state::siblings::PutError;
use quorate_core::store::{Bytes, LogName, LogState, Record, Sequence, Snapshot, StoreError};
use quorate_core::token::Token;

use super::{AppendPurpose, Journal, RECOVERY_PAGE_BYTES};
use crate::shared::Shared;

/// So long a call may take until those who wait for the entity are told: several repetitions of a question to
/// an owner.
const TIMEOUT: Duration = Duration::from_secs(3);

/// See the module.
pub(crate) struct BucketJournal {
    shared: Arc<Shared>,
    bucket: BucketName,
    key: Key,
    placement: Option<Token>,
    /// As it was taken over, until it has been read.
    found: Arc<LogRecord>,
    token: Token,
    /// Of the last call; `None` while one is on its way, or nobody knows what became of it.
    hold: Option<LogHold>,
}

impl BucketJournal {
    /// The log of this name, whose openings are within the placement, if there is one; `None` if the name is
    /// too long for a key.
    pub(super) fn new(
        shared: Arc<Shared>,
        bucket: BucketName,
        log: &LogName,
        placement: Option<Token>,
    ) -> Option<Self> {
        Some(Self {
            shared,
            bucket,
            key: Key::new(log).ok()?,
            placement,
            found: Arc::default(),
            token: Token::NONE,
            hold: None,
        })
    }

    /// What became of it; `unknown`: what is said where nobody knows.
    async fn call(
        &mut self,
        change: LogChange,
        unknown: StoreError,
    ) -> Result<Option<Arc<LogRecord>>, StoreError> {
        let hold = self.hold.take();
        let command = KvCommand::Call {
            bucket: self.bucket.clone(),
            key: self.key.clone(),
            goal: CallGoal::Log { change, hold },
            timeout: TIMEOUT,
        };
        match self.shared.kv(command).await {
            Some(Answer::Kv(KvOutcome::Called(Ok(CallAnswer::Logged { log, hold })))) => {
                self.hold = Some(hold);
                log.map_err(|denial| match denial {
                    LogDenial::Fenced { held } => StoreError::Fenced { held },
                    LogDenial::OtherEnd { last } => StoreError::SequenceConflict { last },
                    LogDenial::Full => StoreError::Full,
                    LogDenial::TooLarge => StoreError::TooLarge,
                })
            }
            // Somebody has put something else under the name of the log.
            Some(Answer::Kv(KvOutcome::Called(Err(CallError::Conditional | CallError::Ordinary)))) => {
                Err(StoreError::Corrupt)
            }
            Some(Answer::Kv(KvOutcome::Called(Err(CallError::Put(PutError::Full))))) => Err(StoreError::Full),
            // Not even asked for.
            Some(Answer::Refused(_)) => Err(StoreError::Busy),
            Some(_) | None => Err(unknown),
        }
    }

    async fn write(&mut self, write: LogWrite) -> Result<(), StoreError> {
        self.found = Arc::default();
        let change = LogChange::Write(write);
        self.call(change, StoreError::OutcomeUnknown).await.map(drop)
    }
}

impl Journal for BucketJournal {
    async fn open(&mut self) -> Result<LogState, StoreError> {
        let placement = self.placement;
        let change = LogChange::Claim { placement };
        let found = self.call(change, StoreError::Unavailable).await?;
        self.found = found.ok_or(StoreError::Corrupt)?;
        self.token = self.found.token();
        Ok(LogState {
            first: self.found.first(),
            last: self.found.last(),
            snapshot: self.found.snapshot().map(|snapshot| snapshot.through),
        })
    }

    async fn read(&mut self, from: Sequence) -> Result<Vec<Record>, StoreError> {
        let mut room = RECOVERY_PAGE_BYTES;
        let numbered = (self.found.first()..).zip(self.found.records());
        let fits = |(_, bytes): &(Sequence, &Bytes)| {
            let is_room = room > 0;
            room = room.saturating_sub(bytes.len());
            is_room
        };
        let record = |(sequence, bytes): (Sequence, &Bytes)| Record {
            sequence,
            token: self.token,
            bytes: Bytes::clone(bytes),
        };
        let wanted = numbered.skip_while(|(sequence, _)| *sequence < from);
        Ok(wanted.take_while(fits).map(record).collect())
    }

    async fn read_snapshot(&mut self) -> Result<Option<Snapshot>, StoreError> {
        Ok(self.found.snapshot().cloned())
    }

    async fn append(
        &mut self,
        expected: Sequence,
        records: Vec<Bytes>,
        _: AppendPurpose,
    ) -> Result<(), StoreError> {
        let token = self.token;
        self.write(LogWrite::Append {
            token,
            expected,
            records,
        })
        .await
    }

    async fn keep(&mut self, through: Sequence, state: Bytes) -> Result<(), StoreError> {
        let token = self.token;
        self.write(LogWrite::Keep {
            token,
            through,
            state,
        })
        .await
    }

    async fn delete(&mut self, through: Sequence) -> Result<(), StoreError> {
        let token = self.token;
        self.write(LogWrite::Forget { token, through }).await
    }

    fn has_an_end(&self) -> bool {
        true
    }
}
