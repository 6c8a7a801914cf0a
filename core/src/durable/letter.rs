//! A message that a durable entity has to deliver: to whom, and its bytes. Values only. Spec: sharding 1.15.

use crate::sharding::state::ids::{EntityId, KindId, Payload};

/// To whom a message goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LetterRecipient {
    /// Its kind.
    pub kind: KindId,
    /// Its id.
    pub id: EntityId,
}

/// A message with its recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// To whom it goes.
    pub to: LetterRecipient,
    /// Its bytes.
    pub payload: Payload,
}
