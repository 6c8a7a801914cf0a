//! Which number is which kind of message, looked up in what the machines' protocols state. Spec:
//! `docs/WIRE.md` 4.

use crate::message::{Lane, Message, MessageTag};

/// The number of a message's kind.
#[must_use]
pub const fn of(message: &Message) -> u16 {
    message.tag().kind
}

/// The one lane on which a kind is legal; `None` for a kind this version does not know.
#[must_use]
pub fn lane_of(kind: u16) -> Option<Lane> {
    tag_of(kind).map(|tag| tag.lane)
}

/// The tag with this number; `None` for a kind this version does not know.
#[must_use]
pub fn tag_of(kind: u16) -> Option<MessageTag> {
    let mut tags = Message::TAGS.into_iter().flatten();
    tags.find(|tag| tag.kind == kind).copied()
}
