//! The life of one durable entity: recovers, then handles one command after the other, each answered when what it decided is durable.
//! Spec: sharding 10.7.

use std::sync::Arc;

use quorate_core::ident::Role;
use quorate_core::membership::member::Member;
use quorate_core::sharding::ids::Payload;
use quorate_core::store::Bytes;

use super::decision::{Answer, Decision, Then};
use super::journal::Journal;
use super::limits::{COMMAND_BYTES_MAX, EVENT_BYTES_MAX, EVENTS_PER_COMMAND_MAX, STATE_BYTES_MAX};
use super::obstacle::{Obstacle, Sleep, Trouble, Waited};
use super::recovery::{Recovery, recover};
use super::retention::{Keeps, Retention};
use super::writing::{Extent, Writer, Written};
use super::{DurableFailure, EventSourced, schema};
use crate::codec;
use crate::entity::{EntityContext, Life, MESSAGES_PER_TURN};
use crate::sync::{Either, race, yield_now};

/// What an entity needs beside its journal.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) sleep: Sleep,
    /// The role of a kind that only this node may host; `None` in there: all members.
    pub(super) alone: Option<Option<Role>>,
}

impl Surroundings {
    /// Whether no other member could host the kind, if it has to be so.
    fn is_alone(&self, context: &EntityContext) -> Result<(), Obstacle> {
        let Some(role) = &self.alone else {
            return Ok(());
        };
        let view = context.shared().hub.view();
        let hosts = |member: &&Member| role.as_ref().is_none_or(|role| member.roles.contains(role));
        let others = view.members().iter().filter(hosts);
        match others.filter(|member| member.node != *context.node()).count() {
            0 => Ok(()),
            others => Err(Obstacle::SeveralHosts { others }),
        }
    }
}

pub(super) async fn run<E, F, J>(
    make: Arc<F>,
    mut life: Life,
    journal: Result<J, DurableFailure>,
    around: Surroundings,
) where
    E: EventSourced,
    F: Fn(EntityContext) -> E,
    J: Journal,
{
    if life.may_begin().await.is_none() {
        return;
    }
    let mut journal = match journal {
        Ok(journal) => journal,
        Err(failure) => {
            race(life.killed(), life.turn_away(failure)).await;
            return;
        }
    };
    let context = life.context().clone();
    let mut entity = life.enter(|| make(context.clone()));
    let Some((mut state, extent, recovery)) = recovered(&mut entity, &life, &mut journal, &around).await
    else {
        return;
    };
    life.counters().recovered(&recovery);
    tracing::debug!(
        target: "cluster::store", event = "entity_recovered", entity = ?context, last = recovery.last,
        replayed = recovery.replayed, snapshot = recovery.snapshot
    );
    let retention = life.enter(|| entity.retention());
    let mut writer = Writer::new(journal, extent, retention);
    if life
        .unless_killed(entity.on_recovered(&context, &state, &recovery))
        .await
        .is_none()
    {
        return;
    }
    let mut handled = 0_usize;
    while let Some(payload) = life.next().await {
        let Some(command) = codec::decode::<E::Command>(&payload) else {
            tracing::debug!(target: "cluster::sharding", entity = ?context, event = "message_undecodable");
            life.answer(Ok(codec::undecodable()));
            continue;
        };
        drop(payload);
        let Some(decision) = life.unless_killed(entity.handle(&context, &state, command)).await else {
            return;
        };
        let Decision { events, answer, then } = decision;
        if !events.is_empty() {
            let written = match encoded::<E>(&events, retention) {
                Ok(records) => writer.append(&life, &around.sleep, records).await,
                Err(failure) => Written::NotDone(failure),
            };
            match written {
                Written::Durable => {}
                Written::NotDone(failure) => {
                    life.counters().not_durable();
                    life.answer(Ok(codec::not_durable(failure)));
                    continue;
                }
                Written::Refused(failure) => return fenced(&mut life, Some(failure)),
                Written::Killed => return,
            }
            life.counters().stored(events.len());
            for event in events {
                life.enter(|| E::apply(&mut state, event));
            }
        }
        let reply = life.enter(|| answered::<E>(answer, &state, life.is_asked()));
        if let Some(reply) = reply {
            life.answer(Ok(reply));
        }
        if writer.is_due() {
            let kept = writer.retain(&life, || snapshot::<E>(&state));
            match race(kept, life.killed()).await {
                Either::Left(Ok(())) => {}
                Either::Left(Err(_)) => return fenced(&mut life, None),
                Either::Right(()) => return,
            }
        }
        match then {
            Then::GoOn => {}
            Then::Stop => context.stop(),
            Then::Passivate => context.passivate(),
        }
        handled += 1;
        if handled.is_multiple_of(MESSAGES_PER_TURN) {
            yield_now().await;
        }
    }
    if !life.is_killed() {
        life.unless_killed(entity.on_stop(&context, &state)).await;
    }
}

/// Recovers, however long that takes; `None` if the entity has to stop before. What has waited too long, or cannot be helped by
/// waiting, is answered meanwhile.
async fn recovered<E: EventSourced, J: Journal>(
    entity: &mut E,
    life: &Life,
    journal: &mut J,
    around: &Surroundings,
) -> Option<(E::State, Extent, Recovery)> {
    let mut trouble = Trouble::default();
    loop {
        let retention = life.enter(|| entity.retention());
        let trying = async {
            around.is_alone(life.context())?;
            recover(entity, life, journal, retention).await
        };
        let obstacle = match race(trying, life.killed()).await {
            Either::Left(Ok(recovered)) => return Some(recovered),
            Either::Left(Err(obstacle)) => obstacle,
            Either::Right(()) => return None,
        };
        if let Some(left_out) = life.counters().take_line() {
            tracing::warn!(
                target: "cluster::store", event = "entity_not_recovered", entity = ?life.context(), error = %obstacle,
                left_out, "its commands are not handled; tried again"
            );
        }
        let is_said = trouble.is_long() || !obstacle.may_pass();
        match trouble
            .wait(life, &around.sleep, is_said.then_some(obstacle.failure()))
            .await
        {
            Waited::Over => {}
            Waited::Stopping | Waited::Killed => return None,
        }
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

/// The records of a command's events.
fn encoded<E: EventSourced>(events: &[E::Event], retention: Retention) -> Result<Vec<Bytes>, DurableFailure> {
    if events.len() > EVENTS_PER_COMMAND_MAX {
        return Err(DurableFailure::TooLarge);
    }
    let mut records = Vec::with_capacity(events.len());
    let mut bytes = 0_usize;
    let event_bytes_max = match retention.keeps {
        Keeps::Everything | Keeps::BehindSnapshot => EVENT_BYTES_MAX,
        Keeps::Last => STATE_BYTES_MAX,
    };
    for event in events {
        let record = schema::to_bytes(event).ok_or(DurableFailure::TooLarge)?;
        let len = record.len().saturating_sub(schema::HEADER_BYTES);
        bytes = bytes.saturating_add(len);
        if len > event_bytes_max || bytes > COMMAND_BYTES_MAX {
            return Err(DurableFailure::TooLarge);
        }
        records.push(record);
    }
    Ok(records)
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

/// A state as it is kept; `None` if it is too large.
fn snapshot<E: EventSourced>(state: &E::State) -> Option<Bytes> {
    let bytes = schema::to_bytes(state)?;
    (bytes.len() <= STATE_BYTES_MAX + schema::HEADER_BYTES).then_some(bytes)
}
