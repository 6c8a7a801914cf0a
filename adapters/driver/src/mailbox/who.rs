//! Who runs: an entity of a kind, or an instance of a singleton. Names only.

use std::fmt;
use std::sync::Arc;

use quorate_core::effect::PlacementToken;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{EntityId, KindId, ShardId};
use quorate_core::singleton::state::SingletonId;
use quorate_core::token::Token;

use quorate_core::input::Recipient;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    /// Of the kind, or of the singleton.
    name: Arc<str>,
    id: EntityId,
    place: HostedAt,
}

#[derive(Clone, Copy, Debug)]
enum HostedAt {
    Shard(ShardId, PlacementToken),
    Singleton(Token),
}

impl Who {
    /// An entity of a kind.
    pub(crate) const fn entity(
        kind: Arc<str>,
        (shard, token): (ShardId, PlacementToken),
        id: EntityId,
    ) -> Self {
        Self {
            name: kind,
            id,
            place: HostedAt::Shard(shard, token),
        }
    }

    /// An instance of a singleton.
    pub(crate) fn singleton(name: Arc<str>, token: Token) -> Self {
        Self {
            id: EntityId::new(name.as_bytes()),
            name,
            place: HostedAt::Singleton(token),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn id(&self) -> &EntityId {
        &self.id
    }

    pub(crate) const fn shard(&self) -> ShardId {
        match self.place {
            HostedAt::Shard(shard, _) => shard,
            HostedAt::Singleton(_) => ShardId(0),
        }
    }

    pub(crate) const fn token(&self) -> Token {
        match self.place {
            HostedAt::Shard(_, token) => token.token,
            HostedAt::Singleton(token) => token,
        }
    }

    /// The token of its shard's placement, if that is above all earlier ones for good.
    pub(crate) fn placement(&self) -> Option<Token> {
        match self.place {
            HostedAt::Shard(_, token) => token.stored(),
            HostedAt::Singleton(_) => None,
        }
    }

    pub(crate) const fn is_singleton(&self) -> bool {
        match self.place {
            HostedAt::Shard(..) => false,
            HostedAt::Singleton(_) => true,
        }
    }

    /// Its name among those who wait for an answer.
    pub(crate) fn chain_name(&self) -> u64 {
        match self.place {
            HostedAt::Shard(..) => AskChain::entity(KindId::of(&self.name), &self.id),
            HostedAt::Singleton(_) => Recipient::Singleton(SingletonId::of(&self.name)).chain_name(),
        }
    }

    /// Whether messages to this recipient are for it.
    pub(crate) fn is(&self, recipient: &Recipient) -> bool {
        match (self.place, recipient) {
            (HostedAt::Shard(..), Recipient::Entity(kind, id)) => {
                *kind == KindId::of(&self.name) && *id == self.id
            }
            (HostedAt::Singleton(_), Recipient::Singleton(singleton)) => {
                *singleton == SingletonId::of(&self.name)
            }
            (HostedAt::Shard(..), Recipient::Singleton(_))
            | (HostedAt::Singleton(_), Recipient::Entity(..)) => false,
        }
    }
}

/// As in logs: `kind/shard/id`, `name@token`.
impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.escape_debug();
        match self.place {
            HostedAt::Shard(shard, _) => write!(f, "{name}/{}/{}", shard.0, self.id),
            HostedAt::Singleton(token) => write!(f, "{name}@{token}"),
        }
    }
}
