//! What must hold of paths that takes the pictures of several nodes: a slot whose host lives, and to which
//! nothing happens, has its instance; at rest each path has as many as it should, on the hosts of the table,
//! and they answer everybody. Spec: reliability I-50, I-51; sharding 5.2.

use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::Arc;

use quorate_core::node::BufferedLoad;
use quorate_core::paths::protocol::PathPick;
use quorate_core::paths::state::table::{MoveStatus, PathEntry, PathTable};

use super::{PATHS, PathKind};
use crate::sim::engine::Sim;
use crate::sim::history::ProcessId;
use crate::sim::plan::SECOND;
use crate::sim::script::all_up;

/// After something happened to a slot (its instance began, stopped or failed, its move was given up) it may
/// take so long until an instance runs: a rest after failures (3 s), a late start (3 s), a late stop (2 s).
const UNREST_MAX: u64 = 12 * SECOND;
/// At rest: cool-downs after moves that were given up (3 s), starts and stops, hand-offs of evacuations.
const REST_MAX: u64 = 60 * SECOND;
/// Registrations are said again after so long.
const REGISTER_AGAIN: u64 = 4 * SECOND;
/// Then everybody's ask is answered within this time.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

type Broken = (&'static str, ProcessId, String);

impl Sim {
    /// The table, if all running nodes have the same one.
    fn one_table(&self) -> Option<Arc<PathTable>> {
        let mut tables = self
            .running()
            .into_iter()
            .map(|index| self.view(index).gossip().paths());
        let first = tables.next()?;
        tables.all(|other| other == first).then(|| Arc::clone(first))
    }

    /// Whether an instance of a slot runs in a process.
    fn runs_slot(&self, process: ProcessId, kind: &PathKind, slot: u16) -> bool {
        let mut hosted = self.processes[process as usize].hosted.values();
        hosted.any(|it| (it.path, it.number) == (kind.id(), slot) && it.runs)
    }

    /// The process that should run a slot for certain; `None` if the slot counts as gone.
    fn must_run(&self, kind: &PathKind, entry: &PathEntry, slot: u16) -> Option<ProcessId> {
        let at = usize::from(slot);
        if let Some(change) = entry.pending(at) {
            let serves = !change.options.never_two() && change.from.is_some() && change.to.is_some();
            let is_clear = matches!(change.status, MoveStatus::Awaiting | MoveStatus::Settled);
            if !serves || !is_clear {
                return None;
            }
        }
        let process = self.lives(entry.target(at)?)?;
        let host = &self.processes[process as usize];
        let unrest = self.paths.unrest.get(&(process, kind.id(), slot));
        let is_calm = unrest.is_none_or(|at| self.now >= at + UNREST_MAX);
        (is_calm && host.may_begin(self.now) && host.paused_until <= self.now).then_some(process)
    }

    /// Looks whether instances run where the table that everybody has says so.
    pub(crate) fn look_at_paths(&mut self) {
        if !self.paths.enabled || !self.assumptions.safe() || self.violation.is_some() {
            return;
        }
        let Some(table) = self.one_table() else { return };
        for kind in &PATHS {
            let Some(entry) = table.get(&kind.path()).filter(|entry| entry.settings().is_some()) else {
                continue;
            };
            for slot in 0..entry.slots() as u16 {
                if let Some(process) = self.must_run(kind, entry, slot)
                    && !self.runs_slot(process, kind, slot)
                {
                    let what = format!("{} {slot} does not run here: {:?}", kind.name, entry);
                    return self.violated("I-50", process, what);
                }
            }
        }
    }

    /// What hosts keep of each sender is within its bounds.
    pub(crate) fn look_at_kept(&mut self, process: ProcessId) {
        let node = &self.processes[process as usize].node;
        let limits = &node.config().paths;
        let most = (limits.buffer_messages_max, limits.buffer_bytes_max);
        let is_beyond = |load: &BufferedLoad| load.messages > most.0 || load.bytes > most.1;
        let beyond = node.paths().kept().find(is_beyond);
        if let Some(load) = beyond {
            self.violated(
                "I-45",
                process,
                format!("keeps {load:?} of one sender, {most:?} are allowed"),
            );
        }
    }

    /// After the last fault: all paths are there, each has as many instances as it should, nothing moves, and
    /// everybody gets answers.
    pub(crate) fn rest_of_paths(&mut self) {
        let limit = self.now + REST_MAX;
        let mut next = self.now;
        let mut since = None;
        while self.violation.is_none() {
            let broken = self.check_rest();
            match (&broken, since) {
                (Ok(()), None) => since = Some(self.now),
                // Nothing begins any more either.
                (Ok(()), Some(begun)) if self.now >= begun + 3 * SECOND => break,
                (Ok(()), Some(_)) => {}
                (Err(_), _) => since = None,
            }
            if self.now >= limit {
                if let Err((invariant, process, what)) = broken {
                    let what = self.report(&what);
                    return self.violated(invariant, process, what);
                }
                break;
            }
            if self.now >= next {
                next = self.now + REGISTER_AGAIN;
                self.register_missing_paths();
            }
            self.advance(self.now + SECOND / 10);
            self.look_at_paths();
        }
        self.ask_all_paths();
        if self.violation.is_none() {
            self.check_at_rest();
            self.paths.counts.answered_at_rest += 1;
        }
    }

    fn register_missing_paths(&mut self) {
        let Some(process) = self.running().first().and_then(|index| self.running_at(*index)) else {
            return;
        };
        let table = Arc::clone(self.processes[process as usize].node.view().gossip().paths());
        for kind in &PATHS {
            let entry = table.get(&kind.path());
            if entry.is_none_or(|entry| entry.settings().is_none()) {
                self.register_path(process, kind);
            }
        }
    }

    pub(super) fn check_rest(&self) -> Result<(), Broken> {
        let at = self.last_at.iter().flatten().next().copied().unwrap_or_default();
        let broken = |what: String| Err(("I-50", at, what));
        if !all_up(self) {
            return broken("no rest".to_owned());
        }
        let Some(table) = self.one_table() else {
            return broken("tables of paths differ at rest".to_owned());
        };
        for kind in &PATHS {
            let Some(entry) = table.get(&kind.path()).filter(|entry| entry.settings().is_some()) else {
                return broken(format!("{} is not registered at rest", kind.name));
            };
            self.check_path_at_rest(kind, entry)?;
        }
        for index in self.running() {
            let Some(process) = self.running_at(index) else {
                continue;
            };
            let node = &self.processes[process as usize].node;
            if !node.paths().is_at_rest() {
                let what = format!("is not at rest: {:?}", node.paths().explain());
                return Err(("I-51", process, what));
            }
        }
        Ok(())
    }

    fn check_path_at_rest(&self, kind: &PathKind, entry: &PathEntry) -> Result<(), Broken> {
        let at = self.last_at.iter().flatten().next().copied().unwrap_or_default();
        let broken = |what: String| Err(("I-50", at, format!("{}: {what}", kind.name)));
        let Some(settings) = entry.settings() else {
            return Ok(());
        };
        let moving = (0..entry.slots()).filter_map(|slot| entry.pending(slot)).next();
        if let Some(change) = moving {
            return broken(format!("moves at rest: {change:?}"));
        }
        let hosts: Vec<_> = (0..entry.slots()).filter_map(|slot| entry.host(slot)).collect();
        let distinct: BTreeSet<_> = hosts.iter().collect();
        let running = self.running().into_iter();
        let eligible = running.filter(|index| kind.role.is_none() || super::roles_of(*index).len() == 1);
        let eligible = eligible.count() as u16;
        // Sharding 5.2, in its own words.
        let tolerance = settings
            .fault_tolerance
            .of(eligible)
            .min(eligible.saturating_sub(1));
        let least = (tolerance + 1)
            .max(settings.instances_min)
            .max(entry.record.scale);
        let wanted = least.min(settings.instances_max).min(eligible);
        if hosts.len() != usize::from(wanted) || distinct.len() != hosts.len() {
            return broken(format!("should have {wanted} instances, and has {entry:?}"));
        }
        let mut found = BTreeSet::new();
        for (process, host) in (0..).zip(&self.processes) {
            for it in host.hosted.values().filter(|it| it.path == kind.id()) {
                let is_host = entry.host(usize::from(it.number)) == Some(&host.me);
                if !is_host || !it.runs || !found.insert(it.number) {
                    let what = format!("{} {} runs at rest: {it:?}, {entry:?}", kind.name, it.number);
                    return Err(("I-51", process, what));
                }
            }
        }
        if found.len() != hosts.len() {
            return broken(format!("only {found:?} run of {entry:?}"));
        }
        Ok(())
    }

    /// Everybody asks every slot, which answers.
    fn ask_all_paths(&mut self) {
        let Some(table) = self.one_table() else { return };
        let mut asks = Vec::new();
        for index in self.running() {
            for kind in &PATHS {
                let Some(entry) = table.get(&kind.path()) else {
                    continue;
                };
                let hosted = (0..entry.slots()).filter(|slot| entry.host(*slot).is_some());
                for slot in hosted {
                    let pick = PathPick::Slot(slot as u16);
                    asks.extend(self.ask_path(index, kind, pick, Some(ANSWERS_WITHIN)));
                }
                asks.extend(self.ask_path(index, kind, PathPick::Routed, Some(ANSWERS_WITHIN)));
            }
        }
        self.advance(self.now + 3 * SECOND);
        for at in asks {
            let message = &self.history.messages[at];
            if message.outcome != Some(Ok(())) && self.violation.is_none() {
                let what = format!("ask {at} of a quiet cluster: {message:?}");
                self.violated("I-51", message.sender, what);
            }
        }
    }
}
