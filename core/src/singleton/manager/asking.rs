//! How one singleton's manager asks those that are older for the hand-over, how often, and how it answers who
//! asks. Spec: sharding 1.10.

use alloc::vec::Vec;

use super::{HandOverRetries, HandOverStage, Happened, SingletonManager};
use crate::ident::UniqueAddress;
use crate::membership::state::member::Status;
use crate::singleton::protocol::{SingletonBody, Timer};
use crate::singleton::{Cx, say};

impl SingletonManager {
    /// Asks the older members that are there and have not handed over, but for the one that the stage asks.
    /// Each speaks of itself alone, and any of them may have had it last: one that was the oldest for a
    /// moment, of which this node has not heard, or has only now.
    pub(super) fn ask_unheard(&mut self, cx: &mut Cx<'_>) {
        let HandOverStage::BecomingOldest { previous } = &self.stage else {
            return;
        };
        for node in self.unheard(cx) {
            if previous.first() != Some(&node) {
                say(cx, &node, self.id, self.epoch, SingletonBody::HandOverToMe);
            }
        }
    }

    /// Goes on once everybody older has handed over, or is gone for long enough. Until then they are asked
    /// again.
    pub(super) fn start_if_all_are_done(&mut self, cx: &mut Cx<'_>) {
        let HandOverStage::BecomingOldest { previous } = &self.stage else {
            return;
        };
        let Some(first) = previous.first().filter(|first| self.done.contains(*first)) else {
            return;
        };
        let first = first.clone();
        if self.predecessors_gone(cx) && self.unheard(cx).is_empty() {
            self.tell(cx, Happened::HandOverDone(first));
        } else {
            self.retry_later(cx, self.retry);
        }
    }

    fn unheard(&self, cx: &Cx<'_>) -> Vec<UniqueAddress> {
        let members = cx.view().by_age(self.settings.role.as_ref());
        let older = members.into_iter().take_while(|member| member.node != *cx.me());
        older
            .filter(|member| !self.done.contains(&member.node))
            .map(|member| member.node.clone())
            .collect()
    }

    /// Lets those begin who have asked, where this node has nothing to hand over and never will: it exits.
    pub(super) fn say_done_to_all(&mut self, cx: &mut Cx<'_>) {
        let is_idle = match &self.stage {
            HandOverStage::Start
            | HandOverStage::Younger { .. }
            | HandOverStage::End
            | HandOverStage::Stopped => self.instance.is_absent(),
            HandOverStage::BecomingOldest { .. }
            | HandOverStage::AcquiringLease { .. }
            | HandOverStage::Oldest { .. }
            | HandOverStage::WasOldest { .. }
            | HandOverStage::HandingOver { .. }
            | HandOverStage::Stopping
            | HandOverStage::Stuck => false,
        };
        if !is_idle || cx.view().self_status() != Status::Exiting {
            return;
        }
        for (to, epoch) in core::mem::take(&mut self.askers) {
            let term = self.instance.highest_term();
            say(cx, &to, self.id, epoch, SingletonBody::HandOverDone { term });
        }
    }

    /// Time to ask once more.
    pub(in crate::singleton) fn on_retry(&mut self, cx: &mut Cx<'_>) {
        match self.stage {
            HandOverStage::BecomingOldest { .. } => {
                self.tell(cx, Happened::HandOverRetry(self.retry));
                self.ask_unheard(cx);
            }
            HandOverStage::WasOldest { .. } => self.tell(cx, Happened::TakeOverRetry(self.retry)),
            HandOverStage::Start
            | HandOverStage::Younger { .. }
            | HandOverStage::AcquiringLease { .. }
            | HandOverStage::Oldest { .. }
            | HandOverStage::HandingOver { .. }
            | HandOverStage::Stopping
            | HandOverStage::End
            | HandOverStage::Stopped
            | HandOverStage::Stuck => {}
        }
    }

    pub(super) fn say_done(&self, cx: &mut Cx<'_>, to: &UniqueAddress) {
        let epoch = self.askers.get(to).copied().unwrap_or_default();
        let term = self.instance.highest_term();
        say(cx, to, self.id, epoch, SingletonBody::HandOverDone { term });
    }

    pub(super) fn retry_later(&mut self, cx: &mut Cx<'_>, number: u32) {
        self.retry = number;
        let at = cx.mono() + cx.config().singleton.hand_over_retry_interval;
        cx.wake(Timer::Retry(self.id), at);
    }

    pub(super) fn retries_max(&self, cx: &Cx<'_>) -> u32 {
        let config = cx.config();
        let ms = |time: core::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let margin = config.removal_margin(cx.view().members().len());
        let interval = ms(config.singleton.hand_over_retry_interval);
        let retries = HandOverRetries::new(config.singleton.hand_over_retries_min, interval, ms(margin));
        if matches!(self.stage, HandOverStage::WasOldest { .. }) {
            retries.take_over_max
        } else {
            retries.hand_over_max
        }
    }
}
