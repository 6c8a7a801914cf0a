//! A kind's coordinator, on the oldest member of the role: decides where each shard lives, and is the only
//! one who does. Never gives a shard a home before it knows that no other home is left. Spec: sharding 1.1,
//! 1.2, 10.1.
//!
//! `places` knows where each shard is, `asking` has the application decide where it wants to, `balance` looks
//! at what should move, `load` at what should because of load, `takeover` decides when it may start,
//! `recovery` learns who hosts what (`parts` puts together what one frame could not hold), `homes` answers
//! and allocates, `decisions` has a home stored before anybody hears of it (`storing` asks, `ledger` knows
//! what the log holds, `record` its bytes), `hand_off` moves shards, `tokens` knows which placement came
//! later, `remembered` knows which begin without a message, `losses` takes the shards of members that are
//! gone.

mod asking;
mod balance;
mod decisions;
mod hand_off;
mod history;
mod homes;
mod inspect;
mod ledger;
mod load;
mod losses;
mod parts;
mod places;
mod record;
mod recovery;
mod remembered;
mod stopping;
mod storing;
mod takeover;
mod tokens;
mod wishes;

use alloc::vec::Vec;
use core::time::Duration;

use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::load::state::mover::LoadMoves;
use crate::message::{ShardingBody, ShardingMessage, ShardingMsg};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::Cx;
use crate::sharding::allocation::{DesiredHomes, RegionRing};
use crate::sharding::coordinator::asking::AllocationAsking;
use crate::sharding::coordinator::hand_off::HandOff;
use crate::sharding::coordinator::history::DecisionHistory;
use crate::sharding::coordinator::ledger::HomeLedger;
use crate::sharding::coordinator::parts::PartialRegistrations;
use crate::sharding::coordinator::places::PlacedShards;
use crate::sharding::coordinator::remembered::RememberedShards;
use crate::sharding::coordinator::tokens::{OutdoneShards, PlacementTokens};
use crate::sharding::kind::RegisteredKind;
use crate::sharding::state::fields::StoreMode;
use crate::sharding::state::ids::{ShardId, Term};
use crate::time::Instant;
use crate::timer::CoordinatorTimer;
use crate::timer::ShardingTimer;

pub use inspect::{CoordinatorPhase, CoordinatorState};
pub use ledger::coordinator_log;
pub(crate) use recovery::RegionRegistration;

/// A registered region, as its coordinator knows it.
#[derive(Clone, Debug, Default)]
struct RegionEntry {
    /// Its shards, the one allocated first at the front.
    shards: Vec<ShardId>,
    proxy: bool,
    /// It asked to be emptied: it gets nothing new.
    draining: bool,
    /// Its member is Down, or removed less than a margin ago: nothing is sent there, and its shards cannot
    /// move yet.
    lost: bool,
}

/// What a coordinator knows and waits for.
#[derive(Clone, Debug)]
pub(crate) struct Coordinator {
    kind: RegisteredKind,
    tenure: CoordinatorTenure,
    /// This process stood still: its work may be somebody else's by now, so nothing begins.
    paused: bool,
    regions: OrderedMap<UniqueAddress, RegionEntry>,
    /// Registrations of which a part is missing.
    unfinished: PartialRegistrations,
    /// Members of the role that have said that they host nothing, and need no region to say so.
    without_region: OrderedSet<UniqueAddress>,
    /// Where each shard is.
    places: PlacedShards,
    /// Which tokens there are.
    tokens: PlacementTokens,
    /// Shards that get tokens above what their logs are promised to.
    outdone: OutdoneShards,
    hand_offs: OrderedMap<ShardId, HandOff>,
    /// Shards whose hand-off was cancelled: they are not moved for balance for some time.
    resting: OrderedMap<ShardId, Instant>,
    /// How loaded the regions were, and what has moved because of it. In memory only: the next coordinator
    /// begins anew.
    by_load: LoadMoves<ShardId>,
    /// Counts the hand-offs of this coordinator.
    last_hand_off: u64,
    /// Members that have not said since the beginning of the term whether they have this kind. Whoever does
    /// may use a home of an earlier term; before all have spoken nothing is moved (10.14 c).
    unheard: OrderedSet<UniqueAddress>,
    /// Shards to allocate as soon as a step has room for them.
    homeless: OrderedSet<ShardId>,
    /// Regions that asked for a home that cannot be told yet; at most one entry per region and shard.
    requesters: OrderedMap<ShardId, OrderedSet<UniqueAddress>>,
    /// Shards that users want stopped, and whose regions wait to hear so; at most one entry per region and
    /// shard.
    stop_waiters: OrderedMap<ShardId, OrderedSet<UniqueAddress>>,
    /// Where somebody outside wants shards to be. Kept on every node, for the one that becomes the oldest.
    desired: DesiredHomes,
    /// Shards that begin without a message; `None` if the kind remembers nothing.
    remembered: Option<RememberedShards>,
    /// What the store holds of `places`, and what is on its way there.
    ledger: HomeLedger,
    /// So many regions have registered in this term as there have to be, at some time: it never waits for
    /// them again.
    has_enough: bool,
    /// How often the store has been found to owe an answer since it was last asked.
    late: u32,
    /// How often the store has refused to serve this coordinator since it last allocated.
    rejections: u32,
    history: DecisionHistory,
    asking: AllocationAsking,
    /// Of consistent hashing, so that it is not made anew for every shard.
    ring: RegionRing,
}

/// Where a coordinator is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CoordinatorTenure {
    /// Another member is the oldest.
    Idle,
    /// Its store has refused it; it begins anew some time later.
    Resting,
    /// This node is the oldest; those before it may still be running, cut off.
    Waiting,
    /// Asking every member of the role what it hosts.
    Recovering(Term),
    /// Knows every home; allocates.
    Active(Term),
}

impl Coordinator {
    /// A coordinator that does nothing yet.
    pub(crate) fn new(kind: RegisteredKind) -> Self {
        let settings = &kind.settings;
        let mode = settings.store_mode.unwrap_or(StoreMode::Memory);
        Self {
            remembered: RememberedShards::of(&kind),
            ledger: HomeLedger::new(&settings.name, mode, settings.shards),
            has_enough: false,
            late: 0,
            rejections: 0,
            kind,
            tenure: CoordinatorTenure::Idle,
            paused: false,
            regions: OrderedMap::new(),
            unfinished: PartialRegistrations::default(),
            without_region: OrderedSet::new(),
            places: PlacedShards::default(),
            tokens: PlacementTokens::default(),
            outdone: OutdoneShards::default(),
            hand_offs: OrderedMap::new(),
            resting: OrderedMap::new(),
            by_load: LoadMoves::default(),
            last_hand_off: 0,
            unheard: OrderedSet::new(),
            homeless: OrderedSet::new(),
            requesters: OrderedMap::new(),
            stop_waiters: OrderedMap::new(),
            desired: DesiredHomes::new(),
            history: DecisionHistory::default(),
            asking: AllocationAsking::default(),
            ring: RegionRing::default(),
        }
    }

    /// This process stood still. Nothing is allocated or moved until it is known to be a member still.
    pub(crate) const fn on_paused(&mut self) {
        self.paused = true;
    }

    /// The pause did no harm: what waited for its end goes on.
    pub(crate) fn on_still_member(&mut self, cx: &mut Cx<'_>) {
        self.paused = false;
        if self.is_active() {
            self.empty_draining(cx);
            self.allocate_requested(cx);
        }
    }

    /// A timer of this coordinator is due.
    pub(crate) fn on_timer(&mut self, cx: &mut Cx<'_>, timer: &CoordinatorTimer) {
        match timer {
            CoordinatorTimer::Recovery => self.on_recovery_tick(cx),
            CoordinatorTimer::Allocate => self.allocate_some(cx),
            CoordinatorTimer::Remembered => self.on_remembered_timer(cx),
            CoordinatorTimer::Rebalance => self.on_rebalance_tick(cx),
            CoordinatorTimer::ShardStart(shard) => self.on_start_timeout(cx, *shard),
            CoordinatorTimer::HandOff(shard) => self.on_hand_off_timer(cx, *shard),
            CoordinatorTimer::RegionLost(node) => self.on_margin_passed(cx, node),
            CoordinatorTimer::State => self.on_state_timer(cx),
            CoordinatorTimer::Returning => self.on_returning_timer(cx),
            CoordinatorTimer::Homes => self.on_homes_unanswered(cx),
            CoordinatorTimer::Moves => self.on_moves_unanswered(cx),
        }
    }

    /// The term, while this node coordinates.
    const fn term(&self) -> Option<&Term> {
        match &self.tenure {
            CoordinatorTenure::Recovering(term) | CoordinatorTenure::Active(term) => Some(term),
            CoordinatorTenure::Idle | CoordinatorTenure::Waiting | CoordinatorTenure::Resting => None,
        }
    }

    const fn is_active(&self) -> bool {
        matches!(self.tenure, CoordinatorTenure::Active(_))
    }

    fn say(&self, cx: &mut Cx<'_>, to: &UniqueAddress, body: ShardingBody) {
        let kind = self.kind.id;
        cx.send(to, ShardingMsg::Kind(ShardingMessage { kind, body }));
    }

    fn notify(&self, cx: &mut Cx<'_>, event: ShardingEvent) {
        cx.notify_sharding(self.kind.id, event);
    }

    fn wake(&self, cx: &mut Cx<'_>, timer: CoordinatorTimer, after: Duration) {
        let at = cx.mono() + after;
        cx.wake(self.timer(timer), at);
    }

    const fn timer(&self, timer: CoordinatorTimer) -> ShardingTimer {
        ShardingTimer::Coordinator(self.kind.id, timer)
    }
}

#[cfg(test)]
mod tests;
