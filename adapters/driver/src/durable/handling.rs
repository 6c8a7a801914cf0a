//! What a recovered durable entity does with a command and with the confirmation of a message: decides, has it made durable, applies it, and
//! only then answers and sends. Spec: sharding 10.7, 1.15.

use quorate_core::sharding::ids::Payload;
use quorate_core::store::Bytes;

use super::decision::{Answer, Decision, Persist, Then};
use super::journal::Journal;
use super::limits::{COMMAND_BYTES_MAX, EVENT_BYTES_MAX, EVENTS_PER_COMMAND_MAX, STATE_BYTES_MAX};
use super::note::{self, Note};
use super::obstacle::Sleep;
use super::outbox::Letter;
use super::post::{Confirmed, Due, Overdue, Post};
use super::retention::{Keeps, Retention};
use super::writing::{Writer, Written};
use super::{DurableFailure, EventSourced, schema};
use crate::codec;
use crate::entity::{EntityContext, Life};
use crate::sync::{Either, race};

/// Whether the entity goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    GoOn,
    /// At once, and without its last hook.
    Ended,
}

/// Why something is not durable.
enum Unkept {
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
    pub(super) sleep: Sleep,
}

impl<E: EventSourced, J: Journal> Handling<E, J> {
    pub(super) async fn on_command(&mut self, life: &mut Life, payload: Payload) -> Flow {
        let Some(command) = codec::decode::<E::Command>(&payload) else {
            tracing::debug!(target: "cluster::sharding", entity = ?self.context, event = "message_undecodable");
            life.answer(Ok(codec::undecodable()));
            return Flow::GoOn;
        };
        drop(payload);
        let deciding = self.entity.handle(&self.context, &self.state, command);
        let Some(decision) = life.unless_killed(deciding).await else {
            return Flow::Ended;
        };
        let Decision {
            persist,
            answer,
            then,
        } = decision;
        match self.keep(life, persist, None).await {
            Ok(()) => {}
            Err(Unkept::Failed(failure)) => {
                life.answer(Ok(codec::not_durable(failure)));
                return Flow::GoOn;
            }
            Err(Unkept::Ended) => return Flow::Ended,
        }
        let reply = life.enter(|| answered::<E>(answer, &self.state, life.is_asked()));
        if let Some(reply) = reply {
            life.answer(Ok(reply));
        }
        let flow = self.retain(life).await;
        match then {
            Then::GoOn => {}
            Then::Stop => self.context.stop(),
            Then::Passivate => self.context.passivate(),
        }
        flow
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
        match self.keep(life, persist, Some(number)).await {
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
    async fn keep(
        &mut self,
        life: &mut Life,
        persist: Persist<E>,
        confirmed: Option<u64>,
    ) -> Result<(), Unkept> {
        let Persist { events, deliveries } = persist;
        if events.is_empty() && deliveries.is_empty() && confirmed.is_none() {
            return Ok(());
        }
        let letters = life.enter(|| self.post.outbox.number(&self.context, deliveries));
        let records = letters.and_then(|letters| {
            let records = self.records(&events, &letters, confirmed)?;
            Ok((records, letters))
        });
        let (written, letters) = match records {
            Ok((records, letters)) => (self.writer.append(life, &self.sleep, records).await, letters),
            Err(failure) => (Written::NotDone(failure), Vec::new()),
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
        if let Some(number) = confirmed {
            life.counters().confirmed();
            self.post.confirm(number);
        }
        let numbers = self.post.outbox.take(self.context.now(), letters);
        self.post.send(life, &numbers, false);
        Ok(())
    }

    /// The records of everything that becomes durable together.
    fn records(
        &self,
        events: &[E::Event],
        letters: &[(u64, Letter)],
        confirmed: Option<u64>,
    ) -> Result<Vec<Bytes>, DurableFailure> {
        if events.len().saturating_add(letters.len()) > EVENTS_PER_COMMAND_MAX {
            return Err(DurableFailure::TooLarge);
        }
        let mut records = Records::default();
        let event_bytes_max = match self.retention.keeps {
            Keeps::Everything | Keeps::BehindSnapshot => EVENT_BYTES_MAX,
            Keeps::Last => STATE_BYTES_MAX,
        };
        for event in events {
            records.add(schema::to_bytes(event), event_bytes_max)?;
        }
        let shared = self.context.shared();
        for (number, letter) in letters {
            let checked = shared.check(&letter.to.id, &letter.payload);
            checked.map_err(|_| DurableFailure::TooLarge)?;
            records.add(Note::sent(*number, letter).record(), EVENT_BYTES_MAX)?;
        }
        if let Some(number) = confirmed {
            records.add(Note::Confirmed { number }.record(), EVENT_BYTES_MAX)?;
        }
        Ok(records.all)
    }

    /// Keeps a snapshot if it is time for one.
    async fn retain(&mut self, life: &mut Life) -> Flow {
        if !self.writer.is_due() {
            return Flow::GoOn;
        }
        let (state, outbox) = (&self.state, &self.post.outbox);
        let kept = self.writer.retain(life, || snapshot::<E>(state, &outbox.notes()));
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
