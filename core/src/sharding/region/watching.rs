//! What those who watch entities ask of a region: what runs here, what has gone, where a shard lives. Decides
//! nothing about watches. Spec: sharding 1.17.

use super::ShardRegion;
use crate::ident::UniqueAddress;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::state::ids::{EntityId, ShardId};

impl ShardRegion {
    /// Whether an entity runs here, or is remembered and will; `None` if its shard does not.
    pub(crate) fn runs(&self, shard: ShardId, entity: &EntityId) -> Option<bool> {
        let here = self.shards.running(shard)?;
        Some(here.runs_or_will(entity))
    }

    /// Whether an entity runs here and nobody has told it to stop.
    pub(crate) fn is_wanted(&self, shard: ShardId, entity: &EntityId) -> bool {
        let here = self.shards.running(shard);
        here.is_some_and(|here| here.runs_or_will(entity) && !here.holds_back(entity))
    }

    /// Shards that have stopped here, since this was asked last.
    pub(crate) fn take_ended(&mut self) -> impl Iterator<Item = ShardId> + use<> {
        core::mem::take(&mut self.ended).into_iter()
    }

    /// Where a shard lives, as far as this region knows.
    pub(crate) fn home_of(&self, shard: ShardId) -> Option<&UniqueAddress> {
        self.shards.home(shard)
    }

    /// Asks where a shard lives, until that is known.
    pub(crate) fn seek(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        if self.sought.insert(shard) {
            self.ask_home(shared.cx, shard);
        }
    }

    /// A node that was taken for a shard's home says that it is not. Asked for again at once, or with the
    /// next retry.
    pub(crate) fn is_not_home(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        shard: ShardId,
        node: &UniqueAddress,
        at_once: bool,
    ) {
        if node != shared.cx.me() && self.home_of(shard) == Some(node) {
            self.forget_home(shared.cx, shard);
        }
        if at_once {
            self.sought.remove(&shard);
        } else if !self.shards.has_home(shard) {
            self.sought.insert(shard);
            self.rearm_retry(shared.cx);
        }
    }
}
