//! Users' messages in words: whom one is for, what travels with an ask, and what the host of entities and of
//! instances is told and says. Types only. Spec: sharding 1.4, 1.10, 10.2, 10.5.

mod ask;
mod host;

use core::time::Duration;

pub use ask::{AskReply, AskTicket};
pub use host::{HostOrder, HostReport, HostedInstance};

use crate::paths::state::name::PathId;
use crate::paths::state::settings::PathPick;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::ids::{EntityId, KindId, Payload};
use crate::singleton::state::SingletonId;

/// Whom a message is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// An entity of a kind.
    Entity(KindId, EntityId),
    /// A singleton.
    Singleton(SingletonId),
    /// An instance of a path.
    Path(PathId, PathPick),
}

impl Recipient {
    /// Its name among those who wait for an answer.
    #[must_use]
    pub fn chain_name(&self) -> u64 {
        match self {
            Self::Entity(kind, id) => AskChain::entity(*kind, id),
            // A kind of the same name has entities with an id; a singleton has none.
            Self::Singleton(singleton) => {
                AskChain::entity(KindId::from_raw(singleton.raw()), &EntityId::new(&[]))
            }
            // One that the path's router chooses is not known here: it has the name of no instance.
            Self::Path(path, pick) => {
                let slot = match pick {
                    PathPick::Slot(slot) => *slot,
                    PathPick::Routed | PathPick::Hash(_) | PathPick::Every => u16::MAX,
                };
                // A kind or singleton of the same name is another one.
                let kind = KindId::from_raw(!path.raw());
                AskChain::entity(kind, &EntityId::new(&slot.to_le_bytes()))
            }
        }
    }
}

/// A message of a caller who waits for what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A message with an answer. Answered with [`Answer::Asked`](crate::effect::Answer::Asked), exactly once.
    Ask {
        /// Whom it is for.
        to: Recipient,
        /// The bytes.
        payload: Payload,
        /// How long to wait (1 ms to 24 h; clamped).
        timeout: Duration,
        /// Whose handlers wait for the answer: that of the host's own, if one of its handlers asks.
        chain: AskChain,
    },
    /// A message without an answer, of a caller who wants to hear when it was taken. To an entity: at once,
    /// unless it would be beyond what the region may buffer; then when there is room. The way of callers who
    /// heard [`BufferFull`](crate::event::ShardingEvent::BufferFull);
    /// [`Input::Tell`](crate::input::Input::Tell) is the fast one. To a singleton: at once, or refused with
    /// [`NotAccepted`](crate::effect::SingletonCommandError::NotAccepted).
    Tell {
        /// Whom it is for.
        to: Recipient,
        /// The bytes.
        payload: Payload,
    },
}
