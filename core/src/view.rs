//! The immutable picture of the cluster that machines, applications and tests read. Made by the membership
//! machine after each change; nobody else keeps a member list.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ident::{Address, Role, UniqueAddress};
use crate::membership::state::gossip::Gossip;
use crate::membership::state::leader;
use crate::membership::state::member::{Member, Status};
use crate::membership::state::reachability::ReachabilityStatus;

/// Where this node is in its own life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MembershipPhase {
    /// Not joined.
    Idle,
    /// Looking for a cluster or waiting for its Welcome.
    Joining,
    /// In the member table.
    Member,
    /// Finished.
    Halted,
}

/// What a node knows of the cluster at one moment: members, and who is unreachable. Comparable: two views
/// of
/// one node with the same revision are equal.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    pub(crate) me: UniqueAddress,
    pub(crate) revision: u64,
    pub(crate) phase: MembershipPhase,
    pub(crate) gossip: Arc<Gossip>,
    pub(crate) leader: Option<UniqueAddress>,
    pub(crate) converged: bool,
    pub(crate) unreachable: Vec<UniqueAddress>,
    /// Whether somebody prepared for the shutdown of the cluster, here or in an earlier picture.
    pub(crate) shutting_down: bool,
}

impl View {
    /// The picture of a node that has not joined.
    #[must_use]
    pub fn idle(me: UniqueAddress) -> Self {
        Self {
            me,
            revision: 0,
            phase: MembershipPhase::Idle,
            gossip: Arc::new(Gossip::new()),
            leader: None,
            converged: false,
            unreachable: Vec::new(),
            shutting_down: false,
        }
    }

    /// Whose picture it is.
    #[must_use]
    pub const fn me(&self) -> &UniqueAddress {
        &self.me
    }

    /// Grows with every change of the picture.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Where this node is in its own life.
    #[must_use]
    pub const fn phase(&self) -> MembershipPhase {
        self.phase
    }

    /// The gossip state behind the picture.
    #[must_use]
    pub const fn gossip(&self) -> &Arc<Gossip> {
        &self.gossip
    }

    /// All members, sorted by node.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        self.gossip.members()
    }

    /// One member.
    #[must_use]
    pub fn member(&self, node: &UniqueAddress) -> Option<&Member> {
        self.gossip.member(node)
    }

    /// The live incarnation at an address.
    #[must_use]
    pub fn member_at(&self, address: &Address) -> Option<&Member> {
        self.gossip.member_at(address)
    }

    /// This node's own record, if it is a member; none once it has halted.
    #[must_use]
    pub fn self_member(&self) -> Option<&Member> {
        if self.phase == MembershipPhase::Halted {
            None
        } else {
            self.gossip.member(&self.me)
        }
    }

    /// This node's own status; [`Status::Removed`] if it is no member.
    #[must_use]
    pub fn self_status(&self) -> Status {
        self.self_member().map_or(Status::Removed, |m| m.status)
    }

    /// The leader of this node's data center, as this node sees it.
    #[must_use]
    pub const fn leader(&self) -> Option<&UniqueAddress> {
        self.leader.as_ref()
    }

    /// Whether this node is the leader.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.leader.as_ref() == Some(&self.me)
    }

    /// Whether everybody that matters is known to hold this very state.
    #[must_use]
    pub const fn is_converged(&self) -> bool {
        self.converged
    }

    /// Members that somebody of this data center observes as unreachable (never this node), sorted.
    #[must_use]
    pub fn unreachable(&self) -> &[UniqueAddress] {
        &self.unreachable
    }

    /// Whether nobody of this data center observes the node as unreachable.
    #[must_use]
    pub fn is_reachable(&self, node: &UniqueAddress) -> bool {
        self.unreachable.binary_search(node).is_err()
    }

    /// Whether this node itself observes `node` as unreachable (or terminated).
    #[must_use]
    pub fn suspects(&self, node: &UniqueAddress) -> bool {
        self.gossip.reachability().status(&self.me, node) != ReachabilityStatus::Reachable
    }

    /// The members in a status, sorted by node: those Exiting hand over, those WeaklyUp are not full members
    /// yet.
    pub fn members_in(&self, status: Status) -> impl Iterator<Item = &Member> {
        self.members()
            .iter()
            .filter(move |member| member.status == status)
    }

    /// The incarnations that were members and were removed, as far as their tombstones have not expired,
    /// sorted.
    pub fn removed(&self) -> impl Iterator<Item = &UniqueAddress> {
        self.gossip.tombstones().iter()
    }

    /// Whether the whole cluster prepares to shut down: nobody joins or becomes Up any more, and nothing
    /// moves. There is no way back: it stays so when everybody who has prepared is on its way out.
    #[must_use]
    pub const fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// Whether it is the whole cluster's turn: it prepares to shut down, and nobody is Up who does not know
    /// or is waited for.
    #[must_use]
    pub fn is_ready_for_shutdown(&self) -> bool {
        let waits = |member: &Member| matches!(member.status, Status::Up | Status::PreparingForShutdown);
        self.shutting_down && !self.members().iter().any(waits)
    }

    /// Whether this incarnation was a member and has been removed.
    #[must_use]
    pub fn is_removed(&self, node: &UniqueAddress) -> bool {
        self.gossip.tombstones().contains(node)
    }

    /// Whether nothing may be sent to this incarnation any more: it is Down, or it was removed. A node that
    /// is not known yet is not lost; the picture may lag.
    pub(crate) fn is_lost(&self, node: &UniqueAddress) -> bool {
        self.has_lost(node, self.member(node))
    }

    fn has_lost(&self, node: &UniqueAddress, found: Option<&Member>) -> bool {
        found.map_or_else(|| self.is_removed(node), |member| member.status == Status::Down)
    }

    /// Members of an earlier picture that are none in this one, in order. Linear, and nothing where the table
    /// is the same.
    pub(crate) fn gone_since<'a>(&self, before: &'a Self) -> Vec<&'a Member> {
        self.of_before(before, |_, found| found.is_none())
    }

    /// Members of an earlier picture that are lost in this one, in order. Costs as much.
    pub(crate) fn lost_since<'a>(&self, before: &'a Self) -> Vec<&'a Member> {
        self.of_before(before, |node, found| self.has_lost(node, found))
    }

    fn of_before<'a>(
        &self,
        before: &'a Self,
        is_wanted: impl Fn(&UniqueAddress, Option<&Member>) -> bool,
    ) -> Vec<&'a Member> {
        let mut wanted = Vec::new();
        if core::ptr::eq(before.members(), self.members()) {
            return wanted;
        }
        let mut now = self.members().iter().peekable();
        for member in before.members() {
            // Nearly all are where they were: equality is cheaper than order.
            let is_other = |other: &&Member| other.node != member.node;
            while now
                .next_if(|other| is_other(other) && other.node < member.node)
                .is_some()
            {}
            let found = now.next_if(|other| !is_other(other));
            if is_wanted(&member.node, found) {
                wanted.push(member);
            }
        }
        wanted
    }

    /// The oldest of [`View::by_age`]. Linear.
    #[must_use]
    pub(crate) fn oldest(&self, role: Option<&Role>) -> Option<&Member> {
        let own = self.self_member().map(Member::data_center);
        leader::oldest_of(self.members(), role, own)
    }

    /// Members of this node's data center with the role (all if `None`) that have been Up, oldest first.
    #[must_use]
    pub fn by_age(&self, role: Option<&Role>) -> Vec<&Member> {
        let own = self.self_member().map(Member::data_center);
        let mut members = leader::age_sorted(self.gossip.members(), role);
        if let Some(own) = own {
            members.retain(|m| m.data_center() == own);
        }
        members
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::fixture::{member, node, picture};
    use crate::membership::state::member::{Member, Status};
    use crate::view::View;

    fn of(statuses: [Option<Status>; 4]) -> View {
        let named = ["aa", "bb", "cc", "dd"].into_iter().zip(statuses);
        let members = named.filter_map(|(name, status)| Some(member(&node(name, 1), status?)));
        picture(&node("aa", 1), members.collect::<Vec<Member>>(), &[])
    }

    #[test]
    fn who_is_gone_or_lost_between_two_pictures_is_what_a_look_up_of_each_says() {
        const ALL: [Option<Status>; 4] = [None, Some(Status::Joining), Some(Status::Up), Some(Status::Down)];
        let every = || (0..256_usize).map(|at| of([0, 2, 4, 6].map(|shift| ALL[at >> shift & 3])));
        for (before, after) in every().flat_map(|before| every().map(move |after| (before.clone(), after))) {
            let members = || before.members().iter();
            let gone: Vec<&Member> = members().filter(|m| after.member(&m.node).is_none()).collect();
            assert_eq!(after.gone_since(&before), gone);
            let lost: Vec<&Member> = members().filter(|m| after.is_lost(&m.node)).collect();
            assert_eq!(after.lost_since(&before), lost);
            assert_eq!(after.oldest(None), after.by_age(None).first().copied());
        }
    }
}
