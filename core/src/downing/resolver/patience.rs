//! What follows when the picture does not come to rest in time. Spec: membership 3.8, 3.9, 3.10.

use crate::downing::Cx;
use crate::downing::resolver::picture::{BrokenLinks, is_responsible};
use crate::downing::resolver::{Resolver, event};
use crate::downing::state::decision::DowningDecision;
use crate::downing::state::strategy::{StrategyVerdict, judge};
use crate::downing::state::view::{DowningView, IndirectRule};
use crate::view::View;

/// See [`Resolver::after_patience`].
#[derive(Clone, Debug)]
pub(super) enum AfterPatience {
    WaitOn,
    AskForLease,
    /// By this picture, in which links that come and go are broken ones.
    Decide(DowningView),
    /// This node goes, on its own.
    Go,
    DownAll,
}

impl Resolver {
    /// What follows when patience for unrest is over. Under the cascade-safe rule members may only have
    /// failed, one after the other. Then a side that would stay waits on until the picture is stable, for
    /// nobody takes over from it; and who stays by the lease asks for it now, for one side alone gets it. A
    /// side that has to go must go before the other one may take over.
    pub(super) fn after_patience(&self, cx: &Cx<'_>, view: &View) -> AfterPatience {
        let Some(strategy) = self.strategy.as_deref() else {
            return AfterPatience::WaitOn;
        };
        match cx.config().downing.rule {
            IndirectRule::Classic => return AfterPatience::DownAll,
            IndirectRule::CascadeSafe if self.unrest.is_flapping() => return AfterPatience::DownAll,
            IndirectRule::CascadeSafe => {}
            IndirectRule::Fewest => return self.after_patience_by_the_fewest(cx, view),
        }
        match strategy.decide(&self.picture(cx.config(), view, cx.mono())) {
            DowningDecision::DownUnreachable => AfterPatience::WaitOn,
            DowningDecision::AcquireLeaseAndDownUnreachable { .. } if self.is_in_time_for_the_lease(cx) => {
                AfterPatience::AskForLease
            }
            DowningDecision::AcquireLeaseAndDownUnreachable { .. }
            | DowningDecision::DownReachable
            | DowningDecision::DownAll
            | DowningDecision::DownIndirectlyConnected
            | DowningDecision::AcquireLeaseAndDownIndirectlyConnected
            | DowningDecision::DownNobody => AfterPatience::DownAll,
        }
    }

    /// The links that came and went are broken ones: the fewest nodes that explain them go, if the others
    /// stand without them, and who only sees members fail waits on. Whoever could not stand goes, each node
    /// by what it sees itself, for a sick one must not take the others along.
    fn after_patience_by_the_fewest(&self, cx: &Cx<'_>, view: &View) -> AfterPatience {
        let Some(strategy) = self.strategy.as_deref() else {
            return AfterPatience::WaitOn;
        };
        let picture = self.picture_of(cx.config(), view, cx.mono(), BrokenLinks::SinceUnrest);
        let needs_lease = match strategy.decide(&picture) {
            DowningDecision::DownUnreachable => false,
            DowningDecision::AcquireLeaseAndDownUnreachable { .. } if self.is_in_time_for_the_lease(cx) => {
                true
            }
            DowningDecision::DownAll => return AfterPatience::DownAll,
            DowningDecision::AcquireLeaseAndDownUnreachable { .. }
            | DowningDecision::DownReachable
            | DowningDecision::DownIndirectlyConnected
            | DowningDecision::AcquireLeaseAndDownIndirectlyConnected
            | DowningDecision::DownNobody => return AfterPatience::Go,
        };
        let acts = needs_lease || self.unrest.is_flapping();
        if acts && is_responsible(view, &picture) {
            AfterPatience::Decide(picture)
        } else {
            AfterPatience::WaitOn
        }
    }

    /// This node gives up, and nobody else.
    pub(super) fn go(&mut self, cx: &mut Cx<'_>, view: &View) {
        let Some(strategy) = self.strategy.clone() else {
            return;
        };
        let picture = self.picture(cx.config(), view, cx.mono());
        let verdict = StrategyVerdict {
            decision: DowningDecision::DownReachable,
            reason: super::TOO_LONG,
            indirectly_connected: picture.cover().clone(),
            down: [cx.me().clone()].into(),
            down_if_denied: [].into(),
            escalated: false,
        };
        let event = event(&*strategy, cx.config(), &picture, verdict);
        self.carry_out(cx, event);
    }

    /// Members come and go without end: no side can know what the other one sees, so everybody goes. Every
    /// node says so, because there may be no leader that all agree on.
    pub(super) fn down_all(&mut self, cx: &mut Cx<'_>, view: &View) {
        let Some(strategy) = self.strategy.clone() else {
            return;
        };
        let picture = self.picture(cx.config(), view, cx.mono());
        let mut verdict = judge(&crate::downing::down_all::DownAll, &picture, None);
        verdict.reason = super::TOO_LONG;
        let event = event(&*strategy, cx.config(), &picture, verdict);
        self.carry_out(cx, event);
    }
}
