//! What a recovered durable entity does with a command, a reminder and the confirmation of a message: decides, has it made durable, applies it, and
//! only then answers and sends. Spec: sharding 10.7, 1.15.

use std::time::Duration;

use quorate_core::sharding::ids::Payload;
use quorate_core::store::Bytes;
use quorate_core::wakeups;

use super::clocks::Waker;
use super::decision::{Answer, Decision, Persist, Then};
use super::letter::Letter;
use super::limits::{COMMAND_BYTES_MAX, EVENT_BYTES_MAX, EVENTS_PER_COMMAND_MAX, STATE_BYTES_MAX};
use super::note::{self, Note};
use super::post::{Confirmed, Due, Overdue, Post};
use super::reminders::Reminders;
use super::retention::{Keeps, Retention};
use super::writing::{Writer, Written};
use super::{DurableFailure, EventSourced, schema};
use crate::background::Sleep;
use crate::codec;
use crate::entity::{EntityContext, Life};
use crate::journal::Journal;
use crate::sync::{Either, race};

/// How long an entity waits for a reminder at most before it looks at the clock again.
const NAP_MAX: Duration = Duration::from_secs(60);

/// After so long a reminder whose handler decided what could not be kept is handled again.
const REMIND_AGAIN: Duration = Duration::from_secs(1);

/// Whether the entity goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    GoOn,
    /// At once, and without its last hook.
    Ended,
}

/// Why something is not durable.
pub(super) enum Unkept {
    /// It is surely not, and the entity goes on.
    Failed(DurableFailure),
    Ended,
}

/// A durable entity that has recovered.
pub(super) struct Handling<E: EventSourced, J> {
    pub(super) entity: E,
    pub(super) state: E::State,
    pub(super) context: EntityContext,
    pub(super) retention: Retention,
    pub(super) writer: Writer<J>,
    pub(super) post: Post,
    pub(super) reminders: Reminders,
    /// The way to who wakes it; `None` where nobody does.
    pub(super) waker: Option<Waker>,
    pub(super) sleep: Sleep,
}

impl<E: EventSourced, J: Journal> Handling<E, J> {
    pub(super) async fn on_message(&mut self, life: &mut Life, payload: Payload) -> Flow {
        if !life.is_woken() {
            return self.on_command(life, payload).await;
        }
        match wakeups::version_of(&payload) {
            Some(version) if self.waker.is_some() => self.on_call(life, version).await,
            Some(_) | None => {
                life.cannot_decode();
                Flow::GoOn
            }
        }
    }

    async fn on_command(&mut self, life: &mut Life, payload: Payload) -> Flow {
        let Some(command) = codec::decode::<E::Command>(&payload) else {
            life.cannot_decode();
            return Flow::GoOn;
        };
        drop(payload);
        match self.decide(life, command, None).await {
            Ok(flow) => flow,
            Err(Unkept::Failed(failure)) => {
                life.answer(Ok(codec::not_durable(failure)));
                Flow::GoOn
            }
            Err(Unkept::Ended) => Flow::Ended,
        }
    }

    /// Handles a command of somebody else's, or one of a reminder, with what is to be kept of that.
    async fn decide(
        &mut self,
        life: &mut Life,
        command: E::Command,
        cause: Option<Note>,
    ) -> Result<Flow, Unkept> {
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
        let flow = self.retain(life).await;
        match then {
            Then::GoOn => {}
            Then::Stop => self.context.stop(),
            Then::Forget => self.context.forget(),
            Then::Passivate => self.context.passivate(),
        }
        Ok(flow)
    }

    /// Whether nothing is due, and nothing will be.
    pub(super) fn is_idle(&self) -> bool {
        self.post.is_idle() && self.reminders.is_empty()
    }

    /// How long until the next reminder is due, if there is one; shorter where that is long, because the wall clock may be set.
    pub(super) fn next_reminder_in(&self) -> Option<Duration> {
        let next = self.reminders.next_ms()?;
        let left = Duration::from_millis(next.saturating_sub(self.unix_ms()));
        Some(left.min(NAP_MAX))
    }

    pub(super) fn unix_ms(&self) -> u64 {
        self.context.shared().background.unix_ms()
    }

    /// Handles the first reminder that is due, if one is.
    pub(super) async fn on_reminder(&mut self, life: &mut Life) -> Flow {
        let now = self.unix_ms();
        let Some((reminder, note)) = self.reminders.due(now) else {
            return Flow::GoOn;
        };
        let Some(command) = codec::decode::<E::Command>(&reminder.message) else {
            if let Some(left_out) = life.counters().take_line() {
                tracing::warn!(
                    target: "cluster::store", event = "reminder_undecodable", entity = ?self.context, left_out,
                    "a reminder has a command that this program cannot read; tried again later"
                );
            }
            self.reminders.postpone(&note, now, NAP_MAX);
            return Flow::GoOn;
        };
        match self.decide(life, command, Some(note.clone())).await {
            Ok(flow) => flow,
            Err(Unkept::Failed(_)) => {
                self.reminders.postpone(&note, now, REMIND_AGAIN);
                Flow::GoOn
            }
            Err(Unkept::Ended) => Flow::Ended,
        }
    }

    pub(super) async fn on_due(&mut self, life: &mut Life, due: Due) -> Flow {
        if life.begun_by_itself().await.is_none() {
            return Flow::Ended;
        }
        match due {
            Due::Answer(confirmed) => self.on_confirmed(life, confirmed).await,
            Due::Look => {
                let overdue = self.post.redeliver(life);
                self.warn(life, &overdue);
                Flow::GoOn
            }
            Due::Reminder => self.on_reminder(life).await,
        }
    }

    async fn on_confirmed(&mut self, life: &mut Life, confirmed: Confirmed) -> Flow {
        let number = confirmed.number();
        if self.post.outbox.rules().get(number).is_none() {
            // It was answered more than once.
            return Flow::GoOn;
        }
        let deciding = self.entity.on_confirmed(&self.context, &self.state, confirmed);
        let Some(persist) = life.unless_killed(deciding).await else {
            return Flow::Ended;
        };
        match self.keep(life, persist, Some(Note::Confirmed { number })).await {
            // What is not noted is sent and answered again.
            Ok(()) | Err(Unkept::Failed(_)) => self.retain(life).await,
            Err(Unkept::Ended) => Flow::Ended,
        }
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
        cause: Option<Note>,
    ) -> Result<(), Unkept> {
        let Persist {
            events,
            deliveries,
            wishes,
        } = persist;
        if events.is_empty() && deliveries.is_empty() && wishes.is_empty() && cause.is_none() {
            return Ok(());
        }
        let letters = life.enter(|| self.post.outbox.number(&self.context, deliveries));
        let ready = letters.and_then(|letters| {
            let wishes = self.reminders.notes_of(self.unix_ms(), wishes)?;
            let notes: Vec<Note> = cause.into_iter().chain(wishes).collect();
            let records = self.records(&events, &letters, &notes)?;
            Ok((records, letters, notes))
        });
        let (written, letters, notes) = match ready {
            Ok((records, letters, notes)) => {
                let written = match self.is_woken_for(life, &letters, &notes).await {
                    Ok(()) => self.append(life, records).await,
                    Err(unwritten) => unwritten,
                };
                (written, letters, notes)
            }
            Err(failure) => (Written::NotDone(failure), Vec::new(), Vec::new()),
        };
        match written {
            Written::Durable => {}
            Written::NotDone(failure) => {
                life.counters().not_durable();
                return Err(Unkept::Failed(failure));
            }
            Written::Refused(failure) => {
                fenced(life, Some(failure));
                return Err(Unkept::Ended);
            }
            Written::Killed => return Err(Unkept::Ended),
        }
        life.counters().stored(events.len());
        for event in events {
            life.enter(|| E::apply(&mut self.state, event));
        }
        self.learn(life, &notes);
        let numbers = self.post.outbox.take(self.context.now(), letters);
        self.post.send(life, &numbers, false);
        Ok(())
    }

    /// Makes records durable. A log that is full has room behind a snapshot, whenever one would be due.
    async fn append(&mut self, life: &mut Life, records: Vec<Bytes>) -> Written {
        let written = self.writer.append(life, &self.sleep, records.clone()).await;
        if !self.writer.can_make_room(written) {
            return written;
        }
        match self.retain_now(life).await {
            Flow::GoOn => self.writer.append(life, &self.sleep, records).await,
            Flow::Ended => Written::Killed,
        }
    }

    /// What is noted beside the events is durable.
    fn learn(&mut self, life: &Life, notes: &[Note]) {
        let mut has_reminders_changed = false;
        for note in notes {
            if let Note::Confirmed { number } = note {
                life.counters().confirmed();
                self.post.confirm(*number);
            } else {
                has_reminders_changed |= self.reminders.learn(note);
            }
        }
        if has_reminders_changed {
            self.context.show_reminders(|| self.reminders.upcoming());
        }
    }

    /// The records of everything that becomes durable together.
    fn records(
        &self,
        events: &[E::Event],
        letters: &[(u64, Letter)],
        notes: &[Note],
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
        match self.retention.keeps {
            Keeps::Last => records.add(self.revision(events, letters, notes), STATE_BYTES_MAX)?,
            Keeps::Everything | Keeps::BehindSnapshot => {
                let sent = letters
                    .iter()
                    .map(|(number, letter)| Note::sent(*number, letter).record());
                let events = events.iter().map(schema::to_bytes);
                let notes = notes.iter().map(Note::record);
                for record in events.chain(sent).chain(notes) {
                    records.add(record, EVENT_BYTES_MAX)?;
                }
            }
        }
        Ok(records.all)
    }

    /// The one record that says everything: the newest state, which is an event of its own, with all notes in front.
    fn revision(&self, events: &[E::Event], letters: &[(u64, Letter)], notes: &[Note]) -> Option<Bytes> {
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
        note::in_front(&all, &state)
    }

    /// Keeps a snapshot if it is time for one.
    async fn retain(&mut self, life: &mut Life) -> Flow {
        if self.writer.is_due() {
            self.retain_now(life).await
        } else {
            Flow::GoOn
        }
    }

    async fn retain_now(&mut self, life: &mut Life) -> Flow {
        let (state, outbox, reminders) = (&self.state, &self.post.outbox, &self.reminders);
        let kept = self.writer.retain(life, || {
            let notes: Vec<Note> = outbox.notes().into_iter().chain(reminders.notes()).collect();
            snapshot::<E>(state, &notes)
        });
        match race(kept, life.killed()).await {
            Either::Left(Ok(())) => Flow::GoOn,
            Either::Left(Err(_)) => {
                fenced(life, None);
                Flow::Ended
            }
            Either::Right(()) => Flow::Ended,
        }
    }
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

/// Tells who asked, if somebody did, and leaves the rest to the entity's end: what waits was not begun with.
fn fenced(life: &mut Life, failure: Option<DurableFailure>) {
    if let Some(left_out) = life.counters().take_line() {
        tracing::warn!(
            target: "cluster::store", event = "entity_fenced", entity = ?life.context(), left_out,
            "a later incarnation owns its log: this one stops"
        );
    }
    life.counters().fenced();
    if let Some(failure) = failure {
        life.answer(Ok(codec::not_durable(failure)));
    }
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
fn snapshot<E: EventSourced>(state: &E::State, notes: &[Note]) -> Option<Bytes> {
    let mut bytes = schema::to_bytes(state)?;
    if !notes.is_empty() {
        bytes = note::in_front(notes, &bytes)?;
    }
    (bytes.len() <= STATE_BYTES_MAX + schema::HEADER_BYTES).then_some(bytes)
}
