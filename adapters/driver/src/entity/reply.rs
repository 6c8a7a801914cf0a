//! An answer that is given later: by another message's handler, by a timer, or by a task. Spec: sharding 1.4,
//! I-44.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{AskRef, Payload};
use quorate_core::time::Instant;
use serde::Serialize;

use crate::codec;
use crate::mailbox::Reports;

/// The obligation to answer one ask, once. Made by
/// [`EntityContext::reply_later`](crate::EntityContext::reply_later); may be moved to a task, and outlives
/// the entity. If it is dropped, the asker gets [`EntityStopped`](crate::AskFailure::EntityStopped)
/// instead of waiting for the end of its time.
#[must_use = "dropping it tells whoever asked that there is no answer"]
pub struct ReplyTo<R> {
    reports: Arc<Reports>,
    ask: Option<AskRef>,
    deadline: Option<Instant>,
    types: PhantomData<fn(R)>,
}

impl<R> ReplyTo<R> {
    pub(crate) const fn new(reports: Arc<Reports>, ask: AskRef, deadline: Option<Instant>) -> Self {
        Self {
            reports,
            ask: Some(ask),
            deadline,
            types: PhantomData,
        }
    }

    /// What became of the ask instead of an answer.
    pub(crate) fn settle(mut self, result: Result<Payload, AskFailure>) {
        if let Some(ask) = self.ask.take() {
            self.reports.answered(ask, result);
        }
    }

    /// How long the asker still waits; zero once the time is over.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        let until = |deadline: Instant| deadline.since(self.reports.gate.now());
        self.deadline.map_or(Duration::MAX, until)
    }
}

impl<R: Serialize> ReplyTo<R> {
    /// Sends the answer. It is dropped if nobody waits for it any more.
    pub fn send(mut self, reply: &R) {
        if let Some(ask) = self.ask.take() {
            self.reports.answers(ask, Ok(codec::encode_answer(reply)));
        }
    }
}

impl<R> Drop for ReplyTo<R> {
    fn drop(&mut self) {
        if let Some(ask) = self.ask.take() {
            self.reports.answered(ask, Err(AskFailure::EntityStopped));
        }
    }
}

impl<R> fmt::Debug for ReplyTo<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyTo")
            .field("ask", &self.ask)
            .finish_non_exhaustive()
    }
}
