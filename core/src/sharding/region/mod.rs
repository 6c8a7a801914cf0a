//! A kind's region on this node: finds the home of each message's shard, buffers while it is unknown, hosts
//! the shards it is told to. Never decides where a shard lives: only the coordinator does. Spec: sharding
//! 1.3, 10.1, 10.4.
//!
//! `shards` holds one value per shard: what is known of its `home`, and what runs of it here. `registration`
//! speaks to the coordinator, `homes` listens to it, `delivery` moves messages, `admission` has callers wait
//! for room, `marks` and `returns` keep their order (`order` knows whose go back), `hosting` starts and stops
//! shards, `passivation` takes entities out of memory, `remembering` has the store know them and starts them
//! again, `starting` has those started that belong elsewhere, `fencing` knows with which tokens, `leasing`
//! has leases for them, `drain` ends it all in good order, `retirement` empties a region of a node that
//! stays.

mod admission;
mod buffers;
mod delivery;
mod drain;
mod fencing;
mod home;
mod homes;
mod hosting;
mod inspect;
mod leasing;
mod marks;
mod order;
mod passivation;
mod registration;
mod remembering;
mod retirement;
mod returns;
mod shards;
mod starting;
mod watching;

use core::time::Duration;

use crate::buffered::BufferedLoad;
use crate::event::ShardingEvent;
use crate::ident::{Address, UniqueAddress};
use crate::ordered::OrderedSet;
use crate::sharding::Cx;
use crate::sharding::kind::RegisteredKind;
use crate::sharding::passivation::PassivationSettings;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::region::admission::MessageAdmissions;
use crate::sharding::region::buffers::RegionBuffers;
use crate::sharding::region::order::SenderOrder;
use crate::sharding::region::passivation::RegionPassivation;
use crate::sharding::region::registration::CoordinatorContact;
use crate::sharding::region::remembering::RegionRemembering;
use crate::sharding::region::retirement::RegionRetirement;
use crate::sharding::region::shards::ShardTable;
use crate::sharding::state::ids::{EntityId, ShardId};
use crate::timer::{RegionTimer, ShardingTimer};
use crate::view::View;

pub(crate) use delivery::WaitingArrival;
pub use inspect::RegionState;
pub(super) use leasing::leased;

/// When the next step follows: after the host has had its turn, and before anything else is due.
const STEP: Duration = Duration::from_micros(1);

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

/// A kind's region, or proxy region (one that never hosts).
#[derive(Clone, Debug)]
pub(crate) struct ShardRegion {
    kind: RegisteredKind,
    lifecycle: RegionLifecycle,
    /// Whether it may host: what the settings say, until it has been shut down.
    hosts: bool,
    /// How far its shutdown is, and who waits for that.
    retirement: RegionRetirement,
    /// This process stood still: its shards may be elsewhere by now, so nothing begins.
    paused: bool,
    contact: CoordinatorContact,
    /// What is known of each shard: where it lives, and what runs of it here.
    shards: ShardTable,
    /// What keeps messages in order.
    order: SenderOrder,
    /// The time for ending in good order is up, or nobody is there who could take over: nothing is waited
    /// for.
    hurries: bool,
    buffers: RegionBuffers,
    /// Who waits for room in them.
    admissions: MessageAdmissions,
    /// Shards whose home is known and whose buffered messages are on their way, a bounded number per step.
    flushing: OrderedSet<ShardId>,
    /// Addresses to which the queues are full: what waits for shards there waits on until there is room.
    full: OrderedSet<Address>,
    passivating: RegionPassivation,
    /// Shards that are watched from here, and whose home is to be found.
    sought: OrderedSet<ShardId>,
    /// Shards that have stopped here, since somebody asked last.
    ended: OrderedSet<ShardId>,
    /// Entities that have stopped and begin again with what waits for them.
    resuming: OrderedSet<(ShardId, EntityId)>,
    remembering: RegionRemembering,
}

impl ShardRegion {
    /// A region that knows nothing.
    pub(crate) fn new(kind: RegisteredKind, passivation: PassivationSettings) -> Self {
        Self {
            hosts: kind.settings.hosts,
            kind,
            retirement: RegionRetirement::default(),
            lifecycle: RegionLifecycle::Working,
            paused: false,
            contact: CoordinatorContact::default(),
            shards: ShardTable::default(),
            order: SenderOrder::default(),
            hurries: false,
            buffers: RegionBuffers::default(),
            admissions: MessageAdmissions::default(),
            flushing: OrderedSet::new(),
            full: OrderedSet::new(),
            passivating: RegionPassivation::new(passivation),
            sought: OrderedSet::new(),
            ended: OrderedSet::new(),
            resuming: OrderedSet::new(),
            remembering: RegionRemembering::default(),
        }
    }

    /// The picture changed: forgets homes on lost members, and registers anew if the oldest member is another
    /// one.
    pub(crate) fn on_view_changed(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        before: &View,
        after: &View,
        lost: &[UniqueAddress],
    ) {
        if self.lifecycle == RegionLifecycle::Stopped {
            return;
        }
        for node in lost {
            self.forget_homes_on(node);
            self.acknowledge_for(shared, node);
            self.order.forget(node);
        }
        if let Some(term) = &self.contact.seen
            && after.is_removed(&term.node)
        {
            self.contact.seen = None;
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

    /// This process stood still. No shard begins and no message is given to an entity until it is known to be
    /// a member still; they wait in the buffer.
    pub(crate) const fn on_paused(&mut self) {
        self.paused = true;
    }

    /// The pause did no harm: what waited for its end goes on.
    pub(crate) fn on_still_member(&mut self, shared: &mut RegionContext<'_, '_>) {
        self.paused = false;
        self.recover_after_pause(shared);
        for (shard, term) in self.shards.take_all_wanted() {
            let token = self.placement(shard).token;
            self.on_host_shard(shared, &term.node.clone(), term, (shard, token));
        }
        for shard in self.buffers.shards() {
            if self.shards.has_home(shard) {
                self.flushing.insert(shard);
            }
        }
        self.flush(shared);
    }

    /// A timer of this region is due.
    pub(crate) fn on_timer(&mut self, shared: &mut RegionContext<'_, '_>, timer: &RegionTimer) {
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
    pub(crate) const fn buffered(&self) -> BufferedLoad {
        self.buffers.buffered()
    }

    /// Whether no shard runs or stops here.
    pub(crate) const fn runs_nothing(&self) -> bool {
        self.shards.hosted_len() == 0
    }

    /// The kind this region serves.
    pub(crate) const fn kind(&self) -> &RegisteredKind {
        &self.kind
    }

    /// Whether a shard lives here, as far as this region knows.
    fn lives_here(&self, cx: &Cx<'_>, shard: ShardId) -> bool {
        self.shards.home(shard) == Some(cx.me())
    }

    fn forget_homes_on(&mut self, node: &UniqueAddress) {
        self.shards.lose_homes_on(node);
        let shards = &self.shards;
        self.flushing.retain(|shard| shards.has_home(*shard));
    }

    fn notify(&self, cx: &mut Cx<'_>, event: ShardingEvent) {
        cx.notify_sharding(self.kind.id, event);
    }

    const fn timer(&self, timer: RegionTimer) -> ShardingTimer {
        ShardingTimer::Region(self.kind.id, timer)
    }

    fn wake(&self, cx: &mut Cx<'_>, timer: RegionTimer, after: Duration) {
        let at = cx.mono() + after;
        cx.wake(self.timer(timer), at);
    }

    fn cancel(&self, cx: &mut Cx<'_>, timer: RegionTimer) {
        cx.cancel(self.timer(timer));
    }

    fn is_set(&self, cx: &Cx<'_>, timer: RegionTimer) -> bool {
        cx.is_set(self.timer(timer))
    }
}

/// What is waited for of one shard that runs here.
const fn timers_of(shard: ShardId) -> [RegionTimer; 3] {
    [
        RegionTimer::ShardStop(shard),
        RegionTimer::Store(shard),
        RegionTimer::RestartShard(shard),
    ]
}

#[cfg(test)]
mod tests;
