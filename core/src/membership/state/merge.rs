//! Merging two concurrent gossip states into one that contains both. Deterministic and symmetric, so that two
//! nodes which merge the same pair get the same state; never counts a clock entry up and never drops a member
//! that was not removed by somebody. Spec: membership 2.5 with 8.1 to 8.4.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::ident::UniqueAddress;
use crate::membership::state::gossip::{Gossip, SharedGossipParts};
use crate::membership::state::member::Member;
use crate::membership::state::reachability::Reachability;
use crate::ordered::OrderedSet;

/// The state that contains both. A member is dropped only by a tombstone; nobody has seen the result. Parts
/// in which one side has nothing new are shared with the other.
#[must_use]
pub fn merge(a: &Gossip, b: &Gossip) -> Gossip {
    let tombstones = merge_tombstones(a, b);
    let members = merge_members(a, b, &tombstones);
    let reachability = merge_reachability(a, b, &members);
    let mut version = a.version().clone();
    version.merge(b.version());
    if !tombstones.is_empty() {
        version.retain(|node| !tombstones.contains(node));
    }
    let gone = merge_gone(a, b, &members, &tombstones);
    Gossip::assemble(SharedGossipParts {
        members,
        reachability,
        version,
        tombstones,
        gone,
        paths: a.paths().merged(b.paths()),
    })
}

/// Whoever said of itself that it is gone, on either side.
fn merge_gone(
    a: &Gossip,
    b: &Gossip,
    members: &[Member],
    tombstones: &OrderedSet<UniqueAddress>,
) -> Arc<OrderedSet<UniqueAddress>> {
    let (ours, theirs) = (a.gone_arc(), b.gone_arc());
    let stays = |node: &&UniqueAddress| {
        tombstones.contains(*node) || members.binary_search_by(|m| m.node.cmp(node)).is_ok()
    };
    // Usually there is no news, and then nothing is allocated.
    if theirs.is_subset(ours) && ours.iter().all(|node| stays(&node)) {
        return Arc::clone(ours);
    }
    Arc::new(ours.union(theirs).filter(stays).cloned().collect())
}

/// Whether the clock of a merge of two states may be that of another state: an entry of a removed member was
/// dropped, and the result is neither of the two.
#[must_use]
pub(crate) fn is_unnamed(merged: &Gossip, a: &Gossip, b: &Gossip) -> bool {
    let drops = |side: &Gossip| {
        let mut entries = side.version().entries().iter();
        entries.any(|(node, _)| merged.tombstones().contains(node))
    };
    !merged.tombstones().is_empty()
        && (drops(a) || drops(b))
        && !same_content(merged, a)
        && !same_content(merged, b)
}

/// Whether two states agree in all but their clocks and who has seen them.
pub(crate) fn same_content(a: &Gossip, b: &Gossip) -> bool {
    a.members_arc() == b.members_arc()
        && a.reachability_arc() == b.reachability_arc()
        && a.tombstones_arc() == b.tombstones_arc()
        && a.paths() == b.paths()
}

/// What two states with the same clock become: `base`, also seen by everybody who has seen `other`. Equal
/// clocks do not quite prove equal states, because a change by an incarnation that was removed before it
/// spread loses its clock entry in the merge with the tombstone: states that differ all the same are merged,
/// and nobody has seen the result.
#[must_use]
pub fn with_merged_seen(base: &Gossip, other: &Gossip) -> Gossip {
    if !same_content(base, other) {
        return merge(base, other);
    }
    let mut seen = base.seen_set().clone();
    seen.union_with(other.seen_set());
    // A peer of before members said so leaves it out: the states are the same all the same.
    base.with_seen(seen)
        .with_gone(merge_gone(base, other, base.members(), base.tombstones()))
}

fn merge_tombstones(a: &Gossip, b: &Gossip) -> Arc<OrderedSet<UniqueAddress>> {
    let (ours, theirs) = (a.tombstones_arc(), b.tombstones_arc());
    if Arc::ptr_eq(ours, theirs) || theirs.is_subset(ours) {
        return Arc::clone(ours);
    }
    if ours.is_subset(theirs) {
        return Arc::clone(theirs);
    }
    Arc::new(ours.union(theirs).cloned().collect())
}

fn merge_members(a: &Gossip, b: &Gossip, tombstones: &OrderedSet<UniqueAddress>) -> Arc<Vec<Member>> {
    let (ours, theirs) = (a.members_arc(), b.members_arc());
    let dead = |side: &[Member]| !tombstones.is_empty() && side.iter().any(|m| tombstones.contains(&m.node));
    let (our_dead, their_dead) = (dead(ours), dead(theirs));
    if !our_dead && (Arc::ptr_eq(ours, theirs) || contains_all(ours, theirs, tombstones)) {
        return Arc::clone(ours);
    }
    if !their_dead && contains_all(theirs, ours, tombstones) {
        return Arc::clone(theirs);
    }
    let mut out = Vec::with_capacity(ours.len().max(theirs.len()) + 1);
    let (mut left, mut right) = (&ours[..], &theirs[..]);
    while let (Some(mine), Some(other)) = (left.first(), right.first()) {
        match mine.node.cmp(&other.node) {
            Ordering::Less => {
                out.push(mine.clone());
                left = &left[1..];
            }
            Ordering::Greater => {
                out.push(other.clone());
                right = &right[1..];
            }
            Ordering::Equal => {
                out.push(mine.merged(other));
                left = &left[1..];
                right = &right[1..];
            }
        }
    }
    out.extend_from_slice(left);
    out.extend_from_slice(right);
    if our_dead || their_dead {
        out.retain(|member| !tombstones.contains(&member.node));
    }
    Arc::new(out)
}

/// Whether a member's life in `newer` is behind the one in `older`: an earlier status, alive again after its
/// removal, or not gone any more. A state with a newer clock contains every older one, so this is so only
/// after a lie. Linear; free where both share their members.
#[must_use]
pub(crate) fn turns_back(newer: &Gossip, older: &Gossip) -> bool {
    if older
        .gone()
        .iter()
        .any(|node| newer.contains(node) && !newer.is_gone(node))
    {
        return true;
    }
    if Arc::ptr_eq(newer.members_arc(), older.members_arc()) {
        return false;
    }
    let same_tombstones = Arc::ptr_eq(newer.tombstones_arc(), older.tombstones_arc());
    if !same_tombstones && older.tombstones().iter().any(|node| newer.contains(node)) {
        return true;
    }
    let mut rest = newer.members().iter();
    older.members().iter().any(|member| {
        let found = rest.find(|candidate| candidate.node == member.node || member.node < candidate.node);
        let found = found.filter(|found| found.node == member.node);
        found
            .or_else(|| newer.member(&member.node))
            .is_some_and(|found| !found.covers(member))
    })
}

/// Whether every member of `part` that was not removed is in `whole` with a record that covers it.
fn contains_all(whole: &[Member], part: &[Member], tombstones: &OrderedSet<UniqueAddress>) -> bool {
    let mut rest = whole.iter();
    part.iter()
        .filter(|member| tombstones.is_empty() || !tombstones.contains(&member.node))
        .all(|member| {
            // Equality is cheaper than order, and mostly true.
            rest.find(|candidate| candidate.node == member.node || member.node < candidate.node)
                .is_some_and(|found| found.node == member.node && found.covers(member))
        })
}

fn merge_reachability(a: &Gossip, b: &Gossip, members: &Arc<Vec<Member>>) -> Arc<Reachability> {
    let (ours, theirs) = (a.reachability_arc(), b.reachability_arc());
    // A side whose members all survived names nobody who has to go.
    if all_in(a, members) && (Arc::ptr_eq(ours, theirs) || ours.covers(theirs)) {
        return Arc::clone(ours);
    }
    if all_in(b, members) && theirs.covers(ours) {
        return Arc::clone(theirs);
    }
    let allowed = |node: &UniqueAddress| members.binary_search_by(|m| m.node.cmp(node)).is_ok();
    Arc::new(ours.merge(allowed, theirs))
}

fn all_in(side: &Gossip, members: &Arc<Vec<Member>>) -> bool {
    Arc::ptr_eq(side.members_arc(), members)
        || side.reachability().versions().is_empty()
        || side
            .members()
            .iter()
            .all(|m| members.binary_search_by(|other| other.node.cmp(&m.node)).is_ok())
}
