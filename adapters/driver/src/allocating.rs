//! Strategies of the application that may take their time to say where shards go: a task of the users'
//! executor asks them, and its answer goes back to the core as a command, which looks at all of it anew.
//! Decides nothing. Spec: sharding 1.7.

use std::collections::BTreeSet;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use quorate_core::effect::{AllocationNeed, AllocationQuestion};
use quorate_core::ident::UniqueAddress;
use quorate_core::input::{Command, ShardingCommand};
use quorate_core::sharding::ids::ShardId;
use quorate_core::sharding::protocol::{AllocationAnswer, AllocationDecided, HomeWanted, RegionShards};

use crate::sync::{Either, Task, race};

/// Why an allocation strategy failed.
pub type AllocationFailure = Box<dyn Error + Send + Sync>;

/// An allocation strategy of the application that answers asynchronously, for example by asking another
/// service. Given to a kind with [`Kind::allocation_by`](crate::Kind::allocation_by). One that can answer at
/// once is an [`AllocationStrategy`](crate::sharding::AllocationStrategy), which costs less.
///
/// The oldest member of the kind's role asks, on the application's executor: at most one question of each
/// sort at a time. While one is open messages for the shards in it wait, and everything else goes on. An
/// answer is looked at anew: a region that has gone, a shard that has got a home or has moved meanwhile are
/// passed over. One that fails, panics or takes longer than `sharding.allocation_timeout` (5 s) counts as
/// none, and is dropped: the shards go to who asked for them, or nothing moves, and the event
/// `AllocationUnanswered` says so.
///
/// ```
/// use std::collections::BTreeSet;
/// use quorate_driver::{UniqueAddress, sharding::{HomeWanted, RegionShards, ShardId}};
/// use quorate_driver::sharding::{AllocationFailure, AsyncAllocationStrategy};
/// # async fn node_with_most_room() -> Result<String, AllocationFailure> { Ok(String::new()) }
///
/// /// Everything where an inventory says that there is room.
/// struct Roomy;
///
/// impl AsyncAllocationStrategy for Roomy {
///     fn name(&self) -> &str {
///         "roomy"
///     }
///
///     async fn allocate(
///         &self,
///         wanted: &[HomeWanted],
///         regions: &[RegionShards],
///     ) -> Result<Vec<(ShardId, UniqueAddress)>, AllocationFailure> {
///         let host = node_with_most_room().await?;
///         let found = regions.iter().find(|region| region.node.address().host() == host);
///         let homes = found.map(|region| wanted.iter().map(|wanted| (wanted.shard, region.node.clone())));
///         Ok(homes.into_iter().flatten().collect())
///     }
///
///     async fn rebalance(
///         &self,
///         _regions: &[RegionShards],
///         _in_progress: &BTreeSet<ShardId>,
///     ) -> Result<Vec<ShardId>, AllocationFailure> {
///         Ok(Vec::new())
///     }
/// }
/// ```
pub trait AsyncAllocationStrategy: Send + Sync + 'static {
    /// The strategy's name, for operators.
    fn name(&self) -> &str;

    /// Homes for shards that have none, at most 256 in one question. What is left out goes to the most
    /// suitable region. `regions` are those that may have shards, sorted by node and not empty.
    ///
    /// # Errors
    /// As for an answer that does not come: the shards go to who asked for them.
    ///
    /// # Cancel safety
    /// It is dropped when its time is over.
    fn allocate(
        &self,
        wanted: &[HomeWanted],
        regions: &[RegionShards],
    ) -> impl Future<Output = Result<Vec<(ShardId, UniqueAddress)>, AllocationFailure>> + Send;

    /// Shards that should be taken from their regions now; those in progress are moving already. Asked at
    /// every look at the balance (`sharding.rebalance_interval`) while all members of the data center are
    /// reachable and settled and have one version.
    ///
    /// # Errors
    /// As for an answer that does not come: nothing moves.
    ///
    /// # Cancel safety
    /// It is dropped when its time is over.
    fn rebalance(
        &self,
        regions: &[RegionShards],
        in_progress: &BTreeSet<ShardId>,
    ) -> impl Future<Output = Result<Vec<ShardId>, AllocationFailure>> + Send;
}

type Deciding<'s> = Pin<Box<dyn Future<Output = Result<AllocationDecided, AllocationFailure>> + Send + 's>>;

/// An [`AsyncAllocationStrategy`] of any type.
pub(crate) trait Asked: Send + Sync {
    fn decide<'s>(&'s self, need: &'s AllocationNeed, regions: &'s [RegionShards]) -> Deciding<'s>;
}

impl<S: AsyncAllocationStrategy> Asked for S {
    fn decide<'s>(&'s self, need: &'s AllocationNeed, regions: &'s [RegionShards]) -> Deciding<'s> {
        Box::pin(async move {
            match need {
                AllocationNeed::Homes(wanted) => {
                    let homes = self.allocate(wanted, regions).await?;
                    Ok(AllocationDecided::Homes(homes))
                }
                AllocationNeed::Moves { in_progress } => {
                    let in_progress = in_progress.iter().copied().collect();
                    let shards = self.rebalance(regions, &in_progress).await?;
                    Ok(AllocationDecided::Moves(shards))
                }
            }
        })
    }
}

/// Hands a command to the node; the answer to it says nothing.
type Hands = Arc<dyn Fn(Command) -> Task + Send + Sync>;

/// A kind's strategy and the way back to its node.
#[derive(Clone)]
pub(crate) struct Decider {
    strategy: Arc<dyn Asked>,
    node: Hands,
}

impl Decider {
    pub(crate) fn new(
        strategy: Arc<dyn Asked>,
        node: impl Fn(Command) -> Task + Send + Sync + 'static,
    ) -> Self {
        let node = Arc::new(node);
        Self { strategy, node }
    }

    /// The task that asks, until the time is over, and answers.
    pub(crate) fn task(
        &self,
        question: AllocationQuestion,
        too_late: impl Future<Output = ()> + Send + 'static,
    ) -> Task {
        let (strategy, node) = (Arc::clone(&self.strategy), Arc::clone(&self.node));
        Box::pin(async move {
            let AllocationQuestion {
                kind, number, need, ..
            } = &question;
            let deciding = guarded(|| strategy.decide(need, &question.regions));
            let decided = match race(deciding, too_late).await {
                Either::Left(Ok(decided)) => decided,
                Either::Left(Err(error)) => {
                    tracing::warn!(
                        target: "cluster::sharding", event = "allocation_failed", ?kind, %error,
                        "the kind's allocation strategy failed"
                    );
                    AllocationDecided::Failed
                }
                // The node knows by its own clock.
                Either::Right(()) => return,
            };
            let answer = AllocationAnswer {
                kind: *kind,
                number: *number,
                decided,
            };
            node(Command::Sharding(ShardingCommand::AnswerAllocation(answer))).await;
        })
    }
}

/// Runs a strategy to its end; a panic of it is a failure. Nothing that it has touched is looked at
/// afterwards but by itself.
async fn guarded<'s>(begin: impl FnOnce() -> Deciding<'s>) -> Result<AllocationDecided, AllocationFailure> {
    let panicked = |_| AllocationFailure::from("it has panicked");
    let deciding = catch_unwind(AssertUnwindSafe(begin)).map_err(panicked)?;
    let mut deciding = pin!(deciding);
    poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| deciding.as_mut().poll(cx))) {
            Ok(polled) => polled,
            Err(panic) => Poll::Ready(Err(panicked(panic))),
        },
    )
    .await
}
