//! The lanes that messages travel on, and the tag that each message carries on the wire. Which message has
//! which tag is said by the protocol of the machine that speaks it; nothing here knows a message. Spec:
//! membership 5, `docs/WIRE.md` 4.

/// What is delivered in order with what. FIFO holds within one lane and one link epoch; nothing is promised
/// between lanes. Control, gossip and replies travel on one link, user messages on another, the only one that
/// is ever paused, and bulk data on a third that is opened when there is some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Heartbeats, membership, shard control. Never shed: overflow ends the link.
    Control,
    /// Gossip states and statuses. May be shed, oldest first, and is counted.
    Gossip,
    /// Answers to asks: bounded by the asker's open asks, therefore always admitted.
    Reply,
    /// Messages to entities. Past its bound the newest is rejected with a typed error.
    User,
    /// Replicated data and transfers of state. Never shed and never paused because mailboxes are full: its
    /// acknowledgements may be what empties them. Past its bound the newest comes back to its sender, which
    /// tries again.
    Bulk,
}

impl Lane {
    /// All lanes, in the order in which a link's writer serves them.
    pub const ALL: [Self; 5] = [Self::Control, Self::Gossip, Self::Reply, Self::User, Self::Bulk];
}

/// What a message's frame says about it: the number of its kind, and the one lane on which that kind is
/// legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageTag {
    /// The number. Never given to another message.
    pub kind: u16,
    /// The lane.
    pub lane: Lane,
}

/// Writes a machine's tags as constants of its message type, and all of them as `TAGS`, so that none can be
/// forgotten.
macro_rules! tags {
    ($($(#[$doc:meta])* $name:ident = $kind:literal on $lane:ident;)*) => {
        $(
            $(#[$doc])*
            pub const $name: $crate::lane::MessageTag = $crate::lane::MessageTag {
                kind: $kind,
                lane: $crate::lane::Lane::$lane,
            };
        )*

        /// All tags of this machine's messages.
        pub const TAGS: &'static [$crate::lane::MessageTag] = &[$(Self::$name),*];
    };
}

pub(crate) use tags;
