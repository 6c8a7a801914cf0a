//! Events of the membership as they are told. Decides nothing.

use core::fmt::{self, Display, Formatter};

use super::{AreaMarks, EventArea, EventField, EventListener, Fields, NameList, TellEvent};
use crate::event::{Audit, JoinFailure, MembershipEvent, SeedCause, SeedFailure, ShutdownProgress};
use crate::ident::{Role, UniqueAddress};
use crate::membership::state::events::MembershipChange;
use crate::membership::state::member::Member;

impl TellEvent for MembershipEvent {
    fn tell(&self, to: &mut dyn EventListener) -> fmt::Result {
        let marks = AreaMarks(EventArea::Membership);
        match self {
            Self::Changed { change, .. } => change.tell(to),
            Self::SelfUp => to.hear(marks.info("self_up"), &[], format_args!("this node is Up")),
            Self::SelfRemoved => to.hear(
                marks.info("self_removed"),
                &[],
                format_args!("this node is no longer a member"),
            ),
            Self::JoinFailed { reason } => to.hear(
                marks.warn("join_failed"),
                &[],
                format_args!("a join attempt failed: {reason}"),
            ),
            Self::LeaderIncapacitated { ticks } => to.hear(
                marks.warn("cluster_leader_incapacitated"),
                &[],
                format_args!("the leader could not act for {ticks} ticks, because there is no convergence"),
            ),
            // The policy's own lines say it.
            Self::Asked(audit) => to.hear(
                marks.silent("asked"),
                &[(EventField::Node, &audit.by), (EventField::Member, &audit.whom)],
                format_args!("{audit}"),
            ),
            Self::HandedOver { phase } => {
                to.hear(marks.debug("handed_over"), &[], format_args!("{phase} is done"))
            }
            Self::PathsNotHandedOver { node } => to.hear(
                marks.warn("paths_not_handed_over"),
                &[(EventField::Member, node)],
                format_args!("{node} leaves with instances of paths that it has not handed over in time"),
            ),
            Self::ShutdownPhaseTimedOut { phase } => to.hear(
                marks.warn("shutdown_phase_timed_out"),
                &[],
                format_args!("{phase} took too long; the node goes on without waiting"),
            ),
        }
    }
}

/// A member's way through the cluster.
fn member(
    to: &mut dyn EventListener,
    name: &'static str,
    of: &Member,
    text: fmt::Arguments<'_>,
) -> fmt::Result {
    let fields: Fields<'_> = &[(EventField::Member, &of.node), (EventField::Status, &of.status)];
    to.hear(AreaMarks(EventArea::Membership).info(name), fields, text)
}

fn moved(to: &mut dyn EventListener, name: &'static str, of: &Member) -> fmt::Result {
    member(to, name, of, format_args!("{} is {}", of.node, of.status))
}

/// The leader, of the cluster or of a role, or that there is none.
fn leader(to: &mut dyn EventListener, who: Option<&UniqueAddress>, role: Option<&Role>) -> fmt::Result {
    let marks = AreaMarks(EventArea::Membership);
    let nobody: &dyn Display = &"nobody";
    let who = who.map_or(nobody, |who| who);
    match role {
        None => to.hear(
            marks.info("leader_changed"),
            &[(EventField::Leader, who)],
            format_args!("{who} is the leader"),
        ),
        Some(role) => to.hear(
            marks.debug("role_leader_changed"),
            &[(EventField::Role, role), (EventField::Leader, who)],
            format_args!("{who} is the leader of the role {role}"),
        ),
    }
}

impl TellEvent for MembershipChange {
    fn tell(&self, to: &mut dyn EventListener) -> fmt::Result {
        match self {
            Self::Joined(of) => moved(to, "member_joined", of),
            Self::WeaklyUp(of) => moved(to, "member_weakly_up", of),
            Self::Up(of) => moved(to, "member_up", of),
            Self::Left(of) => moved(to, "member_left", of),
            Self::Exited(of) => moved(to, "member_exited", of),
            Self::Downed(of) => moved(to, "member_downed", of),
            Self::PreparingForShutdown(of) => moved(to, "member_preparing_for_shutdown", of),
            Self::ReadyForShutdown(of) => moved(to, "member_ready_for_shutdown", of),
            Self::Removed { member: of, previous } => member(
                to,
                "member_removed",
                of,
                format_args!("{} was removed, it was {previous}", of.node),
            ),
            Self::Unreachable(of) => {
                member(to, "unreachable", of, format_args!("{} is unreachable", of.node))
            }
            Self::Reachable(of) => member(
                to,
                "reachable",
                of,
                format_args!("{} is reachable again", of.node),
            ),
            Self::LeaderChanged(who) => leader(to, who.as_ref(), None),
            Self::RoleLeaderChanged { role, leader: who } => leader(to, who.as_ref(), Some(role)),
            Self::SeenChanged { converged, seen } => to.hear(
                AreaMarks(EventArea::Gossip).trace("seen_changed"),
                &[],
                format_args!(
                    "{seen} nodes have seen the state, which is {}converged",
                    if *converged { "" } else { "not " }
                ),
            ),
            Self::TombstonesChanged => to.hear(
                AreaMarks(EventArea::Membership).silent("tombstones_changed"),
                &[],
                format_args!("the set of removed incarnations changed"),
            ),
            Self::ReachabilityChanged => to.hear(
                AreaMarks(EventArea::Membership).silent("reachability_changed"),
                &[],
                format_args!("the reachability table changed"),
            ),
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

impl Display for ShutdownProgress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sharding => "handing the shards over",
            Self::Paths => "stopping the instances of paths",
            Self::Kv => "handing the ranges of buckets over",
            Self::Singletons => "handing the singletons over",
            Self::Ddata => "sending the last changes of replicated data",
            Self::Exiting => "waiting for the leader to move this node to Exiting",
        })
    }
}

impl Display for JoinFailure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSeedAnswered { attempt, seeds } => {
                write!(
                    f,
                    "no seed admitted this node in attempt {attempt}: {}",
                    NameList(seeds)
                )
            }
            Self::IncompatibleConfig { seed, differences } => {
                write!(f, "the settings of {seed} differ from this node's: {differences}")
            }
            Self::NoWelcome => f.write_str("the member that was asked sent no Welcome in time"),
            Self::Refused { reason } => write!(f, "a member refused: {reason}"),
            Self::Aborted => f.write_str("joining took longer than `shutdown_after_unsuccessful_join`"),
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
            Self::InNoCluster => f.write_str("not in a cluster yet"),
            Self::SettingsDiffer(differences) => write!(f, "its settings differ: {differences}"),
            Self::Agrees => f.write_str("would have admitted this node"),
            Self::Refused => f.write_str("connection refused"),
            Self::Unresolvable => f.write_str("unknown host name"),
            Self::OtherCluster => f.write_str("belongs to another cluster"),
            Self::Security(why) | Self::Other(why) => write!(f, "{}", why.escape_debug()),
        }
    }
}
