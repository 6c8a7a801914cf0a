//! Lease-majority: the side that gets hold of a lease stays; the smaller side lets the larger one go first. A
//! pure function of a [`DowningView`]; who asks for the lease and what follows is the resolver's. Spec:
//! membership 3.6.

use core::cmp::Ordering;
use core::time::Duration;

use crate::downing::state::decision::{DowningDecision, is_counted};
use crate::downing::state::strategy::{BROKEN_LINKS, Strategy};
use crate::downing::state::view::DowningView;
use crate::ident::Role;

/// The strategy and those of its settings that a decision depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseMajority {
    minority_delay: Duration,
    role: Option<Role>,
}

impl LeaseMajority {
    /// Counts only members with `role`, or all without one. The smaller side waits for `minority_delay`
    /// before it asks for the lease.
    #[must_use]
    pub const fn new(minority_delay: Duration, role: Option<Role>) -> Self {
        Self { minority_delay, role }
    }

    fn is_minority(&self, view: &DowningView) -> bool {
        let (here, there) = view.sides(self.role(), is_counted);
        let lowest = view.counted(self.role(), is_counted).next();
        match here.cmp(&there) {
            Ordering::Less => true,
            Ordering::Equal => lowest.is_some_and(|member| view.is_unreachable(&member.node)),
            Ordering::Greater => false,
        }
    }
}

impl Strategy for LeaseMajority {
    fn name(&self) -> &'static str {
        "lease-majority"
    }

    fn decide(&self, view: &DowningView) -> DowningDecision {
        self.explain(view).0
    }

    fn explain(&self, view: &DowningView) -> (DowningDecision, &'static str) {
        if view.has_indirectly_connected() {
            return (
                DowningDecision::AcquireLeaseAndDownIndirectlyConnected,
                BROKEN_LINKS,
            );
        }
        let (after, reason) = if self.is_minority(view) {
            (
                self.minority_delay,
                "this side is the smaller one: it asks for the lease last",
            )
        } else {
            (Duration::ZERO, "whoever holds the lease stays")
        };
        (DowningDecision::AcquireLeaseAndDownUnreachable { after }, reason)
    }

    fn role(&self) -> Option<&Role> {
        self.role.as_ref()
    }
}

#[cfg(test)]
mod tests;
