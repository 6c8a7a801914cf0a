//! The life of one durable entity: recovers, then handles one command after the other, each answered when what it decided is durable.
//! Spec: sharding 10.7.

use std::pin::pin;
use std::sync::Arc;

use quorate_core::ident::Role;
use quorate_core::membership::member::Member;

use super::clocks::{Order, Said, Waker};
use super::handling::{Flow, Handling};
use super::obstacle::{Obstacle, Trouble, Waited};
use super::post::Post;
use super::recovery::{Recovered, recover};
use super::writing::Writer;
use super::{DurableFailure, EventSourced};
use crate::background::Sleep;
use crate::entity::{Beside, EntityContext, Life, MESSAGES_PER_TURN};
use crate::journal::Journal;
use crate::region::Region;
use crate::sync::{Either, race, yield_now};

/// What an entity needs beside its journal.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) sleep: Sleep,
    /// The role of a kind that only this node may host; `None` in there: all members.
    pub(super) alone: Option<Option<Role>>,
    /// The clocks that wake its kind; `None` where nobody does.
    pub(super) clocks: Option<Region<Order, Said>>,
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
    let mut journal = match journal {
        Ok(journal) => journal,
        Err(failure) => {
            race(life.killed(), life.turn_away(failure)).await;
            return;
        }
    };
    let context = life.context().clone();
    let mut entity = life.enter(|| make(context.clone()));
    let Some(recovered) = recovered(&mut entity, &life, &mut journal, &around).await else {
        return;
    };
    let Recovered {
        state,
        extent,
        recovery,
        outbox,
        reminders,
    } = recovered;
    life.counters().recovered(recovery.replayed);
    tracing::debug!(
        target: "cluster::store", event = "entity_recovered", entity = ?context, last = recovery.last,
        replayed = recovery.replayed, snapshot = recovery.snapshot
    );
    let retention = life.enter(|| entity.retention());
    context.show_reminders(|| reminders.upcoming());
    if life
        .unless_killed(entity.on_recovered(&context, &state, &recovery))
        .await
        .is_none()
    {
        return;
    }
    let waker = around.clocks.as_ref().map(|clocks| Waker::new(clocks, &context));
    let handling = Handling {
        entity,
        state,
        context,
        retention,
        writer: Writer::new(journal, extent, retention),
        post: Post::new(outbox),
        reminders,
        waker,
        sleep: around.sleep,
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
            let due = pin!(handling.post.next(&handling.sleep, reminder_in));
            life.next_beside(due).await
        };
        let flow = match next {
            Beside::Message(payload) => handling.on_message(&mut life, payload).await,
            Beside::Done(due) => handling.on_due(&mut life, due).await,
            Beside::Stop => break,
        };
        match flow {
            Flow::GoOn => {}
            Flow::Ended => return,
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

/// Recovers, however long that takes; `None` if the entity has to stop before. What has waited too long, or cannot be helped by
/// waiting, is answered meanwhile.
async fn recovered<E: EventSourced, J: Journal>(
    entity: &mut E,
    life: &Life,
    journal: &mut J,
    around: &Surroundings,
) -> Option<Recovered<E>> {
    let mut trouble = Trouble::default();
    loop {
        let trying = async {
            around.is_alone(life.context())?;
            recover(entity, life, journal).await
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
