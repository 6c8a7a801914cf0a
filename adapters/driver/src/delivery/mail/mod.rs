//! Durable mailboxes: a message to an instance of a path is in a store before its sender hears that it is
//! kept, and whoever hosts the slot handles it from there, one after the other, each confirmed in the store
//! before the next begins. Page: `docs/paths.md`. Spec: sharding 5.4, 10.17; seed document 004.
//!
//! | part | decides |
//! |---|---|
//! | [`Mail`] | nothing: what the instance is given |
//! | `intake` | what is kept, when the sender hears of it, which message is next |

mod intake;
#[cfg(test)]
mod tests;

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use async_channel::{Receiver, Sender, bounded};
use quorate_core::paths::state::below;
use quorate_core::sharding::ids::Payload;
use quorate_core::store::StoreError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::intake::Intake;
use super::DurableQueue;
use crate::codec;
use crate::entity::{Due, End, Entity, EntityContext, Failure, Life, attempt, made, note};
use crate::journal::Keeper;
use crate::kinds::Types;
use crate::mailbox::{EntityStart, Starter};
use crate::shared::Shared;
use crate::supervision::Directive;
use crate::sync::{Either, Task, race};

/// A message out of a durable mailbox. See
/// [`InstancesBuilder::start_mailbox`](crate::InstancesBuilder::start_mailbox).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Mail<M> {
    /// Its number in the mailbox of its slot: above those of all messages before it, and the same when it
    /// comes again. An instance that stores the number of the last one with what it did handles none twice.
    /// 0 for what the instance told itself ([`Self::own`]).
    pub number: u64,
    /// Whether it may have been handled before: it is the first that this instance gets, and the one before
    /// it, which failed, died or moved, may have begun with it.
    pub is_repeated: bool,
    /// What was sent.
    pub message: M,
}

impl<M> Mail<M> {
    /// For timers of the instance
    /// ([`EntityContext::start_timer`](crate::EntityContext::start_timer)), which no store keeps.
    pub const fn own(message: M) -> Self {
        Self {
            number: 0,
            is_repeated: false,
            message,
        }
    }
}

/// A message on its way to the instance.
struct HandedOut {
    number: u64,
    is_repeated: bool,
    payload: Payload,
}

/// Starts instances that handle what a durable mailbox keeps.
pub(crate) struct MailboxStarter<F> {
    pub(crate) make: Arc<F>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) keeper: Keeper,
}

impl<F, E, M> Starter for MailboxStarter<F>
where
    F: Fn(EntityContext) -> E + Send + Sync + 'static,
    E: Entity<Message = Mail<M>, Reply = ()>,
    M: DeserializeOwned + Send + 'static,
{
    fn start(&self, start: EntityStart) -> Task {
        let (make, keeper) = (Arc::clone(&self.make), self.keeper.clone());
        let life = Life::new(start, Arc::clone(&self.shared));
        Box::pin(run::<_, E, M>(make, life, keeper))
    }
}

/// One instance. However it ends, what was kept stays in the store.
async fn run<F, E, M>(make: Arc<F>, life: Life, keeper: Keeper)
where
    F: Fn(EntityContext) -> E,
    E: Entity<Message = Mail<M>, Reply = ()>,
    M: DeserializeOwned + Send + 'static,
{
    if life.may_begin().await.is_none() {
        return;
    }
    let context = life.context();
    context.made_of(Types::of::<E::Message, E::Reply>);
    let name = format!("mailbox/{}", context.id_text());
    // The core begins another one after a pause, which tries again.
    let not_opened = |error: &dyn std::fmt::Display| {
        tracing::error!(
            target: "cluster::delivery", event = "mailbox_not_opened", entity = ?context, %error,
            "an instance ended because its durable mailbox cannot be read"
        );
    };
    let told_to_end = poll_fn(|cx| life.mailbox().poll_ending(cx));
    let queue = match race(
        told_to_end,
        DurableQueue::open_with(context.shared(), &keeper, &name),
    )
    .await
    {
        Either::Left(_) => return,
        Either::Right(Ok(queue)) => queue,
        Either::Right(Err(error)) => return not_opened(&error),
    };
    let (to_handle, kept) = bounded(1);
    let (handled, done) = bounded(1);
    let intake = Intake::new(&life, queue, reads::<M>, (to_handle, done));
    let taking_in = async {
        match intake.run().await {
            // The instance has all that it is to handle.
            Ok(()) => pending().await,
            Err(error) => error,
        }
    };
    let handling = handle::<_, E, M>(&*make, &life, (kept, handled));
    match race(life.killed(), race(taking_in, handling)).await {
        Either::Left(()) | Either::Right(Either::Right(Ok(()) | Err(End::Killed))) => {}
        Either::Right(Either::Left(error)) => lost(&life, error),
        Either::Right(Either::Right(Err(End::Failed(failure) | End::Decided(failure, _)))) => {
            note(life.context(), &failure, Directive::Stop);
        }
    }
}

/// The mailbox is somebody else's, or its store has failed for good.
fn lost(life: &Life, error: StoreError) {
    if let StoreError::Fenced { .. } | StoreError::SequenceConflict { .. } = error {
        life.counters().fenced();
    }
    tracing::error!(
        target: "cluster::delivery", event = "mailbox_lost", entity = ?life.context(), %error,
        "an instance ended because its durable mailbox is another owner's or its store failed"
    );
}

/// Whether a message can be read.
fn reads<M: DeserializeOwned>(payload: &[u8]) -> bool {
    let message = below::take(payload).ok().map(|(_, message)| message);
    message.and_then(codec::decode::<M>).is_some()
}

/// Makes the instance and has it handle what it is handed, until no more comes.
///
/// # Errors
/// It has failed, or has to stop at once.
async fn handle<F, E, M>(
    make: &F,
    life: &Life,
    (kept, handled): (Receiver<HandedOut>, Sender<u64>),
) -> Result<(), End>
where
    F: Fn(EntityContext) -> E,
    E: Entity<Message = Mail<M>, Reply = ()>,
    M: DeserializeOwned + Send + 'static,
{
    let context = life.context().clone();
    let mut entity = made(life, || make(context.clone()))?;
    attempt(life, pin!(entity.on_start(&context))).await?;
    life.has_started();
    let mut wait = None;
    loop {
        let mut next = pin!(kept.recv());
        let (mail, is_kept) = match life.due_or(&mut wait, |cx| next.as_mut().poll(cx)).await {
            Either::Right(Err(_)) => break,
            Either::Right(Ok(mail)) => {
                let message = life.opened_message(&mail.payload).and_then(codec::decode);
                let kept = Mail {
                    number: mail.number,
                    is_repeated: mail.is_repeated,
                    message: message.ok_or_else(unreadable)?,
                };
                (kept, true)
            }
            Either::Left(Due::Message(own)) => match own.downcast::<Mail<M>>() {
                Ok(own) => (*own, false),
                Err(_) => continue,
            },
            Either::Left(Due::Idle) => {
                attempt(life, pin!(entity.on_receive_timeout(&context))).await?;
                continue;
            }
        };
        life.begun_by_itself().await.ok_or(End::Killed)?;
        let number = mail.number;
        attempt(life, pin!(entity.handle(&context, mail))).await?;
        context.timers().touch(|| context.now());
        if is_kept {
            // Only while the intake waits for it.
            let _ = handled.try_send(number);
        }
    }
    attempt(life, pin!(entity.on_stop(&context))).await
}

/// What was kept by another version of the program stays until one comes that reads it.
fn unreadable() -> End {
    End::Failed(Failure::Error(
        "a message in the durable mailbox cannot be decoded".into(),
    ))
}
