//! The new host's part of a move: starts the instance when the old host asks for it, handles nothing before
//! the move is complete, and keeps a sender's messages until all that it gave the old host has come over.
//! Spec: sharding 5.4, 10.17 c.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::instance::SlotInstanceStage;
use super::parts::{SlotPart, Taking, TakingStage};
use super::{HostedSlot, Hosting, Unsaid, is_there};
use crate::ident::UniqueAddress;
use crate::ordered::OrderedMap;
use crate::paths::protocol::{Event, MoveRef, PathBody, Rejection, StateChunk};
use crate::paths::state::name::{PathId, PathName};
use crate::paths::state::table::{MoveStatus, PathEntry, SlotMove};
use crate::paths::{Cx, PathSettings, say};
use crate::reject::Rejection as AnyRejection;
use crate::view::View;

impl Taking {
    pub(super) fn explain(&self, name: &PathName, number: u16) -> String {
        let from = match &self.change.from {
            Some(from) => format!("comes from {from}"),
            None => String::from("begins here"),
        };
        let waits = match self.stage {
            TakingStage::Waiting => String::from("the old host"),
            TakingStage::Starting => String::from("its instance to run"),
            TakingStage::Ready => String::from("the old host to complete the move"),
            TakingStage::Begun => format!("the marks of senders, messages of {} wait", self.kept.len()),
        };
        format!("{name} slot {number} {from}: waits for {waits}")
    }
}

impl HostedSlot {
    /// Starts the instance with what the old host has sent.
    fn start_taking(&mut self, cx: &mut Cx<'_>) {
        let SlotPart::Taking(taking) = &mut self.part else {
            return;
        };
        if taking.stage != TakingStage::Waiting {
            return;
        }
        taking.stage = TakingStage::Starting;
        let token = taking.change.token(cx.me());
        let state = taking.change.options.transfer.then(|| {
            let state = core::mem::take(&mut taking.state);
            state.into_boxed_slice()
        });
        // One that goes on after a repair has its state already.
        let state = state.filter(|_| taking.change.from.is_some());
        self.instance.start(cx, token, state);
    }

    /// The instance runs.
    pub(super) fn on_running(&mut self, cx: &mut Cx<'_>, unsaid: &mut Unsaid) {
        let SlotPart::Taking(taking) = &mut self.part else {
            return;
        };
        if taking.stage == TakingStage::Starting {
            taking.stage = TakingStage::Ready;
        }
        if taking.change.from.is_none() {
            taking.stage = TakingStage::Begun;
            unsaid.note(cx, &self.name, self.number, &taking.change, MoveStatus::Settled);
            return self.open_all(cx);
        }
        self.say_ready(cx);
    }

    /// Tells the old host that the instance runs, until the move is complete.
    pub(super) fn say_ready(&self, cx: &mut Cx<'_>) {
        if let SlotPart::Taking(taking) = &self.part
            && taking.stage == TakingStage::Ready
            && let Some(from) = &taking.change.from
        {
            say(cx, from, PathBody::Ready(self.reference(&taking.change)));
        }
    }

    /// The instance ended before it was told to.
    pub(super) fn on_taker_ended(&mut self, cx: &mut Cx<'_>) {
        let SlotPart::Taking(taking) = &mut self.part else {
            return;
        };
        match (&taking.change.from, taking.stage) {
            (Some(from), TakingStage::Starting | TakingStage::Ready | TakingStage::Waiting) => {
                let from = from.clone();
                taking.stage = TakingStage::Waiting;
                let change = self.reference_of_part();
                if let Some(change) = change {
                    say(cx, &from, PathBody::Failed(change));
                }
            }
            (None, _) | (Some(_), TakingStage::Begun) => self.instance.rest(cx),
        }
    }

    fn reference_of_part(&self) -> Option<MoveRef> {
        match &self.part {
            SlotPart::Taking(taking) => Some(self.reference(&taking.change)),
            SlotPart::Giving(giving) => Some(self.reference(&giving.change)),
            SlotPart::Serving | SlotPart::Ending => None,
        }
    }

    /// The move is complete: messages are handled from now on.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        let SlotPart::Taking(taking) = &mut self.part else {
            return;
        };
        if taking.stage != TakingStage::Ready {
            return;
        }
        taking.stage = TakingStage::Begun;
        if taking.all_open || !taking.change.options.keeps_order() {
            self.open_all(cx);
        } else {
            let firsts: Vec<UniqueAddress> = taking.opened.iter().cloned().collect();
            for sender in firsts {
                self.open(cx, &sender);
            }
        }
    }

    /// All that this sender gave the old host is here.
    pub(super) fn open(&mut self, cx: &mut Cx<'_>, sender: &UniqueAddress) {
        let SlotPart::Taking(taking) = &mut self.part else {
            return;
        };
        taking.opened.insert(sender.clone());
        if taking.stage == TakingStage::Begun
            && let Some(kept) = taking.kept.remove(sender)
        {
            self.hand_over(cx, kept);
        }
    }

    /// Nothing comes over any more.
    fn open_all(&mut self, cx: &mut Cx<'_>) {
        let SlotPart::Taking(taking) = &mut self.part else {
            return;
        };
        taking.all_open = true;
        if taking.stage == TakingStage::Begun {
            for (_, kept) in core::mem::take(&mut taking.kept) {
                self.hand_over(cx, kept);
            }
        }
    }

    fn hand_over(&mut self, cx: &mut Cx<'_>, mut kept: super::buffer::HeldMessages) {
        while let Some(waiting) = kept.pop() {
            if let super::buffer::Waiting::Message(held) = waiting {
                self.give_to_instance(cx, held);
            }
        }
    }

    /// This node hosts the slot for good: whatever is kept is handled.
    pub(super) fn keep_serving(&mut self, cx: &mut Cx<'_>, taking: Taking) {
        self.part = SlotPart::Taking(taking);
        if let SlotPart::Taking(taking) = &mut self.part
            && taking.stage != TakingStage::Begun
        {
            taking.stage = TakingStage::Begun;
        }
        self.open_all(cx);
        self.part = SlotPart::Serving;
    }
}

impl Hosting {
    /// A move to this node is pending.
    pub(super) fn take(
        &mut self,
        cx: &mut Cx<'_>,
        view: &View,
        entry: &PathEntry,
        number: u16,
        has_code: bool,
    ) {
        let Some(change) = entry.pending(usize::from(number)) else {
            return;
        };
        let key = (entry.name.id(), number);
        if change.status == MoveStatus::Aborted {
            return self.end(cx, key);
        }
        if !has_code {
            return self.refuse_slot(cx, entry, number, change);
        }
        if self.paused && !self.slots.contains_key(&key) {
            return;
        }
        let early = self.early.remove(&key);
        self.slot(&entry.name, number);
        let Some(slot) = self.slots.get_mut(&key) else {
            return;
        };
        match &mut slot.part {
            SlotPart::Taking(taking) if taking.change.id == change.id => {}
            // The old host is gone, and this node goes on with what it has.
            SlotPart::Taking(taking) if change.from.is_none() && taking.stage != TakingStage::Waiting => {
                taking.change = change.clone();
            }
            SlotPart::Serving | SlotPart::Ending | SlotPart::Giving(_) | SlotPart::Taking(_) => {
                if slot.instance.stage == SlotInstanceStage::Stopping {
                    // The next look is when it has ended.
                    slot.part = SlotPart::Ending;
                    return;
                }
                slot.part = SlotPart::Taking(Taking::new(change.clone()));
            }
        }
        let gone = change
            .from
            .as_ref()
            .is_none_or(|from| !is_there(view, from) && view.member(from).is_none());
        if change.from.is_none() {
            slot.start_taking(cx);
            slot.go_on_alone(cx, &mut self.unsaid);
        }
        match change.status {
            MoveStatus::Complete => slot.begin(cx),
            MoveStatus::Settled => {
                slot.begin(cx);
                slot.open_all(cx);
            }
            MoveStatus::Awaiting | MoveStatus::Aborted | MoveStatus::Applied => {}
        }
        if gone {
            slot.open_all(cx);
        }
        if let Some((from, early)) = early {
            self.on_init_seen(cx, &from, &early);
        }
    }

    /// This node is to host what it cannot run.
    fn refuse_slot(&mut self, cx: &mut Cx<'_>, entry: &PathEntry, number: u16, change: &SlotMove) {
        if change.status != MoveStatus::Awaiting {
            return;
        }
        cx.notify((entry.name.id(), Event::CodeMissing { slot: number }));
        match &change.from {
            None => self
                .unsaid
                .note(cx, &entry.name, number, change, MoveStatus::Aborted),
            Some(from) => {
                let change = MoveRef {
                    path: entry.name.id(),
                    slot: number,
                    id: change.id.clone(),
                };
                say(cx, from, PathBody::Failed(change));
            }
        }
    }

    /// The old host asks to begin.
    pub(in crate::paths) fn on_init(
        &mut self,
        cx: &mut Cx<'_>,
        codes: &OrderedMap<PathId, alloc::sync::Arc<PathSettings>>,
        from: &UniqueAddress,
        change: MoveRef,
    ) {
        if !codes.contains_key(&change.path) {
            return say(cx, from, PathBody::Failed(change));
        }
        if !self.on_init_seen(cx, from, &change)
            && self.early.len() < super::super::state::settings::SLOTS_MAX
        {
            self.early
                .insert((change.path, change.slot), (from.clone(), change));
        }
    }

    /// The same, where this node has seen the move; says whether it has.
    fn on_init_seen(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, change: &MoveRef) -> bool {
        let paused = self.paused;
        let Some(slot) = self.taking_from(from, change) else {
            return false;
        };
        if let SlotPart::Taking(taking) = &slot.part {
            match taking.stage {
                TakingStage::Waiting if paused => {}
                TakingStage::Waiting => slot.start_taking(cx),
                TakingStage::Starting => {}
                TakingStage::Ready => slot.say_ready(cx),
                TakingStage::Begun => say(cx, from, PathBody::Begun(change.clone())),
            }
        }
        true
    }

    fn taking_from(&mut self, from: &UniqueAddress, change: &MoveRef) -> Option<&mut HostedSlot> {
        let slot = self.slots.get_mut(&(change.path, change.slot))?;
        let is_it = matches!(&slot.part, SlotPart::Taking(taking)
            if taking.change.id == change.id && taking.change.from.as_ref() == Some(from));
        is_it.then_some(slot)
    }

    /// The old host says that the move is complete.
    pub(in crate::paths) fn on_begin(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, change: MoveRef) {
        if let Some(slot) = self.taking_from(from, &change) {
            slot.begin(cx);
            let is_begun =
                matches!(&slot.part, SlotPart::Taking(taking) if taking.stage == TakingStage::Begun);
            if !is_begun {
                return;
            }
        }
        // Also where it is over already: the old host stops asking.
        say(cx, from, PathBody::Begun(change));
    }

    /// A part of the state.
    pub(in crate::paths) fn on_state(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, chunk: StateChunk) {
        let limit = cx.config().paths.state_bytes_max as u64;
        let StateChunk {
            change,
            total,
            offset,
            bytes,
        } = chunk;
        let Some(slot) = self.taking_from(from, &change) else {
            return;
        };
        let SlotPart::Taking(taking) = &mut slot.part else {
            return;
        };
        let have = taking.state.len() as u64;
        let fits = total <= limit && offset.saturating_add(bytes.len() as u64) <= total;
        if taking.stage != TakingStage::Waiting {
            return;
        }
        if !fits {
            return cx.reject(from, AnyRejection::Path(Rejection::ChunkOutOfPlace));
        }
        // One before it was lost: the old host sends them again from there on.
        if offset > have {
            return;
        }
        if offset == have {
            taking.state.extend_from_slice(&bytes);
        }
        let bytes = taking.state.len() as u64;
        say(cx, from, PathBody::StateReceived { change, bytes });
    }
}

impl HostedSlot {
    /// There is no old host: the instance begins, or goes on, with what it has.
    fn go_on_alone(&mut self, cx: &mut Cx<'_>, unsaid: &mut Unsaid) {
        let runs = self.instance.stage == SlotInstanceStage::Running;
        let SlotPart::Taking(taking) = &mut self.part else {
            return;
        };
        if runs && taking.stage != TakingStage::Begun {
            taking.stage = TakingStage::Begun;
        }
        if runs && taking.change.status < MoveStatus::Settled {
            unsaid.note(cx, &self.name, self.number, &taking.change, MoveStatus::Settled);
            self.open_all(cx);
        }
    }
}
