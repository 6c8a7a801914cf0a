//! The gossip state: members, who has seen it, who reaches whom, how new it is, who was removed. Offers the
//! local changes and checks the invariants; never decides when to change anything and never counts the clock
//! up by itself (`stamp` does, once per update). Spec: membership 1.4, 2.0, 2.3.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::Hasher;

use siphasher::sip::SipHasher13;

pub use super::parts::GossipParts;
pub(crate) use super::parts::SharedGossipParts;

use crate::ident::{Address, Role, UniqueAddress};
use crate::membership::state::member::{Member, Status, UpNumber};
use crate::membership::state::member_set::MemberSet;
use crate::membership::state::reachability::Reachability;
use crate::membership::state::vector_clock::VectorClock;
use crate::ordered::OrderedSet;
use crate::paths::state::table::PathTable;

/// What is wrong with a state. A decoder refuses such a gossip; in a state of our own it is a bug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GossipError {
    /// A member with the status that is never stored.
    #[error("{0} is a member with status Removed")]
    RemovedMember(UniqueAddress),
    /// Members out of order, or one incarnation twice.
    #[error("members are not in strictly rising order at {0}")]
    MembersNotSorted(UniqueAddress),
    /// A removed incarnation among the members.
    #[error("{0} is a member and has a tombstone")]
    TombstonedMember(UniqueAddress),
    /// A position in the seen set beyond the members.
    #[error("seen names member {0}, which does not exist")]
    SeenNotMember(usize),
    /// A reachability row by a stranger.
    #[error("observer {0} is not a member")]
    ObserverNotMember(UniqueAddress),
    /// A reachability row about a stranger.
    #[error("observed {0} is not a member")]
    SubjectNotMember(UniqueAddress),
    /// A reachability version of a stranger.
    #[error("{0} has a reachability version and is not a member")]
    VersionNotMember(UniqueAddress),
    /// A clock entry of a stranger.
    #[error("{0} has a clock entry and is not a member")]
    ClockNotMember(UniqueAddress),
    /// A stranger that was never removed, or a member that is not on its way out, that is said to run nothing
    /// any more.
    #[error("{0} is said to be gone and is not an exiting member")]
    GoneNotExiting(UniqueAddress),
}

/// The state every node holds and gossips. Cloning it is a handful of reference counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gossip {
    members: Arc<Vec<Member>>,
    reachability: Arc<Reachability>,
    version: VectorClock,
    seen: MemberSet,
    tombstones: Arc<OrderedSet<UniqueAddress>>,
    gone: Arc<OrderedSet<UniqueAddress>>,
    paths: Arc<PathTable>,
}

impl Default for Gossip {
    fn default() -> Self {
        Self {
            members: Arc::default(),
            reachability: Arc::default(),
            version: VectorClock::new(),
            seen: MemberSet::new(),
            tombstones: Arc::default(),
            gone: Arc::default(),
            paths: Arc::default(),
        }
    }
}

impl Gossip {
    /// The state of a node that has joined nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A state of these parts.
    ///
    /// # Errors
    /// The first violated invariant.
    pub fn from_parts(parts: GossipParts) -> Result<Self, GossipError> {
        let GossipParts {
            members,
            reachability,
            version,
            seen,
            tombstones,
            paths,
        } = parts;
        let gossip = Self::assemble(SharedGossipParts {
            members: Arc::new(members),
            reachability: Arc::new(reachability),
            version,
            tombstones: Arc::new(tombstones),
            gone: Arc::default(),
            paths,
        });
        let gossip = Self { seen, ..gossip };
        gossip.check_invariants()?;
        Ok(gossip)
    }

    /// A state that nobody has seen, of parts whose invariants the caller keeps.
    pub(crate) fn assemble(parts: SharedGossipParts) -> Self {
        Self {
            members: parts.members,
            reachability: parts.reachability,
            version: parts.version,
            seen: MemberSet::new(),
            tombstones: parts.tombstones,
            gone: parts.gone,
            paths: parts.paths,
        }
    }

    /// The same state, of which these members have said that nothing runs there any more.
    #[must_use]
    pub(crate) fn with_gone(self, gone: Arc<OrderedSet<UniqueAddress>>) -> Self {
        Self { gone, ..self }
    }

    /// Adds a member, or replaces the record of the same incarnation. Whether it has seen the state stays as
    /// it was; a new member has not. `false`, and no change, for an incarnation that was removed: it never
    /// comes back.
    pub fn upsert_member(&mut self, member: Member) -> bool {
        assert!(member.status != Status::Removed, "Removed is never stored");
        if self.tombstones.contains(&member.node) {
            return false;
        }
        match self.slot(&member.node) {
            Ok(at) => Arc::make_mut(&mut self.members)[at] = member,
            Err(at) => {
                Arc::make_mut(&mut self.members).insert(at, member);
                self.seen.open_gap(at);
            }
        }
        true
    }

    /// Moves a member to another status and changes nothing else; `false` if it had that status or is no
    /// member.
    ///
    /// # Panics
    /// If the transition is not in the table of [`Status::allows`]: callers decide by that table first.
    pub fn set_status(&mut self, node: &UniqueAddress, status: Status) -> bool {
        let Ok(at) = self.slot(node) else { return false };
        let old = self.members[at].status;
        assert!(
            old.allows(status) && status != Status::Removed,
            "illegal transition from {old} to {status}"
        );
        if old != status {
            Arc::make_mut(&mut self.members)[at].status = status;
        }
        old != status
    }

    /// Gives a member its age; `false` if it had that number or is no member.
    pub fn set_up_number(&mut self, node: &UniqueAddress, number: UpNumber) -> bool {
        let Ok(at) = self.slot(node) else { return false };
        let changed = self.members[at].up_number != number;
        if changed {
            Arc::make_mut(&mut self.members)[at].up_number = number;
        }
        changed
    }

    /// Declares a member dead: status Down, and it counts no longer as having seen anything. `false` if it
    /// was Down or is no member.
    pub fn mark_down(&mut self, node: &UniqueAddress) -> bool {
        let changed = self.set_status(node, Status::Down);
        if changed {
            let at = self
                .slot(node)
                .expect("invariant: its status just changed, so it is a member");
            self.seen.remove(at);
        }
        changed
    }

    /// An exiting member has stopped everything and says so itself, as the last thing it does. `false` if
    /// that was known, or it is no exiting member.
    pub fn mark_gone(&mut self, node: &UniqueAddress) -> bool {
        let exiting = |member: &Member| matches!(member.status, Status::Exiting | Status::Down);
        self.member(node).is_some_and(exiting)
            && !self.gone.contains(node)
            && Arc::make_mut(&mut self.gone).insert(node.clone())
    }

    /// The reachability table to change; copied first if it is shared. Only members may appear in it.
    pub fn reachability_mut(&mut self) -> &mut Reachability {
        Arc::make_mut(&mut self.reachability)
    }

    /// Removes a member with its seen mark, its reachability rows and version and its clock entry, and leaves
    /// a tombstone. `false` if it is no member; it gets its tombstone all the same.
    pub fn remove(&mut self, node: &UniqueAddress) -> bool {
        if !self.tombstones.contains(node) {
            Arc::make_mut(&mut self.tombstones).insert(node.clone());
        }
        let Ok(at) = self.slot(node) else { return false };
        Arc::make_mut(&mut self.members).remove(at);
        self.seen.close_gap(at);
        if !self.reachability.versions().is_empty() {
            self.reachability_mut().remove(core::slice::from_ref(node));
        }
        self.version.prune(node);
        true
    }

    /// Forgets tombstones; `false` if none of them existed.
    pub fn prune_tombstones(&mut self, nodes: &[UniqueAddress]) -> bool {
        let known = nodes.iter().any(|node| self.tombstones.contains(node));
        if known {
            let tombstones = Arc::make_mut(&mut self.tombstones);
            tombstones.retain(|node| !nodes.contains(node));
            if nodes.iter().any(|node| self.gone.contains(node)) {
                Arc::make_mut(&mut self.gone).retain(|node| !nodes.contains(node));
            }
        }
        known
    }

    /// Notes that a member has seen exactly this state; `false` if that was known or it is no member.
    pub fn add_seen(&mut self, node: &UniqueAddress) -> bool {
        self.slot(node).is_ok_and(|at| self.seen.insert(at))
    }

    /// Nobody has seen this state.
    pub fn clear_seen(&mut self) {
        self.seen.clear();
    }

    /// The same state with this seen set; positions beyond the members are dropped.
    #[must_use]
    pub(crate) fn with_seen(&self, seen: MemberSet) -> Self {
        debug_assert!(
            seen.last().is_none_or(|last| last < self.members.len()),
            "seen names only members"
        );
        Self { seen, ..self.clone() }
    }

    /// Replaces the table of paths.
    pub fn set_paths(&mut self, paths: Arc<PathTable>) {
        self.paths = paths;
    }

    /// Ends one local update: counts `me`'s clock entry up, to above `own_counter` (which is higher than the
    /// entry only if a peer claimed changes of mine that I did not make); then `me` is the only one who has
    /// seen the state, or nobody if `mark_seen` is false (while leaving work is in progress).
    pub fn stamp(&mut self, me: &UniqueAddress, mark_seen: bool, own_counter: u64) {
        self.seen.clear();
        let Ok(at) = self.slot(me) else {
            debug_assert!(false, "only a member changes the state");
            return;
        };
        self.version.increment_above(me, own_counter);
        if mark_seen {
            self.seen.insert(at);
        }
    }

    /// The members, sorted by incarnation.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub(crate) const fn members_arc(&self) -> &Arc<Vec<Member>> {
        &self.members
    }

    /// The record of this incarnation.
    #[must_use]
    pub fn member(&self, node: &UniqueAddress) -> Option<&Member> {
        self.slot(node).ok().map(|at| &self.members[at])
    }

    /// Where in [`Gossip::members`] this incarnation is.
    #[must_use]
    pub fn position(&self, node: &UniqueAddress) -> Option<usize> {
        self.slot(node).ok()
    }

    /// The member at this address; if two incarnations are there, the one that is not Down.
    #[must_use]
    pub fn member_at(&self, address: &Address) -> Option<&Member> {
        self.at(address)
            .iter()
            .min_by_key(|member| member.status == Status::Down)
    }

    /// All incarnations of an address that are members, in order of their uid. More than one for as long as
    /// it takes to remove the old ones.
    pub(crate) fn at(&self, address: &Address) -> &[Member] {
        let first = self
            .members
            .partition_point(|member| member.node.address() < address);
        let from_here = &self.members[first..];
        let count = from_here.partition_point(|member| member.node.address() == address);
        &from_here[..count]
    }

    /// Whether this incarnation is a member.
    #[must_use]
    pub fn contains(&self, node: &UniqueAddress) -> bool {
        self.slot(node).is_ok()
    }

    /// Who observed whom unreachable.
    #[must_use]
    pub fn reachability(&self) -> &Reachability {
        &self.reachability
    }

    pub(crate) const fn reachability_arc(&self) -> &Arc<Reachability> {
        &self.reachability
    }

    /// How new the state is.
    #[must_use]
    pub const fn version(&self) -> &VectorClock {
        &self.version
    }

    pub(crate) fn set_version(&mut self, version: VectorClock) {
        self.version = version;
    }

    /// The removed incarnations.
    #[must_use]
    pub fn tombstones(&self) -> &OrderedSet<UniqueAddress> {
        &self.tombstones
    }

    pub(crate) const fn tombstones_arc(&self) -> &Arc<OrderedSet<UniqueAddress>> {
        &self.tombstones
    }

    /// The exiting members that have said, each of itself, that nothing runs there any more, and those of
    /// them that were removed since. Their work may be done by others at once. One whose time ran out before
    /// it had stopped everything is not among them, and neither is one whose address is merely used again.
    #[must_use]
    pub fn gone(&self) -> &OrderedSet<UniqueAddress> {
        &self.gone
    }

    pub(crate) const fn gone_arc(&self) -> &Arc<OrderedSet<UniqueAddress>> {
        &self.gone
    }

    /// Whether this incarnation has said that nothing runs there any more: see [`Gossip::gone`].
    #[must_use]
    pub fn is_gone(&self, node: &UniqueAddress) -> bool {
        self.gone.contains(node)
    }

    /// The paths, their slots and who hosts them.
    #[must_use]
    pub const fn paths(&self) -> &Arc<PathTable> {
        &self.paths
    }

    /// Whether a path names this member and another member can take over from it.
    pub(crate) fn awaits_hand_over(&self, node: &UniqueAddress) -> bool {
        let can = |role: Option<&Role>| {
            let can = |m: &Member| {
                m.status == Status::Up && m.node != *node && role.is_none_or(|role| m.roles.contains(role))
            };
            self.members().iter().any(can)
        };
        self.paths().entries().iter().any(|entry| {
            entry.names(node)
                && entry
                    .settings()
                    .is_none_or(|settings| can(settings.role.as_ref()))
        })
    }

    /// Everybody known to have seen exactly this state, sorted.
    pub fn seen(&self) -> impl Iterator<Item = &UniqueAddress> {
        self.seen
            .iter()
            .filter_map(|at| self.members.get(at))
            .map(|member| &member.node)
    }

    /// Everybody known to have seen exactly this state, as positions in [`Gossip::members`].
    #[must_use]
    pub const fn seen_set(&self) -> &MemberSet {
        &self.seen
    }

    /// Whether this incarnation is known to have seen exactly this state.
    #[must_use]
    pub fn has_seen(&self, node: &UniqueAddress) -> bool {
        self.slot(node).is_ok_and(|at| self.seen.contains(at))
    }

    /// How many members are known to have seen exactly this state.
    #[must_use]
    pub fn seen_count(&self) -> usize {
        self.seen.len()
    }

    /// A number that differs (but for one chance in 2^64) when other members of one and the same state have
    /// seen it. The same on every host; it reads one bit per member.
    #[must_use]
    pub fn seen_digest(&self) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(0, 0);
        for word in self.seen.words() {
            hasher.write(&word.to_le_bytes());
        }
        hasher.finish()
    }

    /// Everything that must hold for every state after every decoding, merge and change (I-01). Two live
    /// incarnations at one address are not among it: two nodes may each admit one, and the merge must keep
    /// both until one is downed.
    ///
    /// # Errors
    /// The first violation.
    pub fn check_invariants(&self) -> Result<(), GossipError> {
        for (at, member) in self.members.iter().enumerate() {
            if member.status == Status::Removed {
                return Err(GossipError::RemovedMember(member.node.clone()));
            }
            if at > 0 && self.members[at - 1].node >= member.node {
                return Err(GossipError::MembersNotSorted(member.node.clone()));
            }
        }
        if let Some(node) = self.tombstones.iter().find(|node| self.contains(node)) {
            return Err(GossipError::TombstonedMember(node.clone()));
        }
        if let Some(last) = self.seen.last().filter(|last| *last >= self.members.len()) {
            return Err(GossipError::SeenNotMember(last));
        }
        let may_be_gone = |node: &UniqueAddress| {
            self.tombstones.contains(node) || self.member(node).is_some_and(|m| m.status.is_terminal())
        };
        if let Some(node) = self.gone.iter().find(|node| !may_be_gone(node)) {
            return Err(GossipError::GoneNotExiting(node.clone()));
        }
        for record in self.reachability.records() {
            if !self.contains(&record.observer) {
                return Err(GossipError::ObserverNotMember(record.observer.clone()));
            }
            if !self.contains(&record.subject) {
                return Err(GossipError::SubjectNotMember(record.subject.clone()));
            }
        }
        if let Some((node, _)) = self
            .reachability
            .versions()
            .iter()
            .find(|entry| !self.contains(&entry.0))
        {
            return Err(GossipError::VersionNotMember(node.clone()));
        }
        match self
            .version
            .entries()
            .iter()
            .find(|entry| !self.contains(&entry.0))
        {
            Some((node, _)) => Err(GossipError::ClockNotMember(node.clone())),
            None => Ok(()),
        }
    }

    fn slot(&self, node: &UniqueAddress) -> Result<usize, usize> {
        self.members.binary_search_by(|member| member.node.cmp(node))
    }
}
