//! Keep-majority: the larger side of a clean split stays; of two equal sides the one with the lowest address does.
//! A pure function of a [`DowningView`]; never decides about indirectly connected members. Spec: membership 3.4.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::downing::decision::{Decision, DowningView, Undecided};
use crate::ident::{Role, UniqueAddress};
use crate::membership::member::Status;

/// The strategy and its one setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeepMajority {
    role: Option<Role>,
}

impl KeepMajority {
    /// Counts only members with `role`, or all without one. The role says who is counted, not who decides nor who is
    /// downed. Mirrors `split-brain-resolver.keep-majority.role`.
    #[must_use]
    pub const fn new(role: Option<Role>) -> Self {
        Self { role }
    }

    /// Decides for the side this view was taken on. O(members + observations · log members).
    #[must_use]
    pub fn decide(&self, view: &DowningView) -> Decision {
        self.explain(view).0
    }

    /// The decision and the rule that made it, in words for the operator.
    #[must_use]
    pub fn explain(&self, view: &DowningView) -> (Decision, &'static str) {
        if view.has_indirectly_connected() {
            let undecided = Decision::Undecided(Undecided::IndirectlyConnected);
            return (
                undecided,
                "no clean split: some members are unreachable for a part of us only",
            );
        }
        let here = self.count(view, is_counted, Side::Here);
        let there = self.count(view, is_counted, Side::There);
        let (decision, rule) = self.majority(view, here, there, is_counted);
        match decision {
            Decision::DownUnreachable if !self.holds(view) => (
                Decision::DownAll,
                "changes in flight could give the other side the majority too",
            ),
            Decision::DownUnreachable
            | Decision::DownReachable
            | Decision::DownAll
            | Decision::Undecided(_) => (decision, rule),
        }
    }

    /// The members that are counted, on both sides, in node order.
    #[must_use]
    pub fn counted(&self, view: &DowningView) -> Vec<UniqueAddress> {
        view.counted(self.role.as_ref(), is_counted)
            .map(|member| member.node.clone())
            .collect()
    }

    /// Whether this side keeps its majority whatever has not reached it yet: those Leaving here may be gone, those
    /// joining there may be Up. If it does not, both sides might think they are the larger one.
    ///
    /// As in the reference (M-303), the lowest address of equal sides is looked for among those who are Up as far as this
    /// side knows. That leaves one case open: equal sides, and over there somebody with the lowest address of all became
    /// Up in the moment of the split. A test beside this excludes exactly that case and no other.
    fn holds(&self, view: &DowningView) -> bool {
        let here_at_least = self.count(view, is_counted_and_stays, Side::Here);
        let there_at_most = self.count(view, may_be_counted, Side::There);
        let (decision, _) = self.majority(view, here_at_least, there_at_most, is_counted_and_stays);
        decision == Decision::DownUnreachable
    }

    fn majority(
        &self,
        view: &DowningView,
        here: usize,
        there: usize,
        statuses: fn(Status) -> bool,
    ) -> (Decision, &'static str) {
        let Some(lowest) = view.counted(self.role.as_ref(), statuses).next() else {
            return (Decision::DownAll, "nobody can be counted for a majority");
        };
        match (here.cmp(&there), view.is_unreachable(&lowest.node)) {
            (Ordering::Greater, _) => (Decision::DownUnreachable, "this side has the majority"),
            (Ordering::Less, _) => (Decision::DownReachable, "the other side has the majority"),
            (Ordering::Equal, false) => (
                Decision::DownUnreachable,
                "equal sides: this one has the lowest address",
            ),
            (Ordering::Equal, true) => (
                Decision::DownReachable,
                "equal sides: the other one has the lowest address",
            ),
        }
    }

    fn count(&self, view: &DowningView, statuses: fn(Status) -> bool, side: Side) -> usize {
        let on_side = |node: &UniqueAddress| match side {
            Side::Here => !view.is_unreachable(node),
            Side::There => view.is_unreachable(node),
        };
        view.counted(self.role.as_ref(), statuses)
            .filter(|member| on_side(&member.node))
            .count()
    }
}

#[derive(Clone, Copy)]
enum Side {
    Here,
    There,
}

/// Counted for the majority: in, and not yet known to go.
const fn is_counted(status: Status) -> bool {
    match status {
        Status::Up | Status::PreparingForShutdown | Status::ReadyForShutdown | Status::Leaving => true,
        Status::Joining | Status::WeaklyUp | Status::Exiting | Status::Down | Status::Removed => false,
    }
}

const fn is_counted_and_stays(status: Status) -> bool {
    is_counted(status) && !matches!(status, Status::Leaving)
}

const fn may_be_counted(status: Status) -> bool {
    is_counted(status) || matches!(status, Status::Joining | Status::WeaklyUp)
}

#[cfg(test)]
mod tests;
