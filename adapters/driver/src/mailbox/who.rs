//! Who runs: an entity of a kind, or an instance of a singleton or a path. Names only.

use std::fmt;
use std::sync::{Arc, Mutex};

use quorate_core::effect::PlacementToken;
use quorate_core::paths::protocol::PathPick;
use quorate_core::paths::state::name::PathId;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{EntityId, KindId, ShardId};
use quorate_core::singleton::state::SingletonId;
use quorate_core::token::Token;

use crate::sync::lock;
use quorate_core::input::Recipient;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    /// Of the kind, of the singleton, or of the path.
    name: Arc<str>,
    id: EntityId,
    place: HostedAt,
}

#[derive(Clone, Debug)]
enum HostedAt {
    Shard(ShardId, PlacementToken),
    Singleton(Token),
    Path(Arc<PathSeat>),
}

/// Which instance of a path it is, and for what below the path the present message is.
#[derive(Debug)]
struct PathSeat {
    path: PathId,
    slot: u16,
    token: Token,
    below: Mutex<Option<Arc<str>>>,
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

    /// An instance of a path.
    pub(crate) fn path(name: Arc<str>, slot: u16, token: Token) -> Self {
        let seat = PathSeat {
            path: PathId::of(&name),
            slot,
            token,
            below: Mutex::default(),
        };
        Self {
            id: EntityId::new(format!("{name}#{slot}").as_bytes()),
            name,
            place: HostedAt::Path(Arc::new(seat)),
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
            HostedAt::Singleton(_) | HostedAt::Path(_) => ShardId(0),
        }
    }

    pub(crate) fn token(&self) -> Token {
        match &self.place {
            HostedAt::Shard(_, token) => token.token,
            HostedAt::Singleton(token) => *token,
            HostedAt::Path(seat) => seat.token,
        }
    }

    /// The token of its shard's placement, if that is above all earlier ones for good.
    pub(crate) fn placement(&self) -> Option<Token> {
        match self.place {
            HostedAt::Shard(_, token) => token.stored(),
            HostedAt::Singleton(_) | HostedAt::Path(_) => None,
        }
    }

    /// Whether it is one of many of a kind.
    pub(crate) const fn is_entity(&self) -> bool {
        match self.place {
            HostedAt::Shard(..) => true,
            HostedAt::Singleton(_) | HostedAt::Path(_) => false,
        }
    }

    /// Its slot, if it is an instance of a path.
    pub(crate) fn path_slot(&self) -> Option<u16> {
        match &self.place {
            HostedAt::Path(seat) => Some(seat.slot),
            HostedAt::Shard(..) | HostedAt::Singleton(_) => None,
        }
    }

    /// What the present message is for below its path, if that is the top of a subtree.
    pub(crate) fn below(&self) -> Option<Arc<str>> {
        match &self.place {
            HostedAt::Path(seat) => lock(&seat.below).clone(),
            HostedAt::Shard(..) | HostedAt::Singleton(_) => None,
        }
    }

    /// The next message is for this below its path.
    pub(crate) fn set_below(&self, below: Option<&str>) {
        if let HostedAt::Path(seat) = &self.place {
            let mut present = lock(&seat.below);
            if present.as_deref() != below {
                *present = below.map(Arc::from);
            }
        }
    }

    /// Its name among those who wait for an answer.
    pub(crate) fn chain_name(&self) -> u64 {
        match &self.place {
            HostedAt::Shard(..) => AskChain::entity(KindId::of(&self.name), &self.id),
            HostedAt::Singleton(_) => Recipient::Singleton(SingletonId::of(&self.name)).chain_name(),
            HostedAt::Path(seat) => Recipient::Path(seat.path, PathPick::Slot(seat.slot)).chain_name(),
        }
    }

    /// Whether messages to this recipient are for it.
    pub(crate) fn is(&self, recipient: &Recipient) -> bool {
        match (&self.place, recipient) {
            (HostedAt::Shard(..), Recipient::Entity(kind, id)) => {
                *kind == KindId::of(&self.name) && *id == self.id
            }
            (HostedAt::Singleton(_), Recipient::Singleton(singleton)) => {
                *singleton == SingletonId::of(&self.name)
            }
            (HostedAt::Path(seat), Recipient::Path(path, pick)) => {
                *path == seat.path && *pick == PathPick::Slot(seat.slot)
            }
            (HostedAt::Shard(..), Recipient::Singleton(_) | Recipient::Path(..))
            | (HostedAt::Singleton(_), Recipient::Entity(..) | Recipient::Path(..))
            | (HostedAt::Path(_), Recipient::Entity(..) | Recipient::Singleton(_)) => false,
        }
    }
}

/// As in logs: `kind/shard/id`, `name@token`, `path/name#slot@token`.
impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.escape_debug();
        match &self.place {
            HostedAt::Shard(shard, _) => write!(f, "{name}/{}/{}", shard.0, self.id),
            HostedAt::Singleton(token) => write!(f, "{name}@{token}"),
            HostedAt::Path(seat) => write!(f, "path/{name}#{}@{}", seat.slot, seat.token),
        }
    }
}
