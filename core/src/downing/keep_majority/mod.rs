//! Keep-majority: the larger side of a clean split stays; of two equal sides the one with the lowest address
//! does. A pure function of a [`DowningView`]. Spec: membership 3.4.

use core::cmp::Ordering;

use crate::downing::state::decision::{DowningDecision, is_counted, is_counted_and_stays, may_be_counted};
use crate::downing::state::strategy::Strategy;
use crate::downing::state::view::{DowningView, IndirectRule};
use crate::ident::Role;
use crate::membership::state::member::Member;

/// The strategy and its one setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeepMajority {
    role: Option<Role>,
}

impl KeepMajority {
    /// Counts only members with `role`, or all without one. The role says who is counted, not who decides nor
    /// who is downed. Mirrors `split-brain-resolver.keep-majority.role`.
    #[must_use]
    pub const fn new(role: Option<Role>) -> Self {
        Self { role }
    }

    /// Whether this side keeps its majority whatever has not reached it yet: those Leaving here may be gone,
    /// those joining there may be Up. If it does not, both sides might think they are the larger one.
    fn holds(&self, view: &DowningView) -> bool {
        let (here_at_least, _) = view.sides(self.role(), is_counted_and_stays);
        let (_, there_at_most) = view.sides(self.role(), may_be_counted);
        let lowest = match view.rule() {
            // As Akka: who joins over there is not the lowest address.
            IndirectRule::Classic | IndirectRule::CascadeSafe => {
                view.counted(self.role(), is_counted_and_stays).next()
            }
            IndirectRule::Fewest => {
                let stays_or_is_far =
                    |member: &&Member| is_counted_and_stays(member.status) || view.is_far(&member.node);
                view.counted(self.role(), may_be_counted).find(stays_or_is_far)
            }
        };
        let (decision, _) = majority(view, here_at_least, there_at_most, lowest);
        decision == DowningDecision::DownUnreachable
    }
}

fn majority(
    view: &DowningView,
    here: usize,
    there: usize,
    lowest: Option<&Member>,
) -> (DowningDecision, &'static str) {
    let Some(lowest) = lowest else {
        return (view.undecided(), "nobody can be counted for a majority");
    };
    match (here.cmp(&there), view.is_unreachable(&lowest.node)) {
        (Ordering::Greater, _) => (DowningDecision::DownUnreachable, "this side has the majority"),
        (Ordering::Less, _) => (DowningDecision::DownReachable, "the other side has the majority"),
        (Ordering::Equal, false) => (
            DowningDecision::DownUnreachable,
            "equal sides: this one has the lowest address",
        ),
        (Ordering::Equal, true) => (
            DowningDecision::DownReachable,
            "equal sides: the other one has the lowest address",
        ),
    }
}

impl Strategy for KeepMajority {
    fn name(&self) -> &'static str {
        "keep-majority"
    }

    fn decide(&self, view: &DowningView) -> DowningDecision {
        self.explain(view).0
    }

    fn explain(&self, view: &DowningView) -> (DowningDecision, &'static str) {
        if view.has_indirectly_connected() {
            return (
                DowningDecision::DownIndirectlyConnected,
                super::strategy::BROKEN_LINKS,
            );
        }
        let (here, there) = view.sides(self.role(), is_counted);
        let lowest = view.counted(self.role(), is_counted).next();
        let (decision, reason) = majority(view, here, there, lowest);
        if decision == DowningDecision::DownUnreachable && !self.holds(view) {
            return (
                view.undecided(),
                "changes in flight could give the other side the majority too",
            );
        }
        (decision, reason)
    }

    fn role(&self) -> Option<&Role> {
        self.role.as_ref()
    }
}

#[cfg(test)]
mod tests;
