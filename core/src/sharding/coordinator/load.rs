//! Shards that go from the most loaded region to the least loaded one: looked at with the balance, and only
//! when nothing moves and the numbers call for nothing. Two nodes are due by the rule of all who move by load
//! (`load::state`), and the planner says whether the move can be. Only for kinds whose shards are spread by
//! their numbers: whoever else says where shards go would take them back. Spec: sharding 1.7, 5.5, 10.20.

use alloc::vec;
use alloc::vec::Vec;

use super::Coordinator;
use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::load::state::mover::unit_rates;
use crate::load::state::moves::{Extremes, choose_unit};
use crate::load::state::sample::LoadPartId;
use crate::planner::{
    ChangeReason, PlanLimits, PlanNode, PlanSituation, PlanSlot, PlanUnit, PlanningGate, SlotStage,
    WantedMove, plan,
};
use crate::sharding::Cx;
use crate::sharding::allocation::{AllocationSettings, RegionLoad};
use crate::sharding::state::ids::ShardId;

impl Coordinator {
    /// Takes note of how loaded the regions are that may have shards.
    pub(super) fn look_at_load(&mut self, cx: &Cx<'_>) {
        let goes_by_number = match self.strategy() {
            AllocationSettings::LeastShards(_) | AllocationSettings::LeastShardsOneByOne(_) => true,
            AllocationSettings::ConsistentHashing(_)
            | AllocationSettings::External
            | AllocationSettings::Custom(_)
            | AllocationSettings::Asked(_) => false,
        };
        // Taken out for the look; what is not to move by load forgets it.
        let mut by_load = core::mem::take(&mut self.by_load);
        if cx.config().load.moves && goes_by_number {
            let known = (&**cx.loads(), cx.config().load.selector);
            let loads = self.loads(cx);
            let may_have = |node: &UniqueAddress| loads.binary_search_by(|load| load.node.cmp(node)).is_ok();
            by_load.look(cx.mono(), known, cx.view(), may_have);
            self.by_load = by_load;
        }
    }

    /// The shards of each of these regions as far as their numbers count; empty if all count where they are.
    pub(super) fn counted(&self, loads: &[RegionLoad<'_>]) -> Vec<Vec<ShardId>> {
        if self.by_load.is_empty() {
            return Vec::new();
        }
        let mut counted: Vec<Vec<ShardId>> = vec![Vec::new(); loads.len()];
        for (at, load) in loads.iter().enumerate() {
            for shard in load.shards {
                let from = self.by_load.counts_at(shard, load.node);
                let from = from.and_then(|from| loads.iter().position(|other| other.node == from));
                counted[from.unwrap_or(at)].push(*shard);
            }
        }
        counted
    }

    /// Whether a shard is where load has brought it, and is not to go for its number.
    pub(super) fn is_away(&self, shard: ShardId) -> bool {
        let home = self.places.home(shard);
        home.is_some_and(|home| self.by_load.counts_at(&shard, home).is_some())
    }

    /// Begins to move a shard because of load, if one is due.
    pub(super) fn move_by_load(&mut self, cx: &mut Cx<'_>) {
        let Some((shard, from, to)) = self.due_by_load(cx) else {
            return;
        };
        cx.counters().shards_moved_by_load += 1;
        self.by_load.moved(cx.mono(), shard, from.clone(), to.clone());
        self.notify(cx, ShardingEvent::ShardMovesByLoad { shard, from, to });
        self.begin_hand_off(cx, shard);
    }

    /// Which shard goes because of load, from where to where: none while one of the kind moves, or waits for
    /// its home to begin at one of the two.
    fn due_by_load(&mut self, cx: &Cx<'_>) -> Option<(ShardId, UniqueAddress, UniqueAddress)> {
        if !self.hand_offs.is_empty() {
            return None;
        }
        let (places, regions) = (&self.places, &self.regions);
        let is_pending = |node: &UniqueAddress| {
            let shards = regions.get(node).into_iter().flat_map(|region| &region.shards);
            shards
                .into_iter()
                .any(|shard| !places.has_home(*shard) || places.is_unconfirmed(*shard))
        };
        let Extremes { hot, cold, gap } = self.by_load.due(cx.mono(), is_pending)?;
        let loads = self.loads(cx);
        let shards = loads.iter().find(|load| *load.node == hot)?.shards;
        let rates = unit_rates(cx.loads(), cx.config().load.selector, &hot, shards.len());
        let rate = rates(LoadPartId(self.kind.id.raw()));
        let movable = shards.iter().filter(|shard| !self.is_busy(cx, **shard));
        let shard = choose_unit(gap, movable.map(|shard| (*shard, rate)))?;
        self.may_go(&loads, (shard, &hot, &cold))
            .then_some((shard, hot, cold))
    }

    /// Whether the planner lets a shard go: not while numbers are uneven.
    fn may_go(
        &self,
        loads: &[RegionLoad<'_>],
        (unit, from, to): (ShardId, &UniqueAddress, &UniqueAddress),
    ) -> bool {
        let units = loads.iter().flat_map(|load| {
            load.shards.iter().map(|shard| {
                let away = self.by_load.counts_at(shard, load.node);
                let slot = PlanSlot {
                    stage: away.map_or(SlotStage::Settled, SlotStage::Away),
                    ..PlanSlot::settled(0, load.node)
                };
                PlanUnit::new(*shard, 1, vec![slot])
            })
        });
        let situation = PlanSituation {
            nodes: loads.iter().map(|load| PlanNode::open(load.node)).collect(),
            units: units.collect(),
            placed_last: None,
            commanded: Vec::new(),
            by_load: vec![WantedMove {
                unit,
                slot: 0,
                from,
                to,
            }],
        };
        let planned = plan(&situation, PlanningGate::Open, PlanLimits::for_nodes(loads.len()));
        planned
            .changes
            .iter()
            .any(|change| change.reason == ChangeReason::Load)
    }
}
