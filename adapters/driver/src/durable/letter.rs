//! A message that a durable entity has to deliver, before it has its bytes. Values only. Spec: sharding 1.15.

use quorate_core::durable::LetterRecipient;
use quorate_core::sharding::ids::Payload;
use serde::{Deserialize, Serialize};

use crate::codec;
use crate::region::EntityRef;

/// By what a message of a durable entity is known to whoever receives it, however often: who sent it, and its
/// number there. Put into the message by [`Persist::deliver`](super::Persist::deliver).
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

/// A message that is to be sent until it is confirmed, before it has its number.
pub(super) struct Draft {
    pub(super) to: LetterRecipient,
    /// Its bytes; `None` if it cannot be encoded.
    pub(super) make: Box<dyn FnOnce(DeliveryId) -> Option<Payload> + Send>,
}

impl Draft {
    pub(super) fn new<M: Serialize, R>(
        to: &EntityRef<M, R>,
        message: impl FnOnce(DeliveryId) -> M + Send + 'static,
    ) -> Self {
        Self {
            to: LetterRecipient {
                kind: to.kind(),
                id: to.id().clone(),
            },
            make: Box::new(move |id| codec::encode(&message(id))),
        }
    }
}
