//! Does what the core's value of an entity says: asks the journal, waits, and tells who asks meanwhile.
//! Decides nothing. Spec: sharding 10.7.

use quorate_core::durable::{DurableMachine, DurablePause, DurableStep, LogRetention};
use quorate_core::log::LogRequest;
use quorate_core::store::{Bytes, Sequence, StoreError};

use super::DurableFailure;
use crate::background::Sleep;
use crate::codec;
use crate::entity::Life;
use crate::journal::{AppendPurpose, Journal};
use crate::sync::{Either, race};

/// The entity ends at once, and without its last hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended;

/// Why something is not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unkept {
    /// It is surely not, and the entity goes on.
    Failed(DurableFailure),
    /// Nobody knows, or somebody else owns the log.
    Ended,
}

impl From<Ended> for Unkept {
    fn from(_: Ended) -> Self {
        Self::Ended
    }
}

/// The entity goes on also if something is not durable.
pub(super) fn or_failed(kept: Result<(), Unkept>, failed: impl FnOnce(DurableFailure)) -> Result<(), Ended> {
    match kept {
        Ok(()) => Ok(()),
        Err(Unkept::Failed(failure)) => {
            failed(failure);
            Ok(())
        }
        Err(Unkept::Ended) => Err(Ended),
    }
}

/// See the module.
pub(super) struct Driven<J> {
    pub(super) journal: J,
    pub(super) entity: DurableMachine,
    pub(super) sleep: Sleep,
    /// The mailbox has nothing more to give: nobody waits for what comes now.
    pub(super) is_stopping: bool,
}

impl<J: Journal> Driven<J> {
    pub(super) fn new(journal: J, retention: LogRetention, sleep: Sleep) -> Self {
        Self {
            entity: DurableMachine::new(retention, journal.has_an_end()),
            journal,
            sleep,
            is_stopping: false,
        }
    }

    /// The number of the last record.
    pub(super) const fn last(&self) -> Sequence {
        self.entity.last()
    }

    /// Makes records durable behind all others. `state` is asked where a snapshot makes room for them.
    pub(super) async fn write(
        &mut self,
        life: &mut Life,
        records: Vec<Bytes>,
        state: impl Fn() -> Option<Bytes>,
    ) -> Result<(), Unkept> {
        let step = self.entity.write(records);
        self.go_on(life, step, state).await
    }

    /// Keeps a snapshot if it is time for one.
    pub(super) async fn retain(
        &mut self,
        life: &mut Life,
        state: impl Fn() -> Option<Bytes>,
    ) -> Result<(), Ended> {
        if !self.entity.is_due() {
            return Ok(());
        }
        let step = self.entity.retain(&state);
        or_failed(self.go_on(life, step, state).await, |_| {})
    }

    async fn go_on(
        &mut self,
        life: &mut Life,
        mut step: DurableStep,
        state: impl Fn() -> Option<Bytes>,
    ) -> Result<(), Unkept> {
        loop {
            step = match step {
                DurableStep::Ask(request) => self.ask(life, request).await?,
                DurableStep::Wait(wait) => {
                    repeated(life, &wait);
                    self.wait(life, &wait).await?;
                    self.entity.on_waited()
                }
                DurableStep::MakeRoom => self.entity.retain(&state),
                DurableStep::Durable | DurableStep::Retained => return Ok(()),
                DurableStep::NotDone(failure) => return Err(Unkept::Failed(failure)),
                DurableStep::Stopped(failure) => {
                    fenced(life, failure);
                    return Err(Unkept::Ended);
                }
                // Of an entity that recovers, or that is driven by somebody else too.
                DurableStep::Recovered | DurableStep::Nothing => return Err(Unkept::Ended),
            };
        }
    }

    /// Asks the journal, and hands in what it says.
    async fn ask(&mut self, life: &Life, request: LogRequest) -> Result<DurableStep, Ended> {
        let journal = &mut self.journal;
        let is_snapshot = matches!(request, LogRequest::Keep { .. } | LogRequest::Forget { .. });
        let asked = async {
            match request {
                LogRequest::Append {
                    expected,
                    records,
                    upkeep,
                } => {
                    let purpose = if upkeep {
                        AppendPurpose::Upkeep
                    } else {
                        AppendPurpose::Keep
                    };
                    journal.append(expected, records, purpose).await
                }
                LogRequest::Keep { covers, state } => journal.keep(covers, state).await,
                LogRequest::Forget { through } => journal.delete(through).await,
                // Of an entity that recovers.
                LogRequest::Claim
                | LogRequest::ReadSnapshot
                | LogRequest::Read { .. }
                | LogRequest::Close => Err(StoreError::Unavailable),
            }
        };
        match race(asked, life.killed()).await {
            Either::Left(Ok(())) if is_snapshot => Ok(self.entity.on_kept()),
            Either::Left(Ok(())) => Ok(self.entity.on_appended()),
            Either::Left(Err(error)) => {
                if is_snapshot {
                    not_retained(life, error);
                }
                Ok(self.entity.on_failed(error))
            }
            Either::Right(()) => Err(Ended),
        }
    }

    /// Waits for a while. With a failure to tell, whoever has a command here or sends one meanwhile hears it.
    pub(super) async fn wait(&mut self, life: &Life, wait: &DurablePause) -> Result<(), Ended> {
        let told = wait.told.filter(|_| !self.is_stopping);
        let sleeping = (self.sleep)(wait.pause);
        let waiting = async {
            let Some(failure) = told else {
                sleeping.await;
                return false;
            };
            matches!(race(life.turn_away(failure), sleeping).await, Either::Left(()))
        };
        match race(life.killed(), waiting).await {
            Either::Left(()) => Err(Ended),
            Either::Right(has_to_stop) => {
                self.is_stopping |= has_to_stop;
                Ok(())
            }
        }
    }
}

/// Says that an append is tried again; louder once that takes long, because everything behind it waits.
fn repeated(life: &Life, wait: &DurablePause) {
    let (entity, error, is_unknown) = (life.context(), wait.why, wait.is_unknown);
    if wait.told.is_none() {
        tracing::debug!(target: "cluster::store", event = "append_repeated", ?entity, %error, is_unknown);
    } else if let Some(left_out) = life.counters().take_line() {
        tracing::warn!(
            target: "cluster::store", event = "append_repeated", ?entity, %error, is_unknown, left_out,
            "the store has not confirmed an entity's events for seconds; they are sent again"
        );
    }
}

/// Says that a snapshot, or what it makes needless, is tried again later.
pub(super) fn not_retained(life: &Life, error: StoreError) {
    if !error.is_refusal()
        && let Some(left_out) = life.counters().take_line()
    {
        tracing::warn!(
            target: "cluster::store", event = "snapshot_not_kept", entity = ?life.context(), %error,
            left_out, "tried again after some more events"
        );
    }
}

/// Tells who asked, if somebody did, and leaves the rest to the entity's end: what waits was not begun with.
fn fenced(life: &mut Life, failure: DurableFailure) {
    if let Some(left_out) = life.counters().take_line() {
        tracing::warn!(
            target: "cluster::store", event = "entity_fenced", entity = ?life.context(), left_out,
            "a later incarnation owns the entity's log; this one stops"
        );
    }
    life.counters().fenced();
    life.answer(Ok(codec::not_durable(failure)));
}
