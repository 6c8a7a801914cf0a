//! Where shards live: answering, allocating, and making sure that a home has started what it was given. Spec:
//! sharding 1.1 (GetShardHome, HostShard), 1.7.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::Coordinator;
use super::record::PlacedHome;
use crate::bytes::node_bytes;
use crate::ident::UniqueAddress;
use crate::membership::state::member::Status;
use crate::message::ShardingBody;
use crate::reject::ShardingRejection;
use crate::sharding::Cx;
use crate::sharding::allocation::{AllocationSettings, RegionLoad, RegionRing};
use crate::sharding::protocol::survey::ShardDecision;
use crate::sharding::state::ids::{ShardId, Term};
use crate::timer::CoordinatorTimer;

/// Homes told in one message, and messages of homes told to a region that registers: enough to spare it most
/// questions, few enough to keep registration fast. The rest is told on demand.
const PUSH_PAIRS_MAX: usize = 500;
const PUSH_MESSAGES_MAX: usize = 10;

/// Bytes of a shard in a message of homes, of what stands around a node's, and around all of them.
const SHARD_BYTES: usize = 2;
const AROUND_SHARDS_BYTES: usize = 4;
const AROUND_HOMES_BYTES: usize = 32;

/// Shards that one step may allocate, each a handful of messages: as many as a region may flush.
pub(super) const ALLOCATIONS_PER_STEP: usize = 256;

/// When the next step follows: after the host has had its turn, and before anything else is due.
const STEP: Duration = Duration::from_micros(1);

impl Coordinator {
    /// A region asks where a shard lives. Answered when the home is known and stays; otherwise as soon as it
    /// does.
    pub(crate) fn on_get_shard_home(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, shard: ShardId) {
        if self.term().is_none() || !self.regions.contains_key(from) {
            return;
        }
        if !self.kind.has(shard) {
            cx.reject(from, ShardingRejection::NO_SHARD);
            return;
        }
        self.requesters.entry(shard).or_default().insert(from.clone());
        if self.places.has_home(shard) {
            self.answer_requesters(cx, shard);
        } else if self.is_active() {
            self.allocate_soon(cx, shard);
            if !self.regions.keys().any(|node| self.may_host(cx, node)) {
                self.say(cx, from, ShardingBody::NobodyHosts);
            }
        }
    }

    /// A region started a shard.
    pub(crate) fn on_shard_started(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        term: &Term,
        shard: ShardId,
    ) {
        if self.term() == Some(term) && self.places.home(shard) == Some(from) {
            self.confirm(cx, shard);
            self.answer_requesters(cx, shard);
        }
    }

    /// A region did not say that it started a shard: tell it again.
    pub(super) fn on_start_timeout(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        if !self.places.is_unconfirmed(shard) {
            return;
        }
        if self.paused {
            let after = self.kind.config.retry_interval;
            return self.wake(cx, CoordinatorTimer::ShardStart(shard), after);
        }
        if let Some(home) = self.places.home(shard).cloned() {
            self.host(cx, shard, &home);
        }
    }

    /// Tells everybody who waits for a shard's home, unless the shard is moving, has not begun, or its home
    /// is lost.
    pub(super) fn answer_requesters(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        let (Some(home), Some(term)) = (self.tellable_home(shard).cloned(), self.term().cloned()) else {
            return;
        };
        for to in self.requesters.remove(&shard).unwrap_or_default() {
            let homes = vec![(home.clone(), vec![shard])];
            let term = term.clone();
            self.say(cx, &to, ShardingBody::ShardHomes { term, homes });
        }
    }

    /// Tells a region the homes that stay, a bounded number.
    pub(super) fn push_homes(&self, cx: &mut Cx<'_>, to: &UniqueAddress) {
        let Some(term) = self.term() else { return };
        let limit = cx.config().limits.control_frame_bytes_max;
        let room = limit.saturating_sub(AROUND_HOMES_BYTES + node_bytes(&term.node));
        let mut told = 0;
        let mut batch = HomeBatch::default();
        let present = self.regions.iter().filter(|(_, region)| !region.lost);
        for (node, region) in present {
            for shard in &region.shards {
                if !(self.places.has_home(*shard) && self.is_tellable(*shard)) {
                    continue;
                }
                if batch.is_full(node, room) {
                    let (term, homes) = (term.clone(), core::mem::take(&mut batch).homes);
                    self.say(cx, to, ShardingBody::ShardHomes { term, homes });
                    told += 1;
                    if told == PUSH_MESSAGES_MAX {
                        return;
                    }
                }
                batch.add(node, *shard);
            }
        }
        if batch.pairs > 0 {
            let (term, homes) = (term.clone(), batch.homes);
            self.say(cx, to, ShardingBody::ShardHomes { term, homes });
        }
    }

    /// Gives homes to all shards that somebody waits for, or whose entities are remembered. Called when a
    /// region has come.
    pub(super) fn allocate_requested(&mut self, cx: &mut Cx<'_>) {
        self.homeless.extend(self.requesters.keys());
        self.homeless.extend(self.forgotten_shards());
        self.allocate_some(cx);
    }

    /// Gives a shard a home, now or in one of the next steps.
    pub(super) fn allocate_soon(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        self.homeless.insert(shard);
        self.allocate_some(cx);
    }

    /// Gives homes to the shards that need one, at most [`ALLOCATIONS_PER_STEP`], as long as there is a
    /// region to take them. Without one they wait until somebody asks again or a region comes.
    pub(super) fn allocate_some(&mut self, cx: &mut Cx<'_>) {
        if !self.is_active() || self.paused {
            return;
        }
        if self.tokens.are_used_up(ALLOCATIONS_PER_STEP) {
            return self.take_a_term(cx);
        }
        if !self.sees_enough(cx) {
            // Whoever waits for a home asks again, or is answered when the next region comes.
            return self.homeless.clear();
        }
        if cx.view().is_shutting_down() {
            // Only what a message needs begins anywhere; what has lost its home waits for one (10.12).
            let wanted = &self.requesters;
            self.homeless.retain(|shard| wanted.contains_key(shard));
        }
        let mut budget = ALLOCATIONS_PER_STEP;
        while let Some(shard) = self.homeless.pop_first() {
            if self.places.placement(shard).is_some() {
                continue;
            }
            if budget == 0 {
                self.homeless.insert(shard);
                self.wake(cx, CoordinatorTimer::Allocate, STEP);
                break;
            }
            if !self.is_remembered(cx, shard) {
                continue;
            }
            budget -= 1;
            if !self.allocate(cx, shard) {
                self.homeless.clear();
            }
        }
        self.ask_for_homes(cx);
        self.store(cx);
    }

    /// Whether as many regions have registered as there have to be before the first shard is given away, so
    /// that it is not all of them to the first node of a cluster that starts. Once there were, nobody waits
    /// again: a region that hosts a shard says that there were enough under an earlier coordinator, of whose
    /// cluster nodes may have died since.
    pub(super) fn sees_enough(&mut self, cx: &Cx<'_>) -> bool {
        if !self.has_enough {
            let settings = &cx.config().membership;
            let needed = match &self.kind.settings.role {
                None => settings.min_nr_of_members,
                Some(role) => settings
                    .min_nr_of_members_per_role
                    .get(role)
                    .copied()
                    .unwrap_or(1),
            };
            let regions = self
                .regions
                .values()
                .filter(|region| !region.proxy && !region.lost);
            self.has_enough = regions.count() >= needed || self.places.homes().next().is_some();
            if self.has_enough {
                // What waits for its own node was passed over until now.
                let returning = self.places.all_returning();
                self.homeless.extend(returning.map(|(shard, _)| shard));
            }
        }
        self.has_enough
    }

    /// Chooses the most suitable region for a shard without a home, or has the application asked; `false` if
    /// there is none.
    fn allocate(&mut self, cx: &mut Cx<'_>, shard: ShardId) -> bool {
        assert!(
            self.is_active() && !self.paused,
            "only a recovered coordinator allocates"
        );
        let mut ring = core::mem::take(&mut self.ring);
        let choice = self.choice(cx, &mut ring, shard);
        self.ring = ring;
        match choice {
            HomeChoice::Nobody => return false,
            HomeChoice::Waits => {}
            HomeChoice::Asks => self.will_ask_for(shard),
            HomeChoice::Home(home) => {
                self.choose_home(shard, &home);
            }
        }
        true
    }

    fn choice(&self, cx: &Cx<'_>, ring: &mut RegionRing, shard: ShardId) -> HomeChoice {
        if let Some(home) = self.places.returning(shard) {
            let loads = self.loads(cx);
            // It waits for its own; another one is chosen when that has had its time.
            let mut nodes = loads.iter().map(|load| load.node);
            let found = nodes.find(|node| node.address() == home.address());
            return found.map_or(HomeChoice::Waits, |node| HomeChoice::Home(node.clone()));
        }
        let mut loads = self.within_reach(cx);
        if loads.is_empty() {
            return HomeChoice::Nobody;
        }
        if let Some((from, to)) = self.by_load.course(&shard) {
            if loads.iter().any(|load| load.node == to) {
                return HomeChoice::Home(to.clone());
            }
            // Not back, if it can be anywhere else.
            if loads.len() > 1 {
                loads.retain(|load| load.node != from);
            }
        }
        let strategy = self.strategy();
        if matches!(strategy, AllocationSettings::Asked(_)) {
            return HomeChoice::Asks;
        }
        let requesters = self.requesters.get(&shard);
        let requester = requesters.and_then(|requesters| requesters.first());
        let chosen = strategy.allocate(ring, requester, shard, &loads, &self.desired);
        let home = chosen.and_then(|at| loads.get(at)).map(|load| load.node.clone());
        home.map_or(HomeChoice::Nobody, HomeChoice::Home)
    }

    /// Regions that may get shards, by node, with what a strategy sees of them: not proxies, not on their way
    /// out, their member here to stay. One walk over regions and members, which are in the same order.
    pub(super) fn loads<'s>(&'s self, cx: &Cx<'_>) -> Vec<RegionLoad<'s>> {
        let mut members = cx.view().members().iter().peekable();
        let mut loads = Vec::with_capacity(self.regions.len());
        for (node, region) in &self.regions {
            // Mostly it is the next one, and names are long.
            let is_next = members.peek().is_some_and(|member| member.node == *node);
            if !is_next {
                while members.next_if(|member| member.node < *node).is_some() {}
            }
            let Some(member) = members.next_if(|member| is_next || member.node == *node) else {
                continue;
            };
            if !region.proxy && !region.draining && !region.lost && stays(member.status) {
                loads.push(RegionLoad {
                    node,
                    status: member.status,
                    app_version: member.app_version.clone(),
                    shards: &region.shards,
                });
            }
        }
        loads
    }

    /// Of the [loads](Self::loads) those whose member is reached: a shard that begins anew begins where it
    /// can be served, though a node is dead that nobody has removed yet (10.23). All of them if none is:
    /// whoever comes back first has its shards then.
    pub(super) fn within_reach<'s>(&'s self, cx: &Cx<'_>) -> Vec<RegionLoad<'s>> {
        let mut loads = self.loads(cx);
        let is_reached = |load: &RegionLoad<'_>| cx.view().is_reachable(load.node);
        if !cx.view().unreachable().is_empty() && loads.iter().any(is_reached) {
            loads.retain(is_reached);
        }
        loads
    }

    /// Whether a region may get shards.
    pub(super) fn may_host(&self, cx: &Cx<'_>, node: &UniqueAddress) -> bool {
        let region = self.regions.get(node);
        let takes = region.is_some_and(|region| !region.proxy && !region.draining && !region.lost);
        takes && cx.view().member(node).is_some_and(|member| stays(member.status))
    }

    /// How this kind's shards are spread.
    pub(super) fn strategy(&self) -> AllocationSettings {
        let own = self.kind.settings.allocation.clone();
        own.unwrap_or_else(|| AllocationSettings::configured(&self.kind.config))
    }

    pub(super) fn set_home(&mut self, shard: ShardId, at: PlacedHome) {
        self.tokens.adopt(at.token);
        if let Some(region) = self.regions.get_mut(&at.node) {
            region.shards.push(shard);
            self.places.live_at(shard, at);
            self.ledger.note(shard);
        }
    }

    pub(super) fn clear_home(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        self.confirm(cx, shard);
        self.drop_choice(shard);
        if let Some(home) = self.places.free(shard) {
            if let Some(region) = self.regions.get_mut(&home) {
                region.drop_shard(shard);
                self.ledger.note(shard);
            }
            self.note(cx, shard, ShardDecision::Freed { home });
        }
    }

    /// The home of a shard if others may be told: it is not moving, it has begun there (10.14 e), and its
    /// region is not lost.
    pub(super) fn tellable_home(&self, shard: ShardId) -> Option<&UniqueAddress> {
        let home = self.places.home(shard)?;
        let region = self.regions.get(home)?;
        (!region.lost && self.is_tellable(shard)).then_some(home)
    }

    /// Whether a shard has begun where its home is, and stays there.
    fn is_tellable(&self, shard: ShardId) -> bool {
        self.places.has_begun(shard) && !self.hand_offs.contains_key(&shard)
    }

    /// Has a region host a shard, and looks again later whether it does.
    pub(super) fn host(&mut self, cx: &mut Cx<'_>, shard: ShardId, home: &UniqueAddress) {
        let Some(term) = self.term().cloned() else {
            return;
        };
        if self.places.is_renewed(shard) {
            // It is told when its token is stored.
            return;
        }
        let token = self.places.token(shard);
        self.places.set_unconfirmed(shard, true);
        let after = self.kind.config.shard_start_timeout;
        self.wake(cx, CoordinatorTimer::ShardStart(shard), after);
        self.say(cx, home, ShardingBody::HostShard { term, shard, token });
    }

    pub(super) fn confirm(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        if self.places.set_unconfirmed(shard, false) {
            cx.cancel(self.timer(CoordinatorTimer::ShardStart(shard)));
        }
    }
}

/// Whether a member with this status may be given something to host.
const fn stays(status: Status) -> bool {
    match status {
        Status::Up | Status::PreparingForShutdown | Status::ReadyForShutdown => true,
        Status::Joining
        | Status::WeaklyUp
        | Status::Leaving
        | Status::Exiting
        | Status::Down
        | Status::Removed => false,
    }
}

/// Where a shard without a home goes.
enum HomeChoice {
    /// Nobody can have it.
    Nobody,
    /// Its own home may come back.
    Waits,
    /// The application is to say so.
    Asks,
    /// There.
    Home(UniqueAddress),
}

/// Homes for one message.
#[derive(Debug, Default)]
struct HomeBatch {
    homes: Vec<(UniqueAddress, Vec<ShardId>)>,
    pairs: usize,
    bytes: usize,
}

impl HomeBatch {
    /// Whether another shard of this node belongs into the next message.
    fn is_full(&self, node: &UniqueAddress, room: usize) -> bool {
        let next = self.bytes + self.bytes_of_next(node);
        self.pairs == PUSH_PAIRS_MAX || (self.pairs > 0 && next > room)
    }

    fn add(&mut self, node: &UniqueAddress, shard: ShardId) {
        self.bytes += self.bytes_of_next(node);
        self.pairs += 1;
        match self.homes.last_mut() {
            Some((last, shards)) if last == node => shards.push(shard),
            Some(_) | None => self.homes.push((node.clone(), vec![shard])),
        }
    }

    fn bytes_of_next(&self, node: &UniqueAddress) -> usize {
        let is_new = self.homes.last().is_none_or(|(last, _)| last != node);
        let head = if is_new {
            node_bytes(node) + AROUND_SHARDS_BYTES
        } else {
            0
        };
        head + SHARD_BYTES
    }
}
