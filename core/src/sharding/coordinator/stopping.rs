//! Shards that users want stopped: each is handed off and given no new home before a message needs one, and
//! who asked hears so. Decides nothing about homes. Spec: sharding 1.1 (StopShards).

use alloc::vec::Vec;

use super::Coordinator;
use super::hand_off::DRAINING_MAX;
use crate::ident::UniqueAddress;
use crate::message::ShardingBody;
use crate::reject::ShardingRejection;
use crate::sharding::Cx;
use crate::sharding::protocol::stop::{StopMsg, StopRefusal};
use crate::sharding::state::ids::ShardId;

impl Coordinator {
    /// A region's user wants shards stopped. Those that have no home are acknowledged at once; the region
    /// asks again about the others until they are.
    pub(crate) fn on_stop_shards(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, shards: Vec<ShardId>) {
        if !self.is_active() || self.paused || !self.regions.contains_key(from) {
            return;
        }
        if shards.iter().any(|shard| !self.kind.has(*shard)) {
            return cx.reject(from, ShardingRejection::NO_SHARD);
        }
        let why = if self.remembered.is_some() {
            Some(StopRefusal::Remembers)
        } else if cx.view().is_shutting_down() {
            Some(StopRefusal::ShuttingDown)
        } else {
            None
        };
        if let Some(why) = why {
            return self.say(cx, from, ShardingBody::Stop(StopMsg::Refused { why }));
        }
        let mut stopped = Vec::new();
        for shard in shards {
            if self.places.has_home(shard) {
                self.stop_waiters.entry(shard).or_default().insert(from.clone());
            } else if !self.places.is_chosen(shard) {
                stopped.push(shard);
            }
        }
        if !stopped.is_empty() {
            self.say(cx, from, ShardingBody::Stop(StopMsg::Stopped { shards: stopped }));
        }
        self.stop_some(cx);
    }

    /// Begins the next hand-offs of shards that are to stop, as long as not too many are under way.
    pub(super) fn stop_some(&mut self, cx: &mut Cx<'_>) {
        if self.stop_waiters.is_empty() || !self.is_active() || self.paused || !self.unheard.is_empty() {
            return;
        }
        let room = DRAINING_MAX.saturating_sub(self.hand_offs.len());
        let is_next = |shard: &&ShardId| self.places.has_home(**shard) && !self.hand_offs.contains_key(shard);
        let next: Vec<ShardId> = self
            .stop_waiters
            .keys()
            .filter(is_next)
            .take(room)
            .copied()
            .collect();
        for shard in next {
            self.begin_hand_off(cx, shard);
        }
    }

    /// A shard has stopped and has no home any more: who wanted that hears so. Whether it is to have another
    /// home at once.
    pub(super) fn say_stopped(&mut self, cx: &mut Cx<'_>, shard: ShardId) -> bool {
        let Some(waiters) = self.stop_waiters.remove(&shard) else {
            return true;
        };
        cx.counters().shards_stopped_by_command += 1;
        for to in waiters {
            let shards = alloc::vec![shard];
            self.say(cx, &to, ShardingBody::Stop(StopMsg::Stopped { shards }));
        }
        // What a message needs begins again.
        self.requesters.contains_key(&shard)
    }
}
