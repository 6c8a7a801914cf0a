//! I-50: the table of paths is written only by a leader on a converged state, the status of a move only by
//! its decider, and two nodes never write two things under one name; no node has two slots of a path; moves
//! name members; of a path whose hand-offs are silent (2b, 2c) at most max(1, f) slots move at once; a path
//! is forgotten only when it has ended; a member is Exiting only when the table names it no more, or its time
//! was over and somebody said so.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::ident::UniqueAddress;
use quorate_core::membership::member::{Member, Status};
use quorate_core::paths::state::name::PathName;
use quorate_core::paths::state::table::{MoveStatus, PathEntry, PathEpoch, PathRecord, SlotMove};
use quorate_core::view::View;

use super::{Step, oracle};
use crate::sim::{History, ProcessId};

/// Everything that anybody has ever written into the table.
#[derive(Debug, Default)]
pub(crate) struct OneWriter {
    records: BTreeMap<(PathName, PathEpoch), PathRecord>,
    moves: BTreeMap<(PathName, usize, PathEpoch), Written>,
    let_go: BTreeSet<(ProcessId, UniqueAddress)>,
}

/// A move as it was begun, and which statuses it was given.
#[derive(Debug)]
struct Written {
    change: SlotMove,
    statuses: BTreeSet<MoveStatus>,
}

impl OneWriter {
    /// A leader lets a member go that has not handed over everything.
    pub(crate) fn on_let_go(&mut self, process: ProcessId, node: &UniqueAddress) {
        self.let_go.insert((process, node.clone()));
    }

    pub(super) fn check(&mut self, step: &Step<'_>, history: &History) -> Result<(), String> {
        self.check_exits(step)?;
        let (before, after) = (step.before.gossip().paths(), step.after.gossip().paths());
        if before == after {
            return Ok(());
        }
        for entry in before.entries() {
            let has_ended = entry.settings().is_none()
                && (0..entry.slots()).all(|at| entry.host(at).is_none() && entry.pending(at).is_none());
            if after.get(&entry.name).is_none() && !has_ended && step.safe {
                return Err(format!("forgets {entry:?}, which has not ended"));
            }
        }
        for entry in after.entries() {
            let old = before.get(&entry.name);
            if old.is_none_or(|old| old.record != entry.record) {
                self.check_record(step, entry, history)?;
            }
            for at in 0..entry.slots() {
                let change = entry.last_move(at);
                if let Some(change) = change
                    && old.and_then(|old| old.last_move(at)) != Some(change)
                {
                    let what = self.check_move(step, (entry, at), change, history);
                    what.map_err(|what| format!("{} {at}: {what}: {change:?}", entry.name))?;
                }
            }
            if step.safe {
                check_distinct(entry)?;
            }
        }
        Ok(())
    }

    fn check_exits(&self, step: &Step<'_>) -> Result<(), String> {
        let (before, after) = (step.before, step.after);
        if step.cause.is_merge() || core::ptr::eq(before.members(), after.members()) {
            return Ok(());
        }
        for member in after.members_in(Status::Exiting) {
            let was_leaving = before.member(&member.node).map(|m| m.status) == Some(Status::Leaving);
            let was_let_go = || self.let_go.contains(&(step.process, member.node.clone()));
            // Who cannot hand over to anybody is not held up.
            let is_held = before.gossip().paths().entries().iter().any(|entry| {
                let can_host = |m: &&Member| {
                    let role = entry.settings().and_then(|settings| settings.role.as_ref());
                    m.node != member.node && role.is_none_or(|role| m.roles.contains(role))
                };
                entry.names(&member.node) && before.members_in(Status::Up).any(|m| can_host(&m))
            });
            if was_leaving && is_held && !before.is_shutting_down() && !was_let_go() {
                return Err(format!(
                    "lets {} exit, which the table of paths names",
                    member.node
                ));
            }
        }
        Ok(())
    }

    fn check_record(&mut self, step: &Step<'_>, entry: &PathEntry, history: &History) -> Result<(), String> {
        let (name, record) = (&entry.name, &entry.record);
        let key = (name.clone(), record.epoch.clone());
        match self.records.get(&key) {
            Some(known) if known == record => return Ok(()),
            Some(known) => {
                return Err(format!(
                    "{name} has two records of one epoch: {known:?}, {record:?}"
                ));
            }
            None => {}
        }
        let by = |why| format!("writes the record of {name} {why}: {record:?}");
        check_authority(step, &record.epoch, history).map_err(by)?;
        self.records.insert(key, record.clone());
        Ok(())
    }

    fn check_move(
        &mut self,
        step: &Step<'_>,
        (entry, at): (&PathEntry, usize),
        change: &SlotMove,
        history: &History,
    ) -> Result<(), String> {
        let key = (entry.name.clone(), at, change.id.clone());
        let Some(written) = self.moves.get_mut(&key) else {
            check_authority(step, &change.id, history).map_err(|why| format!("begins a move {why}"))?;
            if change.status != MoveStatus::Awaiting {
                return Err("begins with something else than waiting".to_owned());
            }
            let is_member = |node: &UniqueAddress| step.before.member(node).is_some();
            if !change.from.iter().chain(&change.to).all(is_member) {
                return Err("names nodes that are no members".to_owned());
            }
            check_silence(step.before, entry, change)?;
            let statuses = BTreeSet::from([change.status]);
            let change = change.clone();
            self.moves.insert(key, Written { change, statuses });
            return Ok(());
        };
        let first = &written.change;
        if (&first.from, &first.to, first.options) != (&change.from, &change.to, change.options) {
            return Err(format!("was {first:?}"));
        }
        if !written.statuses.insert(change.status) {
            return Ok(());
        }
        let me = step.after.me();
        if change.status == MoveStatus::Applied {
            let epoch = &entry.record.epoch;
            check_authority(step, epoch, history).map_err(|why| format!("ends a move {why}"))
        } else if step.cause.is_merge() {
            Err("takes over a status that nobody wrote".to_owned())
        } else if change.decider() != Some(me) {
            Err(format!("has its status written by {me}"))
        } else if change.status == MoveStatus::Aborted && written.statuses.contains(&MoveStatus::Complete) {
            Err("is given up after it was complete".to_owned())
        } else {
            Ok(())
        }
    }
}

/// Of what only a leader writes: by itself, on a converged state, under an epoch of its own.
fn check_authority(step: &Step<'_>, epoch: &PathEpoch, history: &History) -> Result<(), String> {
    let (before, after, me) = (step.before.gossip(), step.after.gossip(), step.after.me());
    if step.cause.is_merge() {
        return Err("that nobody wrote".to_owned());
    }
    // The first table of a cluster counts from the wall clock on.
    let last = before.paths().counter();
    if epoch.leader != *me || (last > 0 && epoch.counter != last + 1) {
        return Err(format!(
            "under an epoch that is not the next one of {me}: {epoch:?}"
        ));
    }
    let confirmed = &history.processes[step.process as usize].exiting_confirmed;
    if oracle::leader(before, me, true) != Some(me) {
        return Err("without being the leader".to_owned());
    }
    let acts_alone = oracle::left_alone(before, after, me, confirmed);
    if !acts_alone && !oracle::converged(before, me, confirmed) {
        return Err("without convergence".to_owned());
    }
    Ok(())
}

/// At most max(1, f) slots of a path move while nobody serves them.
fn check_silence(view: &View, entry: &PathEntry, change: &SlotMove) -> Result<(), String> {
    let Some(settings) = entry.settings() else {
        return Ok(());
    };
    if change.from.is_none() || change.to.is_none() || !change.options.never_two() {
        return Ok(());
    }
    let has_role = |member: &&Member| {
        settings
            .role
            .as_ref()
            .is_none_or(|role| member.roles.contains(role))
    };
    let eligible = view.members_in(Status::Up).filter(has_role).count() as u16;
    let tolerance = settings
        .fault_tolerance
        .of(eligible)
        .min(eligible.saturating_sub(1));
    let moving = (0..entry.slots()).filter_map(|at| entry.pending(at));
    // A slot that ends serves until nobody sends there any more.
    let is_silent = |it: &&SlotMove| it.from.is_some() && it.to.is_some() && it.options.never_two();
    let silent = moving.filter(is_silent).count();
    if silent > usize::from(tolerance.max(1)) {
        return Err(format!(
            "is one of {silent} that move at once, {tolerance} may be lost: {entry:?}"
        ));
    }
    Ok(())
}

fn check_distinct(entry: &PathEntry) -> Result<(), String> {
    let mut nodes = BTreeSet::new();
    for at in 0..entry.slots() {
        let pending = entry.pending(at);
        let comes = pending
            .filter(|it| it.status != MoveStatus::Aborted)
            .and_then(|it| it.to.as_ref());
        let has: BTreeSet<_> = entry.host(at).into_iter().chain(comes).collect();
        if let Some(node) = has.into_iter().find(|node| !nodes.insert(*node)) {
            return Err(format!("{node} has two slots of a path: {entry:?}"));
        }
    }
    Ok(())
}
