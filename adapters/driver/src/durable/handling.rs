//! What a recovered durable entity does with a command, a reminder and the confirmation of a message:
//! decides, has it made durable, applies it, and only then answers and sends. Spec: sharding 10.7, 1.15.

use std::time::Duration;

use quorate_core::durable::{
    self, DurableNote, Letter, LetterOutbox, ReminderWish, Reminders, RetentionKeeps,
};
use quorate_core::sharding::ids::Payload;
use quorate_core::store::Bytes;
use quorate_core::wakeups;

use super::clocks::ClockWaker;
use super::decision::{Answer, Decision, Persist, Then};
use super::driven::{Driven, Ended, Unkept, or_failed};
use super::letter::Draft;
use super::limits::{COMMAND_BYTES_MAX, EVENT_BYTES_MAX, EVENTS_PER_COMMAND_MAX, STATE_BYTES_MAX};
use super::post::{Confirmed, Due, Overdue, Post};
use super::upcoming::upcoming;
use super::{DurableFailure, EventSourced, outbox, schema};
use crate::codec;
use crate::entity::{EntityContext, Life};
use crate::journal::Journal;

/// A durable entity that has recovered.
pub(super) struct Handling<E: EventSourced, J> {
    pub(super) entity: E,
    pub(super) state: E::State,
    pub(super) context: EntityContext,
    /// What stays of its records.
    pub(super) keeps: RetentionKeeps,
    pub(super) driven: Driven<J>,
    pub(super) post: Post,
    pub(super) reminders: Reminders,
    /// The way to who wakes it; `None` where nobody does.
    pub(super) waker: Option<ClockWaker>,
}

impl<E: EventSourced, J: Journal> Handling<E, J> {
    pub(super) async fn on_message(&mut self, life: &mut Life, payload: Payload) -> Result<(), Ended> {
        if !life.is_woken() {
            return self.on_command(life, payload).await;
        }
        match wakeups::version_of(&payload) {
            Some(version) if self.waker.is_some() => self.on_call(life, version).await,
            Some(_) | None => {
                life.cannot_decode();
                Ok(())
            }
        }
    }

    async fn on_command(&mut self, life: &mut Life, payload: Payload) -> Result<(), Ended> {
        let Some(command) = codec::decode::<E::Command>(&payload) else {
            life.cannot_decode();
            return Ok(());
        };
        drop(payload);
        let decided = self.decide(life, command, None).await;
        or_failed(decided, |failure| life.answer(Ok(codec::not_durable(failure))))
    }

    /// Handles a command of somebody else's, or one of a reminder, with what is to be kept of that.
    async fn decide(
        &mut self,
        life: &mut Life,
        command: E::Command,
        cause: Option<DurableNote>,
    ) -> Result<(), Unkept> {
        let deciding = self.entity.handle(&self.context, &self.state, command);
        let Some(decision) = life.unless_killed(deciding).await else {
            return Err(Unkept::Ended);
        };
        let Decision {
            persist,
            answer,
            then,
        } = decision;
        self.keep(life, persist, cause).await?;
        let reply = life.enter(|| answered::<E>(answer, &self.state, life.is_asked()));
        if let Some(reply) = reply {
            life.answer(Ok(reply));
        }
        let retained = self.retain(life).await;
        match then {
            Then::GoOn => {}
            Then::Stop => self.context.stop(),
            Then::Forget => self.context.forget(),
            Then::Passivate => self.context.passivate(),
        }
        retained.map_err(Unkept::from)
    }

    /// Whether nothing is due, and nothing will be.
    pub(super) fn is_idle(&self) -> bool {
        self.post.is_idle() && self.reminders.is_empty()
    }

    /// How long until the next reminder is due, if there is one; shorter where that is long, because the wall
    /// clock may be set.
    pub(super) fn next_reminder_in(&self) -> Option<Duration> {
        self.reminders.wait(self.unix_ms())
    }

    pub(super) fn unix_ms(&self) -> u64 {
        self.context.shared().background.unix_ms()
    }

    /// Handles the first reminder that is due, if one is.
    pub(super) async fn on_reminder(&mut self, life: &mut Life) -> Result<(), Ended> {
        let now = self.unix_ms();
        let Some((reminder, note)) = self.reminders.due(now) else {
            return Ok(());
        };
        let Some(command) = codec::decode::<E::Command>(&reminder.message) else {
            if let Some(left_out) = life.counters().take_line() {
                tracing::warn!(
                    target: "cluster::store", event = "reminder_undecodable", entity = ?self.context, left_out,
                    "a reminder has a command that this program cannot read; tried again later"
                );
            }
            self.reminders.on_unreadable(&note, now);
            return Ok(());
        };
        let decided = self.decide(life, command, Some(note.clone())).await;
        or_failed(decided, |_| self.reminders.on_not_kept(&note, now))
    }

    pub(super) async fn on_due(&mut self, life: &mut Life, due: Due) -> Result<(), Ended> {
        life.begun_by_itself().await.ok_or(Ended)?;
        match due {
            Due::Answer(confirmed) => self.on_confirmed(life, confirmed).await,
            Due::Look => {
                let overdue = self.post.redeliver(life);
                self.warn(life, &overdue);
                Ok(())
            }
            Due::Reminder => self.on_reminder(life).await,
        }
    }

    async fn on_confirmed(&mut self, life: &mut Life, confirmed: Confirmed) -> Result<(), Ended> {
        let number = confirmed.number();
        if self.post.outbox.rules().get(number).is_none() {
            // It was answered more than once.
            return Ok(());
        }
        let deciding = self.entity.on_confirmed(&self.context, &self.state, confirmed);
        let persist = life.unless_killed(deciding).await.ok_or(Ended)?;
        let kept = self
            .keep(life, persist, Some(DurableNote::Confirmed { number }))
            .await;
        // What is not noted is sent and answered again.
        or_failed(kept, |_| {})?;
        self.retain(life).await
    }

    /// Tells the entity which messages were sent often.
    pub(super) fn warn(&mut self, life: &Life, overdue: &[Overdue]) {
        let Some(first) = overdue.first() else {
            return;
        };
        if let Some(left_out) = life.counters().take_line() {
            tracing::warn!(
                target: "cluster::delivery", event = "messages_unconfirmed", entity = ?self.context, messages = overdue.len(),
                first = first.number, to = %first.entity, attempts = first.attempts, left_out,
                "messages of a durable entity are not confirmed; they are sent on"
            );
        }
        life.enter(|| self.entity.on_overdue(&self.context, &self.state, overdue));
    }

    /// Makes it durable, applies it, and sends what is to be sent.
    pub(super) async fn keep(
        &mut self,
        life: &mut Life,
        persist: Persist<E>,
        cause: Option<DurableNote>,
    ) -> Result<(), Unkept> {
        let Persist {
            events,
            deliveries,
            wishes,
        } = persist;
        if events.is_empty() && deliveries.is_empty() && wishes.is_empty() && cause.is_none() {
            return Ok(());
        }
        let drawn_up = self.drawn_up(life, &events, (deliveries, wishes), cause);
        let written = match drawn_up {
            Ok(mut drawn_up) => self.write(life, &mut drawn_up).await.map(|()| drawn_up),
            Err(failure) => Err(Unkept::Failed(failure)),
        };
        let DrawnUp { letters, notes, .. } = written.inspect_err(|unkept| {
            if let Unkept::Failed(_) = unkept {
                life.counters().not_durable();
                self.waker.iter_mut().for_each(ClockWaker::forget);
            }
        })?;
        life.counters().stored(events.len());
        for event in events {
            life.enter(|| E::apply(&mut self.state, event));
        }
        self.learn(life, &notes);
        let numbers = self.post.outbox.take(self.context.now(), letters);
        self.post.send(life, &numbers, false);
        Ok(())
    }

    /// What is to be kept, as the records of one append, and what is learned and sent of it.
    fn drawn_up(
        &self,
        life: &Life,
        events: &[E::Event],
        (deliveries, wishes): (Vec<Draft>, Vec<ReminderWish>),
        cause: Option<DurableNote>,
    ) -> Result<DrawnUp, DurableFailure> {
        let letters = life.enter(|| outbox::number(&self.post.outbox, &self.context, deliveries))?;
        let wished = self.reminders.notes_of(self.unix_ms(), wishes)?;
        let notes: Vec<DurableNote> = cause.into_iter().chain(wished).collect();
        Ok(DrawnUp {
            records: self.records(events, &letters, &notes)?,
            letters,
            notes,
        })
    }

    /// Makes records durable, once its clock wakes it for what they say.
    async fn write(&mut self, life: &mut Life, drawn_up: &mut DrawnUp) -> Result<(), Unkept> {
        self.is_woken_for(life, &drawn_up.letters, &drawn_up.notes)
            .await?;
        let (state, outbox, reminders) = (&self.state, &self.post.outbox, &self.reminders);
        let state = || snapshot::<E>(state, outbox, reminders);
        let records = std::mem::take(&mut drawn_up.records);
        self.driven.write(life, records, state).await
    }

    /// What is noted beside the events is durable.
    fn learn(&mut self, life: &Life, notes: &[DurableNote]) {
        let mut has_reminders_changed = false;
        for note in notes {
            if let DurableNote::Confirmed { number } = note {
                life.counters().confirmed();
                self.post.confirm(*number);
            } else {
                has_reminders_changed |= self.reminders.learn(note);
            }
        }
        if has_reminders_changed {
            self.context.show_reminders(|| upcoming(&self.reminders));
        }
    }

    /// The records of everything that becomes durable together.
    fn records(
        &self,
        events: &[E::Event],
        letters: &[(u64, Letter)],
        notes: &[DurableNote],
    ) -> Result<Vec<Bytes>, DurableFailure> {
        if events.len() + letters.len() + notes.len() > EVENTS_PER_COMMAND_MAX {
            return Err(DurableFailure::TooLarge);
        }
        let shared = self.context.shared();
        for (_, letter) in letters {
            let checked = shared.check(&letter.to.id, &letter.payload);
            checked.map_err(|_| DurableFailure::TooLarge)?;
        }
        let mut records = Records::default();
        match self.keeps {
            RetentionKeeps::Last => records.add(self.revision(events, letters, notes), STATE_BYTES_MAX)?,
            RetentionKeeps::Everything | RetentionKeeps::BehindSnapshot => {
                let sent = letters
                    .iter()
                    .map(|(number, letter)| sent(*number, letter).record());
                let events = events.iter().map(schema::to_bytes);
                let notes = notes.iter().map(DurableNote::record);
                for record in events.chain(sent.chain(notes).map(Some)) {
                    records.add(record, EVENT_BYTES_MAX)?;
                }
            }
        }
        Ok(records.all)
    }

    /// The one record that says everything: the newest state, which is an event of its own, with all notes in
    /// front.
    fn revision(
        &self,
        events: &[E::Event],
        letters: &[(u64, Letter)],
        notes: &[DurableNote],
    ) -> Option<Bytes> {
        let state = match events.last() {
            Some(newest) => schema::to_bytes(newest),
            None => schema::to_bytes(&self.state),
        }?;
        let mut reminders = self.reminders.clone();
        for note in notes {
            reminders.learn(note);
        }
        let mut all = self.post.outbox.notes_with(letters, notes);
        all.extend(reminders.notes());
        if all.is_empty() {
            return Some(state);
        }
        durable::in_front(&all, &state)
    }

    /// Keeps a snapshot if it is time for one.
    async fn retain(&mut self, life: &mut Life) -> Result<(), Ended> {
        let (state, outbox, reminders) = (&self.state, &self.post.outbox, &self.reminders);
        let state = || snapshot::<E>(state, outbox, reminders);
        self.driven.retain(life, state).await
    }
}

/// What becomes durable together.
struct DrawnUp {
    records: Vec<Bytes>,
    letters: Vec<(u64, Letter)>,
    notes: Vec<DurableNote>,
}

/// Records of one write, within its bounds.
#[derive(Default)]
struct Records {
    all: Vec<Bytes>,
    bytes: usize,
}

impl Records {
    fn add(&mut self, record: Option<Bytes>, bytes_max: usize) -> Result<(), DurableFailure> {
        let record = record.ok_or(DurableFailure::TooLarge)?;
        let len = record.len().saturating_sub(schema::HEADER_BYTES);
        self.bytes = self.bytes.saturating_add(len);
        if len > bytes_max || self.bytes > COMMAND_BYTES_MAX {
            return Err(DurableFailure::TooLarge);
        }
        self.all.push(record);
        Ok(())
    }
}

fn sent(number: u64, letter: &Letter) -> DurableNote {
    let letter = letter.clone();
    DurableNote::Sent { number, letter }
}

/// The answer's bytes, if somebody waits for them. What is computed is computed anyway.
fn answered<E: EventSourced>(
    answer: Answer<E::State, E::Reply>,
    state: &E::State,
    is_asked: bool,
) -> Option<Payload> {
    let reply = match answer {
        Answer::Now(reply) => reply,
        Answer::Later(reply) => reply(state),
    };
    is_asked.then(|| codec::encode_answer(&reply))
}

/// A state as it is kept, with what the library keeps beside it; `None` if it is too large.
fn snapshot<E: EventSourced>(
    state: &E::State,
    outbox: &LetterOutbox,
    reminders: &Reminders,
) -> Option<Bytes> {
    let notes: Vec<DurableNote> = outbox.notes().into_iter().chain(reminders.notes()).collect();
    let mut bytes = schema::to_bytes(state)?;
    if !notes.is_empty() {
        bytes = durable::in_front(&notes, &bytes)?;
    }
    (bytes.len() <= STATE_BYTES_MAX + schema::HEADER_BYTES).then_some(bytes)
}
