//! What the coordinator says about homes, and what the region makes of it. A home on a lost member is not
//! believed; a home elsewhere for a shard that runs here stops it here first. Spec: sharding 1.3 (coordinator
//! messages).

use alloc::vec::Vec;

use super::ShardRegion;
use super::home::HandOffReport;
use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::reject::ShardingRejection;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::shard::ShardStop;
use crate::sharding::state::ids::{ShardId, Term};

impl ShardRegion {
    /// Shards live there.
    pub(crate) fn on_shard_homes(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        term: Term,
        homes: Vec<(UniqueAddress, Vec<ShardId>)>,
    ) {
        if !self.accept(shared.cx, from, &term) {
            return;
        }
        self.contact.nobody_hosts &= homes.is_empty();
        for (node, shards) in homes {
            let is_lost = node != *shared.cx.me() && shared.cx.view().is_lost(&node);
            for shard in shards {
                if !self.kind.has(shard) {
                    shared.cx.reject(from, ShardingRejection::NO_SHARD);
                } else if !is_lost {
                    self.learn(shared, from, &term, shard, &node);
                }
            }
        }
        self.flush(shared);
        self.answer_if_moved(shared);
    }

    /// A shard will move: forget its home. Its messages are buffered from here on; what others send for it is
    /// delivered as long as it runs here. Answered when everything that this region sent there has arrived.
    pub(crate) fn on_begin_hand_off(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        term: Term,
        (shard, number): (ShardId, u64),
    ) {
        if !self.accept_for(shared, from, &term, shard) {
            return;
        }
        self.forget_home(shared.cx, shard);
        self.shards.take_wanted(shard);
        self.report_when_acknowledged(shared.cx, shard, HandOffReport { term, number });
        if self.buffers.has(shard) {
            self.ask_home(shared.cx, shard);
        }
    }

    pub(super) fn accept_for(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        term: &Term,
        shard: ShardId,
    ) -> bool {
        if !self.accept(shared.cx, from, term) {
            return false;
        }
        let legal = self.kind.has(shard);
        if !legal {
            shared.cx.reject(from, ShardingRejection::NO_SHARD);
        }
        legal
    }

    fn learn(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        term: &Term,
        shard: ShardId,
        node: &UniqueAddress,
    ) {
        if node == shared.cx.me() {
            self.is_home(shared, from, term, shard);
            return;
        }
        self.shards.forget_token(shard);
        if self.shards.hosted(shard).is_some_and(|here| !here.is_stopping()) {
            self.notify(shared.cx, ShardingEvent::ShardConflict { shard });
            self.forget_home(shared.cx, shard);
            self.hand_back_foreign(shared, shard);
            return self.stop_shard(shared, shard, ShardStop::default());
        }
        self.set_home(shared.cx, shard, node.clone());
        self.retirement.has_home(shard);
        self.sought.remove(&shard);
        if self.buffers.has(shard) {
            self.flushing.insert(shard);
        }
    }
}
