//! I-51: hand-offs keep what their options promise. Always: nothing is handled twice, nothing before the move
//! is complete, a state comes whole, two instances with one token are on one process. With 3b the messages of
//! a sender to a slot are handled in the order in which they were sent. With 2b and 2c no two instances
//! handle messages, within the safe shapes, else counted.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::paths::state::name::PathId;
use quorate_core::paths::state::options::HandoffOptions;
use quorate_core::paths::state::table::MoveStatus;
use quorate_core::sharding::ids::Slot;
use quorate_core::token::Token;
use quorate_core::view::View;

use crate::sim::ProcessId;

type SlotOf = (PathId, u16);

/// An instance of a path handles a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathHandled<'a> {
    pub(crate) process: ProcessId,
    pub(crate) path: PathId,
    pub(crate) slot: u16,
    pub(crate) token: Token,
    pub(crate) options: HandoffOptions,
    pub(crate) sender: ProcessId,
    /// The message's place in the order in which all were sent.
    pub(crate) order: u64,
    /// Whether the run is within the safe shapes so far.
    pub(crate) safe: bool,
    /// The picture of its node.
    pub(crate) view: &'a View,
}

#[derive(Debug)]
struct Running {
    process: ProcessId,
    host_slot: Slot,
    token: Token,
    has_handled: bool,
}

#[derive(Debug)]
struct Last {
    order: u64,
    by: ProcessId,
}

/// What happened to each slot.
#[derive(Debug, Default)]
pub(crate) struct AsPromised {
    active: BTreeMap<SlotOf, Vec<Running>>,
    started: BTreeSet<(ProcessId, PathId, u16, Token)>,
    once: BTreeSet<(PathId, u16, u64)>,
    last: BTreeMap<(ProcessId, PathId, u16), Last>,
    /// The highest token that has handled something.
    highest: BTreeMap<SlotOf, Token>,
    /// Tokens of new hosts whose moves are complete.
    moved: BTreeSet<(PathId, u16, Token)>,
    /// What instances left, the last one last.
    left: BTreeMap<SlotOf, Vec<Vec<u8>>>,
    /// Messages that came to another instance than their sender's last one did, in order.
    pub(crate) over_a_move: u64,
}

impl AsPromised {
    /// An old host says that a move is complete: the new one has this token.
    pub(crate) fn on_moved(&mut self, path: PathId, slot: u16, token: Token) {
        self.moved.insert((path, slot, token));
    }

    /// An instance left this.
    pub(crate) fn on_left(&mut self, at: SlotOf, state: &[u8]) {
        self.left.entry(at).or_default().push(state.to_vec());
    }

    /// Whether an instance with this token ran at a process before.
    pub(crate) fn ran_before(&self, process: ProcessId, path: PathId, slot: u16, token: Token) -> bool {
        self.started.contains(&(process, path, slot, token))
    }

    /// An instance starts. Yields with how many others it runs at once.
    pub(crate) fn on_start(
        &mut self,
        (process, host_slot): (ProcessId, Slot),
        at: SlotOf,
        token: Token,
        state: Option<&[u8]>,
        (safe, must_have): (bool, bool),
    ) -> Result<u64, String> {
        let others = self.active.entry(at).or_default();
        if let Some(other) = others
            .iter()
            .find(|it| it.token == token && it.process != process)
        {
            return Err(format!(
                "starts with {token}, which the instance at p{} has",
                other.process
            ));
        }
        if let Some(other) = others.iter().find(|it| it.process == process) {
            return Err(format!("starts one beside {other:?}"));
        }
        let left = self.left.get(&at);
        match state {
            None if must_have => return Err("starts without the state of the one before".to_owned()),
            None => {}
            Some(state) => {
                let is_last = left
                    .and_then(|left| left.last())
                    .is_some_and(|last| last == state);
                let is_any = left.is_some_and(|left| left.iter().any(|it| it == state));
                if !is_any || (safe && !is_last) {
                    let bytes = state.len();
                    return Err(format!(
                        "starts with {bytes} bytes, which the last one did not leave"
                    ));
                }
            }
        }
        let overlaps = others.len() as u64;
        self.started.insert((process, at.0, at.1, token));
        others.push(Running {
            process,
            host_slot,
            token,
            has_handled: false,
        });
        Ok(overlaps)
    }

    /// A cluster is formed, and there is no other one: epochs, and with them tokens, begin anew.
    pub(crate) fn begins_anew(&mut self) {
        self.highest.clear();
        self.left.clear();
        self.moved.clear();
        self.started.clear();
    }

    pub(crate) fn on_ended(&mut self, process: ProcessId, host_slot: Slot) {
        for running in self.active.values_mut() {
            running.retain(|it| (it.process, it.host_slot) != (process, host_slot));
        }
    }

    pub(crate) fn process_ended(&mut self, process: ProcessId) {
        for running in self.active.values_mut() {
            running.retain(|it| it.process != process);
        }
    }

    /// A message is handled. Yields how many others have handled something and run.
    pub(crate) fn on_handled(
        &mut self,
        it: &PathHandled<'_>,
        is_left_behind: &dyn Fn(ProcessId) -> bool,
    ) -> Result<u64, String> {
        let at = (it.path, it.slot);
        if !self.once.insert((it.path, it.slot, it.order)) {
            return Err(format!("handles a message twice: {it:?}"));
        }
        self.check_complete(it)?;
        if let Some(last) = self.last.get(&(it.sender, it.path, it.slot)) {
            let is_promised = it.options.keeps_order();
            let is_excused =
                last.by != it.process && !(it.safe && it.options.never_two()) && is_left_behind(last.by);
            if it.order < last.order && is_promised && !is_excused {
                let (sender, order) = (it.sender, it.order);
                return Err(format!("handles {order} of p{sender} after {last:?}"));
            }
            self.over_a_move += u64::from(last.by != it.process);
        }
        let last = Last {
            order: it.order,
            by: it.process,
        };
        self.last.insert((it.sender, it.path, it.slot), last);
        self.check_alone(it, at)
    }

    /// Whether the move that brought the instance here is complete.
    fn check_complete(&self, it: &PathHandled<'_>) -> Result<(), String> {
        let entry = it.view.gossip().paths().by_id(it.path);
        let change = entry.and_then(|entry| entry.last_move(usize::from(it.slot)));
        let me = it.view.me();
        match change {
            Some(change)
                if change.from.is_some()
                    && change.to.as_ref() == Some(me)
                    && change.token(me) == it.token
                    && change.status == MoveStatus::Awaiting
                    && !self.moved.contains(&(it.path, it.slot, it.token)) =>
            {
                Err(format!(
                    "handles a message before the move is complete: {change:?}"
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn check_alone(&mut self, it: &PathHandled<'_>, at: SlotOf) -> Result<u64, String> {
        let running = self.active.entry(at).or_default();
        for mine in running.iter_mut().filter(|one| one.process == it.process) {
            mine.has_handled = true;
        }
        let others = running
            .iter()
            .filter(|one| one.process != it.process && one.has_handled);
        let others: Vec<&Running> = others.collect();
        let highest = self.highest.entry(at).or_insert(it.token);
        let is_late = *highest > it.token;
        *highest = it.token.max(*highest);
        if it.safe && it.options.never_two() {
            if let Some(other) = others.first() {
                return Err(format!("handles a message with {} beside {other:?}", it.token));
            }
            if is_late {
                return Err(format!(
                    "handles a message with {} after one with {highest}",
                    it.token
                ));
            }
        }
        Ok(others.len() as u64)
    }
}
