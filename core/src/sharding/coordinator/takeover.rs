//! When this node's coordinator may start, and when it ends. It starts only when every older member of the
//! role is gone, Down ones included, and those that were cut off have had the removal margin to notice. Spec:
//! sharding 10.1.

use super::{Coordinator, CoordinatorTenure};
use crate::event::ShardingEvent;
use crate::message::ShardingBody;
use crate::oldest::state::{RoleStanding, may_act};
use crate::sharding::Cx;
use crate::sharding::state::ids::Term;
use crate::timer::CoordinatorTimer;

impl Coordinator {
    /// The picture changed, or the kind was registered.
    pub(crate) fn on_view_changed(&mut self, cx: &mut Cx<'_>) {
        match self.tenure {
            CoordinatorTenure::Idle | CoordinatorTenure::Waiting => self.consider_takeover(cx),
            CoordinatorTenure::Resting => {
                if self.my_term(cx).is_none() {
                    self.halt(cx);
                }
            }
            CoordinatorTenure::Recovering(_) | CoordinatorTenure::Active(_) => {
                if self.my_term(cx).is_none() {
                    self.halt(cx);
                    return;
                }
                self.notice_losses(cx);
                self.forget_strangers(cx);
                self.try_activate(cx);
                if self.is_active() {
                    // A region that registered before it was Up here may be what they wait for.
                    self.allocate_requested(cx);
                }
            }
        }
    }

    /// Starts if nobody older can be running any more; waits otherwise.
    pub(crate) fn consider_takeover(&mut self, cx: &mut Cx<'_>) {
        if !matches!(self.tenure, CoordinatorTenure::Idle | CoordinatorTenure::Waiting) {
            return;
        }
        let Some(term) = self.my_term(cx) else {
            self.halt(cx);
            return;
        };
        if cx.succession().standing(self.kind.settings.role.as_ref()) == Some(RoleStanding::Waiting) {
            self.tenure = CoordinatorTenure::Waiting;
            return;
        }
        self.start(cx, term);
    }

    /// Ends the coordinator: this node is lost, halts, or is not the oldest.
    pub(crate) fn halt(&mut self, cx: &mut Cx<'_>) {
        if self.tenure == CoordinatorTenure::Idle {
            return;
        }
        for timer in [
            CoordinatorTimer::Recovery,
            CoordinatorTimer::Allocate,
            CoordinatorTimer::Rebalance,
            CoordinatorTimer::Remembered,
            CoordinatorTimer::State,
            CoordinatorTimer::Returning,
            CoordinatorTimer::Homes,
            CoordinatorTimer::Moves,
        ] {
            cx.cancel(self.timer(timer));
        }
        for shard in self.places.all_unconfirmed() {
            cx.cancel(self.timer(CoordinatorTimer::ShardStart(shard)));
        }
        for shard in self.hand_offs.keys() {
            cx.cancel(self.timer(CoordinatorTimer::HandOff(*shard)));
        }
        for node in self.regions.keys() {
            cx.cancel(self.timer(CoordinatorTimer::RegionLost(node.clone())));
        }
        let (paused, desired) = (self.paused, core::mem::take(&mut self.desired));
        let mut remembered = self.remembered.take();
        if let Some(remembered) = &mut remembered {
            remembered.forget(cx);
        }
        self.give_up_log(cx);
        let (rejections, outdone) = (self.rejections, core::mem::take(&mut self.outdone));
        let mut asking = core::mem::take(&mut self.asking);
        asking.forget();
        *self = Self::new(self.kind.clone());
        (self.asking, self.outdone) = (asking, outdone);
        (self.paused, self.rejections) = (paused, rejections);
        (self.desired, self.remembered) = (desired, remembered);
    }

    /// The term this node would coordinate under: it is the oldest of the role, members that are Down
    /// included, and is not Down itself.
    fn my_term(&self, cx: &Cx<'_>) -> Option<Term> {
        let up_number = cx.succession().up_number(self.kind.settings.role.as_ref())?;
        let node = cx.me().clone();
        Some(Term { up_number, node })
    }

    fn start(&mut self, cx: &mut Cx<'_>, term: Term) {
        self.tenure = CoordinatorTenure::Recovering(term.clone());
        if !self.ledger.is_durable() {
            self.tokens.expect(u64::from(term.up_number.get()));
        }
        self.notify(cx, ShardingEvent::CoordinatorStarted { term: term.clone() });
        // Everybody is asked once, so that proxies elsewhere need not wait for their next retry; later only
        // those who may host.
        let view = alloc::sync::Arc::clone(cx.view());
        let asked = view.members().iter().filter(|member| may_act(member.status));
        for member in asked {
            let body = ShardingBody::RegionQuery { term: term.clone() };
            self.unheard.insert(member.node.clone());
            self.say(cx, &member.node, body);
        }
        self.recall_shards(cx);
        self.wake(cx, CoordinatorTimer::Recovery, self.kind.config.retry_interval);
        self.claim_log(cx);
    }
}
