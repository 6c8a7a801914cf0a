//! Regions that are gone. The shards of a member that was cut off may move only after its removal and the
//! margin; those of one that stopped in good order at once. Spec: sharding 1.1 (termination), 10.1, pitfalls
//! P-1, P-11, P-12.

use alloc::vec::Vec;

use super::Coordinator;
use crate::ident::UniqueAddress;
use crate::sharding::Cx;
use crate::timer::CoordinatorTimer;

impl Coordinator {
    /// A region has stopped in good order and runs nothing.
    pub(crate) fn on_region_stopped(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress) {
        if self.term().is_none() || cx.view().member(from).is_none() {
            return;
        }
        self.release(cx, from);
        self.without_region.insert(from.clone());
        self.try_activate(cx);
    }

    /// Looks whose members are Down or removed.
    pub(super) fn notice_losses(&mut self, cx: &mut Cx<'_>) {
        let gone: Vec<UniqueAddress> = self
            .regions
            .keys()
            .filter(|node| cx.view().is_lost(node) || cx.view().member(node).is_none())
            .cloned()
            .collect();
        let silent: Vec<UniqueAddress> = self
            .unheard
            .iter()
            .filter(|node| cx.view().is_lost(node) || cx.view().member(node).is_none())
            .cloned()
            .collect();
        for node in silent {
            self.heard(cx, &node);
        }
        for node in gone {
            self.lose(cx, &node);
            if cx.view().member(&node).is_none() {
                self.on_margin_passed(cx, &node);
            }
        }
    }

    /// Frees the shards of a removed member's region, or waits for the margin.
    pub(super) fn on_margin_passed(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        let safe_at = cx.succession().departures().safe_at_of(node);
        if safe_at > cx.mono() {
            let timer = self.timer(CoordinatorTimer::RegionLost(node.clone()));
            cx.wake(timer, safe_at);
            return;
        }
        self.release(cx, node);
    }

    /// Nothing is sent to a lost region, nobody waits for its answers, and its homes are not told.
    fn lose(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        let Some(region) = self.regions.get_mut(node) else {
            return;
        };
        if core::mem::replace(&mut region.lost, true) {
            return;
        }
        for waiting in [&mut self.requesters, &mut self.stop_waiters] {
            for asking in waiting.values_mut() {
                asking.remove(node);
            }
            waiting.retain(|_, asking| !asking.is_empty());
        }
        self.stop_waiting_for(cx, node);
    }

    /// Nothing of this region runs any more: its shards get new homes at once, so that their next message is
    /// fast.
    fn release(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        self.lose(cx, node);
        cx.cancel(self.timer(CoordinatorTimer::RegionLost(node.clone())));
        self.release_shards_of(cx, node);
        self.regions.remove(node);
    }

    /// Nothing runs in a region that gets nothing new: it is lost, or says that it hosts no more.
    pub(super) fn release_shards_of(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        self.owner_is_gone(cx, node);
        let Some(region) = self.regions.get(node) else {
            return;
        };
        // A conflict's other owners still have to stop; their hand-off ends it.
        let shards: Vec<_> = region.shards.clone();
        for shard in &shards {
            self.clear_home(cx, *shard);
        }
        if self.is_active() && !shards.is_empty() {
            for shard in shards {
                if !self.hand_offs.contains_key(&shard) && self.say_stopped(cx, shard) {
                    self.homeless.insert(shard);
                }
            }
            self.allocate_some(cx);
        }
        self.store(cx);
    }
}
