//! What a downing strategy looks at and what it may answer. Values only: no time, no chance, no effects.
//! Spec: membership 3.2, 3.7, 3.9.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::ident::{Role, UniqueAddress};
use crate::membership::member::{Member, Status};

/// One data center as one node sees it at the moment of a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DowningView {
    members: Vec<Member>,
    unreachable: BTreeSet<UniqueAddress>,
    observations: Vec<Observation>,
    seen: BTreeSet<UniqueAddress>,
}

/// One row of the reachability table that calls its subject unreachable or terminated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Observation {
    /// Who complains.
    pub observer: UniqueAddress,
    /// About whom.
    pub subject: UniqueAddress,
}

/// Which sides of a split have to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    /// This side stays; everybody it cannot reach goes.
    DownUnreachable,
    /// The other side may stay; everybody here goes.
    DownReachable,
    /// No side can know that it is the one to stay: everybody goes.
    DownAll,
    /// Nobody is downed; an operator may have to.
    Undecided(Undecided),
}

/// Why a strategy gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Undecided {
    /// Some members are unreachable for some of us only, or complained before they fell silent themselves. This is no
    /// clean split, and the strategies here decide clean splits only: anything else could keep two sides alive.
    IndirectlyConnected,
}

impl DowningView {
    /// A view of `members`, all of one data center. `unreachable` are those that somebody of this data center calls
    /// unreachable or terminated, and those that are Down; `observations` are the rows behind that; `seen` are the
    /// members known to have seen exactly this state.
    #[must_use]
    pub fn new(
        members: impl IntoIterator<Item = Member>,
        unreachable: impl IntoIterator<Item = UniqueAddress>,
        observations: impl IntoIterator<Item = Observation>,
        seen: impl IntoIterator<Item = UniqueAddress>,
    ) -> Self {
        let mut members: Vec<Member> = members.into_iter().collect();
        members.sort_by(|a, b| a.node.cmp(&b.node));
        members.dedup_by(|a, b| a.node == b.node);
        Self {
            members,
            unreachable: unreachable.into_iter().collect(),
            observations: observations.into_iter().collect(),
            seen: seen.into_iter().collect(),
        }
    }

    /// All members, in node order.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Whether `node` is on the other side.
    #[must_use]
    pub fn is_unreachable(&self, node: &UniqueAddress) -> bool {
        self.unreachable.contains(node)
    }

    /// Whether a member that could still be downed is unreachable: without one there is nothing to decide.
    #[must_use]
    pub fn has_unreachable(&self) -> bool {
        self.members
            .iter()
            .any(|member| can_be_downed(member.status) && self.is_unreachable(&member.node))
    }

    /// Members with `role` (all without one) whose status is in `statuses`, in node order.
    pub(crate) fn counted<'a>(
        &'a self,
        role: Option<&'a Role>,
        statuses: fn(Status) -> bool,
    ) -> impl Iterator<Item = &'a Member> {
        self.members.iter().filter(move |member| {
            statuses(member.status) && role.is_none_or(|role| member.roles.contains(role))
        })
    }

    /// Whether this is anything but a clean split: a member both complains and is complained about, or a member is
    /// complained about although it has seen this very state. Rows about members that are Down or Exiting are left out:
    /// somebody who complained about the dead and died later is no sign of a broken link.
    #[must_use]
    pub fn has_indirectly_connected(&self) -> bool {
        let can_go = |node: &UniqueAddress| {
            self.member(node)
                .is_some_and(|member| can_be_downed(member.status))
        };
        let rows: Vec<&Observation> = self
            .observations
            .iter()
            .filter(|row| can_go(&row.subject))
            .collect();
        let subjects: BTreeSet<&UniqueAddress> = rows.iter().map(|row| &row.subject).collect();
        rows.iter()
            .any(|row| subjects.contains(&row.observer) || self.seen.contains(&row.subject))
    }

    /// The exact incarnations that `decision` downs, in node order. Members that are Down or Exiting already never are.
    #[must_use]
    pub fn nodes_to_down(&self, decision: Decision) -> Vec<UniqueAddress> {
        let chosen = |member: &Member| match decision {
            Decision::DownUnreachable => self.is_unreachable(&member.node),
            Decision::DownReachable => !self.is_unreachable(&member.node),
            Decision::DownAll => true,
            Decision::Undecided(_) => false,
        };
        let nodes = self
            .members
            .iter()
            .filter(|member| can_be_downed(member.status) && chosen(member));
        nodes.map(|member| member.node.clone()).collect()
    }

    fn member(&self, node: &UniqueAddress) -> Option<&Member> {
        let at = self
            .members
            .binary_search_by(|member| member.node.cmp(node))
            .ok()?;
        self.members.get(at)
    }
}

/// Whether downing a member of this status changes anything.
pub(crate) const fn can_be_downed(status: Status) -> bool {
    match status {
        Status::Joining
        | Status::WeaklyUp
        | Status::Up
        | Status::PreparingForShutdown
        | Status::ReadyForShutdown
        | Status::Leaving => true,
        Status::Exiting | Status::Down | Status::Removed => false,
    }
}
