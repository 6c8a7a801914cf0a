//! Decide, store, apply, tell: a home that was chosen counts as the region's at once, and is hosted and told
//! only when the choice is stored. Nothing is acted on that another coordinator would not find. What takes a
//! home away waits for nobody: a store that knows a home too long gives the shard back to a region that does
//! not run it, and never to two. Spec: sharding 1.1, 10.16.

use alloc::vec::Vec;

use super::Coordinator;
use super::record::PlacedHome;
use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::sharding::Cx;
use crate::sharding::state::ids::ShardId;

impl Coordinator {
    /// Chooses a home for a shard that has none.
    pub(super) fn choose_home(&mut self, shard: ShardId, node: &UniqueAddress) {
        if let Some(region) = self.regions.get_mut(node) {
            region.shards.push(shard);
            let (node, token) = (node.clone(), self.tokens.give());
            self.places.choose(shard, PlacedHome { node, token });
            self.ledger.note(shard);
        }
    }

    /// Takes a choice back, which nobody has heard of. Whether there was one.
    pub(super) fn drop_choice(&mut self, shard: ShardId) -> bool {
        let Some(home) = self.places.drop_choice(shard) else {
            return false;
        };
        if let Some(region) = self.regions.get_mut(&home) {
            region.drop_shard(shard);
        }
        self.ledger.note(shard);
        true
    }

    /// Has stored what was decided, one write at a time, and acts on what is. Nothing outlives a coordinator
    /// that keeps its state in memory, so there everything is as good as stored.
    pub(super) fn store(&mut self, cx: &mut Cx<'_>) {
        self.write(cx);
        self.apply_stored(cx);
    }

    /// Acts on the choices that are stored. Where the region has been lost or wants to be emptied since,
    /// another one is chosen.
    fn apply_stored(&mut self, cx: &mut Cx<'_>) {
        self.tell_renewed(cx);
        if !self.is_active() || self.paused {
            return;
        }
        let chosen = self.places.all_chosen();
        let stored: Vec<(ShardId, PlacedHome)> = chosen
            .filter(|(shard, at)| self.ledger.holds(*shard, at))
            .map(|(shard, at)| (shard, at.clone()))
            .collect();
        let mut void = false;
        for (shard, at) in stored {
            if self.may_host(cx, &at.node) {
                self.apply_home(cx, shard, at);
            } else {
                self.drop_choice(shard);
                self.homeless.insert(shard);
                void = true;
            }
        }
        if void {
            self.allocate_some(cx);
        }
    }

    /// A stored choice becomes the home: the region hosts it, and who waits for it is told when it says so.
    fn apply_home(&mut self, cx: &mut Cx<'_>, shard: ShardId, at: PlacedHome) {
        let home = at.node.clone();
        self.places.live_at(shard, at);
        self.note_allocated(cx, shard, &home);
        cx.counters().shards_allocated += 1;
        let event = ShardingEvent::ShardAllocated {
            shard,
            home: home.clone(),
        };
        self.notify(cx, event);
        self.host(cx, shard, &home);
    }
}
