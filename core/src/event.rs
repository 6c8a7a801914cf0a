//! What users and operators hear about: facts, each with what is needed to act on it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::downing::decision::Decision;
use crate::downing::view::IndirectRule;
use crate::ident::{Role, UniqueAddress};
use crate::membership::events::MembershipChange;
use crate::reject::{JoinRefusal, Rejection};
use crate::sharding::errors::AskFailure;
use crate::sharding::ids::{KindId, ShardId, Term};
use crate::time::Instant;
use crate::view::View;

/// A fact.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The membership picture changed; the new picture comes with it.
    Membership {
        /// What changed.
        change: MembershipChange,
        /// The picture after the whole step.
        view: Arc<View>,
    },
    /// This node has become Up.
    SelfUp,
    /// This node is no longer a member. Said exactly once, after its shards were told to stop.
    SelfRemoved,
    /// A join attempt failed; the node goes on trying.
    JoinFailed {
        /// What was wrong.
        reason: JoinFailure,
    },
    /// The leader has not been able to act for a while.
    LeaderIncapacitated {
        /// Leader ticks without convergence.
        ticks: u64,
    },
    /// A phase of this node's way out took longer than it may; the node went on without waiting.
    ShutdownPhaseTimedOut {
        /// Which phase.
        phase: ShutdownPhase,
    },
    /// The resolver decided, or waits for the lease to do so.
    Downing(DowningEvent),
    /// There are more members than the downing strategy can decide about: the next partition ends the whole cluster.
    TooManyMembersToDecide {
        /// Members counted.
        members: usize,
        /// Most that it can decide about.
        members_max: usize,
    },
    /// No member has the role that the downing strategy counts by: the next partition ends the whole cluster, or at least
    /// does not end as the strategy says.
    NobodyHasDowningRole {
        /// The role.
        role: Role,
    },
    /// This process stood still. Its work may be somebody else's by now: a host must not let an entity begin with a message
    /// before [`Event::StillMember`].
    Paused {
        /// For about this long beyond what was due.
        excess: core::time::Duration,
    },
    /// After [`Event::Paused`]: a member that was reached after the pause counts this node in, or there is nobody who could
    /// have taken its work over. Entities may go on. Never said if the node turns out to be removed; it halts then.
    StillMember,
    /// Sharding.
    Sharding {
        /// The entity kind.
        kind: KindId,
        /// What happened.
        event: ShardingEvent,
    },
    /// A peer did something wrong; nothing was changed by it.
    Rejected {
        /// The peer, if the link had one.
        peer: UniqueAddress,
        /// What was wrong.
        rejection: Rejection,
    },
}

/// A phase of a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownPhase {
    /// Shards are handed over (`exit_drain_timeout`).
    HandOver,
    /// The leader moves the leaving node to Exiting (`exiting_timeout`).
    Exiting,
}

/// Why a join attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinFailure {
    /// No seed answered in time.
    NoSeedAnswered {
        /// Attempts so far.
        attempt: u32,
    },
    /// The seed's settings differ in a way that cannot work.
    IncompatibleConfig,
    /// No Welcome came in time.
    NoWelcome,
    /// A member refused.
    Refused {
        /// Why.
        reason: JoinRefusal,
    },
    /// It took longer than `shutdown_after_unsuccessful_join`; the node halts.
    Aborted,
}

/// A decision of the split-brain resolver, or what it would be now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DowningEvent {
    /// The strategy, as its configuration names it.
    pub strategy: &'static str,
    /// Which complaints told whether the split is clean.
    pub rule: IndirectRule,
    /// The decision.
    pub decision: Decision,
    /// What made it, in words.
    pub reason: &'static str,
    /// Members that were counted.
    pub members: Vec<UniqueAddress>,
    /// Those of them that are unreachable.
    pub unreachable: Vec<UniqueAddress>,
    /// Members on broken links.
    pub indirectly_connected: Vec<UniqueAddress>,
    /// Who is downed.
    pub down: Vec<UniqueAddress>,
    /// What it waits for; `None` if it was carried out.
    pub waits_for: Option<DowningWait>,
}

impl core::fmt::Display for DowningEvent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names = |nodes: &[UniqueAddress]| {
            let names: Vec<_> = nodes.iter().map(alloc::string::ToString::to_string).collect();
            if names.is_empty() {
                alloc::string::String::from("nobody")
            } else {
                names.join(", ")
            }
        };
        let (strategy, down) = (self.strategy, names(&self.down));
        write!(f, "By {strategy}, {} would be downed: {}.", down, self.reason)?;
        match self.waits_for {
            None => f.write_str(" It is decided at the resolver's next tick."),
            Some(DowningWait::Stable { .. }) => f.write_str(" It waits for the picture to stay as it is."),
            Some(DowningWait::Leader) => f.write_str(" The leader decides, and I am not the leader."),
            Some(DowningWait::OtherSide { .. }) => {
                f.write_str(" The larger side may ask for the lease first.")
            }
            Some(DowningWait::Lease { .. }) => f.write_str(" The lease has been asked for."),
        }
    }
}

/// What a downing decision waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DowningWait {
    /// The picture has to stay as it is until then.
    Stable {
        /// Until when.
        until: Instant,
    },
    /// Another node is the leader; it decides.
    Leader,
    /// The larger side may ask for the lease first.
    OtherSide {
        /// Until when.
        until: Instant,
    },
    /// The lease has been asked for.
    Lease {
        /// After this the answer counts as a refusal.
        until: Instant,
    },
}

/// What happened in sharding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardingEvent {
    /// This region is registered with a coordinator.
    RegionRegistered {
        /// The coordinator's term.
        term: Term,
    },
    /// The coordinator refused this region: the shard counts differ.
    RegistrationRefused {
        /// Ours.
        ours: u32,
        /// The cluster's.
        theirs: u32,
    },
    /// This node's coordinator has begun to recover the homes.
    CoordinatorStarted {
        /// Its term.
        term: Term,
    },
    /// This node's coordinator knows all homes and allocates.
    CoordinatorRecovered {
        /// Its term.
        term: Term,
        /// Shards with a home.
        shards: usize,
    },
    /// This node's coordinator gave a shard a home.
    ShardAllocated {
        /// The shard.
        shard: ShardId,
        /// Its home.
        home: UniqueAddress,
    },
    /// This node has begun to host a shard.
    ShardStarted {
        /// The shard.
        shard: ShardId,
        /// The term it was started under.
        term: Term,
    },
    /// This node has stopped hosting a shard.
    ShardStopped {
        /// The shard.
        shard: ShardId,
    },
    /// A shard did not stop in time; its entities were killed.
    ShardStopTimeout {
        /// The shard.
        shard: ShardId,
    },
    /// A hand-off did not finish in time; the shard keeps its home.
    HandOffTimeout {
        /// The shard.
        shard: ShardId,
    },
    /// Two regions claim to host one shard; it is stopped on both and gets a new home.
    ShardConflict {
        /// The shard.
        shard: ShardId,
    },
    /// A message without an asker could not be delivered. (One with an asker is answered instead.)
    DeadLetter {
        /// Its shard.
        shard: ShardId,
        /// Why.
        reason: AskFailure,
    },
    /// The region's buffer is full; said once until it has been flushed.
    BufferFull {
        /// Messages in it.
        messages: usize,
    },
    /// This region has handed over everything.
    Drained,
}
