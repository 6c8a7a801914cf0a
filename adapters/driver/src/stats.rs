//! What a node shows of itself: counters of its links and its host beside those of the core, and where the
//! shards are as it knows it.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::ident::UniqueAddress;
use quorate_core::journal::state::StoreId;
use quorate_core::kv::state::configuration::Configuration;
use quorate_core::kv::state::settings::BucketSettings;
use quorate_core::ordered::OrderedMap;
use quorate_core::paths::state::name::PathName;
use quorate_core::paths::state::settings::PathSettings;
use quorate_core::paths::state::table::{PathEpoch, SlotMove};
use quorate_core::sharding::ids::KindId;
use quorate_core::sharding::{CoordinatorState, RegionState};
pub use quorate_core::stats::{
    DdataCounters, DetectorCounters, DowningCounters, JournalCounters, KvCounters, LoadCounters,
    MembershipCounters, NodeCounters, OldestCounters, PathCounters, ShardingCounters, SingletonCounters,
    Stats,
};

use quorate_core::token::Token;

pub use quorate_core::load::state::sample::LoadSample;
pub use quorate_core::load::state::share::LoadShare;
pub use quorate_links::{LinkState, LinkStats};

/// A node's counters, as of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// The protocol's counters.
    pub core: Stats,
    /// The links' counters.
    pub links: LinkStats,
    /// Those of everything else: entities, executor, store, log.
    pub host: HostStats,
    /// Gauge: how loaded this node is, smoothed, as the others hear of it; measured every
    /// [`load.interval`](crate::config::LoadConfig::interval).
    pub load: LoadSample,
}

/// What the host around the core has counted since the node started; gauges say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name says what is counted")]
#[non_exhaustive]
pub struct HostStats {
    /// Messages that an entity's mailbox had no room for.
    pub mailbox_refused: u64,
    /// Handlers that held a thread of the application's executor for a second.
    pub threads_held: u64,
    /// How often that executor made no progress for a second, although the node itself did.
    pub executor_stalls: u64,
    /// Orders that the store did not take because too much waited for it.
    pub store_orders_turned_away: u64,
    /// Envelopes that were for no entity: dead letters of this node's own senders.
    pub messages_unmatched: u64,
    /// Messages of reliable delivery, or parts of them, that this node's producers sent for the first time.
    pub deliveries_sent: u64,
    /// How often they were sent again.
    pub deliveries_resent: u64,
    /// Messages that their entities have confirmed to this node's producers.
    pub deliveries_confirmed: u64,
    /// Messages that consumers of this node left out: longer than they take, or with parts that were lost and
    /// are not sent again.
    pub deliveries_dropped: u64,
    /// How often consumers of this node could not read a message, which waits for one that can.
    pub deliveries_undecodable: u64,
    /// How often an entity, or the instance of a singleton, failed: a panic, or an error that it gave up
    /// with.
    pub entities_failed: u64,
    /// How often one was restarted after that.
    pub entities_restarted: u64,
    /// Durable entities that were recovered, with a log or without.
    pub entities_recovered: u64,
    /// Events that were read and applied in recoveries.
    pub events_replayed: u64,
    /// Events, and states of entities that keep no events, that were made durable.
    pub events_stored: u64,
    /// Commands of durable entities of which nothing was made durable: the store was full or could not be
    /// asked, for instance.
    pub commands_not_durable: u64,
    /// Durable entities that stopped because a later incarnation owns their log.
    pub entities_fenced: u64,
    /// Messages that durable entities have sent for the first time
    /// ([`Persist::deliver`](crate::durable::Persist::deliver)).
    pub entity_messages_sent: u64,
    /// How often they were sent again.
    pub entity_messages_resent: u64,
    /// Confirmations of them that are durable.
    pub entity_messages_confirmed: u64,
    /// How often durable entities here were woken, or asked while they ran, to do what is due: reminders,
    /// messages that nobody has confirmed.
    pub entities_woken: u64,
    /// Lines that were not written because there were too many in their second.
    pub log_lines_left_out: u64,
    /// Gauge: entities that run here.
    pub entities: u64,
    /// Gauge: instances of singletons that run here.
    pub singletons: u64,
    /// Gauge: instances of paths that run here.
    pub path_instances: u64,
}

/// One entity kind as this node knows it now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KindState {
    /// The kind.
    pub kind: KindId,
    /// Its name.
    pub name: String,
    /// This node's region: what it hosts, what it knows, what waits.
    pub region: RegionState,
    /// This node's coordinator, if it runs here.
    pub coordinator: Option<CoordinatorState>,
}

/// One bucket of the keyed store as this node knows it now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BucketState {
    /// Its name.
    pub name: String,
    /// How it is open here.
    pub settings: BucketSettings,
    /// Whether the oldest member of its role has accepted that.
    pub is_accepted: bool,
    /// This node's store, if it has the bucket's role.
    pub store: Option<StoreId>,
    /// Keys that this store has taken over from other owners because it lacked them.
    pub keys_repaired: u64,
    /// What this store keeps for owners that are away, in a sloppy bucket.
    pub hints: usize,
    /// Whether this store was away for longer than `kv.tombstone_grace`, and does not serve all of its ranges
    /// before it has caught up.
    pub is_behind: bool,
    /// Copies of ranges whose owner is not there: not known, no member, or unreachable; as many as a range is
    /// to have for one that nobody owns. As far as is known: the node that coordinates it knows.
    pub copies_missing: usize,
    /// Calls of this node that somebody waits for.
    pub calls_waiting: usize,
    /// How long the one has been open that has waited longest.
    pub longest_wait: Duration,
    /// The term in which this node coordinates its ranges, if it does.
    pub coordinates: Option<Token>,
    /// Its ranges, by number.
    pub ranges: Vec<RangeState>,
    /// Whose the stores are that own ranges, as far as is known.
    pub stores: OrderedMap<StoreId, UniqueAddress>,
}

/// One range of a bucket as this node knows it now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RangeState {
    /// Who owns it, and in which epoch; `None` if nobody does, as far as is known.
    pub configuration: Option<Configuration>,
    /// See [`BucketState::copies_missing`].
    pub copies_missing: usize,
    /// What this node's store keeps for its owners that are away.
    pub hints: usize,
    /// Calls of this node for its keys that somebody waits for.
    pub calls_waiting: usize,
    /// How long the one of these has been open that has waited longest.
    pub longest_wait: Duration,
}

/// One path as this node knows it now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathState {
    /// Its name.
    pub name: PathName,
    /// With what it is registered; `None` once it was removed.
    pub settings: Option<Arc<PathSettings>>,
    /// When the leader last decided about it.
    pub epoch: PathEpoch,
    /// Its slots, by number.
    pub slots: Vec<PathSlotState>,
}

/// One slot of a path as this node knows it now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathSlotState {
    /// The member that hosts it.
    pub host: Option<UniqueAddress>,
    /// Its last move, and how far that is ([`SlotMove::is_pending`]: it is under way).
    pub last_move: Option<SlotMove>,
    /// The token of the instance that runs on this node, or stops here.
    pub running: Option<Token>,
}
