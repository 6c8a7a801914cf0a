//! What an entity does about being woken: its clock knows of everything that it has to be woken for before
//! that is kept, and it says what is next when it was woken. Only who surely owns the log says so. Spec:
//! issue "reminders", sharding 1.15; `docs/adr/0016`.

use quorate_core::durable::{DurableNote, Letter};

use super::EventSourced;
use super::decision::Persist;
use super::driven::{Ended, Unkept, or_failed};
use super::handling::Handling;
use crate::codec;
use crate::entity::Life;
use crate::journal::Journal;
use crate::sync::{Either, race};

impl<E: EventSourced, J: Journal> Handling<E, J> {
    /// Does what is due, and says what is next. The clock is answered at once: it asks again if nothing comes
    /// of it.
    pub(super) async fn on_call(&mut self, life: &mut Life, version: u64) -> Result<(), Ended> {
        life.answer(Ok(codec::encode_answer(&())));
        life.begun_by_itself().await.ok_or(Ended)?;
        life.counters().woken();
        let written = self.driven.last();
        // One whose handler fails is not due any more: it is put off.
        while self.next_reminder_in().is_some_and(|left| left.is_zero()) {
            self.on_reminder(life).await?;
        }
        let has_written = self.driven.last() != written;
        let waker = self.waker.as_ref();
        if !waker.is_some_and(|waker| waker.is_sure(version, has_written)) {
            // Another incarnation may own the log by now, and have wanted to be woken: then this is refused.
            let number = self.post.outbox.rules().counter();
            let given = DurableNote::Given { number };
            let kept = self.keep(life, Persist::nothing(), Some(given)).await;
            let mut is_kept = true;
            or_failed(kept, |_| is_kept = false)?;
            if !is_kept {
                return Ok(());
            }
        }
        let next_ms = self.awake_ms();
        if let Some(waker) = &mut self.waker
            && let Either::Left(Err(error)) = race(waker.handled(version, next_ms), life.killed()).await
        {
            tracing::debug!(
                target: "cluster::store", event = "clock_does_not_answer", entity = ?self.context, %error,
                "the entity is woken again"
            );
        }
        Ok(())
    }

    /// When it has to be awake next, by what it has kept.
    fn awake_ms(&self) -> Option<u64> {
        let post = self.post.outbox.awake_ms(self.unix_ms());
        self.reminders.next_ms().into_iter().chain(post).min()
    }

    /// Has its clock know when it has to be awake for what is about to be kept: messages, and notes among
    /// which reminders are.
    ///
    /// # Errors
    /// What became of what was to be kept: nothing was written.
    pub(super) async fn is_woken_for(
        &mut self,
        life: &Life,
        letters: &[(u64, Letter)],
        notes: &[DurableNote],
    ) -> Result<(), Unkept> {
        let reminded = notes.iter().filter_map(DurableNote::wakes_at_ms);
        let sent = (!letters.is_empty()).then(|| self.post.outbox.first_awake_ms(self.unix_ms()));
        let (Some(at_ms), Some(waker)) = (reminded.chain(sent).min(), &mut self.waker) else {
            return Ok(());
        };
        match race(waker.wants(at_ms), life.killed()).await {
            Either::Left(wanted) => wanted.map_err(Unkept::Failed),
            Either::Right(()) => Err(Unkept::Ended),
        }
    }
}
