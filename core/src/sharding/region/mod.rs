//! A kind's region on this node: finds the home of each message's shard, buffers while it is unknown, hosts the shards it
//! is told to. Never decides where a shard lives: only the coordinator does. Spec: sharding 1.3, 10.1, 10.4.
//!
//! `registration` speaks to the coordinator, `homes` listens to it, `delivery` moves messages, `admission` has callers wait for room, `marks` and `returns` keep their
//! order, `hosting` starts and stops shards, `passivation` takes entities out of memory, `remembering` has the store know them and
//! starts them again, `starting` has those started that belong elsewhere, `fencing` knows with which tokens, `leasing` has leases for them, `drain` ends it all in good order, `retirement` empties a region of a node that stays.

mod admission;
mod buffers;
mod delivery;
mod drain;
mod fencing;
mod homes;
mod hosting;
mod inspect;
mod leasing;
mod marks;
mod passivation;
mod registration;
mod remembering;
mod retirement;
mod returns;
mod starting;
mod watching;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use crate::buffered::Buffered;
use crate::effect::Answer;
use crate::ident::{Address, UniqueAddress};
use crate::input::StoreAsk;
use crate::sharding::Cx;
use crate::sharding::kind::Kind;
use crate::sharding::passivation::PassivationSettings;
use crate::sharding::pending_message::Shared;
use crate::sharding::region::admission::Admissions;
use crate::sharding::region::buffers::Buffers;
use crate::sharding::region::leasing::ShardLease;
use crate::sharding::region::marks::{Home, Mark};
use crate::sharding::region::retirement::Retirement;
use crate::sharding::region::starting::Starts;
use crate::sharding::remembered::{Moves, Recovery};
use crate::sharding::shard::Shard;
use crate::sharding::state::ids::{EntityId, ShardId, Term};
use crate::timer::RegionTimer;
use crate::token::Token;
use crate::view::View;

pub use inspect::RegionState;
pub(super) use leasing::leased;

/// Where a region is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegionLifecycle {
    /// Hosts and forwards.
    Working,
    /// Hands its shards over and takes nothing new; then it forwards only.
    Retiring,
    /// Hands its shards over and takes nothing new, because the node leaves.
    Draining,
    /// Hosts nothing and buffers nothing, ever again.
    Stopped,
}

/// What the cluster makes of this node's kind. The registry decides for all nodes; a coordinator refuses what the registry could
/// not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acceptance {
    /// Nothing has been decided: nothing begins.
    Undecided,
    /// It is the kind that stands.
    Accepted,
    /// It was accepted, and the present coordinator has other fields: nothing of ours can work until there is another one.
    RefusedByCoordinator,
    /// The cluster's kind has other fields: nothing of ours can work.
    Refused,
}

impl Acceptance {
    /// Whether this region may look for its coordinator.
    const fn may_register(self) -> bool {
        match self {
            Self::Accepted | Self::RefusedByCoordinator => true,
            Self::Undecided | Self::Refused => false,
        }
    }

    /// Whether nothing of this kind can work here.
    const fn is_refused(self) -> bool {
        match self {
            Self::Refused | Self::RefusedByCoordinator => true,
            Self::Undecided | Self::Accepted => false,
        }
    }
}

/// A kind's region, or proxy region (one that never hosts).
#[derive(Clone, Debug)]
pub(crate) struct Region {
    kind: Kind,
    lifecycle: RegionLifecycle,
    /// Whether it may host: what the settings say, until it has been shut down.
    hosts: bool,
    /// How far its shutdown is, and who waits for that.
    retirement: Retirement,
    /// This process stood still: its shards may be elsewhere by now, so nothing begins.
    paused: bool,
    /// Shards that a coordinator wants here and that begin after the pause.
    after_pause: BTreeMap<ShardId, Term>,
    /// The regions of this node together buffer as much as one may: what others send and would have to wait here goes back.
    is_crowded: bool,
    /// With which tokens shards were placed here.
    tokens: BTreeMap<ShardId, Token>,
    /// Leases of shards, if the kind has any.
    leases: BTreeMap<ShardId, ShardLease>,
    /// The highest term heard of; lower ones are refused.
    seen: Option<Term>,
    /// The coordinator that knows this region.
    registered: Option<Term>,
    /// Counts the registrations that took several messages.
    lists: u64,
    acceptance: Acceptance,
    /// The node that would coordinate this kind has said that nobody hosts it; void once a coordinator knows better.
    nobody_hosts: bool,
    retry_delay: Duration,
    /// Where shards live, this node included, as far as known.
    homes: BTreeMap<ShardId, Home>,
    /// Homes that are used no more, until they have acknowledged that everything has arrived.
    marks: BTreeMap<ShardId, Mark>,
    /// The number of this region's last mark.
    last_mark: u64,
    /// Where the next repetition of marks begins.
    repeat_from: ShardId,
    /// Senders whose messages for a shard go back to them, whatever runs here, until they mark.
    returning: BTreeSet<(ShardId, UniqueAddress)>,
    /// The same for single entities, of shards that run here: for those there was no room.
    returning_for: BTreeSet<(ShardId, UniqueAddress, EntityId)>,
    /// The time for ending in good order is up, or nobody is there who could take over: nothing is waited for.
    hurries: bool,
    /// Shards on this node, stopping ones included.
    shards: BTreeMap<ShardId, Shard>,
    buffers: Buffers,
    /// Who waits for room in them.
    admissions: Admissions,
    /// Shards whose home is known and whose buffered messages are on their way, a bounded number per step.
    flushing: BTreeSet<ShardId>,
    /// Addresses to which the queues are full: what waits for shards there waits on until there is room.
    full: BTreeSet<Address>,
    /// When entities are passivated.
    passivation: PassivationSettings,
    /// How many entities may run, if somebody has changed what the settings say.
    entity_limit: Option<usize>,
    /// Each shard's part of that.
    entities_each: usize,
    /// Shards that run more than their part, a bounded number of which stop per step.
    shrinking: BTreeSet<ShardId>,
    /// Where the present look for unused entities goes on.
    idle_from: Option<ShardId>,
    /// Shards that are watched from here, and whose home is to be found.
    sought: BTreeSet<ShardId>,
    /// Shards that have stopped here, since somebody asked last.
    ended: BTreeSet<ShardId>,
    /// Entities that have stopped and begin again with what waits for them.
    resuming: BTreeSet<(ShardId, EntityId)>,
    /// Remembered entities that are to be started.
    recovery: Recovery,
    /// Shards whose entities are being read, and those that wait for their turn.
    loading: BTreeSet<ShardId>,
    to_load: BTreeSet<ShardId>,
    /// Entities of shards here that belong to other shards.
    moves: Moves,
    /// Entities of shards here that others remember.
    starts: Starts,
    /// Where the present look for entities that were not heard of goes on.
    look_from: Option<ShardId>,
    /// Counts questions to the store.
    requests: u64,
    /// What the store said during a pause.
    answers_after_pause: Vec<(StoreAsk, Answer)>,
}

impl Region {
    /// A region that knows nothing.
    pub(crate) fn new(kind: Kind, passivation: PassivationSettings) -> Self {
        Self {
            hosts: kind.settings.hosts,
            kind,
            retirement: Retirement::default(),
            lifecycle: RegionLifecycle::Working,
            paused: false,
            after_pause: BTreeMap::new(),
            is_crowded: false,
            tokens: BTreeMap::new(),
            leases: BTreeMap::new(),
            seen: None,
            registered: None,
            lists: 0,
            acceptance: Acceptance::Undecided,
            nobody_hosts: false,
            retry_delay: Duration::ZERO,
            homes: BTreeMap::new(),
            marks: BTreeMap::new(),
            last_mark: 0,
            repeat_from: ShardId(0),
            returning: BTreeSet::new(),
            returning_for: BTreeSet::new(),
            hurries: false,
            shards: BTreeMap::new(),
            buffers: Buffers::default(),
            admissions: Admissions::default(),
            flushing: BTreeSet::new(),
            full: BTreeSet::new(),
            passivation,
            entity_limit: None,
            entities_each: 0,
            shrinking: BTreeSet::new(),
            idle_from: None,
            sought: BTreeSet::new(),
            ended: BTreeSet::new(),
            resuming: BTreeSet::new(),
            recovery: Recovery::default(),
            loading: BTreeSet::new(),
            to_load: BTreeSet::new(),
            moves: Moves::default(),
            starts: Starts::default(),
            look_from: None,
            requests: 0,
            answers_after_pause: Vec::new(),
        }
    }

    /// The picture changed: forgets homes on lost members, and registers anew if the oldest member is another one.
    pub(crate) fn on_view_changed(
        &mut self,
        shared: &mut Shared<'_, '_>,
        before: &View,
        after: &View,
        lost: &[UniqueAddress],
    ) {
        if self.lifecycle == RegionLifecycle::Stopped {
            return;
        }
        for node in lost {
            self.forget_homes_on(node);
            self.settle_marks_at(shared, node);
            self.forget_sender(node);
        }
        if let Some(term) = &self.seen
            && after.is_removed(&term.node)
        {
            self.seen = None;
        }
        if !lost.is_empty() {
            // What a full queue held up has to look for another home.
            self.rearm_retry(shared.cx);
        }
        self.follow_coordinator(shared, before, after);
        if after.is_shutting_down() && !before.is_shutting_down() {
            self.on_cluster_ends(shared);
        }
        self.flush(shared);
    }

    /// This process stood still. No shard begins and no message is given to an entity until it is known to be a member
    /// still; they wait in the buffer.
    pub(crate) const fn on_paused(&mut self) {
        self.paused = true;
    }

    /// The pause did no harm: what waited for its end goes on.
    pub(crate) fn on_still_member(&mut self, shared: &mut Shared<'_, '_>) {
        self.paused = false;
        self.recover_after_pause(shared);
        for (shard, term) in core::mem::take(&mut self.after_pause) {
            let token = self.placement(shard).token;
            self.on_host_shard(shared, &term.node.clone(), term, (shard, token));
        }
        for shard in self.buffers.shards() {
            if self.homes.contains_key(&shard) {
                self.flushing.insert(shard);
            }
        }
        self.flush(shared);
    }

    /// A timer of this region is due.
    pub(crate) fn on_timer(&mut self, shared: &mut Shared<'_, '_>, timer: &RegionTimer) {
        match timer {
            RegionTimer::Retry => self.on_retry(shared),
            RegionTimer::Flush => self.flush(shared),
            RegionTimer::ShardStop(shard) => self.on_stop_timeout(shared, *shard),
            RegionTimer::Drain => self.on_drain_timeout(shared),
            RegionTimer::Idle => self.on_idle_tick(shared),
            RegionTimer::Shrink => self.shrink(shared),
            RegionTimer::Store(shard) => self.on_store_timeout(shared, *shard),
            RegionTimer::RestartShard(shard) => self.on_restart_shard(shared, *shard),
            RegionTimer::Lease(shard) => self.on_lease_timer(shared.cx, *shard),
            RegionTimer::Recover => self.on_recover(shared),
            RegionTimer::Marks => self.repeat_marks(shared.cx),
            RegionTimer::Look => self.on_look(shared),
            RegionTimer::Moves => self.on_moves(shared.cx),
        }
    }

    /// What waits here.
    pub(crate) const fn buffered(&self) -> Buffered {
        self.buffers.buffered()
    }

    /// Whether no shard runs or stops here.
    pub(crate) fn runs_nothing(&self) -> bool {
        self.shards.is_empty()
    }

    /// The kind this region serves.
    pub(crate) const fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Whether a shard lives here, as far as this region knows.
    fn lives_here(&self, cx: &Cx<'_>, shard: ShardId) -> bool {
        self.homes.get(&shard).is_some_and(|home| home.node == *cx.me())
    }

    fn forget_homes_on(&mut self, node: &UniqueAddress) {
        self.homes.retain(|_, home| home.node != *node);
        let homes = &self.homes;
        self.flushing.retain(|shard| homes.contains_key(shard));
    }
}

#[cfg(test)]
mod tests;
