//! Static quorum: the side that holds at least a fixed number of members stays. A pure function of a
//! [`DowningView`]. Spec: membership 3.3.

use crate::downing::state::decision::{DowningDecision, is_counted};
use crate::downing::state::strategy::{BROKEN_LINKS, Strategy};
use crate::downing::state::view::DowningView;
use crate::ident::Role;

/// The strategy and its settings. With more than `2 · quorum − 1` members both sides could hold a quorum:
/// then everybody goes, and an event warns as soon as there are so many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticQuorum {
    quorum: usize,
    role: Option<Role>,
}

impl StaticQuorum {
    /// Counts only members with `role`, or all without one; `quorum` of them (at least 1) are enough.
    #[must_use]
    pub const fn new(quorum: usize, role: Option<Role>) -> Self {
        Self { quorum, role }
    }
}

impl Strategy for StaticQuorum {
    fn name(&self) -> &'static str {
        "static-quorum"
    }

    fn decide(&self, view: &DowningView) -> DowningDecision {
        self.explain(view).0
    }

    fn explain(&self, view: &DowningView) -> (DowningDecision, &'static str) {
        let (here, _) = view.sides(self.role(), is_counted);
        let all = view.counted(self.role(), is_counted).count();
        if self.members_max().is_some_and(|max| all > max) {
            return (
                view.undecided(),
                "so many members that both sides could hold a quorum",
            );
        }
        if view.has_indirectly_connected() {
            return (DowningDecision::DownIndirectlyConnected, BROKEN_LINKS);
        }
        if here >= self.quorum {
            (DowningDecision::DownUnreachable, "this side holds a quorum")
        } else {
            (DowningDecision::DownReachable, "this side holds no quorum")
        }
    }

    fn role(&self) -> Option<&Role> {
        self.role.as_ref()
    }

    fn members_max(&self) -> Option<usize> {
        Some(self.quorum.saturating_mul(2).saturating_sub(1))
    }
}

#[cfg(test)]
mod tests;
