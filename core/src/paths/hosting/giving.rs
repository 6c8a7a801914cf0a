//! The old host's part of a move: lets its instance stop when the options say so, asks the new host to begin,
//! alone decides whether the move is complete or given up, and passes on what comes late until every sender
//! has marked. Spec: sharding 5.4, 10.17 b to e.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::instance::{InstanceEnd, SlotInstanceStage};
use super::parts::{Giving, GivingStage, SlotPart};
use super::{HostedSlot, Hosting, Unsaid, is_there};
use crate::handoff::Barrier;
use crate::ident::UniqueAddress;
use crate::membership::state::member::Status;
use crate::paths::leader::leader_of;
use crate::paths::protocol::{AbortReason, Event, MARKS_REPORT_AFTER, MoveRef, Msg, PathBody, StateChunk};
use crate::paths::state::name::PathName;
use crate::paths::state::options::OldHost;
use crate::paths::state::table::{MoveStatus, PathEntry, SlotMove};
use crate::paths::{Cx, say};
use crate::sharding::state::ids::Payload;
use crate::view::View;

/// Bytes of one part of a state: few enough that nothing else on the bulk lane waits for long.
const CHUNK_BYTES: usize = 256 << 10;
/// Parts on the way that the new host has not acknowledged: enough that it never waits a round trip for the
/// next one, and few enough that 1 MiB is all that a link holds of a state.
const CHUNKS_ON_THE_WAY: usize = 4;

impl Giving {
    pub(super) fn explain(&self, name: &PathName, number: u16) -> String {
        let to = match &self.change.to {
            Some(to) => format!("moves to {to}"),
            None => String::from("is given up"),
        };
        let waits = match self.stage {
            GivingStage::Stopping | GivingStage::Draining => String::from("its instance to stop"),
            GivingStage::Sending => format!("its state to arrive, {} bytes have", self.state_received),
            GivingStage::Offering => String::from("the new host to be ready"),
            GivingStage::Closing => String::from("the leader to note it"),
            GivingStage::Forwarding => {
                let missing: Vec<String> = self
                    .barrier
                    .iter()
                    .flat_map(Barrier::waiting)
                    .map(|node| format!("{node}"))
                    .collect();
                format!("the marks of {}", missing.join(", "))
            }
        };
        format!("{name} slot {number} {to}: waits for {waits}")
    }
}

impl HostedSlot {
    pub(super) fn reference(&self, change: &SlotMove) -> MoveRef {
        MoveRef {
            path: self.path,
            slot: self.number,
            id: change.id.clone(),
        }
    }

    /// A move away from this node begins.
    fn begin_giving(&mut self, cx: &mut Cx<'_>, unsaid: &mut Unsaid, change: &SlotMove) {
        let deadline = cx.mono() + cx.config().paths.ready_timeout;
        let mut giving = Giving::new(change.clone(), deadline);
        let options = change.options;
        if change.to.is_none() {
            self.part = SlotPart::Giving(giving);
            return self.complete(cx, unsaid);
        }
        if options.never_two() {
            giving.stage = GivingStage::Stopping;
            self.part = SlotPart::Giving(giving);
            if self.instance.stop(cx, options.transfer) {
                self.on_giver_ended(cx, unsaid, InstanceEnd::Stopped);
            }
        } else {
            self.part = SlotPart::Giving(giving);
            self.offer(cx);
        }
    }

    /// Asks the new host to begin.
    fn offer(&self, cx: &mut Cx<'_>) {
        if let SlotPart::Giving(giving) = &self.part
            && let Some(to) = &giving.change.to
        {
            say(cx, to, PathBody::Init(self.reference(&giving.change)));
        }
    }

    /// The instance said what it leaves.
    pub(super) fn on_left_state(&mut self, state: Payload) {
        if let SlotPart::Giving(giving) = &mut self.part {
            giving.state = Some(state);
        }
    }

    /// The instance of a slot that is given away has ended.
    pub(super) fn on_giver_ended(&mut self, cx: &mut Cx<'_>, unsaid: &mut Unsaid, end: InstanceEnd) {
        let SlotPart::Giving(giving) = &mut self.part else {
            return;
        };
        if let Some(reason) = giving.given_up {
            return self.abort(cx, unsaid, reason);
        }
        match giving.stage {
            GivingStage::Stopping if giving.change.options.transfer => {
                let limit = cx.config().paths.state_bytes_max;
                match &giving.state {
                    Some(state) if state.len() > limit => self.abort(cx, unsaid, AbortReason::StateTooLarge),
                    Some(_) => {
                        giving.stage = GivingStage::Sending;
                        self.send_state(cx, CHUNKS_ON_THE_WAY);
                    }
                    // It was killed, or could not say it: the next one here begins anew.
                    None => self.abort(cx, unsaid, AbortReason::NotReady),
                }
            }
            GivingStage::Stopping => {
                giving.stage = GivingStage::Offering;
                self.offer(cx);
            }
            GivingStage::Draining => self.complete(cx, unsaid),
            GivingStage::Closing => self.settle(cx, unsaid),
            GivingStage::Sending | GivingStage::Offering | GivingStage::Forwarding => {
                if end == InstanceEnd::Failed {
                    self.instance.rest(cx);
                }
            }
        }
    }

    /// Sends more of the state, until so many parts are on the way, or asks the new host to begin with what
    /// it has.
    fn send_state(&mut self, cx: &mut Cx<'_>, chunks: usize) {
        let SlotPart::Giving(giving) = &mut self.part else {
            return;
        };
        let (Some(state), Some(to)) = (&giving.state, &giving.change.to) else {
            return;
        };
        if giving.state_received >= state.len() {
            giving.stage = GivingStage::Offering;
            return self.offer(cx);
        }
        let end = chunks.saturating_mul(CHUNK_BYTES);
        let end = giving.state_received.saturating_add(end).min(state.len());
        while giving.state_sent < end {
            let from = giving.state_sent;
            giving.state_sent = from.saturating_add(CHUNK_BYTES).min(state.len());
            let chunk = StateChunk {
                change: MoveRef {
                    path: self.path,
                    slot: self.number,
                    id: giving.change.id.clone(),
                },
                total: state.len() as u64,
                offset: from as u64,
                bytes: state.get(from..giving.state_sent).unwrap_or_default().into(),
            };
            cx.send(to, Msg::State(chunk));
        }
    }

    /// Looks whether a part of the state was lost, as the first ones are if the new host has not seen the
    /// move: nothing has arrived since the last look. Then they are sent again from there on, one until that
    /// has arrived.
    fn repeat_state(&mut self, cx: &mut Cx<'_>) {
        if let SlotPart::Giving(giving) = &mut self.part {
            let before = core::mem::replace(&mut giving.state_looked_at, giving.state_received);
            if before == giving.state_received {
                giving.state_sent = giving.state_received;
                self.send_state(cx, 1);
            }
        }
    }

    /// The new host is ready.
    fn on_new_host_ready(&mut self, cx: &mut Cx<'_>, unsaid: &mut Unsaid) {
        let SlotPart::Giving(giving) = &mut self.part else {
            return;
        };
        if giving.stage != GivingStage::Offering {
            return;
        }
        if giving.change.options.old_host == OldHost::Serves {
            giving.stage = GivingStage::Draining;
            if self.instance.stop(cx, false) {
                self.complete(cx, unsaid);
            }
        } else {
            self.complete(cx, unsaid);
        }
    }

    /// The move is complete: senders turn to the new host when they see it.
    fn complete(&mut self, cx: &mut Cx<'_>, unsaid: &mut Unsaid) {
        let view = alloc::sync::Arc::clone(cx.view());
        let members = view.members().iter();
        let expected = members.filter(|member| member.status != Status::Down);
        let expected = expected.map(|member| member.node.clone());
        let report_at = cx.mono() + MARKS_REPORT_AFTER;
        let SlotPart::Giving(giving) = &mut self.part else {
            return;
        };
        giving.stage = GivingStage::Forwarding;
        giving.state = None;
        giving.barrier = Some(Barrier::new(giving.change.id.counter, expected, report_at));
        cx.counters().moves_completed += 1;
        unsaid.note(cx, &self.name, self.number, &giving.change, MoveStatus::Complete);
        let (slot, to) = (self.number, giving.change.to.clone());
        cx.notify((self.path, Event::MovedAway { slot, to }));
        self.say_begin(cx);
        cx.wake(super::Timer::Flush, cx.mono());
    }

    fn say_begin(&self, cx: &mut Cx<'_>) {
        if let SlotPart::Giving(giving) = &self.part
            && giving.is_complete()
            && !giving.begun
            && let Some(to) = &giving.change.to
        {
            say(cx, to, PathBody::Begin(self.reference(&giving.change)));
        }
    }

    /// The move does not take place: this node goes on. An instance that was told to stop does so first: the
    /// next one begins with what it leaves.
    fn abort(&mut self, cx: &mut Cx<'_>, unsaid: &mut Unsaid, reason: AbortReason) {
        if let SlotPart::Giving(giving) = &mut self.part
            && self.instance.stage == SlotInstanceStage::Stopping
        {
            giving.given_up = Some(reason);
            return;
        }
        let SlotPart::Giving(giving) = core::mem::replace(&mut self.part, SlotPart::Serving) else {
            return;
        };
        cx.counters().moves_aborted += 1;
        unsaid.note(cx, &self.name, self.number, &giving.change, MoveStatus::Aborted);
        let slot = self.number;
        cx.notify((self.path, Event::MoveAborted { slot, reason }));
        self.resume(cx, giving);
    }

    /// Serves again; what was kept meanwhile comes first.
    pub(super) fn resume(&mut self, cx: &mut Cx<'_>, mut giving: Giving) {
        // Above the token that the new host would have had.
        let token = giving.change.token(cx.me());
        match self.instance.stage {
            SlotInstanceStage::Absent | SlotInstanceStage::Resting => {
                self.instance
                    .start(cx, token.max(self.instance.token), giving.state.take());
            }
            SlotInstanceStage::Starting | SlotInstanceStage::Running => {}
            // It is told to stop: the next one starts when it has.
            SlotInstanceStage::Stopping => {
                self.instance.token = token.max(self.instance.token);
            }
        }
        while let Some(waiting) = giving.held.pop() {
            if let super::buffer::Waiting::Message(held) = waiting {
                self.give_to_instance(cx, held);
            }
        }
    }

    /// Every sender has marked, or the slot is given up and its instance has ended.
    fn settle(&mut self, cx: &mut Cx<'_>, unsaid: &mut Unsaid) {
        if let SlotPart::Giving(giving) = &mut self.part {
            giving.stage = GivingStage::Closing;
            giving.barrier = None;
            unsaid.note(cx, &self.name, self.number, &giving.change, MoveStatus::Settled);
        }
    }

    /// Looks whether everybody has marked.
    pub(super) fn settle_if_marked(&mut self, cx: &mut Cx<'_>, unsaid: &mut Unsaid) {
        let SlotPart::Giving(giving) = &mut self.part else {
            return;
        };
        let is_open = giving.barrier.as_ref().is_some_and(Barrier::is_open);
        if giving.stage != GivingStage::Forwarding || !is_open || !giving.held.is_empty() {
            return;
        }
        if giving.change.to.is_some() {
            return self.settle(cx, unsaid);
        }
        // Nobody sends here any more: the instance handles what it has.
        giving.stage = GivingStage::Closing;
        if self.instance.stop(cx, false) {
            self.settle(cx, unsaid);
        }
    }

    /// Says once more what the other side has not answered; gives the move up when its time is over.
    pub(super) fn repeat(&mut self, cx: &mut Cx<'_>, unsaid: &mut Unsaid) {
        let now = cx.mono();
        match &mut self.part {
            SlotPart::Giving(giving) => {
                let is_early = !giving.is_complete() && giving.stage != GivingStage::Draining;
                if is_early && giving.deadline <= now {
                    return self.abort(cx, unsaid, AbortReason::NotReady);
                }
                let missing = giving
                    .barrier
                    .as_ref()
                    .map_or(0, |barrier| barrier.waiting().count());
                let is_late = giving
                    .barrier
                    .as_ref()
                    .is_some_and(|barrier| barrier.deadline() <= now);
                if missing > 0 && is_late && !core::mem::replace(&mut giving.reported, true) {
                    let (slot, members) = (self.number, missing);
                    cx.notify((self.path, Event::MarksMissing { slot, members }));
                }
                match giving.stage {
                    GivingStage::Sending => self.repeat_state(cx),
                    GivingStage::Offering => self.offer(cx),
                    GivingStage::Forwarding => {
                        self.say_begin(cx);
                        self.repeat_marks(cx);
                    }
                    GivingStage::Closing | GivingStage::Stopping | GivingStage::Draining => {
                        self.say_begin(cx);
                    }
                }
            }
            SlotPart::Taking(_) => self.say_ready(cx),
            SlotPart::Serving | SlotPart::Ending => {}
        }
    }

    /// The members changed: those who are gone mark nothing more.
    fn on_members(&mut self, cx: &mut Cx<'_>, unsaid: &mut Unsaid, view: &View) {
        let SlotPart::Giving(giving) = &mut self.part else {
            return;
        };
        if let Some(barrier) = &mut giving.barrier {
            let gone: Vec<UniqueAddress> = barrier
                .waiting()
                .filter(|node| view.member(node).is_none())
                .cloned()
                .collect();
            for node in gone {
                barrier.sender_gone(&node);
            }
        }
        let lost = giving.change.to.as_ref().is_some_and(|to| !is_there(view, to));
        match giving.stage {
            GivingStage::Stopping | GivingStage::Sending | GivingStage::Offering if lost => {
                self.abort(cx, unsaid, AbortReason::NewHostGone);
            }
            // Nobody is there to pass anything on to: the leader finds another host.
            GivingStage::Forwarding if lost => self.settle(cx, unsaid),
            GivingStage::Forwarding => self.settle_if_marked(cx, unsaid),
            GivingStage::Stopping
            | GivingStage::Sending
            | GivingStage::Offering
            | GivingStage::Draining
            | GivingStage::Closing => {}
        }
    }
}

impl Hosting {
    /// A move away from this node is pending.
    pub(super) fn give(
        &mut self,
        cx: &mut Cx<'_>,
        view: &View,
        entry: &PathEntry,
        number: u16,
        change: &SlotMove,
    ) {
        self.slot(&entry.name, number);
        let Some(slot) = self.slots.get_mut(&(entry.name.id(), number)) else {
            return;
        };
        match &slot.part {
            SlotPart::Giving(giving) if giving.change.id == change.id => {}
            _ if change.status != MoveStatus::Awaiting => return,
            // It was given up a moment ago, which the table does not say yet.
            _ if self.unsaid.is_decided(&slot.name, number, &change.id) => return,
            SlotPart::Giving(_) | SlotPart::Serving | SlotPart::Ending => {
                slot.begin_giving(cx, &mut self.unsaid, change);
            }
            SlotPart::Taking(_) => {
                if let SlotPart::Taking(taking) = core::mem::replace(&mut slot.part, SlotPart::Serving) {
                    slot.keep_serving(cx, taking);
                }
                slot.begin_giving(cx, &mut self.unsaid, change);
            }
        }
        slot.on_members(cx, &mut self.unsaid, view);
    }

    /// The slot whose move is meant, if this node gives it to `from`.
    fn giving_to(
        &mut self,
        from: &UniqueAddress,
        change: &MoveRef,
    ) -> Option<(&mut HostedSlot, &mut Unsaid)> {
        let slot = self.slots.get_mut(&(change.path, change.slot))?;
        let is_it = matches!(&slot.part, SlotPart::Giving(giving)
            if giving.change.id == change.id && giving.change.to.as_ref() == Some(from));
        is_it.then_some((slot, &mut self.unsaid))
    }

    /// The new host runs.
    pub(in crate::paths) fn on_ready(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, change: &MoveRef) {
        if let Some((slot, unsaid)) = self.giving_to(from, change) {
            slot.on_new_host_ready(cx, unsaid);
        }
    }

    /// The new host cannot run it.
    pub(in crate::paths) fn on_failed(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, change: &MoveRef) {
        if let Some((slot, unsaid)) = self.giving_to(from, change)
            && let SlotPart::Giving(giving) = &slot.part
            && !giving.is_complete()
            && giving.stage != GivingStage::Draining
        {
            slot.abort(cx, unsaid, AbortReason::CodeMissing);
        }
    }

    /// The new host knows that the move is complete.
    pub(in crate::paths) fn on_begun(&mut self, from: &UniqueAddress, change: &MoveRef) {
        if let Some((slot, _)) = self.giving_to(from, change)
            && let SlotPart::Giving(giving) = &mut slot.part
        {
            giving.begun = true;
        }
    }

    /// The leader wants a move given up.
    pub(in crate::paths) fn on_give_up(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, change: &MoveRef) {
        if leader_of(cx.view()).as_ref() != Some(from) {
            return;
        }
        if let Some(slot) = self.slots.get_mut(&(change.path, change.slot))
            && let SlotPart::Giving(giving) = &slot.part
            && giving.change.id == change.id
            && !giving.is_complete()
            && giving.stage != GivingStage::Draining
        {
            slot.abort(cx, &mut self.unsaid, AbortReason::ByLeader);
        }
    }

    /// So much of the state has arrived.
    pub(in crate::paths) fn on_state_received(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        change: &MoveRef,
        bytes: u64,
    ) {
        if let Some((slot, _)) = self.giving_to(from, change)
            && let SlotPart::Giving(giving) = &mut slot.part
            && giving.stage == GivingStage::Sending
            && let all = giving.state.as_ref().map_or(0, |state| state.len())
            && let received = usize::try_from(bytes).map_or(all, |bytes| bytes.min(all))
            && received > giving.state_received
        {
            giving.state_received = received;
            giving.state_sent = giving.state_sent.max(received);
            // As long as the state comes over the new host is not late.
            giving.deadline = cx.mono() + cx.config().paths.ready_timeout;
            slot.send_state(cx, CHUNKS_ON_THE_WAY);
        }
    }
}
