//! What the host of entities, and of instances of singletons and paths, is told to do, and what it says of
//! them. Types only. Spec: sharding 1.4, 1.10, 10.5.

use crate::paths::state::name::PathId;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{AskRef, EntityId, KindId, Payload, ShardId, Slot};
use crate::sharding::state::placement::PlacementToken;
use crate::singleton::state::SingletonId;
use crate::time::Instant;
use crate::token::Token;

/// What is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostedInstance {
    /// An entity.
    Entity {
        /// Its kind.
        kind: KindId,
        /// Its shard.
        shard: ShardId,
        /// Its id.
        entity: EntityId,
        /// The fencing token of its shard's placement.
        token: PlacementToken,
    },
    /// An instance of a singleton. Its slot's index belongs to the singleton, the generation to the instance.
    Singleton {
        /// Which singleton.
        singleton: SingletonId,
        /// Its fencing token, for the user's code.
        token: Token,
    },
    /// An instance of a path. Answered with [`HostReport::Running`].
    Path {
        /// Which path.
        path: PathId,
        /// Which of its instances.
        slot: u16,
        /// Its fencing token, for the user's code.
        token: Token,
        /// What the instance before it left to it, on another node.
        state: Option<Payload>,
    },
}

/// What the host does with entities and with instances of singletons and paths. Orders for one slot keep
/// their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostOrder {
    /// Start it in this slot.
    Start {
        /// Where.
        slot: Slot,
        /// What.
        instance: HostedInstance,
    },
    /// Put a message into the mailbox of what runs in this slot.
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
    /// Stop it once it has handled what is in its mailbox, then report `Stopped`.
    Stop {
        /// Where.
        slot: Slot,
    },
    /// Stop it once it has handled what is in its mailbox, report its state ([`HostReport::State`]), then
    /// `Stopped`. Only to instances of paths.
    StopWithState {
        /// Where.
        slot: Slot,
    },
    /// Stop it now, dropping its mailbox (asks in it are answered `EntityStoppedUnhandled`), then report
    /// `Stopped`.
    Kill {
        /// Where.
        slot: Slot,
    },
}

impl HostOrder {
    /// The slot that it is about.
    #[must_use]
    pub const fn slot(&self) -> Slot {
        match self {
            Self::Start { slot, .. }
            | Self::Deliver { slot, .. }
            | Self::Stop { slot }
            | Self::StopWithState { slot }
            | Self::Kill { slot } => *slot,
        }
    }
}

/// What the host says of what runs there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostReport {
    /// An ask was answered, or its recipient failed to.
    Answered {
        /// The ask.
        ask: AskRef,
        /// Its answer.
        result: Result<Payload, AskFailure>,
    },
    /// An entity has failed and is not restarted; [`HostReport::Stopped`] follows. Whoever watches it hears
    /// of that. One that stops without this and was not told to is taken for one that wanted to; one that was
    /// told to (its shard moves, it is passivated) has not ended. Says nothing of a singleton's instance.
    Failed {
        /// Its slot.
        slot: Slot,
    },
    /// An entity or instance has stopped and nothing of it runs any more. Messages that were in its mailbox
    /// were answered or reported before.
    Stopped {
        /// Its slot.
        slot: Slot,
    },
    /// An entity wants to be passivated: to be told to stop when it has handled what was delivered so far, so
    /// that what comes later waits for its next incarnation. Answered with [`HostOrder::Stop`], or not at all
    /// if it stops anyway or messages wait for it already.
    Passivate {
        /// Its slot.
        slot: Slot,
    },
    /// An entity ends because it wants to; [`HostReport::Stopped`] follows, and whoever watches it hears of
    /// that. A kind that remembers its entities starts it again after
    /// [`entity_restart_backoff`](crate::config::ShardingConfig::entity_restart_backoff), or with its next
    /// message. Says nothing of a singleton's instance.
    Ending {
        /// Its slot.
        slot: Slot,
        /// It is to be forgotten instead: its next message is a first one. Without meaning in a kind that
        /// remembers nobody.
        forget: bool,
    },
    /// An entity has failed, and what it failed over concerns the others of its shard too: all of them are
    /// stopped at once ([`HostOrder::Kill`]), and start anew with their next messages. Says nothing of a
    /// singleton's instance.
    Escalated {
        /// Its slot.
        slot: Slot,
    },
    /// An instance of a path runs: it has been made, and has taken the state it was given.
    Running {
        /// Its slot.
        slot: Slot,
    },
    /// The state of an instance of a path, as it was told to leave one; [`HostReport::Stopped`] follows.
    State {
        /// Its slot.
        slot: Slot,
        /// The state.
        state: Payload,
    },
    /// A delivery was refused by the mailbox.
    Refused {
        /// Its slot.
        slot: Slot,
        /// The ask, if it was one.
        ask: Option<AskRef>,
        /// Why.
        reason: AskFailure,
    },
}
