//! Who holds replicas, read from the picture at every use. Keeps no list of its own. Spec: sharding 1.12
//! (state, roles, weakly-up).

use alloc::vec::Vec;

use super::state::consistency::OperationElectorate;
use crate::config::DdataConfig;
use crate::ident::UniqueAddress;
use crate::membership::state::leader::oldest_first;
use crate::membership::state::member::{Member, Status};
use crate::view::{MembershipPhase, View};

/// What a member's status means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplicaRole {
    /// Counts for consistency.
    Full,
    /// Hears, and may speak, but does not count: it may never become a full member.
    Guest,
    /// Neither asked nor told, but its questions and changes count.
    Newcomer,
}

const fn part(status: Status) -> Option<ReplicaRole> {
    match status {
        Status::Up
        | Status::PreparingForShutdown
        | Status::ReadyForShutdown
        | Status::Leaving
        | Status::Exiting
        | Status::Down => Some(ReplicaRole::Full),
        Status::WeaklyUp => Some(ReplicaRole::Guest),
        Status::Joining => Some(ReplicaRole::Newcomer),
        Status::Removed => None,
    }
}

/// The replicas of a picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replicas<'a> {
    view: &'a View,
    config: &'a DdataConfig,
}

impl<'a> Replicas<'a> {
    pub(super) const fn new(view: &'a View, config: &'a DdataConfig) -> Self {
        Self { view, config }
    }

    fn takes_part(self, member: &Member) -> bool {
        self.config
            .role
            .as_ref()
            .is_none_or(|role| member.roles.contains(role))
    }

    fn others(self, wanted: impl Fn(ReplicaRole) -> bool) -> impl Iterator<Item = &'a Member> {
        let me = self.view.me();
        self.view.members().iter().filter(move |member| {
            member.node != *me && self.takes_part(member) && part(member.status).is_some_and(&wanted)
        })
    }

    /// Whether this node holds replicas.
    pub(super) fn includes_me(self) -> bool {
        self.view.phase() != MembershipPhase::Halted
            && self
                .view
                .self_member()
                .is_some_and(|member| self.takes_part(member))
    }

    /// Whether what the node says counts.
    pub(super) fn hears(self, node: &UniqueAddress) -> bool {
        let member = self.view.member(node);
        member.is_some_and(|member| self.takes_part(member) && part(member.status).is_some())
    }

    /// The other replicas that count for consistency, oldest first if those are preferred.
    pub(super) fn full(self, without_exiting: bool) -> Vec<UniqueAddress> {
        let mut members: Vec<&Member> = self
            .others(|part| part == ReplicaRole::Full)
            .filter(|member| !(without_exiting && member.status == Status::Exiting))
            .collect();
        if self.config.prefer_oldest {
            oldest_first(&mut members);
        }
        members.into_iter().map(|member| member.node.clone()).collect()
    }

    /// How many count for consistency, this node included.
    pub(super) fn electorate(self) -> OperationElectorate {
        let full = self.others(|part| part == ReplicaRole::Full);
        let (mut members, mut exiting) = (1, 0);
        for member in full {
            members += 1;
            exiting += usize::from(member.status == Status::Exiting);
        }
        OperationElectorate { members, exiting }
    }

    /// The others that hold values, sorted: those that gossip and deltas go to.
    pub(super) fn told(self) -> impl Iterator<Item = &'a UniqueAddress> {
        let members = self.others(|part| part != ReplicaRole::Newcomer);
        members.map(|member| &member.node)
    }

    /// All others, also those that do not count, sorted.
    pub(super) fn anybody(self) -> impl Iterator<Item = UniqueAddress> {
        self.others(|_| true).map(|member| member.node.clone())
    }

    /// Those of them that nobody observes as unreachable, sorted.
    pub(super) fn reachable(self) -> Vec<UniqueAddress> {
        let reachable = |node: &&UniqueAddress| self.view.is_reachable(node);
        self.told().filter(reachable).cloned().collect()
    }

    /// Whether none of them is unreachable.
    pub(super) fn all_reachable(self) -> bool {
        self.view.unreachable().is_empty() || self.told().all(|node| self.view.is_reachable(node))
    }

    /// Whether this node is the one that starts pruning: the lowest of those that are Up.
    pub(super) fn i_lead(self) -> bool {
        let mut up = self.view.members().iter();
        let first = up.find(|member| member.status == Status::Up && self.takes_part(member));
        first.is_some_and(|member| member.node == *self.view.me())
    }
}
