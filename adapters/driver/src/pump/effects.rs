//! What the node orders, each thing to whom it concerns: links, entities, instances, callers, keepers, the
//! loop. What came of an order goes back to the node at once. Decides nothing. Spec: `ARCHITECTURE.md`, I-44.

use quorate_core::effect::{Answer, Effect, HostOrder};
use quorate_core::event::Event;
use quorate_core::input::{Command, HostReport, Input, ShardingCommand, Token};
use quorate_core::owner::Requester;

use super::Pump;
use super::action::{AfterOrder, LoopAction};
use super::limits::FEEDBACK_PER_TURN;
use super::machine::Machine;
use super::replies::{AfterReply, ReplyWaiter};
use super::{announce, policy};
use crate::listeners::Listener;

impl<M: Machine> Pump<M> {
    /// Does what the node orders, and tells it what came of that, until it is content.
    pub(super) fn drive_node(&mut self) {
        let mut left = FEEDBACK_PER_TURN;
        loop {
            match self.linked.next_effect() {
                Some(effect) => self.apply(effect),
                None if left == 0 || !self.has_feedback() => return,
                None => {
                    left -= 1;
                    self.hear();
                }
            }
        }
    }

    fn has_feedback(&self) -> bool {
        self.linked.links.has_events() || !self.base.feedback.is_empty()
    }

    /// Tells the node one thing that came of its orders.
    fn hear(&mut self) {
        if self.linked.hear() {
            return;
        }
        if let Some(input) = self.base.feedback.pop_front() {
            self.linked.handle(input);
        }
    }

    /// Does one thing. What each message needs stands here, and the rest beside it, so as not to weigh on
    /// every call.
    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Host(owner, order) => self.order(owner, order),
            Effect::Reply { token, answer } => self.reply(token, answer),
            other @ (Effect::Send { .. }
            | Effect::Offer { .. }
            | Effect::Notify(_)
            | Effect::Lease(..)
            | Effect::Store(..)
            | Effect::Allocate(_)
            | Effect::Quarantine(_)
            | Effect::Halt(_)) => self.apply_other(other),
        }
    }

    /// Something for what runs here.
    fn order(&mut self, owner: Requester, order: HostOrder) {
        match self.hosted.order(owner, order) {
            Ok(AfterOrder::Nothing) => {}
            Ok(AfterOrder::Wake(waker)) => self.base.wake(waker),
            Ok(AfterOrder::Start(task)) => self.base.act(LoopAction::Start(task)),
            Err(report) => {
                if matches!(report, HostReport::Refused { .. }) {
                    self.base.stats.mailbox_refused += 1;
                }
                self.base.feedback.push_back(Input::Host(owner, report));
            }
        }
    }

    fn reply(&mut self, token: Token, answer: Answer) {
        match self.replies.answer(token, answer) {
            None => {}
            Some(AfterReply::Wake(waker)) => self.base.wake_caller(waker),
            Some(AfterReply::Answer(reply, answer)) => self.base.act(LoopAction::Answer(reply, answer)),
            Some(AfterReply::Undo(undo)) => self.hosted.undo(undo),
        }
    }

    #[inline(never)]
    fn apply_other(&mut self, effect: Effect) {
        match effect {
            Effect::Notify(event) => self.hear_of(event),
            Effect::Lease(owner, order) => {
                let answer = self.leases.order(owner, order);
                let answer = answer.map(|report| Input::Lease(owner, report));
                self.base.feedback.extend(answer);
            }
            Effect::Store(owner, request) => {
                let answer = self.stores.order(owner, request);
                self.not_stored(answer);
            }
            Effect::Allocate(question) => match self.hosted.decide(*question) {
                Ok(task) => self.base.act(LoopAction::Start(task)),
                Err(answer) => {
                    let token = self.replies.insert(ReplyWaiter::Nobody);
                    let command = Command::Sharding(ShardingCommand::AnswerAllocation(answer));
                    self.base.feedback.push_back(Input::Command { token, command });
                }
            },
            Effect::Halt(reason) => {
                self.halted = Some(reason);
                self.stop();
                self.base.act(LoopAction::Halt(reason));
            }
            // The links have done the first three.
            Effect::Send { .. }
            | Effect::Offer { .. }
            | Effect::Quarantine(_)
            | Effect::Host(..)
            | Effect::Reply { .. } => {}
        }
    }

    /// Tells an event to whom it concerns here, and to the log and the loop.
    fn hear_of(&mut self, event: Event) {
        match Listener::of(&event) {
            Listener::Streams(tokens, key, change) => return self.subscriptions.tell(tokens, key, change),
            Listener::Follower(watch, news) => return self.followers.tell(watch, news),
            Listener::Audit(audit) => {
                return policy::audited(audit, &mut self.base.log, self.base.now.mono);
            }
            Listener::Gate(gate) => self.hosted.gate(gate),
            Listener::Removed => self.take_back(),
            Listener::Up
            | Listener::HandedOver(_)
            | Listener::Buffer(..)
            | Listener::JoinFailed(_)
            | Listener::Nobody => {}
        }
        self.publish(event);
    }

    /// Writes an event to the log, and tells those who listen.
    pub(super) fn publish(&mut self, event: Event) {
        let (view, log) = (self.linked.node.view(), &mut self.base.log);
        announce::event(view, &event, log, self.base.now.mono, &self.hosted);
        self.base.act(LoopAction::Publish(event));
    }
}
