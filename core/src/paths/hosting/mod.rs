//! The slots of this node: what runs, what is given away, what is taken over. Finds out from the table what
//! this node has to do with each slot; `giving` is the old host's part of a move, `taking` the new host's,
//! `delivery` the way of messages. Plans nothing. Spec: sharding 5.4, 10.17.

mod buffer;
mod delivery;
mod giving;
mod instance;
mod parts;
mod taking;

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) use self::delivery::refuse;
use self::instance::{InstanceEnd, SlotInstance};
use self::parts::{SlotPart, Taking, TakingStage};
use super::Cx;
use super::protocol::{MoveRef, Timer};
use super::state::name::{PathId, PathName};
use super::state::settings::PathSettings;
use super::state::table::{MoveStatus, PathEntry, PathEpoch, PathTable, SlotMove};
use crate::buffered::BufferedLoad;
use crate::ident::UniqueAddress;
use crate::input::HostReport;
use crate::membership::state::member::{Member, Status};
use crate::messaging::answer;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::state::ids::Slot;
use crate::token::Token;
use crate::view::View;

/// Which slot of which path.
type SlotKey = (PathId, u16);

/// A slot that this node has to do with.
#[derive(Clone, Debug)]
struct HostedSlot {
    name: PathName,
    path: PathId,
    number: u16,
    instance: SlotInstance,
    part: SlotPart,
}

/// Statuses of moves that this node decides and has not written.
#[derive(Clone, Debug, Default)]
struct Unsaid {
    moves: OrderedMap<(PathName, u16), SlotMove>,
}

impl Unsaid {
    /// Whether this node has decided about a move and has not written it.
    fn is_decided(&self, name: &PathName, slot: u16, id: &PathEpoch) -> bool {
        let noted = self.moves.get(&(name.clone(), slot));
        noted.is_some_and(|noted| noted.id == *id)
    }

    /// Notes how far a move is. Written in a moment, together with others.
    fn note(&mut self, cx: &mut Cx<'_>, name: &PathName, slot: u16, change: &SlotMove, status: MoveStatus) {
        let change = SlotMove {
            status,
            ..change.clone()
        };
        self.moves.insert((name.clone(), slot), change);
        if !cx.is_set(Timer::Write) {
            let at = cx.mono() + cx.config().paths.write_delay;
            cx.wake(Timer::Write, at);
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosting {
    slots: OrderedMap<SlotKey, HostedSlot>,
    by_index: OrderedMap<u32, SlotKey>,
    last_index: u32,
    unsaid: Unsaid,
    /// Old hosts that asked to begin before this node saw the move.
    early: OrderedMap<SlotKey, (UniqueAddress, MoveRef)>,
    seen: Option<(Arc<PathTable>, Arc<Vec<Member>>)>,
    paused: bool,
    halted: bool,
}

impl Hosting {
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether the table has to be looked at anew, although it is the same.
    pub(super) const fn is_stale(&self) -> bool {
        self.seen.is_none() && !self.halted
    }

    /// Whether anything is to be said again.
    pub(super) fn moves(&self) -> bool {
        self.slots
            .values()
            .any(|slot| !matches!(slot.part, SlotPart::Serving))
    }

    pub(super) fn running(&self) -> impl Iterator<Item = (&PathName, u16, Token)> {
        let there = self.slots.values().filter(|slot| !slot.instance.is_absent());
        there.map(|slot| (&slot.name, slot.number, slot.instance.token))
    }

    pub(super) fn explain(&self) -> Vec<String> {
        let say = |slot: &HostedSlot| {
            let (name, number) = (&slot.name, slot.number);
            match &slot.part {
                SlotPart::Serving => None,
                SlotPart::Ending => Some(format!("{name} slot {number}: waits for its instance to stop")),
                SlotPart::Giving(giving) => Some(giving.explain(name, number)),
                SlotPart::Taking(taking) => Some(taking.explain(name, number)),
            }
        };
        self.slots.values().filter_map(say).collect()
    }

    pub(super) fn buffered(&self) -> BufferedLoad {
        let loads = self.slots.values().map(|slot| match &slot.part {
            SlotPart::Giving(giving) => giving.held.load(),
            SlotPart::Taking(taking) => taking.kept.values().map(buffer::HeldMessages::load).sum(),
            SlotPart::Serving | SlotPart::Ending => BufferedLoad::NOTHING,
        });
        loads.sum()
    }

    /// What each slot keeps of each sender.
    pub(super) fn kept(&self) -> impl Iterator<Item = BufferedLoad> {
        let of = |slot: &HostedSlot| -> Vec<BufferedLoad> {
            match &slot.part {
                SlotPart::Giving(giving) => giving.held.of_each().collect(),
                SlotPart::Taking(taking) => {
                    let kept = taking.kept.values();
                    kept.flat_map(buffer::HeldMessages::of_each).collect()
                }
                SlotPart::Serving | SlotPart::Ending => Vec::new(),
            }
        };
        self.slots.values().flat_map(of)
    }

    /// The table or the members may have changed.
    pub(super) fn look(
        &mut self,
        cx: &mut Cx<'_>,
        table: &Arc<PathTable>,
        codes: &OrderedMap<PathId, Arc<PathSettings>>,
    ) {
        let view = Arc::clone(cx.view());
        let members = view.gossip().members_arc();
        let is_known = |seen: &(Arc<PathTable>, Arc<Vec<Member>>)| {
            Arc::ptr_eq(&seen.0, table) && Arc::ptr_eq(&seen.1, members)
        };
        if self.halted || self.seen.as_ref().is_some_and(is_known) {
            return;
        }
        self.seen = Some((Arc::clone(table), Arc::clone(members)));
        let mut named: OrderedSet<SlotKey> = OrderedSet::new();
        for entry in table.entries() {
            for at in 0..entry.slots() {
                if let Ok(number) = u16::try_from(at)
                    && self.look_at(cx, &view, entry, number, codes)
                {
                    named.insert((entry.name.id(), number));
                }
            }
        }
        let others = self.slots.keys().filter(|key| !named.contains(key));
        let others: Vec<SlotKey> = others.copied().collect();
        for key in others {
            self.end(cx, key);
        }
        self.early
            .retain(|key, _| named.contains(key) || !table.entries().iter().any(|e| e.name.id() == key.0));
    }

    /// One slot of the table; says whether it concerns this node.
    fn look_at(
        &mut self,
        cx: &mut Cx<'_>,
        view: &View,
        entry: &PathEntry,
        number: u16,
        codes: &OrderedMap<PathId, Arc<PathSettings>>,
    ) -> bool {
        let (me, at) = (cx.me(), usize::from(number));
        let key = (entry.name.id(), number);
        let fits = |code: &Arc<PathSettings>| {
            let settings = entry.settings();
            settings.is_none_or(|settings| settings.mailbox == code.mailbox)
        };
        let has_code = codes.get(&key.0).is_some_and(fits);
        match entry.pending(at) {
            Some(change) if change.from.as_ref() == Some(me) => self.give(cx, view, entry, number, change),
            Some(change) if change.to.as_ref() == Some(me) => {
                self.take(cx, view, entry, number, has_code);
            }
            Some(_) | None if entry.host(at) == Some(me) => {
                self.serve(cx, entry, number, has_code);
            }
            Some(_) | None => return false,
        }
        true
    }

    /// The slot's record on this node, made if there is none.
    fn slot(&mut self, name: &PathName, number: u16) -> &mut HostedSlot {
        let key = (name.id(), number);
        if !self.slots.contains_key(&key) {
            self.last_index = self.last_index.wrapping_add(1);
            self.by_index.insert(self.last_index, key);
        }
        let index = self.last_index;
        self.slots.entry(key).or_insert_with(|| HostedSlot {
            name: name.clone(),
            path: key.0,
            number,
            instance: SlotInstance::new(key.0, number, index),
            part: SlotPart::Serving,
        })
    }

    /// This node hosts it, and nothing moves.
    fn serve(&mut self, cx: &mut Cx<'_>, entry: &PathEntry, number: u16, has_code: bool) {
        let token = entry.token(usize::from(number), cx.me());
        let paused = self.paused;
        let slot = self.slot(&entry.name, number);
        match core::mem::replace(&mut slot.part, SlotPart::Serving) {
            SlotPart::Serving | SlotPart::Ending => {}
            SlotPart::Giving(giving) => slot.resume(cx, giving),
            SlotPart::Taking(taking) => slot.keep_serving(cx, taking),
        }
        if has_code && !paused && slot.instance.stage == instance::SlotInstanceStage::Absent {
            slot.instance.start(cx, token, None);
        }
    }

    /// It concerns this node no more.
    fn end(&mut self, cx: &mut Cx<'_>, key: SlotKey) {
        let Some(slot) = self.slots.get_mut(&key) else {
            return;
        };
        match core::mem::replace(&mut slot.part, SlotPart::Ending) {
            SlotPart::Serving | SlotPart::Ending => {}
            SlotPart::Giving(giving) => slot.drop_held(cx, giving.held),
            SlotPart::Taking(taking) => slot.drop_kept(cx, taking),
        }
        if slot.instance.stop(cx, false) {
            self.forget(key);
        }
    }

    fn forget(&mut self, key: SlotKey) {
        if let Some(slot) = self.slots.remove(&key) {
            self.by_index.remove(&slot.instance.index());
        }
    }

    /// The host reports.
    pub(super) fn on_report(&mut self, cx: &mut Cx<'_>, report: HostReport) {
        match report {
            HostReport::Answered { ask, result } => answer(cx, ask, result),
            HostReport::Refused {
                ask: Some(ask),
                reason,
                ..
            } => answer(cx, ask, Err(reason)),
            HostReport::Refused {
                slot,
                ask: None,
                reason,
            } => {
                if let Some((key, ..)) = self.running_in(slot) {
                    super::dead_letter(cx, key.0, reason);
                }
            }
            HostReport::Running { slot } => {
                if let Some((_, hosted, unsaid)) = self.running_in(slot)
                    && hosted.instance.on_running(slot)
                {
                    hosted.on_running(cx, unsaid);
                }
            }
            HostReport::State { slot, state } => {
                if let Some((_, hosted, _)) = self.running_in(slot)
                    && hosted.instance.slot() == slot
                {
                    hosted.on_left_state(state);
                }
            }
            HostReport::Stopped { slot } => {
                if let Some((key, hosted, _)) = self.running_in(slot)
                    && let Some(end) = hosted.instance.on_stopped(cx, slot)
                {
                    self.on_ended(cx, key, end);
                }
            }
            // Not said of instances of paths.
            HostReport::Passivate { .. }
            | HostReport::Ending { .. }
            | HostReport::Failed { .. }
            | HostReport::Escalated { .. } => {}
        }
    }

    /// What runs, or ran, in a slot of the host's.
    fn running_in(&mut self, slot: Slot) -> Option<(SlotKey, &mut HostedSlot, &mut Unsaid)> {
        let key = self.by_index.get(&slot.index).copied()?;
        let hosted = self.slots.get_mut(&key)?;
        Some((key, hosted, &mut self.unsaid))
    }

    /// An instance has ended.
    fn on_ended(&mut self, cx: &mut Cx<'_>, key: SlotKey, end: InstanceEnd) {
        let (halted, paused) = (self.halted, self.paused);
        let Some(slot) = self.slots.get_mut(&key) else {
            return;
        };
        match &slot.part {
            SlotPart::Ending => {
                // A move to this node may have begun meanwhile: it waited for this.
                self.seen = None;
                return self.forget(key);
            }
            SlotPart::Serving if halted => return self.forget(key),
            // It was told to stop for a move that does not take place.
            SlotPart::Serving if end == InstanceEnd::Stopped => {
                if paused {
                    self.seen = None;
                } else {
                    let token = slot.instance.token;
                    slot.instance.start(cx, token, None);
                }
            }
            SlotPart::Serving => slot.instance.rest(cx),
            SlotPart::Giving(_) => slot.on_giver_ended(cx, &mut self.unsaid, end),
            SlotPart::Taking(_) => slot.on_taker_ended(cx),
        }
        if halted {
            self.forget(key);
        }
    }

    /// A rest is over.
    pub(super) fn on_restart(&mut self, cx: &mut Cx<'_>, path: PathId, number: u16) {
        if self.paused {
            // Looked at anew when the pause is over.
            return;
        }
        if let Some(slot) = self.slots.get_mut(&(path, number)) {
            let token = slot.instance.token;
            slot.instance.start(cx, token, None);
        }
    }

    pub(super) fn on_stop_late(&mut self, cx: &mut Cx<'_>, path: PathId, number: u16) {
        if let Some(slot) = self.slots.get_mut(&(path, number)) {
            slot.instance.on_stop_late(cx);
        }
    }

    /// Writes what has become of moves into the table.
    pub(super) fn write(&mut self, cx: &mut Cx<'_>) {
        let table = Arc::clone(cx.view().gossip().paths());
        let mut entries = table.entries().to_vec();
        let mut any = false;
        for ((name, number), change) in core::mem::take(&mut self.unsaid.moves) {
            let Ok(at) = entries.binary_search_by(|entry| entry.name.cmp(&name)) else {
                continue;
            };
            let mut entry = PathEntry::clone(&entries[at]);
            let last = entry.moves.get_mut(usize::from(number)).and_then(Option::as_mut);
            if let Some(last) = last.filter(|last| last.id == change.id && last.status < change.status) {
                last.status = change.status;
                entries[at] = Arc::new(entry);
                any = true;
            }
        }
        if any
            && let Ok(new) = PathTable::of(
                table.counter(),
                table.forgotten(),
                table.placed().cloned(),
                entries,
            )
        {
            cx.write_table(Arc::new(new));
        }
    }

    /// Says once more what was not answered, and looks at the time limits.
    pub(super) fn repeat(&mut self, cx: &mut Cx<'_>) {
        for slot in self.slots.values_mut() {
            slot.repeat(cx, &mut self.unsaid);
        }
    }

    pub(super) fn on_paused(&mut self) {
        self.paused = true;
    }

    pub(super) fn on_still_member(&mut self, cx: &mut Cx<'_>) {
        self.paused = false;
        self.seen = None;
        for slot in self.slots.values_mut() {
            let token = slot.instance.token;
            if slot.instance.stage == instance::SlotInstanceStage::Resting {
                slot.instance.start(cx, token, None);
            }
        }
    }

    /// Nobody takes over: whatever is left stops, once it has handled what it was given.
    pub(super) fn stop_all(&mut self, cx: &mut Cx<'_>) {
        if !core::mem::replace(&mut self.halted, true) {
            let keys: Vec<SlotKey> = self.slots.keys().copied().collect();
            for key in keys {
                self.end(cx, key);
            }
        }
    }

    /// This node has ended.
    pub(super) fn halt(&mut self, cx: &mut Cx<'_>) {
        self.halted = true;
        let keys: Vec<SlotKey> = self.slots.keys().copied().collect();
        for key in keys {
            if let Some(slot) = self.slots.get_mut(&key) {
                match core::mem::replace(&mut slot.part, SlotPart::Ending) {
                    SlotPart::Serving | SlotPart::Ending => {}
                    SlotPart::Giving(giving) => slot.drop_held(cx, giving.held),
                    SlotPart::Taking(taking) => slot.drop_kept(cx, taking),
                }
                slot.instance.kill(cx);
                if slot.instance.is_absent() {
                    self.forget(key);
                }
            }
        }
    }

    pub(super) fn check_invariants(&self) -> Result<(), String> {
        for (key, slot) in &self.slots {
            if *key != (slot.path, slot.number) || slot.name.id() != slot.path {
                return Err(format!("{key:?} has another slot's record"));
            }
            if self.by_index.get(&slot.instance.index()) != Some(key) {
                return Err(format!("{key:?} is not found by its place in the host"));
            }
            let begun = |taking: &Taking| taking.stage == TakingStage::Begun && taking.all_open;
            match &slot.part {
                SlotPart::Taking(taking) if begun(taking) && !taking.kept.is_empty() => {
                    return Err(format!(
                        "{key:?} keeps messages after everybody's buffer was opened"
                    ));
                }
                SlotPart::Taking(_) | SlotPart::Serving | SlotPart::Ending | SlotPart::Giving(_) => {}
            }
        }
        Ok(())
    }
}

/// Whether a node is a member that is not Down.
fn is_there(view: &View, node: &UniqueAddress) -> bool {
    view.member(node)
        .is_some_and(|member| member.status != Status::Down)
}
