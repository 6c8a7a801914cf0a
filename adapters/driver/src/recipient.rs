//! Whom a message is for. Names only.

use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_core::singleton::state::SingletonId;

/// Whom a message is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Recipient {
    Entity(KindId, EntityId),
    Singleton(SingletonId),
}

impl Recipient {
    /// Its name among those who wait for an answer.
    pub(crate) fn chain_name(&self) -> u64 {
        match self {
            Self::Entity(kind, id) => AskChain::entity(*kind, id),
            // A kind of the same name has entities with an id; a singleton has none.
            Self::Singleton(singleton) => {
                AskChain::entity(KindId::from_raw(singleton.raw()), &EntityId::new(&[]))
            }
        }
    }
}
