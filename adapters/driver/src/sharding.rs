//! Settings of kinds (allocation, passivation, remembered entities, extractors), and what inspection says of
//! shards: where each is, how many entities it has, and why it is there. Page: `docs/entities.md`.

pub use quorate_core::effect::{RegionShutdown, ShardingCommandError};
pub use quorate_core::event::ShardingEvent;
pub use quorate_core::sharding::allocation::{
    AllocationError, AllocationSettings, AllocationStrategy, CustomAllocation, DesiredHomes, HashingLimits,
    RebalanceLimits, RegionLoad, RegionRing, SimultaneousLimits,
};
pub use quorate_core::sharding::extractor::{CustomExtractor, ShardExtractor};
pub use quorate_core::sharding::fields::{FieldDifference, FieldDifferences, StoreMode};
pub use quorate_core::sharding::ids::{EntityId, KindId, Payload, ShardId, Term};
pub use quorate_core::sharding::passivation::{
    ClimbingSettings, IdleSettings, LimitSettings, PassivationError, PassivationSettings, Replacement,
    Segments, Share, SketchSettings, WindowSettings,
};
pub use quorate_core::sharding::protocol::stop::StoppedShards;
pub use quorate_core::sharding::protocol::survey::{
    Decided, EntityPage, EntityPosition, Explained, Placement, RegionCounts, ShardDecision, ShardEntities,
    Survey,
};
pub use quorate_core::sharding::protocol::{HomeWanted, RegionShards};
pub use quorate_core::sharding::remember::{EntityRecovery, RememberStore};
pub use quorate_core::sharding::wish::{Wish, WishObstacle};
pub use quorate_core::sharding::{CoordinatorPhase, CoordinatorState, RegionState};

pub use crate::allocating::{AllocationFailure, AsyncAllocationStrategy};
pub use crate::entity::{TIMER_INTERVAL_MIN, TIMERS_MAX};
pub use crate::kind::SHARDS_DEFAULT;
pub use crate::places::{PlaceError, ShardPlaces};
pub use crate::stats::KindState;
