//! Who watches the entities of this node's shards. Stays when an entity is passivated, ends with the entity,
//! and goes with the shard. Sends nothing. Spec: sharding 1.17.

use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::protocol::watch::WatchId;
use crate::sharding::state::ids::{EntityId, KindId, ShardId};

/// Watches of all peers together that one node keeps: some ten megabytes with usual ids. Beyond it new ones
/// are refused.
const HELD_MAX: usize = 65_536;

/// A watch of a node.
pub(super) type Watcher = (UniqueAddress, WatchId);

type Watched = OrderedMap<EntityId, OrderedSet<Watcher>>;

/// The table.
#[derive(Clone, Debug, Default)]
pub(super) struct WatcherTable {
    shards: OrderedMap<(KindId, ShardId), Watched>,
    watchers: OrderedMap<Watcher, (KindId, ShardId, EntityId)>,
}

impl WatcherTable {
    /// Whether somebody watches this entity.
    pub(super) fn has(&self, kind: KindId, shard: ShardId, entity: &EntityId) -> bool {
        let shard = self.shards.get(&(kind, shard));
        shard.is_some_and(|watched| watched.contains_key(entity))
    }

    /// Keeps one more; `false` if there are too many.
    pub(super) fn add(
        &mut self,
        watcher: Watcher,
        (kind, shard, entity): (KindId, ShardId, EntityId),
        per_entity_max: usize,
    ) -> bool {
        self.remove(&watcher);
        let watched = self.shards.get(&(kind, shard));
        let same = watched.and_then(|watched| watched.get(&entity));
        if self.watchers.len() >= HELD_MAX || same.is_some_and(|same| same.len() >= per_entity_max) {
            return false;
        }
        let watched = self.shards.entry((kind, shard)).or_default();
        watched.entry(entity.clone()).or_default().insert(watcher.clone());
        self.watchers.insert(watcher, (kind, shard, entity));
        true
    }

    /// It is watched no more.
    pub(super) fn remove(&mut self, watcher: &Watcher) {
        let Some((kind, shard, entity)) = self.watchers.remove(watcher) else {
            return;
        };
        let Some(watched) = self.shards.get_mut(&(kind, shard)) else {
            return;
        };
        if let Some(same) = watched.get_mut(&entity) {
            same.remove(watcher);
            if same.is_empty() {
                watched.remove(&entity);
            }
        }
        if watched.is_empty() {
            self.shards.remove(&(kind, shard));
        }
    }

    /// Everybody who watches this entity; none of them does any more.
    pub(super) fn take_entity(&mut self, kind: KindId, shard: ShardId, entity: &EntityId) -> Vec<Watcher> {
        let watched = self.shards.get(&(kind, shard));
        let all = watched.and_then(|watched| watched.get(entity));
        let all: Vec<Watcher> = all.into_iter().flatten().cloned().collect();
        for watcher in &all {
            self.remove(watcher);
        }
        all
    }

    /// Everybody who watches an entity of this shard; none of them does any more.
    pub(super) fn take_shard(&mut self, kind: KindId, shard: ShardId) -> Vec<Watcher> {
        let watched = self.shards.remove(&(kind, shard)).unwrap_or_default();
        let all: Vec<Watcher> = watched.into_values().flatten().collect();
        for watcher in &all {
            self.watchers.remove(watcher);
        }
        all
    }

    /// A node is no member any more.
    pub(super) fn forget(&mut self, node: &UniqueAddress) {
        let of_node = self.watchers.keys().filter(|(of, _)| of == node);
        for watcher in of_node.cloned().collect::<Vec<_>>() {
            self.remove(&watcher);
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.watchers.len()
    }

    /// What must hold between the calls.
    pub(super) fn is_sound(&self) -> bool {
        let watched = || self.shards.values().flat_map(OrderedMap::values);
        let count: usize = watched().map(OrderedSet::len).sum();
        count == self.watchers.len()
            && watched().all(|same| !same.is_empty())
            && self.shards.values().all(|watched| !watched.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::node;

    #[test]
    fn two_tables_that_disagree_are_not_sound() {
        let mut held = WatcherTable::default();
        let (kind, entity) = (KindId::of("files"), EntityId::from("e"));
        assert!(held.add((node("a", 1), 7), (kind, ShardId(3), entity), 10));
        assert!(held.is_sound());
        held.watchers.clear();
        assert!(!held.is_sound());
    }
}
