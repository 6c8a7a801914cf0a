//! From a log to a state: does what the core's value of an entity asks for, and applies what is read. Nothing
//! is handled before it is done. Spec: sharding 10.7.

use quorate_core::delivery::BadSetting;
use quorate_core::durable::{
    self, DurableNote, DurablePause, DurableStep, EntityNotes, LetterOutbox, Reminders,
};
use quorate_core::log::{LogRequest, ReplayedPart, UnreadableLog};
use quorate_core::store::{LogState, Record, Sequence, Snapshot, StoreError};

use super::driven::{Driven, Ended};
use super::surroundings::Surroundings;
use super::{AtLeastOnceSettings, DurableFailure, EventSourced, SchemaError, schema};
use crate::entity::Life;
use crate::journal::Journal;
use crate::sync::{Either, race};

/// What a recovery has found, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// The last event that the snapshot covers; `None` without a snapshot.
    pub snapshot: Option<u64>,
    /// Events that were read and applied, and what the library keeps among them: messages to be delivered and
    /// their confirmations, reminders.
    pub replayed: u64,
    /// The last event applied, by its number in the log: 0 if there is none.
    pub sequence: u64,
    /// The last event of the log: 0 if nothing was ever kept. The recovery is done when `sequence` is this.
    pub last: u64,
}

impl Recovery {
    /// Whether there was nothing to recover: no command has ever changed this entity.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.last == 0
    }
}

/// What a log amounts to.
pub(super) struct Recovered<E: EventSourced> {
    pub(super) state: E::State,
    pub(super) recovery: Recovery,
    pub(super) outbox: LetterOutbox,
    pub(super) reminders: Reminders,
}

/// What keeps an entity from its log beside its store, told exactly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Detail {
    #[error("cannot read the snapshot through event {through}: {error}")]
    Snapshot { through: u64, error: SchemaError },
    #[error("cannot read event {sequence}: {error}")]
    Event { sequence: u64, error: SchemaError },
    #[error("record {sequence} is of a kind that this version does not know")]
    Note { sequence: u64 },
    #[error("the store is read by this node alone, and {others} other members may host the kind")]
    SeveralHosts { others: usize },
    #[error("invalid `redelivery`: {0}")]
    Setting(#[from] BadSetting),
}

/// What was read, for the core.
enum Read {
    Log(LogState),
    Snapshot(Option<Snapshot>),
    Records(Vec<Record>),
}

impl<J: Journal> Driven<J> {
    /// Recovers, however long that takes. What has waited too long, or cannot be helped by waiting, is
    /// answered meanwhile.
    ///
    /// # Errors
    /// The entity has to stop before.
    pub(super) async fn recover<E: EventSourced>(
        &mut self,
        entity: &mut E,
        life: &Life,
        around: &Surroundings,
    ) -> Result<Recovered<E>, Ended> {
        let mut replayed = Replayed::<E>::default();
        let mut step = self.entity.begin();
        loop {
            step = match step {
                DurableStep::Ask(LogRequest::Claim) => match suits(entity, life, around) {
                    Ok(()) => self.read(LogRequest::Claim, entity, life, &mut replayed).await?,
                    Err((failure, detail)) => {
                        replayed.detail = Some(detail);
                        self.entity.hinder(failure)
                    }
                },
                DurableStep::Ask(request) => self.read(request, entity, life, &mut replayed).await?,
                DurableStep::Wait(wait) => {
                    not_recovered(life, &wait, replayed.detail.take());
                    self.wait(life, &wait).await?;
                    if self.is_stopping {
                        return Err(Ended);
                    }
                    self.entity.on_waited()
                }
                DurableStep::Recovered => match replayed.finish(life.enter(|| entity.redelivery())) {
                    Ok(recovered) => return Ok(recovered),
                    // It said something else before.
                    Err(_) => return Err(Ended),
                },
                DurableStep::Nothing
                | DurableStep::Durable
                | DurableStep::NotDone(_)
                | DurableStep::MakeRoom
                | DurableStep::Retained
                | DurableStep::Stopped(_) => return Err(Ended),
            };
        }
    }

    /// Asks the journal, and hands in what it says.
    async fn read<E: EventSourced>(
        &mut self,
        request: LogRequest,
        entity: &mut E,
        life: &Life,
        replayed: &mut Replayed<E>,
    ) -> Result<DurableStep, Ended> {
        let journal = &mut self.journal;
        let asked = async {
            match request {
                LogRequest::Claim => journal.open().await.map(Read::Log),
                LogRequest::ReadSnapshot => journal.read_snapshot().await.map(Read::Snapshot),
                LogRequest::Read { from } => journal.read(from).await.map(Read::Records),
                // Of an entity that has recovered.
                LogRequest::Append { .. }
                | LogRequest::Keep { .. }
                | LogRequest::Forget { .. }
                | LogRequest::Close => Err(StoreError::Unavailable),
            }
        };
        let read = match race(asked, life.killed()).await {
            Either::Left(Ok(read)) => read,
            Either::Left(Err(error)) => return Ok(self.entity.on_failed(error)),
            Either::Right(()) => return Err(Ended),
        };
        if let Read::Log(log) = &read {
            replayed.last = log.last;
        }
        let is_page = matches!(read, Read::Records(_));
        let mut take = |found: ReplayedPart<'_>| replayed.take(life, found);
        let step = match read {
            Read::Log(log) => self.entity.on_claimed(log, &mut take),
            Read::Snapshot(snapshot) => self.entity.on_snapshot(snapshot.as_ref(), &mut take),
            Read::Records(records) => self.entity.on_records(&records, &mut take),
        };
        if is_page
            && matches!(
                step,
                DurableStep::Recovered | DurableStep::Ask(LogRequest::Read { .. })
            )
        {
            life.enter(|| entity.on_recovering(life.context(), &replayed.so_far));
        }
        Ok(step)
    }
}

/// Whether the entity may have a log here, and its settings are in their ranges.
fn suits<E: EventSourced>(
    entity: &E,
    life: &Life,
    around: &Surroundings,
) -> Result<(), (DurableFailure, Detail)> {
    let others = around.other_hosts(life.context());
    if others > 0 {
        return Err((DurableFailure::SeveralHosts, Detail::SeveralHosts { others }));
    }
    let checked = life.enter(|| entity.redelivery()).check();
    checked.map_err(|bad| (DurableFailure::BadSetting, Detail::Setting(bad)))
}

fn not_recovered(life: &Life, wait: &DurablePause, detail: Option<Detail>) {
    if let Some(left_out) = life.counters().take_line() {
        let error = detail.map_or_else(|| wait.why.to_string(), |detail| detail.to_string());
        tracing::warn!(
            target: "cluster::store", event = "entity_not_recovered", entity = ?life.context(), %error,
            left_out, "its commands are not handled; tried again"
        );
    }
}

/// What was read so far.
struct Replayed<E: EventSourced> {
    state: E::State,
    noted: EntityNotes,
    so_far: Recovery,
    last: Sequence,
    /// What could not be read.
    detail: Option<Detail>,
}

impl<E: EventSourced> Default for Replayed<E> {
    fn default() -> Self {
        Self {
            state: E::State::default(),
            noted: EntityNotes::default(),
            so_far: Recovery::default(),
            last: 0,
            detail: None,
        }
    }
}

impl<E: EventSourced> Replayed<E> {
    fn take(&mut self, life: &Life, found: ReplayedPart<'_>) -> Result<(), UnreadableLog> {
        let taken = match found {
            ReplayedPart::Beginning => {
                let last = self.last;
                *self = Self {
                    so_far: Recovery {
                        last,
                        ..Recovery::default()
                    },
                    last,
                    ..Self::default()
                };
                Ok(())
            }
            ReplayedPart::Snapshot(kept) => self.take_snapshot(kept),
            ReplayedPart::Record(record) => self.take_record(life, record),
        };
        taken.map_err(|detail| {
            self.detail = Some(detail);
            UnreadableLog
        })
    }

    fn take_snapshot(&mut self, kept: &Snapshot) -> Result<(), Detail> {
        let through = kept.through;
        let (notes, state) = durable::split(&kept.state).map_err(|_| Detail::Note { sequence: through })?;
        notes.into_iter().for_each(|note| self.noted.learn(note));
        self.state = schema::from_bytes(state).map_err(|error| Detail::Snapshot { through, error })?;
        (self.so_far.snapshot, self.so_far.sequence) = (Some(through), through);
        Ok(())
    }

    fn take_record(&mut self, life: &Life, record: &Record) -> Result<(), Detail> {
        match recorded::<E>(record)? {
            Recorded::Event(event) => life.enter(|| E::apply(&mut self.state, event)),
            Recorded::Note(note) => self.noted.learn(note),
            Recorded::Revision(notes, event) => {
                self.noted = EntityNotes::default();
                notes.into_iter().for_each(|note| self.noted.learn(note));
                life.enter(|| E::apply(&mut self.state, event));
            }
        }
        self.so_far.replayed += 1;
        self.so_far.sequence = record.sequence;
        Ok(())
    }

    fn finish(&mut self, redelivery: AtLeastOnceSettings) -> Result<Recovered<E>, BadSetting> {
        let Self {
            state,
            mut noted,
            so_far,
            ..
        } = std::mem::take(self);
        Ok(Recovered {
            state,
            recovery: so_far,
            reminders: std::mem::take(&mut noted.reminders),
            outbox: LetterOutbox::recovered(redelivery, noted)?,
        })
    }
}

/// One record.
enum Recorded<E> {
    Event(E),
    Note(DurableNote),
    /// The newest state, and all notes that there are.
    Revision(Vec<DurableNote>, E),
}

fn recorded<E: EventSourced>(record: &Record) -> Result<Recorded<E::Event>, Detail> {
    let sequence = record.sequence;
    if let Some(note) = DurableNote::read(&record.bytes).map_err(|_| Detail::Note { sequence })? {
        return Ok(Recorded::Note(note));
    }
    let (notes, event) = durable::split(&record.bytes).map_err(|_| Detail::Note { sequence })?;
    let event = schema::from_bytes(event).map_err(|error| Detail::Event { sequence, error })?;
    Ok(if notes.is_empty() {
        Recorded::Event(event)
    } else {
        Recorded::Revision(notes, event)
    })
}
