//! The writing end of an entity's log: one append at a time, each behind the one before. After an unknown outcome the same is repeated
//! and nothing else handled; a refusal stops the owner. Spec: sharding 10.7.

use quorate_core::store::{Bytes, Sequence, StoreError};

use super::DurableFailure;
use super::obstacle::{self, Trouble, Waited};
use super::retention::{Keeps, Retention};
use crate::background::Sleep;
use crate::entity::Life;
use crate::journal::{Journal, Purpose};
use crate::sync::{Either, race};

/// What of a log there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) first: Sequence,
    pub(super) last: Sequence,
    /// The last record that the snapshot covers, 0 without one.
    pub(super) covered: Sequence,
    /// Of the records that no snapshot covers.
    pub(super) bytes_behind: usize,
}

/// What became of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// It is durable.
    Durable,
    /// It is surely not, and the entity goes on.
    NotDone(DurableFailure),
    /// Somebody else owns the log: the entity stops.
    Refused(DurableFailure),
    /// The entity has to stop at once, and nobody knows.
    Killed,
}

/// What follows from an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Stop(DurableFailure),
    GiveUp(DurableFailure),
    Repeat,
}

/// `is_unknown`: this, or an earlier try of the same, may have been done. Then only the store's word on the same entry ends it.
fn step(error: StoreError, is_unknown: bool) -> Step {
    if error.is_refusal() {
        return Step::Stop(if is_unknown {
            DurableFailure::FencedUnknown
        } else {
            DurableFailure::Fenced
        });
    }
    if is_unknown {
        return Step::Repeat;
    }
    match error {
        StoreError::Full | StoreError::TooLarge | StoreError::Corrupt | StoreError::NoStore => {
            Step::GiveUp(obstacle::failure(error))
        }
        StoreError::Busy
        | StoreError::Unavailable
        | StoreError::OutcomeUnknown
        | StoreError::Fenced { .. }
        | StoreError::SequenceConflict { .. } => Step::Repeat,
        // What a later version of the core says.
        _ => Step::Repeat,
    }
}

/// Says that an append is tried again; louder once that takes long, because everything behind it waits.
fn repeated(life: &Life, error: StoreError, is_unknown: bool, is_long: bool) {
    let entity = life.context();
    if !is_long {
        tracing::debug!(target: "cluster::store", event = "append_repeated", ?entity, %error, is_unknown);
    } else if let Some(left_out) = life.counters().take_line() {
        tracing::warn!(
            target: "cluster::store", event = "append_repeated", ?entity, %error, is_unknown, left_out,
            "the store has not said for seconds what became of an entity's events: they are sent again as they were"
        );
    }
}

/// See the module.
pub(super) struct Writer<J> {
    journal: J,
    extent: Extent,
    retention: Retention,
    /// A snapshot that could not be kept is tried again behind this record.
    not_before: Sequence,
}

impl<J: Journal> Writer<J> {
    pub(super) const fn new(journal: J, extent: Extent, retention: Retention) -> Self {
        Self {
            journal,
            extent,
            retention,
            not_before: 0,
        }
    }

    /// Makes records durable behind all others.
    pub(super) async fn append(&mut self, life: &Life, sleep: &Sleep, records: Vec<Bytes>) -> Written {
        let (mut trouble, mut is_unknown) = (Trouble::default(), false);
        loop {
            let appending = self
                .journal
                .append(self.extent.last, records.clone(), Purpose::Keep);
            let error = match race(appending, life.killed()).await {
                Either::Left(Ok(())) => break,
                Either::Left(Err(error)) => error,
                Either::Right(()) => return Written::Killed,
            };
            is_unknown |= error.may_have_been_done();
            let said = trouble.is_long().then_some(DurableFailure::Unavailable);
            match step(error, is_unknown) {
                Step::Stop(failure) => return Written::Refused(failure),
                Step::GiveUp(failure) => return Written::NotDone(failure),
                Step::Repeat if trouble.is_long() && !is_unknown => {
                    return Written::NotDone(DurableFailure::Unavailable);
                }
                Step::Repeat => {
                    repeated(life, error, is_unknown, trouble.is_long());
                    if trouble.wait(life, sleep, said).await == Waited::Killed {
                        return Written::Killed;
                    }
                }
            }
        }
        self.extent.last += records.len() as u64;
        self.extent.bytes_behind += records.iter().map(|record| record.len()).sum::<usize>();
        Written::Durable
    }

    /// The number of the last record.
    pub(super) const fn last(&self) -> Sequence {
        self.extent.last
    }

    /// Whether the state is to be kept now, or what it has made needless deleted.
    pub(super) const fn is_due(&self) -> bool {
        let Extent {
            first,
            last,
            covered,
            bytes_behind,
        } = self.extent;
        let behind = match self.retention.keeps {
            Keeps::Everything | Keeps::BehindSnapshot => last.saturating_sub(covered),
            Keeps::Last => last.saturating_sub(first),
        };
        last >= self.not_before
            && (behind >= self.retention.events || (behind > 0 && bytes_behind >= self.retention.bytes))
    }

    /// Whether an append was refused because the log, not its store, is full, and keeping the state makes room.
    pub(super) fn can_make_room(&self, written: Written) -> bool {
        written == Written::NotDone(DurableFailure::Full)
            && self.journal.has_an_end()
            && self.extent.last > self.extent.covered
    }

    /// Keeps the state, or deletes what it has made needless. What cannot be done now is tried again some events later: nothing is lost
    /// by it.
    ///
    /// # Errors
    /// Somebody else owns the log: the entity stops.
    pub(super) async fn retain(
        &mut self,
        life: &Life,
        state: impl FnOnce() -> Option<Bytes>,
    ) -> Result<(), StoreError> {
        let last = self.extent.last;
        // The last record is the state, or else the snapshot says what all of them say.
        let needless = match self.retention.keeps {
            Keeps::Last => Some(last.saturating_sub(1)),
            Keeps::BehindSnapshot => Some(last),
            Keeps::Everything => None,
        };
        let kept = if self.retention.keeps == Keeps::Last {
            Ok(())
        } else {
            match state() {
                Some(state) => self.journal.keep(last, state).await,
                None => Err(StoreError::TooLarge),
            }
        };
        let done = match (kept, needless) {
            (Ok(()), Some(through)) => self.journal.delete(through).await.map(|()| through + 1),
            (Ok(()), None) => Ok(self.extent.first),
            (Err(error), _) => Err(error),
        };
        match done {
            Ok(first) => {
                self.extent = Extent {
                    first,
                    last,
                    covered: last,
                    bytes_behind: 0,
                };
                Ok(())
            }
            Err(error) if error.is_refusal() => Err(error),
            Err(error) => {
                if let Some(left_out) = life.counters().take_line() {
                    tracing::warn!(
                        target: "cluster::store", event = "snapshot_not_kept", entity = ?life.context(), %error,
                        left_out, "tried again after some more events"
                    );
                }
                self.not_before = last.saturating_add(self.retention.events.min(100));
                Ok(())
            }
        }
    }
}
