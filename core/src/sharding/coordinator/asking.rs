//! Strategies of the application that are asked through the host: one question about homes and one about
//! moves at a time. What the answer says is looked at anew, because much may have happened since; without one
//! in time a shard goes to who asked for it, and nothing moves. Spec: sharding 1.7.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Coordinator;
use super::homes::ALLOCATIONS_PER_STEP;
use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::Cx;
use crate::sharding::allocation::{RegionLoad, most_suitable};
use crate::sharding::protocol::survey::ShardDecision;
use crate::sharding::protocol::{
    AllocationAnswer, AllocationDecided, AllocationNeed, AllocationQuestion, HomeWanted, RegionShards,
};
use crate::sharding::state::ids::ShardId;
use crate::timer::CoordinatorTimer;

/// What the application is asked, and will be.
#[derive(Clone, Debug, Default)]
pub(super) struct AllocationAsking {
    /// Counts questions over all tenures of this node, so that an answer to an earlier one is no answer.
    last: u64,
    homes: Option<OpenHomes>,
    moves: Option<OpenMoves>,
    /// Shards that the next question about homes is about; each of the kind's at most once.
    next: OrderedSet<ShardId>,
}

#[derive(Clone, Debug)]
struct OpenHomes {
    number: u64,
    wanted: Vec<HomeWanted>,
}

#[derive(Clone, Debug)]
struct OpenMoves {
    number: u64,
    /// Where everything was.
    regions: Arc<[RegionShards]>,
}

impl AllocationAsking {
    /// Nobody waits for an answer any more.
    pub(super) fn forget(&mut self) {
        *self = Self {
            last: self.last,
            ..Self::default()
        };
    }

    /// Whether nothing is asked or to be asked.
    pub(super) fn is_idle(&self) -> bool {
        self.homes.is_none() && self.moves.is_none() && self.next.is_empty()
    }

    const fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn is_asked(&self, shard: ShardId) -> bool {
        let mut asked = self.homes.iter().flat_map(|open| &open.wanted);
        asked.any(|wanted| wanted.shard == shard)
    }
}

impl Coordinator {
    /// The next question is about this shard as well, unless the open one is.
    pub(super) fn will_ask_for(&mut self, shard: ShardId) {
        if !self.asking.is_asked(shard) {
            self.asking.next.insert(shard);
        }
    }

    /// Asks where shards should go, if there are some and nothing is asked.
    pub(super) fn ask_for_homes(&mut self, cx: &mut Cx<'_>) {
        if self.asking.homes.is_some() || self.asking.next.is_empty() || !self.is_active() || self.paused {
            return;
        }
        let regions = region_shards(self.within_reach(cx));
        if regions.is_empty() {
            // They are looked at again when a region has come, or somebody asks.
            return self.asking.next.clear();
        }
        let mut wanted = Vec::new();
        while wanted.len() < ALLOCATIONS_PER_STEP {
            let Some(shard) = self.asking.next.pop_first() else {
                break;
            };
            if self.has_no_home(shard) {
                let requesters = self.requesters.get(&shard);
                let requester = requesters.and_then(|requesters| requesters.first()).cloned();
                wanted.push(HomeWanted { shard, requester });
            }
        }
        if wanted.is_empty() {
            return;
        }
        let number = self.asking.number();
        let need = AllocationNeed::Homes(wanted.clone());
        self.asking.homes = Some(OpenHomes { number, wanted });
        self.ask(cx, number, need, regions, CoordinatorTimer::Homes);
    }

    /// Asks which shards should move, unless that is asked already.
    pub(super) fn ask_for_moves(&mut self, cx: &mut Cx<'_>, in_progress: OrderedSet<ShardId>) {
        if self.asking.moves.is_some() {
            return;
        }
        let regions = region_shards(self.loads(cx));
        let number = self.asking.number();
        self.asking.moves = Some(OpenMoves {
            number,
            regions: Arc::clone(&regions),
        });
        let need = AllocationNeed::Moves { in_progress };
        self.ask(cx, number, need, regions, CoordinatorTimer::Moves);
    }

    fn ask(
        &self,
        cx: &mut Cx<'_>,
        number: u64,
        need: AllocationNeed,
        regions: Arc<[RegionShards]>,
        timer: CoordinatorTimer,
    ) {
        let deadline = cx.mono() + self.kind.config.allocation_timeout;
        cx.wake(self.timer(timer), deadline);
        let kind = self.kind.id;
        cx.ask_allocation(Box::new(AllocationQuestion {
            kind,
            number,
            need,
            regions,
            deadline,
        }));
    }

    /// The application answers.
    pub(crate) fn on_allocation_answer(&mut self, cx: &mut Cx<'_>, answer: AllocationAnswer) {
        let number = answer.number;
        let is_homes = self
            .asking
            .homes
            .as_ref()
            .is_some_and(|open| open.number == number);
        let is_moves = self
            .asking
            .moves
            .as_ref()
            .is_some_and(|open| open.number == number);
        match answer.decided {
            AllocationDecided::Homes(homes) if is_homes => self.give_homes(cx, &homes.into_iter().collect()),
            AllocationDecided::Moves(shards) if is_moves => self.begin_said_moves(cx, &shards),
            AllocationDecided::Failed if is_homes => self.on_homes_unanswered(cx),
            AllocationDecided::Failed if is_moves => self.on_moves_unanswered(cx),
            AllocationDecided::Homes(_) | AllocationDecided::Moves(_) | AllocationDecided::Failed => {
                cx.counters().allocation_answers_late += 1;
            }
        }
    }

    /// Where shards should go was not said: to who asked for them.
    pub(super) fn on_homes_unanswered(&mut self, cx: &mut Cx<'_>) {
        let Some(open) = &self.asking.homes else {
            return;
        };
        let requesters = open.wanted.iter().filter_map(|wanted| {
            let requester = wanted.requester.clone()?;
            Some((wanted.shard, requester))
        });
        let requesters = requesters.collect();
        let asked: Vec<ShardId> = open.wanted.iter().map(|wanted| wanted.shard).collect();
        self.say_unanswered(cx, asked.len());
        for shard in asked {
            self.note(cx, shard, ShardDecision::Unanswered);
        }
        self.give_homes(cx, &requesters);
    }

    /// Which shards should move was not said: none.
    pub(super) fn on_moves_unanswered(&mut self, cx: &mut Cx<'_>) {
        if self.asking.moves.take().is_some() {
            cx.cancel(self.timer(CoordinatorTimer::Moves));
            self.say_unanswered(cx, 0);
        }
    }

    fn say_unanswered(&self, cx: &mut Cx<'_>, shards: usize) {
        cx.counters().allocations_unanswered += 1;
        self.notify(cx, ShardingEvent::AllocationUnanswered { shards });
    }

    /// Gives the shards that were asked about the homes that were said, as far as that still makes sense.
    fn give_homes(&mut self, cx: &mut Cx<'_>, said: &OrderedMap<ShardId, UniqueAddress>) {
        let Some(open) = self.asking.homes.take() else {
            return;
        };
        cx.cancel(self.timer(CoordinatorTimer::Homes));
        let shards = open.wanted.into_iter().map(|wanted| wanted.shard);
        if self.paused || self.tokens.are_used_up(ALLOCATIONS_PER_STEP) {
            // Asked again when the pause has done no harm, or under another term.
            self.homeless.extend(shards);
            return self.allocate_some(cx);
        }
        let shutting_down = cx.view().is_shutting_down();
        for shard in shards {
            let is_wanted = !shutting_down || self.requesters.contains_key(&shard);
            if !is_wanted || !self.has_no_home(shard) {
                continue;
            }
            let may = |node: &&UniqueAddress| self.may_host(cx, node) && cx.view().is_reachable(node);
            let said = said.get(&shard).filter(may).cloned();
            let home = said.or_else(|| {
                let loads = self.within_reach(cx);
                let at = most_suitable(&loads)?;
                loads.get(at).map(|load| load.node.clone())
            });
            if let Some(home) = home {
                self.choose_home(shard, &home);
            }
        }
        self.ask_for_homes(cx);
        self.store(cx);
    }

    /// Begins to move what should move, if it is where it was, and this is a good time still.
    fn begin_said_moves(&mut self, cx: &mut Cx<'_>, shards: &[ShardId]) {
        let Some(open) = self.asking.moves.take() else {
            return;
        };
        cx.cancel(self.timer(CoordinatorTimer::Moves));
        if !self.may_balance(cx) {
            return;
        }
        let regions = open.regions.iter();
        let was: OrderedMap<ShardId, &UniqueAddress> = regions
            .flat_map(|region| region.shards.iter().map(|shard| (*shard, &region.node)))
            .collect();
        let is_there = |shard: &ShardId| self.places.home(*shard) == was.get(shard).copied();
        let wanted = shards
            .iter()
            .filter(|shard| was.contains_key(shard) && is_there(shard));
        // A shard that is named twice moves once.
        let wanted: OrderedSet<ShardId> = wanted.copied().collect();
        self.begin_moves(cx, wanted);
    }

    /// Whether nobody has decided about a shard, or is to be waited for.
    fn has_no_home(&self, shard: ShardId) -> bool {
        !self.places.is_somewhere(shard) && !self.hand_offs.contains_key(&shard)
    }
}

fn region_shards(loads: Vec<RegionLoad<'_>>) -> Arc<[RegionShards]> {
    let regions = loads.into_iter().map(|load| RegionShards {
        node: load.node.clone(),
        status: load.status,
        app_version: load.app_version,
        shards: load.shards.to_vec(),
    });
    regions.collect()
}
