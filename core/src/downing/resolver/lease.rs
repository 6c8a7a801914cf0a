//! The lease behind a downing decision: waits for the larger side to go first, asks, keeps the lease until
//! those downed are gone, and gives it back. Decides nothing about members: it holds a decision back until it
//! may be carried out. Spec: membership 3.6.

use alloc::vec::Vec;
use core::time::Duration;

use crate::config::{DowningStrategy, LeaseMajorityConfig, ValidConfig};
use crate::downing::Cx;
use crate::downing::state::decision::DowningDecision;
use crate::event::{DowningReport, DowningWait};
use crate::ident::UniqueAddress;
use crate::lease::protocol::{LeaseName, LeaseOrder, LeaseOutcome};
use crate::membership::state::member::Status;
use crate::ordered::OrderedSet;
use crate::time::Instant;
use crate::view::View;

/// The lease of one resolver.
#[derive(Clone, Debug)]
pub(super) struct ResolverLease {
    name: LeaseName,
    settings: LeaseMajorityConfig,
    state: LeaseState,
}

/// A decision that waits for the lease. What it says is as old as the decision: whatever changes meanwhile
/// waits too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PendingDecision {
    /// What is done by who holds the lease.
    pub(super) event: DowningReport,
    /// Who is downed by the others.
    pub(super) down_if_denied: Vec<UniqueAddress>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LeaseState {
    /// Neither held nor wanted.
    Free,
    /// Wanted, but the other side goes first.
    Delayed {
        until: Instant,
        pending: PendingDecision,
    },
    /// Asked for.
    Acquiring {
        until: Instant,
        pending: PendingDecision,
    },
    /// Held while some of those downed are not removed yet, and for a while after that.
    Held {
        downed: OrderedSet<UniqueAddress>,
        release_at: Option<Instant>,
    },
    /// Given back, but that is not confirmed.
    Releasing { again_at: Instant },
}

impl ResolverLease {
    pub(super) fn new(config: &ValidConfig) -> Self {
        let settings = match &config.downing.strategy {
            DowningStrategy::LeaseMajority(lease) => lease.clone(),
            DowningStrategy::Off
            | DowningStrategy::KeepMajority { .. }
            | DowningStrategy::StaticQuorum { .. }
            | DowningStrategy::KeepOldest { .. }
            | DowningStrategy::DownAll
            | DowningStrategy::AutoDown
            | DowningStrategy::Custom(_) => LeaseMajorityConfig::default(),
        };
        let unset = || alloc::format!("{}-sbr", config.cluster);
        let name = settings.lease_name.clone().unwrap_or_else(unset);
        Self {
            name: name.into(),
            settings,
            state: LeaseState::Free,
        }
    }

    /// Asks for the lease, now or once the other side had its chance. Gives the decision back if the lease is
    /// held already: it can be carried out at once.
    pub(super) fn want(&mut self, cx: &mut Cx<'_>, pending: PendingDecision) -> Option<DowningReport> {
        let after = match pending.event.decision {
            DowningDecision::AcquireLeaseAndDownUnreachable { after } => after,
            DowningDecision::AcquireLeaseAndDownIndirectlyConnected
            | DowningDecision::DownUnreachable
            | DowningDecision::DownReachable
            | DowningDecision::DownAll
            | DowningDecision::DownIndirectlyConnected
            | DowningDecision::DownNobody => Duration::ZERO,
        };
        if let LeaseState::Held { downed, release_at } = &mut self.state {
            downed.extend(pending.event.down.iter().cloned());
            *release_at = None;
            return Some(pending.event);
        }
        if after.is_zero() {
            self.acquire(cx, pending);
        } else {
            let until = cx.mono() + after;
            self.state = LeaseState::Delayed { until, pending };
        }
        None
    }

    /// Whether this node holds it.
    pub(super) const fn is_held(&self) -> bool {
        matches!(self.state, LeaseState::Held { .. })
    }

    /// For how long a side that won keeps it at the least, once it has decided.
    pub(super) const fn release_after(&self) -> Duration {
        self.settings.release_after
    }

    /// What is due; a decision to carry out because the answer did not come in time.
    pub(super) fn on_time(&mut self, cx: &mut Cx<'_>) -> Option<DowningReport> {
        if self.next_at().is_none_or(|at| cx.mono() < at) {
            return None;
        }
        match core::mem::replace(&mut self.state, LeaseState::Free) {
            LeaseState::Free => None,
            LeaseState::Delayed { pending, .. } => {
                self.acquire(cx, pending);
                None
            }
            LeaseState::Acquiring { pending, .. } => pending
                .of_members(cx.view())?
                .denied("the lease did not answer in time")
                .into(),
            LeaseState::Held { .. } | LeaseState::Releasing { .. } => {
                self.release(cx);
                None
            }
        }
    }

    /// What the lease's keeper says; a decision to carry out.
    pub(super) fn on_outcome(&mut self, cx: &mut Cx<'_>, outcome: LeaseOutcome) -> Option<DowningReport> {
        match (outcome, core::mem::replace(&mut self.state, LeaseState::Free)) {
            (LeaseOutcome::Granted { .. }, LeaseState::Acquiring { pending, .. }) => {
                let Some(pending) = pending.of_members(cx.view()) else {
                    self.release(cx);
                    return None;
                };
                let downed: OrderedSet<UniqueAddress> = pending.event.down.iter().cloned().collect();
                self.state = LeaseState::Held {
                    downed,
                    release_at: None,
                };
                Some(pending.event)
            }
            (LeaseOutcome::Denied | LeaseOutcome::Lost, LeaseState::Acquiring { pending, .. }) => pending
                .of_members(cx.view())?
                .denied("the other side holds the lease")
                .into(),
            // Nobody waits for it any more: an answer that came too late must not block the other side.
            (LeaseOutcome::Granted { .. }, LeaseState::Free) => {
                self.release(cx);
                None
            }
            (LeaseOutcome::Lost, LeaseState::Held { .. } | LeaseState::Releasing { .. })
            | (LeaseOutcome::Released, LeaseState::Releasing { .. }) => None,
            (
                LeaseOutcome::Granted { .. }
                | LeaseOutcome::Denied
                | LeaseOutcome::Lost
                | LeaseOutcome::Released,
                state @ (LeaseState::Free
                | LeaseState::Delayed { .. }
                | LeaseState::Acquiring { .. }
                | LeaseState::Held { .. }
                | LeaseState::Releasing { .. }),
            ) => {
                self.state = state;
                None
            }
        }
    }

    /// Those downed are gone once they have been removed; the other side may be a while behind.
    pub(super) fn on_view(&mut self, now: Instant, view: &View) {
        if let LeaseState::Held { downed, release_at } = &mut self.state {
            downed.retain(|node| view.member(node).is_some());
            if downed.is_empty() && release_at.is_none() {
                *release_at = Some(now + self.settings.release_after);
            }
        }
    }

    /// A decision that waits is old by now: it is dropped, and made again if it is still needed.
    pub(super) fn on_paused(&mut self) {
        if self.waits_for().is_some() {
            self.state = LeaseState::Free;
        }
    }

    /// This node is no member any more. What it holds expires, because those it downed may still be there.
    pub(super) fn forget(&mut self) {
        self.state = LeaseState::Free;
    }

    /// When something is due.
    pub(super) const fn next_at(&self) -> Option<Instant> {
        match &self.state {
            LeaseState::Free => None,
            LeaseState::Delayed { until, .. } | LeaseState::Acquiring { until, .. } => Some(*until),
            LeaseState::Held { release_at, .. } => *release_at,
            LeaseState::Releasing { again_at } => Some(*again_at),
        }
    }

    /// What a decision waits for; while one does, no other is made.
    pub(super) const fn waits_for(&self) -> Option<DowningWait> {
        match &self.state {
            LeaseState::Delayed { until, .. } => Some(DowningWait::OtherSide { until: *until }),
            LeaseState::Acquiring { until, .. } => Some(DowningWait::Lease { until: *until }),
            LeaseState::Free | LeaseState::Held { .. } | LeaseState::Releasing { .. } => None,
        }
    }

    /// Whether the lease is this one.
    pub(super) fn is_named(&self, name: &LeaseName) -> bool {
        self.name == *name
    }

    fn acquire(&mut self, cx: &mut Cx<'_>, pending: PendingDecision) {
        let until = cx.mono() + self.settings.operation_timeout;
        self.state = LeaseState::Acquiring { until, pending };
        let order = LeaseOrder::Acquire {
            name: LeaseName::clone(&self.name),
            owner: cx.me().clone(),
            time_to_live: self.settings.time_to_live,
        };
        cx.order_lease(order);
    }

    fn release(&mut self, cx: &mut Cx<'_>) {
        let again_at = cx.mono() + super::TICK;
        self.state = LeaseState::Releasing { again_at };
        let order = LeaseOrder::Release {
            name: LeaseName::clone(&self.name),
            owner: cx.me().clone(),
        };
        cx.order_lease(order);
    }
}

impl PendingDecision {
    /// What is left of the decision: incarnations that are members still. `None` if all whom it was to down
    /// are Down or gone: another leader of this side was granted the lease, and the decision is carried out
    /// already.
    fn of_members(mut self, view: &View) -> Option<Self> {
        let is_done = |node: &UniqueAddress| {
            view.member(node)
                .is_none_or(|member| member.status == Status::Down)
        };
        if self.event.down.iter().all(is_done) {
            return None;
        }
        self.event.down.retain(|node| view.member(node).is_some());
        self.down_if_denied.retain(|node| view.member(node).is_some());
        Some(self)
    }

    pub(super) fn denied(self, reason: &'static str) -> DowningReport {
        let decision = if self.event.decision.is_indirectly_connected() {
            DowningDecision::DownIndirectlyConnected
        } else {
            DowningDecision::DownReachable
        };
        DowningReport {
            decision,
            reason,
            down: self.down_if_denied,
            ..self.event
        }
    }
}
