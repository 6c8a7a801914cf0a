//! I-13: a leader removes a member only if it is Exiting and confirmed that it is done, or cannot be
//! reached; or Down and observed unreachable, the proof that it stopped, be it in the step that downs the
//! last others; whoever else goes was removed by an operator, by command. That nothing runs on a member any
//! more is said by that member first, and is true when it says so. A node says that it is no longer a
//! member at most once, and only after all its entities were told to stop.

use quorate_core::event::{Event, MembershipEvent};
use quorate_core::membership::member::Status;

use super::{Cause, Step, oracle};
use crate::sim::{History, ProcessId};

/// Nothing to remember.
#[derive(Debug, Default)]
pub(super) struct OrderlyRemoval;

impl OrderlyRemoval {
    #[allow(clippy::unused_self, reason = "all invariants are asked in one way")]
    pub(super) fn check(&self, step: &Step<'_>, history: &History) -> Result<(), String> {
        check_gone(step, history)?;
        if step.cause.is_merge() {
            return Ok(());
        }
        let (before, after) = (step.before.gossip(), step.after.gossip());
        let by_hand = |node: &_| *step.cause == Cause::Command && history.removed_by_hand.contains(node);
        let confirmed = &history.processes[step.process as usize].exiting_confirmed;
        let downs_all = oracle::left_alone(before, after, step.after.me(), confirmed);
        for member in before.members().iter().filter(|m| !after.contains(&m.node)) {
            let node = &member.node;
            let gone = oracle::missed(before, node, oracle::home(before, step.after.me()), false);
            let orderly = match member.status {
                Status::Exiting => gone || confirmed.contains(node) || before.is_gone(node),
                Status::Down => gone,
                Status::Joining
                | Status::WeaklyUp
                | Status::Up
                | Status::PreparingForShutdown
                | Status::ReadyForShutdown
                | Status::Leaving => gone && downs_all,
                Status::Removed => false,
            };
            if !orderly && !by_hand(node) {
                return Err(format!("removes {node}, which is {} and not gone", member.status));
            }
        }
        Ok(())
    }
}

/// Whoever is newly said to be gone said so itself, and runs no entity.
fn check_gone(step: &Step<'_>, history: &History) -> Result<(), String> {
    let (before, after) = (step.before.gossip(), step.after.gossip());
    if before.gone().is_superset(after.gone()) {
        return Ok(());
    }
    for node in after.gone().difference(before.gone()) {
        if !step.cause.is_merge() && node != step.after.me() {
            return Err(format!("says that {node} is gone, which only {node} can know"));
        }
        let Some(process) = history.process_of(node) else {
            return Err(format!("says that {node} is gone, which never was"));
        };
        let runs = |hosts: &Vec<(ProcessId, _)>| hosts.iter().any(|(host, _)| *host == process);
        if history.active.values().any(runs) {
            return Err(format!("says that {node} is gone, which runs entities"));
        }
    }
    Ok(())
}

pub(super) fn on_event(
    process: ProcessId,
    event: &Event,
    unstopped: usize,
    history: &History,
) -> Result<(), String> {
    if *event != Event::Membership(MembershipEvent::SelfRemoved) {
        return Ok(());
    }
    if history.processes[process as usize].self_removed > 1 {
        return Err("says twice that it is no longer a member".to_owned());
    }
    if unstopped > 0 {
        return Err(format!(
            "is no longer a member, and {unstopped} entities still run"
        ));
    }
    Ok(())
}
