//! A message that a durable entity has to deliver: to whom, its number, its bytes. Values only. Spec: sharding 1.15.

use quorate_core::sharding::ids::{EntityId, KindId, Payload};
use serde::{Deserialize, Serialize};

use crate::codec;
use crate::region::EntityRef;

/// By what a message of a durable entity is known to whoever receives it, however often: who sent it, and its number there. Put into the
/// message by [`Persist::deliver`](super::Persist::deliver).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryId {
    pub(super) sender: String,
    pub(super) number: u64,
    /// Everything of this sender to this recipient below it is confirmed.
    pub(super) oldest: u64,
}

impl DeliveryId {
    /// The sender: its kind and id as the name of its log has them.
    #[must_use]
    pub fn sender(&self) -> &str {
        &self.sender
    }

    /// The message's number: a sender gives each number once, ever.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }
}

/// To whom a message goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Recipient {
    pub(super) kind: KindId,
    pub(super) id: EntityId,
}

impl Recipient {
    pub(super) const fn new(kind: KindId, id: EntityId) -> Self {
        Self { kind, id }
    }
}

/// A message with its recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) to: Recipient,
    pub(super) payload: Payload,
}

/// A message that is to be sent until it is confirmed, before it has its number.
pub(super) struct Draft {
    pub(super) to: Recipient,
    /// Its bytes; `None` if it cannot be encoded.
    pub(super) make: Box<dyn FnOnce(DeliveryId) -> Option<Payload> + Send>,
}

impl Draft {
    pub(super) fn new<M: Serialize, R>(
        to: &EntityRef<M, R>,
        message: impl FnOnce(DeliveryId) -> M + Send + 'static,
    ) -> Self {
        Self {
            to: Recipient::new(to.kind(), to.id().clone()),
            make: Box::new(move |id| codec::encode(&message(id))),
        }
    }
}
