//! The life of one durable entity: recovers, then handles one command after the other, each answered when
//! what it decided is durable. Spec: sharding 10.7.

use std::pin::pin;
use std::sync::Arc;

use super::clocks::ClockWaker;
use super::driven::Driven;
use super::handling::Handling;
use super::post::Post;
use super::recovery::Recovered;
use super::surroundings::Surroundings;
use super::upcoming::upcoming;
use super::{DurableFailure, EventSourced};
use crate::background::Sleep;
use crate::entity::{Beside, EntityContext, Life, MESSAGES_PER_TURN};
use crate::journal::Journal;
use crate::sync::{race, yield_now};

pub(super) async fn run<E, F, J>(
    make: Arc<F>,
    life: Life,
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
    let journal = match journal {
        Ok(journal) => journal,
        Err(failure) => {
            race(life.killed(), life.turn_away(failure)).await;
            return;
        }
    };
    let context = life.context().clone();
    let mut entity = life.enter(|| make(context.clone()));
    let retention = life.enter(|| entity.retention().settings());
    let mut driven = Driven::new(journal, retention, Sleep::clone(&around.sleep));
    let Ok(recovered) = driven.recover(&mut entity, &life, &around).await else {
        return;
    };
    let Recovered {
        state,
        recovery,
        outbox,
        reminders,
    } = recovered;
    life.counters().recovered(recovery.replayed);
    tracing::debug!(
        target: "cluster::store", event = "entity_recovered", entity = ?context, last = recovery.last,
        replayed = recovery.replayed, snapshot = recovery.snapshot
    );
    context.show_reminders(|| upcoming(&reminders));
    if life
        .unless_killed(entity.on_recovered(&context, &state, &recovery))
        .await
        .is_none()
    {
        return;
    }
    let waker = around
        .clocks
        .as_ref()
        .map(|clocks| ClockWaker::new(clocks, &context));
    let handling = Handling {
        entity,
        state,
        context,
        keeps: retention.keeps,
        driven,
        post: Post::new(outbox),
        reminders,
        waker,
    };
    handle(life, handling).await;
}

/// One thing after the other, until the entity ends.
async fn handle<E: EventSourced, J: Journal>(mut life: Life, mut handling: Handling<E, J>) {
    let overdue = handling.post.begin(&life);
    handling.warn(&life, &overdue);
    let mut handled = 0_usize;
    loop {
        let next = if handling.is_idle() {
            life.next().await.map_or(Beside::Stop, Beside::Message)
        } else {
            let reminder_in = handling.next_reminder_in();
            let due = pin!(handling.post.next(&handling.driven.sleep, reminder_in));
            life.next_beside(due).await
        };
        let handled_it = match next {
            Beside::Message(payload) => handling.on_message(&mut life, payload).await,
            Beside::Done(due) => handling.on_due(&mut life, due).await,
            Beside::Stop => break,
        };
        if handled_it.is_err() {
            return;
        }
        handled += 1;
        if handled.is_multiple_of(MESSAGES_PER_TURN) {
            yield_now().await;
        }
    }
    if !life.is_killed() {
        let Handling {
            entity,
            context,
            state,
            ..
        } = &mut handling;
        life.unless_killed(entity.on_stop(context, state)).await;
    }
}
