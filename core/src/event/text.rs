//! Events in words: one line each, for logs and for people who print what they hear. Decides nothing. Spec: `README.md`.

use core::fmt::{self, Display, Formatter};

use super::{
    Audit, DdataEvent, DetectorEvent, DowningEvent, DowningReport, DowningWait, Event, JoinFailure,
    JournalEvent, MembershipEvent, SeedCause, SeedFailure, ShardingEvent, ShutdownPhase, SingletonEvent,
};
use crate::membership::state::events::MembershipChange;

/// Things one behind the other, or that there are none.
struct List<'a, T>(&'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, item) in self.0.iter().enumerate() {
            let before = if number == 0 { "" } else { ", " };
            write!(f, "{before}{item}")?;
        }
        if self.0.is_empty() {
            f.write_str("nobody")
        } else {
            Ok(())
        }
    }
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Membership(event) => event.fmt(f),
            Self::Detector(event) => event.fmt(f),
            Self::Downing(event) => event.fmt(f),
            Self::Ddata(event) => event.fmt(f),
            Self::Singleton { singleton, event } => write!(f, "singleton {singleton:?}: {event}"),
            Self::Journal(event) => write!(f, "logs: {event}"),
            Self::Sharding { kind, event } => write!(f, "kind {kind:?}: {event}"),
            Self::Rejected { peer, rejection } => write!(f, "a message of {peer} was rejected: {rejection}"),
        }
    }
}

impl Display for MembershipEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { change, .. } => change.fmt(f),
            Self::SelfUp => f.write_str("this node is Up"),
            Self::SelfRemoved => f.write_str("this node is no longer a member"),
            Self::JoinFailed { reason } => write!(f, "a join attempt failed: {reason}"),
            Self::LeaderIncapacitated { ticks } => {
                write!(
                    f,
                    "the leader has not been able to act for {ticks} ticks: there is no convergence"
                )
            }
            Self::Asked(audit) => audit.fmt(f),
            Self::HandedOver { phase } => write!(f, "{phase} is done"),
            Self::ShutdownPhaseTimedOut { phase } => {
                write!(f, "{phase} took too long; the node goes on without")
            }
        }
    }
}

impl Display for Audit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} asks that {} may {}", self.by, self.whom, self.what)?;
        match &self.refused {
            None => f.write_str(": allowed"),
            Some(reason) => write!(f, ": refused, {}", reason.escape_debug()),
        }
    }
}

impl Display for ShutdownPhase {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sharding => "handing the shards over",
            Self::Singletons => "handing the singletons over",
            Self::Ddata => "telling others the last changes of replicated data",
            Self::Exiting => "waiting for the leader to move this node to Exiting",
        })
    }
}

impl Display for JournalEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settled { voters, votes: true } => {
                write!(f, "{voters} stores vote, this node's among them")
            }
            Self::Settled { voters, votes: false } => {
                write!(f, "{voters} stores vote, none of them this node's")
            }
            Self::Conflict { node } => write!(
                f,
                "{node} holds other voters than this node: its logs are not these"
            ),
            Self::OtherNumber { held, configured } => {
                write!(
                    f,
                    "{held} stores vote for good; the setting of {configured} changes nothing"
                )
            }
            Self::Damaged => {
                f.write_str("what the store holds of logs is damaged; this node does not vote about it")
            }
            Self::NearlyFull {
                log,
                bytes,
                bytes_max,
            } => {
                write!(
                    f,
                    "{log} has {bytes} of {bytes_max} bytes, and no appends beyond them"
                )
            }
            Self::Fenced { log, held } => write!(f, "token {held} owns {log}; this node does not"),
        }
    }
}

impl Display for SingletonEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::MayRunTwice { strategy } => write!(
                f,
                "under {strategy} both sides of a partition go on: each would run an instance"
            ),
            Self::Refused { difference } => {
                write!(f, "the singleton is refused on this node: {difference}")
            }
            Self::RefusedOn { node, difference } => {
                write!(
                    f,
                    "the singleton of {node} is refused, 'here' is that node: {difference}"
                )
            }
            Self::Started { token } => write!(f, "instance {token} was started"),
            Self::Stopped { token } => write!(f, "instance {token} has stopped"),
            Self::Failed { token, restart_after } => {
                write!(
                    f,
                    "instance {token} ended by itself; the next one follows in {restart_after:?}"
                )
            }
            Self::StopTimeout { token } => {
                write!(
                    f,
                    "instance {token} did not stop in time and is killed; its successor waits for its end"
                )
            }
            Self::Superseded { token, term } => {
                write!(
                    f,
                    "another node took the term {term}: instance {token} is void and stopped"
                )
            }
            Self::TermsUsedUp => {
                f.write_str("no term is left: a store holds one that no cluster can have taken")
            }
            Self::HandedOver { to } => write!(f, "handed over to {to}"),
            Self::LeaseLost => f.write_str("the lease was lost"),
            Self::HandOverStuck => {
                f.write_str("nobody answers, and nobody is known to be gone: the hand-over begins anew")
            }
            Self::DeadLetter { reason } => write!(f, "a message was not handled: {reason}"),
        }
    }
}

impl Display for MembershipChange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::TombstonesChanged => f.write_str("the set of removed incarnations changed"),
            Self::Removed { member, previous } => write!(f, "{} is removed, it was {previous}", member.node),
            Self::Joined(member)
            | Self::WeaklyUp(member)
            | Self::Up(member)
            | Self::Left(member)
            | Self::Exited(member)
            | Self::Downed(member)
            | Self::PreparingForShutdown(member)
            | Self::ReadyForShutdown(member) => write!(f, "{} is {}", member.node, member.status),
            Self::Unreachable(member) => write!(f, "{} is unreachable", member.node),
            Self::Reachable(member) => write!(f, "{} is reachable again", member.node),
            Self::LeaderChanged(Some(leader)) => write!(f, "{leader} is the leader"),
            Self::LeaderChanged(None) => f.write_str("there is no leader"),
            Self::RoleLeaderChanged { role, leader } => match leader {
                Some(leader) => write!(f, "{leader} is the leader of the role {role}"),
                None => write!(f, "there is no leader of the role {role}"),
            },
            Self::SeenChanged { converged, seen } => {
                let is = if *converged { "" } else { "not " };
                write!(
                    f,
                    "{} nodes have seen the state, which is {is}converged",
                    seen.len()
                )
            }
            Self::ReachabilityChanged => f.write_str("the reachability table changed"),
        }
    }
}

impl Display for JoinFailure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSeedAnswered { attempt, seeds } => {
                write!(f, "no seed helped in attempt {attempt}: {}", List(seeds))
            }
            Self::IncompatibleConfig { seed, differences } => {
                write!(f, "the settings of {seed} differ from this node's: {differences}")
            }
            Self::NoWelcome => f.write_str("no Welcome came in time"),
            Self::Refused { reason } => write!(f, "a member refused: {reason}"),
            Self::Aborted => f.write_str("it took longer than `shutdown_after_unsuccessful_join`"),
        }
    }
}

impl Display for SeedFailure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.seed, self.cause)
    }
}

impl Display for SeedCause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnswer => f.write_str("no answer"),
            Self::InNoCluster => f.write_str("in no cluster itself"),
            Self::SettingsDiffer(differences) => write!(f, "its settings differ: {differences}"),
            Self::Agrees => f.write_str("would have taken this node in"),
            Self::Refused => f.write_str("nobody listens there"),
            Self::Unresolvable => f.write_str("nobody knows this name"),
            Self::OtherCluster => f.write_str("belongs to another cluster"),
            Self::Security(why) | Self::Other(why) => write!(f, "{}", why.escape_debug()),
        }
    }
}

impl Display for DetectorEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused { excess } => {
                write!(f, "this process stood still for {excess:?} longer than was due")
            }
            Self::StillMember => f.write_str("this node still is a member, after a pause of this process"),
        }
    }
}

impl Display for DowningEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decision(report) => decision(report, f),
            Self::TooManyMembersToDecide { members, members_max } => write!(
                f,
                "{members} members are more than the downing strategy can decide about, {members_max}"
            ),
            Self::NobodyHasDowningRole { role } => {
                write!(
                    f,
                    "no member has the role {role}, by which the downing strategy counts"
                )
            }
        }
    }
}

/// What was decided. The report's own words are about what would be.
fn decision(report: &DowningReport, f: &mut Formatter<'_>) -> fmt::Result {
    let (strategy, decision, reason) = (report.strategy, &report.decision, report.reason);
    let (unreachable, members) = (report.unreachable.len(), report.members.len());
    write!(
        f,
        "{strategy} decided {decision} ({reason}), down: {}; ",
        List(&report.down)
    )?;
    write!(f, "{unreachable} of {members} members are unreachable")?;
    match &report.waits_for {
        None => Ok(()),
        Some(DowningWait::Stable { .. }) => f.write_str("; waits until the picture is stable"),
        Some(DowningWait::Leader) => f.write_str("; the leader decides"),
        Some(DowningWait::OtherSide { .. }) => f.write_str("; the other side may go first"),
        Some(DowningWait::Lease { .. }) => f.write_str("; waits for the lease"),
    }
}

impl Display for DdataEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { key, .. } => write!(f, "the value of {} changed", key.as_str().escape_debug()),
            Self::LargeValue { key, bytes } => {
                write!(
                    f,
                    "the value of {} is large, {bytes} bytes",
                    key.as_str().escape_debug()
                )
            }
            Self::Pruned { key, node } => {
                write!(
                    f,
                    "what {node} gave to {} is nobody's now",
                    key.as_str().escape_debug()
                )
            }
            Self::StoreAwaited { error } => {
                write!(f, "the store of replicated data is waited for: {error}")
            }
            Self::StoreRead => f.write_str("the store of replicated data is read now; this node takes part"),
            Self::StoreLost => {
                f.write_str("the store of replicated data cannot be read; this node takes no part")
            }
            Self::StoreOutdated { away } => {
                write!(
                    f,
                    "the store of replicated data is {away:?} old; this node takes no part"
                )
            }
            Self::AwayForLong { away } => {
                write!(
                    f,
                    "this node stood still for {away:?}: its replicated data waits for the others to say that it is still a member"
                )
            }
            Self::StillReplica => f.write_str(
                "the others say that this node is still a member: its replicated data is served again",
            ),
        }
    }
}

impl Display for ShardingEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::RegionRegistered { term } => write!(
                f,
                "the region is registered with the coordinator on {}",
                term.node
            ),
            Self::KindRefused { difference } => write!(f, "the kind is refused on this node: {difference}"),
            Self::KindRefusedOn { node, difference } => {
                write!(
                    f,
                    "the kind of {node} is refused, 'here' is that node: {difference}"
                )
            }
            Self::MayRunTwice { strategy } => write!(
                f,
                "under {strategy} both sides of a partition go on, and each runs the kind's entities"
            ),
            Self::CoordinatorStarted { term } => write!(f, "the coordinator on {} recovers", term.node),
            Self::CoordinatorRecovered { term, shards } => {
                write!(
                    f,
                    "the coordinator on {} knows {shards} homes and allocates",
                    term.node
                )
            }
            Self::CoordinatorStateLate { writing, times } => {
                let what = if *writing { "write" } else { "read" };
                write!(
                    f,
                    "the coordinator cannot {what} its state, limit passed {times} times"
                )
            }
            Self::CoordinatorRefused { term, error } => {
                write!(f, "the store refuses the coordinator on {}: {error}", term.node)
            }
            Self::CoordinatorStateDamaged => f.write_str(
                "the coordinator's stored state is damaged; nothing is allocated until it is removed",
            ),
            Self::ShardAllocated { shard, home } => write!(f, "shard {shard} has its home on {home}"),
            Self::AllocationUnanswered { shards: 0 } => {
                f.write_str("the kind's own strategy has not said which shards should move: none does")
            }
            Self::AllocationUnanswered { shards } => write!(
                f,
                "the kind's own strategy has not said where {shards} shards go: they go to who asked for them"
            ),
            Self::ShardStarted { shard, term } => write!(
                f,
                "shard {shard} runs here, by order of the coordinator on {}",
                term.node
            ),
            Self::ShardStopped { shard } => write!(f, "shard {shard} has stopped here"),
            Self::ShardFailed { shard } => write!(
                f,
                "the store failed to say or keep what shard {shard} remembers; it begins again after a pause"
            ),
            Self::RememberedDamaged { shard: Some(shard) } => {
                write!(f, "what is stored of which entities shard {shard} has is damaged")
            }
            Self::RememberedDamaged { shard: None } => {
                f.write_str("what is stored of which shards have remembered entities is damaged")
            }
            Self::ShardLeaseLost { shard } => write!(
                f,
                "the lease of shard {shard} was lost; its entities were stopped at once and wait for it"
            ),
            Self::ShardStopTimeout { shard } => {
                write!(f, "shard {shard} did not stop in time, its entities were killed")
            }
            Self::HandOffTimeout {
                shard,
                unmarked,
                running,
            } => {
                write!(f, "shard {shard} was not handed off in time, it stays")?;
                if !unmarked.is_empty() {
                    write!(
                        f,
                        "; not everything has arrived that was sent by {}",
                        List(unmarked)
                    )?;
                }
                if !running.is_empty() {
                    write!(f, "; entities have not stopped on {}", List(running))?;
                }
                Ok(())
            }
            Self::HandOffCancelled { shard, running, more } => {
                write!(f, "the hand-off of shard {shard} was cancelled, it goes on here")?;
                match (running.as_slice(), more) {
                    ([], _) => Ok(()),
                    (_, 0) => write!(f, "; told to stop and not ended: {}", List(running)),
                    (_, more) => {
                        write!(
                            f,
                            "; told to stop and not ended: {} and {more} more",
                            List(running)
                        )
                    }
                }
            }
            Self::ShardConflict { shard } => {
                write!(
                    f,
                    "two regions claim to host shard {shard}, which stops and gets a new home"
                )
            }
            Self::DeadLetter { shard, reason } => write!(f, "a message for shard {shard} is lost: {reason}"),
            Self::EnvelopeUnmatched => f.write_str("an envelope is for no entity, and is not sent"),
            Self::BufferFull { messages } => write!(f, "the buffer is full with {messages} messages"),
            Self::BufferHasRoom => f.write_str("the buffer has room again"),
            Self::Drained => f.write_str("everything is handed over"),
        }
    }
}

#[cfg(test)]
mod tests;
