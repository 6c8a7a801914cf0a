//! How a kind's shards are spread over its regions: the strategies' settings, and what a strategy of the
//! application is. Values that are checked when they are made; decides nothing. Spec: sharding 1.7, 4.1.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::ddata::state::key::KEY_BYTES_MAX;
use crate::ident::UniqueAddress;
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::member::Status;
use crate::ordered::OrderedSet;
use crate::sharding::state::ids::ShardId;

/// Most points that one region may have on the ring: a thousand spread shards to within a few hundredths.
pub const VIRTUAL_NODES_MAX: u16 = 1_024;

/// What a kind's name has in front where replicated data keeps where its shards are wanted from outside.
pub const PLACES_KEY_PREFIX: &str = "external-sharding-";

/// Most bytes in the name of a kind whose shards are placed from outside: with [`PLACES_KEY_PREFIX`] it is a
/// key of replicated data.
pub const PLACED_NAME_BYTES_MAX: usize = KEY_BYTES_MAX - PLACES_KEY_PREFIX.len();

/// A region as allocation sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionLoad<'a> {
    /// Its node.
    pub node: &'a UniqueAddress,
    /// The status of its member.
    pub status: Status,
    /// The application version of its member.
    pub app_version: AppVersion,
    /// Its shards, the one allocated first at the front.
    pub shards: &'a [ShardId],
}

/// How a kind's shards are spread. Only the coordinator uses it, which is on the oldest member of the kind's
/// role: give the same to every node that may become the oldest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocationSettings {
    /// A new shard goes to the region with the fewest. What is above the average moves, a limited number in
    /// one round, and the next round begins when all of it has arrived: one or two rounds balance anything.
    LeastShards(RebalanceLimits),
    /// The same for new shards. A few move from the fullest region to the emptiest one at a time, until they
    /// differ by no more than a threshold: slower, and never within one of each other unless the threshold is
    /// one.
    LeastShardsOneByOne(SimultaneousLimits),
    /// A shard's place follows from its number and the members alone: a region that comes takes its part from
    /// all others, and nothing moves between those that were there.
    ConsistentHashing(HashingLimits),
    /// Somebody says from outside where shards should be, shard by shard
    /// ([`Command::SetDesiredHomes`](crate::sharding::protocol::Command::SetDesiredHomes)). A shard that
    /// nobody wants anywhere starts at the region that asks for it and stays. The kind's name has at most
    /// [`PLACED_NAME_BYTES_MAX`] bytes.
    External,
    /// The application decides, at once.
    Custom(CustomAllocation),
    /// The application decides, and may take its time: the host is asked
    /// ([`Effect::Allocate`](crate::effect::Effect::Allocate)). Named for people.
    Asked(Arc<str>),
}

/// How much one round of rebalancing may move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RebalanceLimits {
    /// Most shards per round (>= 1).
    pub absolute: usize,
    /// Most shards per round, as a share of all shards (above 0 to 1); at least one shard may always move.
    pub relative: f64,
}

/// The bits of the share decide, so that equality is what it has to be.
impl Eq for RebalanceLimits {}

impl RebalanceLimits {
    /// Most shards that one round may move when there are `total`.
    #[must_use]
    pub fn per_round(&self, total: usize) -> usize {
        // Shards are at most 65,536 per kind, so the product is exact enough and the cast cannot lose
        // anything.
        let share = libm::trunc(self.relative * total as f64) as usize;
        share.min(self.absolute).max(1)
    }
}

/// How many shards the older algorithm moves at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimultaneousLimits {
    /// Nothing moves while the fullest region has at most so many more than the emptiest one (>= 1). Mirrors
    /// `rebalance-threshold`.
    pub threshold: usize,
    /// Most shards that move at once (>= 1). Mirrors `max-simultaneous-rebalance`.
    pub simultaneous: usize,
}

impl Default for SimultaneousLimits {
    /// 1 and 3, as in Akka.
    fn default() -> Self {
        Self {
            threshold: 1,
            simultaneous: 3,
        }
    }
}

/// How the ring is made, and how many shards follow it at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashingLimits {
    /// Points of each region on the ring, 1 to [`VIRTUAL_NODES_MAX`] (default 128: the fullest of fifty
    /// regions then has about a quarter more than its part; with Akka's 10 it has twice its part).
    pub virtual_nodes: u16,
    /// Most shards that one round moves; 0: any number (the default).
    pub per_round: usize,
}

impl Default for HashingLimits {
    fn default() -> Self {
        Self {
            virtual_nodes: 128,
            per_round: 0,
        }
    }
}

/// An allocation strategy of the application. Called by the coordinator while it decides: it must answer at
/// once and must not block. What it answers is checked: a region that is not among those given, and a shard
/// that is not there, are passed over.
pub trait AllocationStrategy: Send + Sync + 'static {
    /// What an operator reads.
    fn name(&self) -> &str;

    /// The region for a shard that has none: its position in `regions`, which are sorted by node and not
    /// empty. `requester` is the node that has a message for it, if there is one. `None`: the most suitable
    /// one.
    fn allocate(
        &self,
        requester: Option<&UniqueAddress>,
        shard: ShardId,
        regions: &[RegionLoad<'_>],
    ) -> Option<usize>;

    /// The shards that should be taken from their regions now; those in progress are moving already. Called
    /// at every look at the balance, and only while all members of the data center are reachable and settled
    /// and have one version.
    fn rebalance(&self, regions: &[RegionLoad<'_>], in_progress: &OrderedSet<ShardId>) -> Vec<ShardId>;
}

/// An [`AllocationStrategy`] of the application. Equal to its clones and to nothing else.
#[derive(Clone)]
pub struct CustomAllocation(Arc<dyn AllocationStrategy>);

impl CustomAllocation {
    /// Wraps a strategy.
    pub fn new(strategy: impl AllocationStrategy) -> Self {
        Self(Arc::new(strategy))
    }

    pub(crate) fn strategy(&self) -> &dyn AllocationStrategy {
        &*self.0
    }
}

impl PartialEq for CustomAllocation {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CustomAllocation {}

impl fmt::Debug for CustomAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomAllocation").field(&self.0.name()).finish()
    }
}

/// Why the settings of an allocation strategy were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocationError {
    /// A number that must be at least 1 is 0.
    #[error("{what} must be at least 1")]
    Zero {
        /// Which.
        what: &'static str,
    },
    /// The share of a round is no number above 0 and at most 1.
    #[error("the share of a round must be above 0 and at most 1")]
    BadShare,
    /// Too many points on the ring.
    #[error("a region has at most {VIRTUAL_NODES_MAX} points on the ring")]
    TooManyPoints,
}

impl AllocationSettings {
    /// Whether the numbers are in their ranges.
    ///
    /// # Errors
    /// [`AllocationError`] names the first that is not.
    pub fn check(&self) -> Result<(), AllocationError> {
        let at_least_one = |what, value: usize| match value {
            0 => Err(AllocationError::Zero { what }),
            _ => Ok(()),
        };
        match self {
            Self::LeastShards(limits) => {
                at_least_one("the shards of a round", limits.absolute)?;
                let is_share = limits.relative > 0.0 && limits.relative <= 1.0;
                if is_share {
                    Ok(())
                } else {
                    Err(AllocationError::BadShare)
                }
            }
            Self::LeastShardsOneByOne(limits) => {
                at_least_one("the threshold", limits.threshold)?;
                at_least_one("the shards that move at once", limits.simultaneous)
            }
            Self::ConsistentHashing(limits) if limits.virtual_nodes > VIRTUAL_NODES_MAX => {
                Err(AllocationError::TooManyPoints)
            }
            Self::ConsistentHashing(limits) => {
                at_least_one("a region's points on the ring", usize::from(limits.virtual_nodes))
            }
            Self::External | Self::Custom(_) | Self::Asked(_) => Ok(()),
        }
    }
}
