//! Keep-oldest: the side that holds the oldest member stays, unless that member is alone. A pure function of
//! a [`DowningView`]. Spec: membership 3.5.

use crate::downing::state::decision::{DowningDecision, is_counted, is_counted_and_stays};
use crate::downing::state::strategy::{BROKEN_LINKS, Strategy};
use crate::downing::state::view::DowningView;
use crate::ident::Role;
use crate::membership::state::member::Status;

/// The strategy and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepOldest {
    down_if_alone: bool,
    role: Option<Role>,
}

/// What is known about the oldest member and the sizes of the sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OldestSide {
    /// Nobody can be counted.
    Nobody,
    Here,
    HereAlone,
    There,
    ThereAlone,
}

impl KeepOldest {
    /// Counts only members with `role`, or all without one. With `down_if_alone` the oldest goes if it is the
    /// only one on its side and there are at least two on the other.
    #[must_use]
    pub const fn new(down_if_alone: bool, role: Option<Role>) -> Self {
        Self { down_if_alone, role }
    }

    fn oldest(&self, view: &DowningView, statuses: fn(Status) -> bool) -> OldestSide {
        // By age and then by identity: a key that changes with the status would lose members.
        let age =
            |member: &&crate::membership::state::member::Member| (member.up_number, member.node.clone());
        let Some(oldest) = view.counted(self.role(), statuses).min_by_key(age) else {
            return OldestSide::Nobody;
        };
        // One sick node may be the oldest. If others go with it, this may be the other side of a split of
        // which not all is known yet: its own side, where it is, would stay.
        if view.cover().contains(&oldest.node) && view.cover().len() > 1 {
            return OldestSide::There;
        }
        // The sides as they are before any of theirs go for a broken link: both must come to the same
        // numbers.
        let (_, there) = view.sides(self.role(), statuses);
        let here = view.counted(self.role(), statuses).count() - there;
        match (view.is_far(&oldest.node), here, there) {
            (false, 1, 2..) if self.down_if_alone => OldestSide::HereAlone,
            (false, _, _) => OldestSide::Here,
            (true, 2.., 1) if self.down_if_alone => OldestSide::ThereAlone,
            (true, _, _) => OldestSide::There,
        }
    }

    /// Whether the answer stays the same if those who are Leaving are gone and those who join are Up.
    fn holds(&self, view: &DowningView) -> bool {
        let statuses = if self.down_if_alone {
            may_stay
        } else {
            is_counted_and_stays
        };
        match self.oldest(view, statuses) {
            OldestSide::Here | OldestSide::ThereAlone => true,
            OldestSide::Nobody | OldestSide::There | OldestSide::HereAlone => false,
        }
    }
}

impl Strategy for KeepOldest {
    fn name(&self) -> &'static str {
        "keep-oldest"
    }

    fn decide(&self, view: &DowningView) -> DowningDecision {
        self.explain(view).0
    }

    fn explain(&self, view: &DowningView) -> (DowningDecision, &'static str) {
        if view.has_indirectly_connected() {
            return (DowningDecision::DownIndirectlyConnected, BROKEN_LINKS);
        }
        let (decision, reason) = match self.oldest(view, is_counted) {
            OldestSide::Nobody => (view.undecided(), "nobody can be counted as the oldest"),
            OldestSide::Here => (DowningDecision::DownUnreachable, "the oldest is on this side"),
            OldestSide::HereAlone => (
                DowningDecision::DownReachable,
                "the oldest is on this side, but alone",
            ),
            OldestSide::There => (DowningDecision::DownReachable, "the oldest is on the other side"),
            OldestSide::ThereAlone => (
                DowningDecision::DownUnreachable,
                "the oldest is on the other side, but alone",
            ),
        };
        if decision == DowningDecision::DownUnreachable && !self.holds(view) {
            return (
                view.undecided(),
                "changes in flight could make the other side stay too",
            );
        }
        (decision, reason)
    }

    fn role(&self) -> Option<&Role> {
        self.role.as_ref()
    }
}

/// Counted, or it may be Up already; but nobody who may be gone already.
const fn may_stay(status: Status) -> bool {
    is_counted_and_stays(status) || matches!(status, Status::Joining | Status::WeaklyUp)
}

#[cfg(test)]
mod tests;
