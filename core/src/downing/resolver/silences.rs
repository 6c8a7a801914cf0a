//! Auto-down's clocks, one for each silent member: who falls silent while another one's time runs neither
//! puts that one off nor goes along with it. Says whose time is over; what follows is decided elsewhere.
//! Values only. Spec: membership 2.16.

use core::time::Duration;

use crate::downing::resolver::watch;
use crate::downing::state::decision::can_be_downed;
use crate::ident::UniqueAddress;
use crate::ordered::OrderedMap;
use crate::time::Instant;
use crate::view::View;

/// Since when each member has been silent without interruption, if it could be downed. At most as many as
/// there are members.
#[derive(Clone, Debug, Default)]
pub(super) struct Silences {
    since: OrderedMap<UniqueAddress, Instant>,
}

impl Silences {
    /// Who is newly silent gets a clock; who is heard again, gone, or going anyway loses it.
    pub(super) fn on_view(&mut self, now: Instant, view: &View) {
        let silent = watch::own_members(view)
            .filter(|member| can_be_downed(member.status) && !view.is_reachable(&member.node));
        self.since = silent
            .map(|member| {
                let since = self.since.get(&member.node).copied();
                (member.node.clone(), since.unwrap_or(now))
            })
            .collect();
    }

    /// This process stood still: what it took for silence may have been its own. All clocks begin again.
    pub(super) fn restart(&mut self, now: Instant) {
        for since in self.since.values_mut() {
            *since = now;
        }
    }

    /// These were given up; if they are still there after another period, it is said again.
    pub(super) fn restart_of<'a>(
        &mut self,
        now: Instant,
        nodes: impl IntoIterator<Item = &'a UniqueAddress>,
    ) {
        for node in nodes {
            if let Some(since) = self.since.get_mut(node) {
                *since = now;
            }
        }
    }

    pub(super) fn forget(&mut self) {
        self.since.clear();
    }

    /// When the first member's time is over, or was.
    pub(super) fn first_over_at(&self, period: Duration) -> Option<Instant> {
        self.since.values().min().map(|since| *since + period)
    }

    /// When the next member's time is over that is not over yet.
    pub(super) fn next_over_at(&self, now: Instant, period: Duration) -> Option<Instant> {
        let ends = self.since.values().map(|since| *since + period);
        ends.filter(|end| now < *end).min()
    }

    /// Whether this member's time is over at `at`.
    pub(super) fn is_over(&self, node: &UniqueAddress, at: Instant, period: Duration) -> bool {
        self.since.get(node).is_some_and(|since| *since + period <= at)
    }

    /// What must hold between inputs.
    pub(super) fn check_invariants(&self, view: &View) {
        for node in self.since.keys() {
            assert!(!view.is_reachable(node), "only who is silent has a clock");
        }
    }
}
