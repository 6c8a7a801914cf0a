//! Which shards move for balance: when it is looked at, and what has to be so. Never moves anything itself;
//! `hand_off` does. Spec: sharding 1.7, 10.12.

use super::Coordinator;
use crate::ordered::OrderedSet;
use crate::sharding::Cx;
use crate::sharding::allocation::{AllocationSettings, is_good_time, neighbours};
use crate::sharding::state::ids::ShardId;
use crate::sharding::state::wish::WishObstacle;
use crate::timer::CoordinatorTimer;

impl Coordinator {
    /// Looks at the balance, and moves what should move.
    pub(super) fn on_rebalance_tick(&mut self, cx: &mut Cx<'_>) {
        if !self.is_active() {
            return;
        }
        let after = self.kind.config.rebalance_interval;
        self.wake(cx, CoordinatorTimer::Rebalance, after);
        self.look_at_wishes(cx);
        self.look_at_load(cx);
        if !self.may_balance(cx) {
            return;
        }
        let moving: OrderedSet<ShardId> = self.hand_offs.keys().copied().collect();
        let strategy = self.strategy();
        if matches!(strategy, AllocationSettings::Asked(_)) {
            return self.ask_for_moves(cx, moving);
        }
        let mut ring = core::mem::take(&mut self.ring);
        let mut loads = self.loads(cx);
        let counted = self.counted(&loads);
        for (load, shards) in loads.iter_mut().zip(&counted) {
            load.shards = shards;
        }
        let mut chosen = strategy.rebalance(&mut ring, &loads, &moving, &self.desired);
        self.ring = ring;
        if chosen.is_empty() {
            return self.move_by_load(cx);
        }
        chosen.retain(|shard| !self.is_away(*shard));
        self.begin_moves(cx, chosen);
    }

    /// Whether anything may be moved for balance now.
    pub(super) fn may_balance(&self, cx: &Cx<'_>) -> bool {
        self.is_active() && self.not_now(cx).is_none()
    }

    /// Why nothing may be moved for balance now, if so.
    pub(super) fn not_now(&self, cx: &Cx<'_>) -> Option<WishObstacle> {
        if self.paused {
            return Some(WishObstacle::Paused);
        }
        if !self.unheard.is_empty() {
            return Some(WishObstacle::Unheard);
        }
        if cx.view().is_shutting_down() {
            return Some(WishObstacle::ShuttingDown);
        }
        let loads = self.loads(cx);
        if is_good_time(&loads, neighbours(cx.view())) {
            return None;
        }
        if neighbours(cx.view()).any(|member| !member.is_reachable) {
            return Some(WishObstacle::OtherUnreachable);
        }
        let mut versions = loads.iter().map(|load| &load.app_version);
        let first = versions.next();
        Some(if versions.any(|version| Some(version) != first) {
            WishObstacle::MixedVersions
        } else {
            WishObstacle::Unsettled
        })
    }

    /// Begins to move these, but not what was cancelled a while ago, or moves already.
    pub(super) fn begin_moves(&mut self, cx: &mut Cx<'_>, chosen: impl IntoIterator<Item = ShardId>) {
        let now = cx.mono();
        self.resting.retain(|_, until| *until > now);
        for shard in chosen {
            if !self.resting.contains_key(&shard) && !self.hand_offs.contains_key(&shard) {
                self.begin_hand_off(cx, shard);
            }
        }
    }
}
