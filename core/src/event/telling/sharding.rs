//! Events of a kind of entities as they are told. Decides nothing.

use core::fmt::{self, Display, Formatter};

use super::{AreaMarks, EventArea, EventField, EventListener, ListAfter, TellEvent};
use crate::event::ShardingEvent;
use crate::sharding::state::ids::EntityId;

/// Entities that have not ended, of which only the first are named.
struct RunningEntities<'a>(&'a [EntityId], usize);

impl Display for RunningEntities<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(named, more) = self;
        write!(f, "{}", ListAfter("; told to stop and not ended: ", named))?;
        if named.is_empty() || *more == 0 {
            return Ok(());
        }
        write!(f, " and {more} more")
    }
}

impl TellEvent for ShardingEvent {
    fn tell(&self, to: &mut dyn EventListener) -> fmt::Result {
        let marks = AreaMarks(EventArea::Sharding);
        match self {
            Self::RegionRegistered { term } => to.hear(
                marks.debug("region_registered"),
                &[(EventField::Node, &term.node)],
                format_args!("the region is registered with the coordinator on {}", term.node),
            ),
            Self::KindRefused { difference } => to.hear(
                marks.error("kind_refused"),
                &[],
                format_args!(
                    "the kind differs from the cluster's and is disabled on this node: \
                     {difference}"
                ),
            ),
            Self::KindRefusedOn { node, difference } => to.hear(
                marks.warn("kind_refused_on"),
                &[(EventField::Node, node)],
                format_args!("the kind of {node} is refused, 'here' is that node: {difference}"),
            ),
            Self::MayRunTwice { strategy } => to.hear(
                marks.warn("may_run_twice"),
                &[(EventField::Strategy, strategy)],
                format_args!(
                    "under {strategy} both sides of a partition go on, and each runs the kind's \
entities"
                ),
            ),
            Self::CoordinatorStarted { term } => to.hear(
                marks.info("coordinator_started"),
                &[],
                format_args!("the coordinator on {} recovers", term.node),
            ),
            Self::CoordinatorRecovered { term, shards } => to.hear(
                marks.info("coordinator_recovered"),
                &[],
                format_args!(
                    "the coordinator on {} knows {shards} homes and allocates",
                    term.node
                ),
            ),
            Self::CoordinatorStateLate { writing: true, times } => to.hear(
                marks.warn("coordinator_state_late"),
                &[],
                format_args!("the coordinator cannot write its state; the time limit passed {times} times"),
            ),
            Self::CoordinatorStateLate {
                writing: false,
                times,
            } => to.hear(
                marks.warn("coordinator_state_late"),
                &[],
                format_args!("the coordinator cannot read its state; the time limit passed {times} times"),
            ),
            Self::CoordinatorRefused { term, error } => to.hear(
                marks.warn("coordinator_refused"),
                &[],
                format_args!("the store refused the coordinator on {}: {error}", term.node),
            ),
            Self::CoordinatorStateDamaged => to.hear(
                marks.error("coordinator_state_damaged"),
                &[],
                format_args!(
                    "the coordinator's stored state is damaged; nothing is allocated until it is \
removed"
                ),
            ),
            Self::ShardAllocated { shard, home } => to.hear(
                marks.debug("shard_allocated"),
                &[(EventField::Shard, shard), (EventField::Node, home)],
                format_args!("shard {shard} has its home on {home}"),
            ),
            Self::AllocationUnanswered { shards: 0 } => to.hear(
                marks.warn("allocation_unanswered"),
                &[],
                format_args!(
                    "the kind's allocation strategy did not answer which shards should move; none moves"
                ),
            ),
            Self::AllocationUnanswered { shards } => to.hear(
                marks.warn("allocation_unanswered"),
                &[],
                format_args!(
                    "the kind's own strategy has not said where {shards} shards go: they go to who \
asked for them"
                ),
            ),
            Self::ShardMovesByLoad {
                shard,
                from,
                to: cold,
            } => to.hear(
                marks.info("shard_moves_by_load"),
                &[(EventField::Shard, shard), (EventField::Node, cold)],
                format_args!("shard {shard} goes from {from} to {cold}, which has less to do"),
            ),
            Self::ShardStarted { shard, term } => to.hear(
                marks.debug("shard_started"),
                &[(EventField::Shard, shard)],
                format_args!(
                    "shard {shard} runs here, by order of the coordinator on {}",
                    term.node
                ),
            ),
            Self::ShardStopped { shard } => to.hear(
                marks.debug("shard_stopped"),
                &[(EventField::Shard, shard)],
                format_args!("shard {shard} has stopped here"),
            ),
            Self::ShardFailed { shard } => to.hear(
                marks.warn("shard_failed"),
                &[(EventField::Shard, shard)],
                format_args!(
                    "the store failed to say or keep what shard {shard} remembers; it begins again \
after a pause"
                ),
            ),
            Self::RememberedDamaged { shard: Some(shard) } => to.hear(
                marks.error("remembered_damaged"),
                &[(EventField::Shard, shard)],
                format_args!("the stored ids of the remembered entities of shard {shard} are damaged"),
            ),
            Self::RememberedDamaged { shard: None } => to.hear(
                marks.error("remembered_damaged"),
                &[],
                format_args!("the stored list of shards with remembered entities is damaged"),
            ),
            Self::ShardLeaseLost { shard } => to.hear(
                marks.warn("shard_lease_lost"),
                &[(EventField::Shard, shard)],
                format_args!(
                    "the lease of shard {shard} was lost; its entities were stopped at once and \
wait for it"
                ),
            ),
            Self::ShardStopTimeout { shard } => to.hear(
                marks.warn("shard_stop_timeout"),
                &[(EventField::Shard, shard)],
                format_args!("shard {shard} did not stop in time; its entities were killed"),
            ),
            Self::HandOffTimeout {
                shard,
                unmarked,
                running,
            } => to.hear(
                marks.warn("hand_off_timeout"),
                &[(EventField::Shard, shard)],
                format_args!(
                    "shard {shard} was not handed off in time; it stays{}{}",
                    ListAfter("; not everything has arrived that was sent by ", unmarked),
                    ListAfter("; entities have not stopped on ", running)
                ),
            ),
            Self::HandOffCancelled { shard, running, more } => to.hear(
                marks.warn("hand_off_cancelled"),
                &[(EventField::Shard, shard)],
                format_args!(
                    "the hand-off of shard {shard} was cancelled; it goes on here{}",
                    RunningEntities(running, *more)
                ),
            ),
            Self::ShardConflict { shard } => to.hear(
                marks.warn("shard_conflict"),
                &[(EventField::Shard, shard)],
                format_args!("two regions claim to host shard {shard}; both stop it, and it gets a new home"),
            ),
            Self::DeadLetter { shard, reason } => to.hear(
                marks.debug("dead_letter"),
                &[(EventField::Shard, shard), (EventField::Reason, reason)],
                format_args!("a message for shard {shard} is lost: {reason}"),
            ),
            Self::EnvelopeUnmatched => to.hear(
                marks.debug("envelope_unmatched"),
                &[],
                format_args!("an envelope names no entity; it was not sent"),
            ),
            Self::BufferFull { messages } => to.hear(
                marks.warn("buffer_full"),
                &[],
                format_args!("the buffer is full; it holds {messages} messages"),
            ),
            Self::BufferHasRoom => to.hear(
                marks.info("buffer_has_room"),
                &[],
                format_args!("the buffer has room again"),
            ),
            Self::Drained => to.hear(
                marks.debug("drained"),
                &[],
                format_args!("everything is handed over"),
            ),
        }
    }
}
