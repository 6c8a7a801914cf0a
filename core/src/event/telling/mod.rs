//! Events as they are told: for logs, metrics and people, each spelled once. An event has a name that stays,
//! a severity, the machine it is of, the things it is about as fields, and one line of text. Decides nothing.
//! Spec: `README.md`.

use core::fmt::{self, Display, Formatter};

use super::{
    DdataEvent, DetectorEvent, DowningEvent, DowningReport, DowningWait, Event, JournalEvent, KvEvent,
    MembershipEvent, PathEvent, ShardingEvent, SingletonEvent,
};
use crate::membership::state::events::MembershipChange;
use crate::reject::{MembershipRejection, Rejection};

mod kv;
mod membership;
mod paths;
mod sharding;
mod singletons;

/// Of what an event is: the target of its line in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventArea {
    /// Membership.
    Membership,
    /// How far the state has spread.
    Gossip,
    /// The failure detector.
    Detector,
    /// The split-brain resolver.
    Downing,
    /// Messages of peers.
    Transport,
    /// Sharding.
    Sharding,
    /// Singletons.
    Singleton,
    /// Paths.
    Path,
    /// Replicated data.
    Ddata,
    /// The keyed store.
    Kv,
    /// Logs that stores vote about.
    Store,
}

/// How much an event matters to an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Not for the log: every write of anybody is one, or others write it down.
    Silent,
    /// For who follows single steps of a protocol.
    Trace,
    /// For who looks for a fault.
    Debug,
    /// The life of a cluster.
    Info,
    /// Somebody should look.
    Warn,
    /// Something does not work until somebody mends it.
    Error,
}

/// What an event is called, the same in logs and metrics for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventMark {
    /// Of what it is.
    pub area: EventArea,
    /// Its name, in snake case, unique within the area.
    pub name: &'static str,
    /// How much it matters.
    pub severity: Severity,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventField {
    /// A member, by its node.
    Member,
    /// The member's status.
    Status,
    /// Another node.
    Node,
    /// The leader; `nobody` if there is none.
    Leader,
    /// A role.
    Role,
    /// A shard.
    Shard,
    /// A slot of a path.
    Slot,
    /// An instance's token.
    Token,
    /// A strategy of downing.
    Strategy,
    /// What was decided.
    Decision,
    /// Why.
    Reason,
    /// How members that are indirectly connected were found.
    Rule,
    /// Who is downed.
    Down,
}

impl EventField {
    /// All of them, in the order of their values.
    pub const ALL: [Self; 13] = [
        Self::Member,
        Self::Status,
        Self::Node,
        Self::Leader,
        Self::Role,
        Self::Shard,
        Self::Slot,
        Self::Token,
        Self::Strategy,
        Self::Decision,
        Self::Reason,
        Self::Rule,
        Self::Down,
    ];
}

/// What an event is about, and the words for it.
pub type Fields<'a> = &'a [(EventField, &'a dyn Display)];

/// Whoever is told events: a log, a line of text, a table.
pub trait EventListener {
    /// Is told one.
    ///
    /// # Errors
    /// What it is written to fails.
    fn hear(&mut self, mark: EventMark, fields: Fields<'_>, text: fmt::Arguments<'_>) -> fmt::Result;
}

/// An event that can be told.
pub trait TellEvent {
    /// Tells it, once.
    ///
    /// # Errors
    /// What the listener says.
    fn tell(&self, to: &mut dyn EventListener) -> fmt::Result;
}

/// The text alone.
impl EventListener for Formatter<'_> {
    fn hear(&mut self, _: EventMark, _: Fields<'_>, text: fmt::Arguments<'_>) -> fmt::Result {
        self.write_fmt(text)
    }
}

macro_rules! display {
    ($($event:ty),+ $(,)?) => {$(
        impl Display for $event {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                self.tell(f)
            }
        }
    )+};
}

display!(
    Event,
    MembershipEvent,
    MembershipChange,
    DetectorEvent,
    DowningEvent,
    ShardingEvent,
    SingletonEvent,
    PathEvent,
    KvEvent,
    DdataEvent,
    JournalEvent,
);

/// The marks of an area, by severity.
struct AreaMarks(EventArea);

impl AreaMarks {
    const fn silent(&self, name: &'static str) -> EventMark {
        self.of(name, Severity::Silent)
    }

    const fn trace(&self, name: &'static str) -> EventMark {
        self.of(name, Severity::Trace)
    }

    const fn debug(&self, name: &'static str) -> EventMark {
        self.of(name, Severity::Debug)
    }

    const fn info(&self, name: &'static str) -> EventMark {
        self.of(name, Severity::Info)
    }

    const fn warn(&self, name: &'static str) -> EventMark {
        self.of(name, Severity::Warn)
    }

    const fn error(&self, name: &'static str) -> EventMark {
        self.of(name, Severity::Error)
    }

    const fn of(&self, name: &'static str, severity: Severity) -> EventMark {
        let area = self.0;
        EventMark { area, name, severity }
    }
}

/// Things one behind the other, or that there are none.
struct NameList<'a, T>(&'a [T]);

impl<T: Display> Display for NameList<'_, T> {
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

/// Words before a list, and nothing if the list is empty.
struct ListAfter<'a, T>(&'static str, &'a [T]);

impl<T: Display> Display for ListAfter<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.1.is_empty() {
            return Ok(());
        }
        write!(f, "{}{}", self.0, NameList(self.1))
    }
}

/// What a kind's, a singleton's or a path's event says, behind whose it is.
struct OfSubject<'a>(fmt::Arguments<'a>, &'a mut dyn EventListener);

impl EventListener for OfSubject<'_> {
    fn hear(&mut self, mark: EventMark, fields: Fields<'_>, text: fmt::Arguments<'_>) -> fmt::Result {
        self.1.hear(mark, fields, format_args!("{}{text}", self.0))
    }
}

impl TellEvent for Event {
    fn tell(&self, to: &mut dyn EventListener) -> fmt::Result {
        match self {
            Self::Membership(event) => event.tell(to),
            Self::Detector(event) => event.tell(to),
            Self::Downing(event) => event.tell(to),
            Self::Ddata(event) => event.tell(to),
            Self::Singleton { singleton, event } => {
                event.tell(&mut OfSubject(format_args!("singleton {singleton:?}: "), to))
            }
            Self::Path { path, event } => event.tell(&mut OfSubject(format_args!("path {path:?}: "), to)),
            Self::Kv { bucket, event } => event.tell(&mut OfSubject(format_args!("bucket {bucket}: "), to)),
            Self::Journal(event) => event.tell(&mut OfSubject(format_args!("logs: "), to)),
            Self::Sharding { kind, event } => event.tell(&mut OfSubject(format_args!("kind {kind:?}: "), to)),
            Self::Rejected { peer, rejection } => {
                let mark = rejected(rejection);
                to.hear(
                    mark,
                    &[(EventField::Node, peer)],
                    format_args!("a message of {peer} was rejected: {rejection}"),
                )
            }
        }
    }
}

fn rejected(rejection: &Rejection) -> EventMark {
    let marks = AreaMarks(EventArea::Transport);
    match rejection {
        // After a restart at the same address: a cluster's life, and nobody's fault.
        Rejection::WrongReceiver { .. } => marks.info("rejected_wrong_receiver"),
        // Somebody has to mend it, here or there.
        Rejection::Membership(MembershipRejection::SettingsDiffer(_)) => {
            AreaMarks(EventArea::Membership).warn("join_settings_differ")
        }
        Rejection::Wire(_)
        | Rejection::Unexpected { .. }
        | Rejection::Membership(_)
        | Rejection::Sharding(_)
        | Rejection::Ddata(_)
        | Rejection::Singleton(_)
        | Rejection::Journal(_)
        | Rejection::Path(_)
        | Rejection::Kv(_) => marks.warn("rejected"),
    }
}

impl TellEvent for DetectorEvent {
    fn tell(&self, to: &mut dyn EventListener) -> fmt::Result {
        let marks = AreaMarks(EventArea::Detector);
        match self {
            Self::Paused { excess } => to.hear(
                marks.warn("heartbeat_starvation"),
                &[],
                format_args!("this process was paused for {excess:?} longer than expected"),
            ),
            Self::Refused { by, ends_in } => to.hear(
                marks.warn("refused_by_member"),
                &[(EventField::Member, by)],
                format_args!(
                    "{by} refuses this node, which ends in {ends_in:?} if no other member counts it in"
                ),
            ),
            Self::StillMember => to.hear(
                marks.info("still_member"),
                &[],
                format_args!("membership was confirmed after the last process pause or refusal"),
            ),
        }
    }
}

impl TellEvent for DowningEvent {
    fn tell(&self, to: &mut dyn EventListener) -> fmt::Result {
        let marks = AreaMarks(EventArea::Downing);
        match self {
            Self::Decision(report) => decision(report, to),
            Self::TooManyMembersToDecide { members, members_max } => to.hear(
                marks.warn("sbr_too_many_members"),
                &[],
                format_args!(
                    "{members} members are more than {members_max}, the most that the downing strategy can \
                     decide about"
                ),
            ),
            Self::NobodyHasDowningRole { role } => to.hear(
                marks.warn("sbr_role_without_members"),
                &[(EventField::Role, role)],
                format_args!("no member has the role {role} that the downing strategy counts"),
            ),
        }
    }
}

/// What was decided. The report's own words are about what would be.
fn decision(report: &DowningReport, to: &mut dyn EventListener) -> fmt::Result {
    let DowningReport {
        strategy,
        decision,
        reason,
        ..
    } = report;
    let (unreachable, members) = (NameList(&report.unreachable), report.members.len());
    let waits = match &report.waits_for {
        None => "",
        Some(DowningWait::Stable { .. }) => "; waits until the picture is stable",
        Some(DowningWait::Leader) => "; the leader decides",
        Some(DowningWait::OtherSide { .. }) => "; the other side may go first",
        Some(DowningWait::Lease { .. }) => "; waits for the lease",
    };
    let down = NameList(&report.down);
    let fields: Fields<'_> = &[
        (EventField::Strategy, strategy),
        (EventField::Decision, decision),
        (EventField::Reason, reason),
        (EventField::Rule, &report.rule),
        (EventField::Down, &down),
    ];
    let indirect = ListAfter(", indirectly connected: ", &report.indirectly_connected);
    to.hear(
        AreaMarks(EventArea::Downing).warn("sbr_downing"),
        fields,
        format_args!(
            "{strategy} decided {decision} ({reason}), down: {down}; of {members} members \
are unreachable: {unreachable}{indirect}{waits}"
        ),
    )
}

impl TellEvent for JournalEvent {
    fn tell(&self, to: &mut dyn EventListener) -> fmt::Result {
        let marks = AreaMarks(EventArea::Store);
        match self {
            Self::Settled { voters, votes } => {
                let which = if *votes {
                    "this node's among them"
                } else {
                    "none of them this node's"
                };
                to.hear(
                    marks.info("voters_settled"),
                    &[],
                    format_args!("{voters} stores vote, {which}"),
                )
            }
            Self::Conflict { node } => to.hear(
                marks.warn("voters_differ"),
                &[(EventField::Node, node)],
                format_args!("{node} has other voters than this node, so they share no logs"),
            ),
            Self::OtherNumber { held, configured } => to.hear(
                marks.warn("voters_are_settled"),
                &[],
                format_args!("{held} stores vote for good; `journal.voters` = {configured} is ignored"),
            ),
            Self::Damaged => to.hear(
                marks.error("log_damaged"),
                &[],
                format_args!("the stored logs are damaged; this node does not vote on what is damaged"),
            ),
            Self::NearlyFull {
                log,
                bytes,
                bytes_max,
            } => to.hear(
                marks.warn("log_nearly_full"),
                &[],
                format_args!("{log} has {bytes} of {bytes_max} bytes; appends beyond them are refused"),
            ),
            Self::Fenced { log, held } => to.hear(
                marks.debug("log_fenced"),
                &[(EventField::Token, held)],
                format_args!("{log} is owned with token {held}; this node does not own it"),
            ),
        }
    }
}

impl TellEvent for DdataEvent {
    fn tell(&self, to: &mut dyn EventListener) -> fmt::Result {
        let marks = AreaMarks(EventArea::Ddata);
        match self {
            Self::Changed { key, .. } => to.hear(
                marks.silent("changed"),
                &[],
                format_args!("the value of {} changed", key.as_str().escape_debug()),
            ),
            Self::LargeValue { key, bytes } => to.hear(
                marks.warn("large_value"),
                &[],
                format_args!(
                    "the value of {} is large, {bytes} bytes",
                    key.as_str().escape_debug()
                ),
            ),
            Self::Pruned { key, node } => to.hear(
                marks.debug("pruned"),
                &[(EventField::Node, node)],
                format_args!(
                    "the share of {node} in {} was pruned",
                    key.as_str().escape_debug()
                ),
            ),
            Self::StoreAwaited { error } => to.hear(
                marks.warn("store_awaited"),
                &[],
                format_args!("waiting for the store of replicated data: {error}"),
            ),
            Self::StoreRead => to.hear(
                marks.info("store_read"),
                &[],
                format_args!("the store of replicated data was read; this node takes part"),
            ),
            Self::StoreLost => to.hear(
                marks.error("store_lost"),
                &[],
                format_args!("the store of replicated data cannot be read; this node takes no part"),
            ),
            Self::StoreOutdated { away } => to.hear(
                marks.error("store_outdated"),
                &[],
                format_args!("the store of replicated data is {away:?} out of date; this node takes no part"),
            ),
            Self::AwayForLong { away } => to.hear(
                marks.warn("away_for_long"),
                &[],
                format_args!(
                    "this node was paused for {away:?}; its replicated data is withheld until others confirm its \
                     membership"
                ),
            ),
            Self::StillReplica => to.hear(
                marks.info("still_replica"),
                &[],
                format_args!(
                    "other members confirmed this node's membership; its replicated data is served again"
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests;
