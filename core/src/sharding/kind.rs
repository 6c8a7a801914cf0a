//! What a node knows about an entity kind before anything happens: its name, shards, role, and who may
//! coordinate it. Spec: sharding 1.0, 1.3 (registration).

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::config::{DowningStrategy, ShardingConfig};
use crate::ident::UniqueAddress;
use crate::input::KindSettings;
use crate::oldest::state::candidates;
use crate::sharding::state::fields::{KindFields, KindKeeping, StoreMode};
use crate::sharding::state::ids::{EntityId, KindId, SHARDS_MAX, ShardId};
use crate::view::View;

/// A registered kind. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct RegisteredKind {
    pub(crate) id: KindId,
    pub(crate) settings: KindSettings,
    /// The node's settings of sharding with the kind's own in their places: what its machines go by.
    pub(crate) config: Arc<ShardingConfig>,
    /// The downing strategy, if it lets both sides of a partition run the kind's entities that this node
    /// hosts.
    pub(crate) may_run_twice: Option<&'static str>,
}

impl RegisteredKind {
    /// The kind of these settings, on a node with these settings of sharding, in a cluster with this downing
    /// strategy. A lease per shard keeps one of two sides from hosting; a proxy runs nothing, and is not
    /// asked whether the kind has leases.
    pub(crate) fn new(
        id: KindId,
        settings: KindSettings,
        node: &ShardingConfig,
        downing: &DowningStrategy,
    ) -> Self {
        let may_run_twice = settings.hosts && !settings.lease && downing.lets_both_sides_go_on();
        Self {
            id,
            config: Arc::new(settings.config.over(node)),
            settings,
            may_run_twice: may_run_twice.then(|| downing.name()),
        }
    }

    /// Whether the kind has such a shard; one that remembers its entities may have had more once, whose
    /// entities have to be found.
    pub(crate) const fn has(&self, shard: ShardId) -> bool {
        let shards = match self.settings.remember_entities {
            Some(_) => SHARDS_MAX,
            None => self.settings.shards,
        };
        shard.0 < shards
    }

    /// The shard of an entity.
    pub(crate) fn shard_of(&self, entity: &EntityId) -> ShardId {
        self.settings.extractor.shard_of(entity, self.settings.shards)
    }

    /// Members that run the coordinator now or will soon, oldest first.
    pub(crate) fn coordinator_candidates(&self, view: &View) -> Vec<UniqueAddress> {
        candidates(view, self.settings.role.as_ref())
    }
}

impl KindFields {
    /// The fields of a user's kind, as it was registered: what the user left open is what the configuration
    /// said then. What users cannot choose yet has its only value.
    pub(crate) fn of(settings: &KindSettings) -> Self {
        Self {
            name: Arc::clone(&settings.name),
            role: settings.role.clone(),
            shards: settings.shards,
            extractor: Arc::from(settings.extractor.name()),
            keeping: settings.hosts.then_some(KindKeeping {
                remember_entities: settings.remember_entities,
                store: settings.store_mode.unwrap_or(StoreMode::Memory),
                lease: settings.lease,
            }),
        }
    }
}
