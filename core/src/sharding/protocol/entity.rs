//! What the host of the entities is told to do, and what it says of them. Types only. Spec: sharding 1.4, 10.5.

use crate::messaging::protocol::AskTicket;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{AskRef, EntityId, KindId, Payload, ShardId, Slot};
use crate::time::Instant;
use crate::token::Token;

/// A message to an entity on its way to the entity's home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityEnvelope {
    /// The entity's kind.
    pub kind: KindId,
    /// The entity's shard, computed by the sender.
    pub shard: ShardId,
    /// The entity.
    pub entity: EntityId,
    /// The user's bytes.
    pub payload: Payload,
    /// Set if an answer is expected.
    pub ask: Option<AskTicket>,
    /// Times this message has gone from one node to another: to what was taken for its home, and back (bounded, so that stale
    /// homes cannot keep it on its way for ever).
    pub hops: u8,
}

/// The token of a shard's placement: above that of every earlier one, as far as `is_stored` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacementToken {
    /// The token.
    pub token: Token,
    /// Whether it was stored before it was given, so that it is above all earlier ones for good. Otherwise tokens begin anew with the
    /// cluster, and nothing that outlives it may be fenced by them.
    pub is_stored: bool,
}

impl PlacementToken {
    /// The token, if durable writes may be fenced by it.
    #[must_use]
    pub fn stored(self) -> Option<Token> {
        self.is_stored.then_some(self.token)
    }
}

/// What the host does with entities. Orders for one slot keep their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntityOrder {
    /// Start an entity in this slot.
    Start {
        /// Where.
        slot: Slot,
        /// Its kind.
        kind: KindId,
        /// Its shard.
        shard: ShardId,
        /// Its id.
        entity: EntityId,
        /// The fencing token of its shard's placement.
        token: PlacementToken,
    },
    /// Put a message into the mailbox of the entity in this slot.
    Deliver {
        /// Where.
        slot: Slot,
        /// The bytes.
        payload: Payload,
        /// Set if an answer is expected.
        reply_to: Option<AskRef>,
        /// When whoever expects it stops waiting, by this node's clock.
        deadline: Option<Instant>,
        /// Whose handlers wait for the answer.
        chain: AskChain,
    },
    /// Stop the entity once it has handled what is in its mailbox, then report `Stopped`.
    Stop {
        /// Where.
        slot: Slot,
    },
    /// Stop the entity now, dropping its mailbox (asks in it are answered `EntityStoppedUnhandled`), then report `Stopped`.
    Kill {
        /// Where.
        slot: Slot,
    },
}

/// What the host of the entities says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntityReport {
    /// An entity answered an ask (or failed to).
    Answered {
        /// The ask.
        ask: AskRef,
        /// Its answer.
        result: Result<Payload, AskFailure>,
    },
    /// An entity has failed and is not made anew; [`EntityReport::Stopped`] follows. Whoever watches it hears of that. One that stops
    /// without this and was not told to is taken for one that wanted to; one that was told to (its shard moves, it is passivated)
    /// has not ended. Says nothing of a singleton's instance.
    Failed {
        /// Its slot.
        slot: Slot,
    },
    /// An entity has stopped and nothing of it runs any more. Messages that were in its mailbox were answered or
    /// reported before.
    Stopped {
        /// Its slot.
        slot: Slot,
    },
    /// An entity wants to be passivated: to be told to stop when it has handled what was delivered so far, so that what comes
    /// later waits for its next incarnation. Answered with [`EntityOrder::Stop`], or not at all if it stops anyway or messages
    /// wait for it already.
    Passivate {
        /// Its slot.
        slot: Slot,
    },
    /// An entity ends because it wants to; [`EntityReport::Stopped`] follows, and whoever watches it hears of that. A kind that remembers
    /// its entities starts it again after [`entity_restart_backoff`](crate::config::ShardingConfig::entity_restart_backoff), or with its
    /// next message. Says nothing of a singleton's instance.
    Ending {
        /// Its slot.
        slot: Slot,
        /// It is to be forgotten instead: its next message is a first one. Without meaning in a kind that remembers nobody.
        forget: bool,
    },
    /// An entity has failed, and what it failed over concerns the others of its shard too: all of them are stopped at once
    /// ([`EntityOrder::Kill`]), and start anew with their next messages. Says nothing of a singleton's instance.
    Escalated {
        /// Its slot.
        slot: Slot,
    },
    /// A delivery was refused by the entity's mailbox.
    Refused {
        /// Its slot.
        slot: Slot,
        /// The ask, if it was one.
        ask: Option<AskRef>,
        /// Why.
        reason: AskFailure,
    },
}
