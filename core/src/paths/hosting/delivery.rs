//! The way of messages to the instance of a slot, by the part that this node has in its life. Spec: sharding
//! 5.4, 10.17 c.

use super::buffer::{HeldMessage, HeldMessages, Waiting};
use super::parts::{Giving, GivingStage, SlotPart, Taking, TakingStage};
use super::{HostedSlot, Hosting, Unsaid};
use crate::handoff::Barrier;
use crate::ident::UniqueAddress;
use crate::messaging::answer;
use crate::messaging::protocol::{AskTicket, HostOrder};
use crate::paths::passing::PassedAsks;
use crate::paths::protocol::{MoveRef, Msg, PathBody, PathMark, PathMessage, Rejection, Timer};
use crate::paths::state::name::PathId;
use crate::paths::state::options::{LateMessages, OldHost};
use crate::paths::{Cx, dead_letter, say};
use crate::reject::Rejection as AnyRejection;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;

/// Messages passed on in one step; then the machine asks to be woken at once.
const FLUSH_PER_STEP: usize = 256;

/// Ends a message that no instance got: its asker hears why, or it is a dead letter.
pub(in crate::paths) fn refuse(cx: &mut Cx<'_>, path: PathId, ask: Option<AskTicket>, reason: AskFailure) {
    match ask {
        Some(ticket) => answer(cx, ticket.ask, Err(reason)),
        None => dead_letter(cx, path, reason),
    }
}

/// What happens to a message.
enum Way {
    Instance,
    Keep,
    PassOn,
    Refuse(AskFailure),
}

impl Giving {
    const fn way(&self) -> Way {
        let options = self.change.options;
        match self.stage {
            GivingStage::Stopping | GivingStage::Sending | GivingStage::Offering => match options.old_host {
                OldHost::Serves => Way::Instance,
                OldHost::Keeps => Way::Keep,
                OldHost::Drops => Way::Refuse(AskFailure::HandedOff),
            },
            GivingStage::Draining => Way::Keep,
            GivingStage::Forwarding if self.change.to.is_none() => Way::Instance,
            GivingStage::Forwarding => match options.late {
                LateMessages::Forwarded => Way::PassOn,
                LateMessages::Dropped => Way::Refuse(AskFailure::HandedOff),
            },
            GivingStage::Closing => Way::Refuse(AskFailure::NoInstance),
        }
    }
}

impl Taking {
    fn way(&self, from: &UniqueAddress, message: &PathMessage) -> Way {
        let is_open = self.all_open
            || !self.change.options.keeps_order()
            || message.is_first
            || self.opened.contains(from);
        if self.stage == TakingStage::Begun && is_open && !self.kept.contains_key(from) {
            Way::Instance
        } else {
            Way::Keep
        }
    }
}

impl Hosting {
    /// A message for an instance.
    pub(in crate::paths) fn on_delivery(
        &mut self,
        cx: &mut Cx<'_>,
        passed: &mut PassedAsks,
        from: &UniqueAddress,
        message: PathMessage,
    ) {
        let until = message.ask.as_ref().map(|ticket| cx.mono() + ticket.remaining());
        let held = HeldMessage {
            from: from.clone(),
            until,
            message,
        };
        let paused = self.paused;
        let Some(slot) = self.slots.get_mut(&(held.message.path, held.message.slot)) else {
            cx.counters().messages_misplaced += 1;
            return refuse(cx, held.message.path, held.message.ask, AskFailure::NoInstance);
        };
        if paused {
            return refuse(
                cx,
                slot.path,
                held.message.ask,
                AskFailure::EntityStoppedUnhandled,
            );
        }
        if let Some(origin) = held.message.origin.clone() {
            return slot.on_forwarded(cx, from, &origin, held);
        }
        let way = match &slot.part {
            SlotPart::Serving => Way::Instance,
            SlotPart::Ending => Way::Refuse(AskFailure::NoInstance),
            SlotPart::Giving(giving) if !giving.held.is_empty() => match giving.way() {
                // Behind what waits to be passed on.
                Way::PassOn => Way::Keep,
                way @ (Way::Instance | Way::Keep | Way::Refuse(_)) => way,
            },
            SlotPart::Giving(giving) => giving.way(),
            SlotPart::Taking(taking) => taking.way(from, &held.message),
        };
        match way {
            Way::Instance => slot.give_to_instance(cx, held),
            Way::Keep => slot.keep(cx, held),
            Way::PassOn => slot.pass_on(cx, passed, held),
            Way::Refuse(reason) => refuse(cx, slot.path, held.message.ask, reason),
        }
    }

    /// A sender has sent its last message to this node, as far as one move is concerned.
    pub(in crate::paths) fn on_mark(
        &mut self,
        cx: &mut Cx<'_>,
        passed: &mut PassedAsks,
        from: &UniqueAddress,
        mark: PathMark,
    ) {
        let PathMark { change, origin } = mark;
        let slot = self.slots.get_mut(&(change.path, change.slot));
        if let Some(sender) = origin {
            if let Some(slot) = slot
                && let SlotPart::Taking(taking) = &slot.part
                && taking.change.id == change.id
                && taking.change.from.as_ref() == Some(from)
            {
                slot.open(cx, &sender);
            }
            // Also where everything is open already: the old host stops asking.
            return say(cx, from, PathBody::ForwardMarked { change, sender });
        }
        say(cx, from, PathBody::Marked(change.clone()));
        if let Some(slot) = slot
            && let SlotPart::Giving(giving) = &mut slot.part
            && giving.change.id == change.id
        {
            giving.held.push_mark(from, change);
            slot.flush(cx, passed, &mut self.unsaid, &mut FLUSH_PER_STEP.clone());
        }
    }

    /// The new host has a sender's mark.
    pub(in crate::paths) fn on_forward_marked(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        change: &MoveRef,
        sender: &UniqueAddress,
    ) {
        if let Some(slot) = self.slots.get_mut(&(change.path, change.slot))
            && let SlotPart::Giving(giving) = &mut slot.part
            && giving.change.id == change.id
            && giving.change.to.as_ref() == Some(from)
            && giving.passed_marks.remove(sender)
        {
            if let Some(barrier) = &mut giving.barrier {
                barrier.marked(sender, change.id.counter);
            }
            slot.settle_if_marked(cx, &mut self.unsaid);
        }
    }

    /// Passes on more of what waits.
    pub(in crate::paths) fn flush(&mut self, cx: &mut Cx<'_>, passed: &mut PassedAsks) {
        let mut left = FLUSH_PER_STEP;
        for slot in self.slots.values_mut() {
            slot.flush(cx, passed, &mut self.unsaid, &mut left);
        }
        if left == 0 {
            cx.wake(Timer::Flush, cx.mono());
        }
    }
}

impl HostedSlot {
    /// The instance gets a message.
    pub(super) fn give_to_instance(&mut self, cx: &mut Cx<'_>, held: HeldMessage) {
        let HeldMessage { until, message, .. } = held;
        if until.is_some_and(|until| until <= cx.mono()) {
            // Whoever asked has heard that its time is over.
            return;
        }
        if !self.instance.takes_messages() {
            return refuse(cx, self.path, message.ask, AskFailure::EntityStoppedUnhandled);
        }
        cx.counters().messages_delivered += 1;
        let (reply_to, chain) = match message.ask {
            Some(ticket) => (Some(ticket.ask), ticket.chain),
            None => (None, AskChain::default()),
        };
        cx.order(HostOrder::Deliver {
            slot: self.instance.slot(),
            payload: message.payload,
            reply_to,
            deadline: until,
            chain,
        });
    }

    /// Keeps a message for later.
    fn keep(&mut self, cx: &mut Cx<'_>, held: HeldMessage) {
        let config = cx.config();
        let from = held.from.clone();
        let refused = match &mut self.part {
            SlotPart::Giving(giving) => giving.held.push(config, held),
            SlotPart::Taking(taking) => taking.kept.entry(from).or_default().push(config, held),
            SlotPart::Serving | SlotPart::Ending => Some(held),
        };
        match refused {
            None => cx.counters().messages_buffered += 1,
            Some(held) => {
                cx.counters().messages_refused += 1;
                refuse(cx, self.path, held.message.ask, AskFailure::MailboxFull);
            }
        }
    }

    /// The old host passes a message on to the new one.
    fn pass_on(&mut self, cx: &mut Cx<'_>, passed: &mut PassedAsks, held: HeldMessage) {
        let SlotPart::Giving(giving) = &self.part else {
            return;
        };
        let Some(to) = giving.change.to.clone() else {
            return;
        };
        let HeldMessage { from, until, message } = held;
        let ask = match (message.ask, until) {
            (Some(_), Some(until)) if until <= cx.mono() => return,
            (Some(ticket), Some(until)) => match passed.pass(cx, &ticket, until, &to) {
                Some(ticket) => Some(ticket),
                None => return refuse(cx, self.path, Some(ticket), AskFailure::MailboxFull),
            },
            (Some(_) | None, None) | (None, Some(_)) => None,
        };
        cx.counters().messages_forwarded += 1;
        let message = PathMessage {
            origin: Some(from),
            ask,
            ..message
        };
        cx.send(&to, Msg::Delivery(message));
    }

    /// The old host passed a message on. Handled at once: where order is kept its sender's later ones wait
    /// for its mark, and after that nothing is due.
    fn on_forwarded(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        origin: &UniqueAddress,
        held: HeldMessage,
    ) {
        let is_due = matches!(&self.part, SlotPart::Taking(taking)
            if taking.change.from.as_ref() == Some(from)
                && (!taking.change.options.keeps_order()
                    || (!taking.all_open && !taking.opened.contains(origin))));
        if !is_due {
            cx.reject(from, AnyRejection::Path(Rejection::ForwardedLate));
            return refuse(cx, self.path, held.message.ask, AskFailure::HandedOff);
        }
        if let SlotPart::Taking(taking) = &mut self.part
            && taking.stage == TakingStage::Ready
        {
            // Only a complete move passes anything on.
            taking.stage = TakingStage::Begun;
        }
        self.give_to_instance(cx, held);
    }

    /// Passes on what waits at the old host, marks in their places.
    fn flush(&mut self, cx: &mut Cx<'_>, passed: &mut PassedAsks, unsaid: &mut Unsaid, left: &mut usize) {
        loop {
            let SlotPart::Giving(giving) = &mut self.part else {
                return;
            };
            if giving.stage != GivingStage::Forwarding || *left == 0 {
                return;
            }
            let late = giving.change.options;
            let keeps = late.old_host == OldHost::Keeps || late.late == LateMessages::Forwarded;
            match giving.held.pop() {
                None => return self.settle_if_marked(cx, unsaid),
                Some(Waiting::Message(held)) if giving.change.to.is_none() => self.give_to_instance(cx, held),
                Some(Waiting::Message(held)) if keeps => self.pass_on(cx, passed, held),
                Some(Waiting::Message(held)) => {
                    refuse(cx, self.path, held.message.ask, AskFailure::HandedOff);
                }
                Some(Waiting::Mark(sender, change)) => self.pass_mark(cx, sender, change),
            }
            *left -= 1;
        }
    }

    /// A sender's mark goes on to the new host, if that waits for it.
    fn pass_mark(&mut self, cx: &mut Cx<'_>, sender: UniqueAddress, change: MoveRef) {
        let SlotPart::Giving(giving) = &mut self.part else {
            return;
        };
        match &giving.change.to {
            Some(to) if giving.change.options.keeps_order() => {
                let is_waited_for =
                    |barrier: &Barrier<UniqueAddress>| barrier.waiting().any(|node| *node == sender);
                if giving.barrier.as_ref().is_some_and(is_waited_for) {
                    giving.passed_marks.insert(sender.clone());
                }
                let origin = Some(sender);
                cx.send(to, Msg::Mark(PathMark { change, origin }));
            }
            Some(_) | None => {
                if let Some(barrier) = &mut giving.barrier {
                    barrier.marked(&sender, change.id.counter);
                }
            }
        }
    }

    /// Marks that the new host has not acknowledged are passed on again.
    pub(super) fn repeat_marks(&self, cx: &mut Cx<'_>) {
        let SlotPart::Giving(giving) = &self.part else {
            return;
        };
        let Some(to) = giving.change.to.clone() else {
            return;
        };
        for sender in &giving.passed_marks {
            let change = self.reference(&giving.change);
            let origin = Some(sender.clone());
            cx.send(&to, Msg::Mark(PathMark { change, origin }));
        }
    }

    /// What waits here is not handled.
    pub(super) fn drop_held(&self, cx: &mut Cx<'_>, mut held: HeldMessages) {
        while let Some(waiting) = held.pop() {
            if let Waiting::Message(held) = waiting {
                refuse(cx, self.path, held.message.ask, AskFailure::NoInstance);
            }
        }
    }

    pub(super) fn drop_kept(&self, cx: &mut Cx<'_>, taking: Taking) {
        for (_, kept) in taking.kept {
            self.drop_held(cx, kept);
        }
    }
}
