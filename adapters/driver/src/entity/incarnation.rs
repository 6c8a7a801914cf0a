//! What an entity does from being made until it ends or fails, and again if it is restarted: messages,
//! timers, hooks, each in its turn, and a failure of any of them goes to its kind. Spec: sharding 1.3 (entity
//! supervision), 1.4.

use std::future::{Future, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::Payload;
use quorate_core::supervision::{RestartHistory, SupervisionVerdict};
use quorate_core::time::Instant;

use super::failure::{Failure, note};
use super::task::{Life, MESSAGES_PER_TURN};
use super::timers::{Due, Message};
use super::{Entity, EntityContext};
use crate::codec;
use crate::kinds::Types;
use crate::mailbox::{EntityStart, Starter};
use crate::shared::Shared;
use crate::supervision::{Directive, Supervision};
use crate::sync::{Either, Task, yield_now};

/// Why an incarnation ended before its time.
pub(crate) enum End {
    /// It was told to stop at once.
    Killed,
    Failed(Failure),
    /// The same, and its kind was asked what becomes of it.
    Decided(Failure, Directive),
}

/// What an entity does next.
enum Next {
    Message(Payload),
    Own(Message),
    Idle,
}

/// How an entity leaves something to the one after it.
pub(super) trait Leaves<E>: Send + 'static {
    /// What it leaves, when it has ended in good order and was told to leave something; `None` if it has
    /// nothing or failed to say it.
    fn leave(life: &Life, entity: E) -> impl Future<Output = Option<Payload>> + Send;
}

/// It leaves nothing.
pub(super) struct LeavesNothing;

impl<E: Send> Leaves<E> for LeavesNothing {
    fn leave(_: &Life, entity: E) -> impl Future<Output = Option<Payload>> + Send {
        drop(entity);
        ready(None)
    }
}

/// Starts entities that a function makes.
pub(crate) struct TypedStarter<F> {
    pub(crate) make: Arc<F>,
    /// The way to other entities.
    pub(crate) shared: Arc<Shared>,
    /// What becomes of one that fails.
    pub(crate) supervision: Arc<Supervision>,
}

impl<F, E> Starter for TypedStarter<F>
where
    F: Fn(EntityContext) -> E + Send + Sync + 'static,
    E: Entity,
{
    fn start(&self, start: EntityStart) -> Task {
        let make = Arc::clone(&self.make);
        let life = Life::new(start, Arc::clone(&self.shared));
        Box::pin(run::<_, _, LeavesNothing>(
            make,
            life,
            Arc::clone(&self.supervision),
        ))
    }
}

/// One entity, incarnation after incarnation.
pub(super) async fn run<F, E, L>(make: Arc<F>, mut life: Life, supervision: Arc<Supervision>)
where
    F: Fn(EntityContext) -> E + Send + Sync + 'static,
    E: Entity,
    L: Leaves<E>,
{
    if life.may_begin().await.is_none() {
        return;
    }
    life.context.made_of(Types::of::<E::Message, E::Reply>);
    let mut restarts = RestartHistory::default();
    loop {
        let (failure, directive) = match live::<_, _, L>(&*make, &mut life, &supervision).await {
            Ok(()) | Err(End::Killed) => return,
            Err(End::Failed(failure)) => {
                let directive = supervision.decision(&failure.shown());
                (failure, directive)
            }
            Err(End::Decided(failure, directive)) => (failure, directive),
        };
        note(&life.context, &failure, directive);
        drop(failure);
        let now = life.reports().gate.now();
        let verdict = restarts.on_failure(&supervision.restarts, directive, false, now);
        if !goes_on(&mut life, verdict, now).await {
            return;
        }
    }
}

/// One incarnation, from its beginning to its end in good order.
async fn live<F, E, L>(make: &F, life: &mut Life, supervision: &Supervision) -> Result<(), End>
where
    F: Fn(EntityContext) -> E,
    E: Entity,
    L: Leaves<E>,
{
    let context = life.context.clone();
    let mut entity = made(life, || make(context.clone()))?;
    attempt(life, pin!(entity.on_start(&context))).await?;
    life.has_started();
    let mut wait = None;
    let mut handled = 0_usize;
    while let Some(next) = life.next_of_all(&mut wait).await {
        let message = match next {
            // Only durable entities have clocks.
            Next::Message(_) if life.is_woken() => None,
            Next::Message(payload) => life
                .opened_message(&payload)
                .and_then(codec::decode::<E::Message>),
            Next::Own(message) => message.downcast::<E::Message>().ok().map(|message| *message),
            Next::Idle => {
                survived(
                    life,
                    supervision,
                    attempt(life, pin!(entity.on_receive_timeout(&context))).await,
                )?;
                continue;
            }
        };
        let Some(message) = message else {
            life.cannot_decode();
            continue;
        };
        let done = attempt(life, pin!(entity.handle(&context, message))).await;
        context.timers().touch(|| life.reports().gate.now());
        match survived(life, supervision, done)? {
            Some(reply) if life.is_asked() => life.answer(Ok(codec::encode_answer(&reply))),
            Some(_) => {}
            None => life.answer(Err(AskFailure::EntityStopped)),
        }
        handled += 1;
        if handled.is_multiple_of(MESSAGES_PER_TURN) {
            yield_now().await;
        }
    }
    if life.is_killed() {
        return Ok(());
    }
    let stopped = attempt(life, pin!(entity.on_stop(&context))).await;
    match stopped {
        Ok(()) if life.mailbox().leaves_state() => {
            if let Some(state) = L::leave(life, entity).await {
                life.reports().left(life.slot(), state);
            }
        }
        Ok(()) | Err(End::Killed) => {}
        // It ends anyway.
        Err(End::Failed(failure) | End::Decided(failure, _)) => {
            note(&life.context, &failure, Directive::Stop)
        }
    }
    Ok(())
}

/// What a handler yielded; nothing if it failed with an error over which the entity goes on as it is.
///
/// # Errors
/// The incarnation ends.
fn survived<T>(life: &Life, supervision: &Supervision, done: Result<T, End>) -> Result<Option<T>, End> {
    let failure = match done {
        Ok(done) => return Ok(Some(done)),
        Err(End::Failed(failure @ Failure::Error(_))) => failure,
        Err(end) => return Err(end),
    };
    let directive = supervision.decision(&failure.shown());
    if directive != Directive::Resume {
        return Err(End::Decided(failure, directive));
    }
    note(&life.context, &failure, directive);
    Ok(None)
}

/// Does what was decided; whether the entity is to be restarted now.
async fn goes_on(life: &mut Life, verdict: SupervisionVerdict, now: Instant) -> bool {
    let reports = Arc::clone(life.reports());
    let pause = match verdict {
        SupervisionVerdict::GoOn => Duration::ZERO,
        SupervisionVerdict::Restart { after } => after,
        SupervisionVerdict::Stop => return false,
        SupervisionVerdict::Escalate => {
            reports.escalated(life.slot());
            return false;
        }
        SupervisionVerdict::GiveUp => {
            let entity = &life.context;
            tracing::error!(
                target: "cluster::sharding", event = "entity_given_up", ?entity,
                "an entity has failed too often and ends; the next message makes a new one"
            );
            return false;
        }
    };
    life.answer(Err(AskFailure::EntityStopped));
    life.begin_anew();
    reports.failures.restarted();
    let mut wait = (!pause.is_zero())
        .then(|| Wait::until(life, now + pause))
        .flatten();
    poll_fn(|cx| {
        let over = wait
            .as_mut()
            .is_none_or(|wait| wait.sleeping.as_mut().poll(cx).is_ready());
        match life.mailbox().poll_ending(cx) {
            // What waits is to be handled before it ends: at once.
            Poll::Ready(handles) => Poll::Ready(handles),
            Poll::Pending if over => Poll::Ready(true),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Runs code of the user's that does not wait.
pub(crate) fn made<T>(life: &Life, code: impl FnOnce() -> T) -> Result<T, End> {
    guarded(|| life.enter(code)).map_err(End::Failed)
}

/// Runs a handler or a hook to its end. Pinned where it is made, so that its entity has room for it once.
pub(crate) async fn attempt<T>(life: &Life, mut code: Pin<&mut impl Future<Output = T>>) -> Result<T, End> {
    poll_fn(|cx| {
        let polled = guarded(|| life.enter(|| code.as_mut().poll(cx)));
        if let Some(error) = life.context.take_failure() {
            return Poll::Ready(Err(End::Failed(Failure::Error(error))));
        }
        match polled {
            Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
            Ok(Poll::Pending) => life.mailbox().poll_killed(cx).map(|()| Err(End::Killed)),
            Err(failure) => Poll::Ready(Err(End::Failed(failure))),
        }
    })
    .await
}

/// After a panic nothing that the code has touched is used again: its entity is dropped.
fn guarded<T>(code: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Failure::Panic(text.unwrap_or_else(|| "of no text".to_owned()))
    })
}

/// A wait for the entity's next timer, or for its next incarnation.
pub(crate) struct Wait {
    at: Instant,
    sleeping: Task,
}

impl Wait {
    /// `None` where there is no runtime.
    fn until(life: &Life, at: Instant) -> Option<Self> {
        let sleeping = life.reports().sleep.as_ref()?.at(at);
        Some(Self { at, sleeping })
    }
}

impl Life {
    /// Its next message, or what it wanted to do by itself; `None` once it has to stop. What is due comes
    /// first, one at a time, so that neither waits for ever for the other.
    async fn next_of_all(&mut self, wait: &mut Option<Wait>) -> Option<Next> {
        let taken = self.due_or(wait, |cx| self.mailbox().poll_next(cx, &self.reports().budget));
        let due = match taken.await {
            Either::Left(due) => due,
            Either::Right(taken) => {
                let payload = self.opened(taken?);
                return self.begun(payload).await.map(Next::Message);
            }
        };
        self.begun_by_itself().await?;
        Some(match due {
            Due::Message(message) => Next::Own(message),
            Due::Idle => Next::Idle,
        })
    }

    /// What the entity wanted to do by itself, once it is due, or what `poll` yields before.
    pub(crate) async fn due_or<T>(
        &self,
        wait: &mut Option<Wait>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Either<Due, T> {
        loop {
            if self.context.timers().are_used()
                && self.mailbox().is_open()
                && let Some(due) = self.context.timers().pop(self.reports().gate.now())
            {
                return Either::Left(due);
            }
            let next = poll_fn(|cx| {
                if let Poll::Ready(next) = poll(cx) {
                    return Poll::Ready(Some(next));
                }
                let Some(at) = self.context.timers().next() else {
                    *wait = None;
                    return Poll::Pending;
                };
                if wait.as_ref().is_none_or(|wait| wait.at != at) {
                    *wait = Wait::until(self, at);
                }
                match wait {
                    Some(wait) => wait.sleeping.as_mut().poll(cx).map(|()| None),
                    None => Poll::Pending,
                }
            })
            .await;
            match next {
                Some(next) => return Either::Right(next),
                None => *wait = None,
            }
        }
    }
}
