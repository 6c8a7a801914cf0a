//! What the task of a producer is told: by its users, and by the tasks that wait for entities and for the
//! store. Types only.

use std::collections::VecDeque;
use std::sync::Mutex;

use quorate_core::sharding::ids::{EntityId, Payload};

use super::SendError;
use super::length::bytes_of;
use super::message::Receipt;
use crate::error::AskError;
use crate::sync::{self, Notify, lock};

/// What users want of a producer.
pub(super) enum ProducerOrder {
    Send(Offer),
    Try(Offer),
    Unconfirmed(sync::Sender<usize>),
    Flush(sync::Sender<()>),
}

/// A message and who waits for what becomes of it.
pub(super) struct Offer {
    pub(super) entity: EntityId,
    pub(super) payload: Payload,
    pub(super) taken: sync::Sender<Result<(), SendError>>,
    pub(super) confirmed: sync::Sender<()>,
}

impl Offer {
    /// What it takes until it is confirmed.
    pub(super) fn bytes(&self) -> usize {
        bytes_of(self.entity.as_bytes().len(), self.payload.len())
    }
}

/// What other tasks have to say.
pub(super) enum TaskReport {
    /// An entity on this line, or why it did not.
    Line(EntityId, u64, Result<Receipt, AskError>),
    /// The store has kept a message.
    Stored(u64),
    /// And so many confirmations.
    Noted(usize),
    /// The store did not, and will not be asked again.
    StoreFailed,
}

/// Where they say it. As long as there are lines, and messages that are being stored.
#[derive(Default)]
pub(super) struct ProducerInbox {
    said: Mutex<VecDeque<TaskReport>>,
    pub(super) notify: Notify,
}

impl ProducerInbox {
    pub(super) fn put(&self, said: TaskReport) {
        lock(&self.said).push_back(said);
        self.notify.notify();
    }

    pub(super) fn take(&self) -> Option<TaskReport> {
        lock(&self.said).pop_front()
    }
}
