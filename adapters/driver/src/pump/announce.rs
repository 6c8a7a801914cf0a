//! What the log says about events: one line per change of the membership with a stable `event` field, nothing per message.
//! Decides nothing. Spec: `README.md`.

use quorate_core::event::{
    DdataEvent, DetectorEvent, DowningEvent, Event, JournalEvent, MembershipEvent, ShardingEvent,
    SingletonEvent,
};
use quorate_core::ident::UniqueAddress;
use quorate_core::membership::events::MembershipChange;
use quorate_core::membership::member::Member;
use quorate_core::reject::{MembershipRejection, Rejection};
use quorate_core::time::Instant;

use super::entities::Entities;
use super::instances::Instances;
use crate::log_limit::LogLimit;

/// Who knows what events name by number only.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) kinds: &'a Entities,
    pub(crate) singletons: &'a Instances,
}

/// Writes an event to the log.
pub(crate) fn event(me: &UniqueAddress, event: &Event, log: &mut LogLimit, now: Instant, names: Names<'_>) {
    match event {
        Event::Membership(MembershipEvent::Changed { change, .. }) => membership(me, change),
        Event::Membership(MembershipEvent::SelfUp) => {
            tracing::info!(target: "cluster::membership", event = "self_up", %me)
        }
        Event::Membership(MembershipEvent::SelfRemoved) => {
            tracing::info!(target: "cluster::membership", event = "self_removed", %me)
        }
        Event::Membership(MembershipEvent::JoinFailed { reason }) => {
            tracing::warn!(target: "cluster::membership", event = "join_failed", %me, "{reason}");
        }
        Event::Membership(MembershipEvent::LeaderIncapacitated { ticks }) => {
            tracing::warn!(target: "cluster::membership", event = "cluster_leader_incapacitated", %me, ticks);
        }
        Event::Downing(DowningEvent::Decision(decision)) => tracing::warn!(
            target: "cluster::sbr", event = "sbr_downing", %me, strategy = decision.strategy, rule = %decision.rule,
            decision = %decision.decision, reason = decision.reason, members = ?decision.members,
            unreachable = ?decision.unreachable, indirectly_connected = ?decision.indirectly_connected,
            down = ?decision.down, waits_for = ?decision.waits_for
        ),
        Event::Downing(DowningEvent::TooManyMembersToDecide { members, members_max }) => {
            tracing::warn!(target: "cluster::sbr", event = "sbr_too_many_members", %me, members, members_max);
        }
        Event::Downing(DowningEvent::NobodyHasDowningRole { role }) => tracing::warn!(
            target: "cluster::sbr", event = "sbr_role_without_members", %me, %role,
            "no member has the role that the downing strategy counts by"
        ),
        Event::Detector(DetectorEvent::Paused { excess }) => {
            tracing::warn!(target: "cluster::fd", event = "heartbeat_starvation", %me, ?excess);
        }
        Event::Detector(DetectorEvent::StillMember) => {
            tracing::info!(target: "cluster::fd", event = "still_member", %me, "after a pause of this process");
        }
        Event::Sharding { kind, event } => self::sharding(me, &names.kinds.name(*kind).escape_debug(), event),
        // After a restart at the same address: a cluster's life, and nobody's fault.
        Event::Rejected {
            peer,
            rejection: rejection @ Rejection::WrongReceiver { .. },
        } => {
            if let Some(left_out) = log.take_line(now) {
                tracing::info!(
                    target: "cluster::transport", event = "rejected", %me, %peer, left_out, "{rejection}"
                );
            }
        }
        // Somebody has to mend it, here or there.
        Event::Rejected {
            peer,
            rejection: Rejection::Membership(MembershipRejection::SettingsDiffer(differences)),
        } => {
            if let Some(left_out) = log.take_line(now) {
                tracing::warn!(
                    target: "cluster::membership", event = "join_settings_differ", %me, %peer, left_out,
                    "a node that wants to join has other settings ('here' is this node): {differences}"
                );
            }
        }
        Event::Rejected { peer, rejection } => {
            if let Some(left_out) = log.take_line(now) {
                tracing::warn!(
                    target: "cluster::transport", event = "rejected", %me, %peer, left_out, "{rejection}"
                );
            }
        }
        Event::Membership(MembershipEvent::ShutdownPhaseTimedOut { .. }) => {
            tracing::warn!(target: "cluster::membership", event = "shutdown_phase_timed_out", %me, "{event}");
        }
        Event::Membership(MembershipEvent::HandedOver { phase }) => {
            tracing::debug!(target: "cluster::membership", event = "handed_over", %me, %phase);
        }
        // The door's audit has written it down.
        Event::Membership(MembershipEvent::Asked(_)) => {}
        Event::Ddata(event) => ddata(me, event),
        Event::Singleton { singleton, event } => {
            self::singleton(me, &names.singletons.name(*singleton).escape_debug(), event)
        }
        Event::Journal(event) => logs(me, event),
        // What a later version of the core says.
        Event::Membership(_) | Event::Downing(_) | Event::Detector(_) => unknown(me, event),
        _ => unknown(me, event),
    }
}

fn logs(me: &UniqueAddress, event: &JournalEvent) {
    match event {
        JournalEvent::Settled { .. } => {
            tracing::info!(target: "cluster::store", event = "voters_settled", %me, "{event}");
        }
        JournalEvent::Conflict { .. } | JournalEvent::OtherNumber { .. } => {
            tracing::warn!(target: "cluster::store", event = "voters_differ", %me, "{event}");
        }
        JournalEvent::NearlyFull { .. } => {
            tracing::warn!(target: "cluster::store", event = "log_nearly_full", %me, "{event}");
        }
        JournalEvent::Damaged => {
            tracing::error!(target: "cluster::store", event = "log_damaged", %me, "{event}");
        }
        JournalEvent::Fenced { .. } => {
            tracing::debug!(target: "cluster::store", event = "log_fenced", %me, "{event}");
        }
        _ => tracing::debug!(target: "cluster::store", event = "other", %me, other = ?event),
    }
}

fn unknown(me: &UniqueAddress, event: &Event) {
    tracing::debug!(target: "cluster::membership", event = "other", %me, other = ?event);
}

fn membership(me: &UniqueAddress, change: &MembershipChange) {
    let line = |event: &'static str, member: &Member| {
        tracing::info!(
            target: "cluster::membership", event, %me, member = %member.node, status = ?member.status
        );
    };
    match change {
        MembershipChange::Joined(member) => line("member_joined", member),
        MembershipChange::WeaklyUp(member) => line("member_weakly_up", member),
        MembershipChange::Up(member) => line("member_up", member),
        MembershipChange::Left(member) => line("member_left", member),
        MembershipChange::Exited(member) => line("member_exited", member),
        MembershipChange::Downed(member) => line("member_downed", member),
        MembershipChange::PreparingForShutdown(member) => line("member_preparing_for_shutdown", member),
        MembershipChange::ReadyForShutdown(member) => line("member_ready_for_shutdown", member),
        MembershipChange::Removed { member, .. } => line("member_removed", member),
        MembershipChange::Unreachable(member) => line("unreachable", member),
        MembershipChange::Reachable(member) => line("reachable", member),
        MembershipChange::LeaderChanged(leader) => {
            tracing::info!(target: "cluster::membership", event = "leader_changed", %me, ?leader);
        }
        MembershipChange::RoleLeaderChanged { role, leader } => {
            tracing::debug!(target: "cluster::membership", event = "role_leader_changed", %me, %role, ?leader);
        }
        MembershipChange::SeenChanged { converged, .. } => {
            tracing::trace!(target: "cluster::gossip", event = "seen_changed", %me, converged);
        }
        MembershipChange::TombstonesChanged | MembershipChange::ReachabilityChanged => {}
        other => tracing::debug!(target: "cluster::membership", event = "member_changed", %me, ?other),
    }
}

fn singleton(me: &UniqueAddress, name: &dyn std::fmt::Display, event: &SingletonEvent) {
    match event {
        SingletonEvent::Started { token } => {
            tracing::info!(target: "cluster::singleton", event = "singleton_started", %me, %name, %token);
        }
        SingletonEvent::Stopped { token } => {
            tracing::info!(target: "cluster::singleton", event = "singleton_terminated", %me, %name, %token);
        }
        SingletonEvent::HandedOver { to } => {
            tracing::info!(target: "cluster::singleton", event = "singleton_handed_over", %me, %name, %to);
        }
        SingletonEvent::Refused { difference } => tracing::error!(
            target: "cluster::singleton", event = "singleton_refused", %me, %name, %difference,
            "the singleton differs from the cluster's; this node neither hosts nor reaches it"
        ),
        SingletonEvent::RefusedOn { node, difference } => tracing::warn!(
            target: "cluster::singleton", event = "singleton_refused_on", %me, %name, %node, %difference,
            "another node's singleton differs from the cluster's; 'here' is that node"
        ),
        SingletonEvent::MayRunTwice { strategy } => tracing::warn!(
            target: "cluster::singleton", event = "may_run_twice", %me, %name, strategy, "{event}"
        ),
        SingletonEvent::TermsUsedUp => tracing::error!(
            target: "cluster::singleton", event = "terms_used_up", %me, %name, "{event}"
        ),
        SingletonEvent::Failed { .. }
        | SingletonEvent::StopTimeout { .. }
        | SingletonEvent::Superseded { .. }
        | SingletonEvent::LeaseLost
        | SingletonEvent::HandOverStuck => {
            tracing::warn!(target: "cluster::singleton", event = "singleton_trouble", %me, %name, "{event}");
        }
        SingletonEvent::DeadLetter { .. } => {
            tracing::debug!(target: "cluster::singleton", event = "dead_letter", %me, %name, "{event}");
        }
        // What a later version of the core says.
        _ => tracing::debug!(target: "cluster::singleton", event = "other", %me, %name, what = ?event),
    }
}

fn sharding(me: &UniqueAddress, kind: &dyn std::fmt::Display, event: &ShardingEvent) {
    match event {
        ShardingEvent::KindRefused { difference } => tracing::error!(
            target: "cluster::sharding", event = "kind_refused", %me, %kind, %difference,
            "the kind differs from the cluster's; nothing of it works on this node"
        ),
        ShardingEvent::KindRefusedOn { node, difference } => tracing::warn!(
            target: "cluster::sharding", event = "kind_refused_on", %me, %kind, %node, %difference,
            "another node's kind differs from the cluster's; 'here' is that node"
        ),
        ShardingEvent::MayRunTwice { strategy } => tracing::warn!(
            target: "cluster::sharding", event = "may_run_twice", %me, %kind, strategy, "{event}"
        ),
        ShardingEvent::AllocationUnanswered { shards } => tracing::warn!(
            target: "cluster::sharding", event = "allocation_unanswered", %me, %kind, shards, "{event}"
        ),
        ShardingEvent::ShardFailed { shard } => tracing::warn!(
            target: "cluster::sharding", event = "shard_failed", %me, %kind, %shard,
            "the store failed to say or keep what the shard remembers; it begins again after a pause"
        ),
        ShardingEvent::ShardLeaseLost { shard } => tracing::warn!(
            target: "cluster::sharding", event = "shard_lease_lost", %me, %kind, %shard,
            "its entities were stopped at once, and wait until the lease is granted once more"
        ),
        ShardingEvent::ShardStopTimeout { shard } => {
            tracing::warn!(target: "cluster::sharding", event = "shard_stop_timeout", %me, %kind, %shard);
        }
        ShardingEvent::HandOffTimeout { shard, .. } => tracing::warn!(
            target: "cluster::sharding", event = "hand_off_timeout", %me, %kind, %shard, "{event}"
        ),
        ShardingEvent::HandOffCancelled { shard, .. } => tracing::warn!(
            target: "cluster::sharding", event = "hand_off_cancelled", %me, %kind, %shard, "{event}"
        ),
        ShardingEvent::BufferFull { messages } => {
            tracing::warn!(target: "cluster::sharding", event = "buffer_full", %me, %kind, messages);
        }
        ShardingEvent::BufferHasRoom => {
            tracing::info!(target: "cluster::sharding", event = "buffer_has_room", %me, %kind);
        }
        ShardingEvent::RememberedDamaged { .. } => tracing::error!(
            target: "cluster::sharding", event = "remembered_damaged", %me, %kind, "{event}"
        ),
        ShardingEvent::CoordinatorStateDamaged => tracing::error!(
            target: "cluster::sharding", event = "coordinator_state_damaged", %me, %kind, "{event}"
        ),
        ShardingEvent::CoordinatorStateLate { .. } | ShardingEvent::CoordinatorRefused { .. } => {
            tracing::warn!(
                target: "cluster::sharding", event = "coordinator_state", %me, %kind, "{event}"
            )
        }
        ShardingEvent::CoordinatorStarted { .. } | ShardingEvent::CoordinatorRecovered { .. } => {
            tracing::info!(target: "cluster::sharding", event = "coordinator", %me, %kind, what = ?event);
        }
        ShardingEvent::RegionRegistered { .. }
        | ShardingEvent::ShardAllocated { .. }
        | ShardingEvent::ShardStarted { .. }
        | ShardingEvent::ShardStopped { .. }
        | ShardingEvent::ShardConflict { .. }
        | ShardingEvent::DeadLetter { .. }
        | ShardingEvent::EnvelopeUnmatched
        | ShardingEvent::Drained => {
            tracing::debug!(target: "cluster::sharding", event = "sharding", %me, %kind, what = ?event);
        }
        // What a later version of the core says.
        _ => tracing::debug!(target: "cluster::sharding", event = "other", %me, %kind, what = ?event),
    }
}

fn ddata(me: &UniqueAddress, event: &DdataEvent) {
    match event {
        DdataEvent::StoreLost | DdataEvent::StoreOutdated { .. } => {
            tracing::error!(target: "cluster::ddata", event = "store_lost", %me, "{event}");
        }
        DdataEvent::StoreAwaited { .. } => {
            tracing::warn!(target: "cluster::ddata", event = "store_awaited", %me, "{event}");
        }
        DdataEvent::AwayForLong { .. } => {
            tracing::warn!(target: "cluster::ddata", event = "away_for_long", %me, "{event}");
        }
        DdataEvent::StillReplica => {
            tracing::info!(target: "cluster::ddata", event = "still_replica", %me, "{event}");
        }
        DdataEvent::StoreRead => {
            tracing::info!(target: "cluster::ddata", event = "store_read", %me, "{event}");
        }
        DdataEvent::LargeValue { .. } => {
            tracing::warn!(target: "cluster::ddata", event = "large_value", %me, "{event}");
        }
        DdataEvent::Pruned { .. } => {
            tracing::debug!(target: "cluster::ddata", event = "pruned", %me, "{event}");
        }
        // Every write of anybody is one.
        DdataEvent::Changed { .. } => {}
        // What a later version of the core says.
        other => tracing::debug!(target: "cluster::ddata", event = "other", %me, ?other),
    }
}
